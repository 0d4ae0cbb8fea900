"""How a tool call ended, in one line: the error it ended with, the tally of its tests, or a short result as it is."""

from __future__ import annotations

import json
import re

from unabridged.ledger.entries import Deed
from unabridged.ledger.shell import TABLE
from unabridged.text_cache import remembered
from unabridged.text_tools import head_and_tail, one_line, with_line_ends

LIMIT, REPORT = 600, 1_200
"""Characters of an outcome that an action carries, and of what an agent reports to the one that called it."""
FAILURE, _DECISIVE = 360, 3
"""The same of one that failed: the lines that say where and why, and how many of them."""

NOTHING = "no match"
"""The outcome of a search that found nothing: our own word, not the tool's."""

_PROMPT = re.compile(TABLE["lines"]["prompt"])
_OBSERVED = re.compile(r"\A\s*(?:Observation|OBSERVATION|Output|Result)[ \t]*:[ \t]*\n?")
_QUOTED = re.compile(r'"((?:[^"\\]|\\(?:.|\Z))*+)(?:"|\Z)', re.DOTALL)
_RECORD = 20_000
"""Characters of an answer that is read as a record."""
_WRAPPED = re.compile(r"\A\s*+<returncode>(-?\d+)</returncode>\s*+(?:<output>)?(.*)\Z", re.DOTALL)
_EXIT = re.compile(r"\b(?:exit(?:ed with)?[ _-]?(?:code|status)|return[ _]?code)\b\W{0,4}(-?\d{1,5})\b", re.IGNORECASE)
_TALLY, _RAISED, _PLACED = (re.compile(TABLE["lines"][kind], re.MULTILINE) for kind in ("tally", "raised", "placed"))
"""What became of tests, what was raised; lines that name a file and a line in it, and tests that failed."""
_REFUSED = re.compile(TABLE["lines"]["refused"], re.IGNORECASE | re.MULTILINE)
_LOOKS: frozenset[Deed] = frozenset({"read", "search", "list", "fetch"})


@remembered
def outcome(text: str, deed: Deed, *, error: bool = False, most: int = LIMIT) -> tuple[str, bool]:
    """The line that tells how it ended, and whether it failed.

    What merely stands in a file that was read is no failure: there, only a short answer is taken at its word.
    """
    body = _OBSERVED.sub("", _PROMPT.sub("", text) if text.endswith(("$", "$ ", "#", "# ", ">")) else text)
    looks = deed in _LOOKS
    code, body = _exit_code(body, stated=not looks or len(body) < 400)
    if deed == "search" and not error and not body.strip():
        return NOTHING, False
    judged = body if len(body) <= 6_000 else body[:2_000] + "\n" + body[-4_000:]
    raised = _RAISED.findall(judged) if not looks or len(body) < 400 or code not in {0, None} else []
    tally = [found for found in _TALLY.findall(judged) if not looks]
    refused = _REFUSED.search(body) if len(body) < 400 and code != 0 and not tally else None
    failed = error or code not in {0, None} or (code is None and bool(raised or refused))
    if code is None and tally and not failed:
        failed = bool(re.search(r"\b[1-9]\d* (?:failed|errors?|failing)\b|^FAIL", tally[-1]))
    if failed and (record := _record(body)):
        return one_line(record, LIMIT), True
    if failed:
        lines = _PLACED.findall(judged)[:_DECISIVE] + (raised[-1:] + tally[-1:] or ([refused[0]] if refused else []))
        return one_line(" | ".join(dict.fromkeys(map(str.strip, lines))) or _last_line(body), FAILURE), True
    if tally:
        return one_line(tally[-1], LIMIT), False
    return _shown(body, looks=looks, most=most), False


def _exit_code(text: str, *, stated: bool) -> tuple[int | None, str]:
    """The code it ended with, and the output alone; `stated`: a code that the text names is the command's own."""
    if found := _WRAPPED.match(text):
        return int(found[1]), found[2].rstrip().removesuffix("</output>").strip()
    if not stated:
        return None, text
    found = _EXIT.search(text[:200]) or _EXIT.search(text[-200:])
    return (int(found[1]) if found else None), text


def _last_line(text: str) -> str:
    """The last line that says something: a lone bracket tells nothing."""
    lines = [line.strip() for line in text.strip()[-2_000:].split("\n")]
    return next((line for line in reversed(lines) if any(map(str.isalnum, line))), lines[-1])


def _record(body: str) -> str:
    """A record from a service without its quotation marks, its beginning names it; "" for anything else."""
    body = body.strip()
    if not body or body[0] not in "{[" or len(body) > _RECORD:
        return ""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if isinstance(value, dict):
        first = {key: value[key] for key in ("error", "message", "detail") if value.get(key)}
        return _QUOTED.sub(r"\1", json.dumps({**first, **value}, ensure_ascii=False)[1:-1])
    return _QUOTED.sub(r"\1", json.dumps(value, ensure_ascii=False))


def _shown(body: str, *, looks: bool, most: int) -> str:
    """A short result as it is, of a record its beginning; what was merely looked at is told by its target."""
    body = body.strip()
    if record := _record(body):
        return one_line(record, LIMIT)
    if len(body) <= (80 if looks else most):
        return one_line(body)
    if looks:
        return ""
    return head_and_tail(one_line(with_line_ends(body)), most)
