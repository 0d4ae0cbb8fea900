"""How a tool call ended, in one line: the error it ended with, the tally of its tests, or a short result as it is."""

from __future__ import annotations

import re

from unabridged.ledger.entries import Deed
from unabridged.ledger.phrasing import one_line

LIMIT = 200
"""Characters of an outcome that an action carries."""

_PROMPT = re.compile(r"\n?\(Open file: [^\n]*\n(?:\([^\n]*\n)*\S{0,40}[$#>]\s*\Z|\n\S{0,20}bash-\$\s*\Z")
_WRAPPED = re.compile(r"\A\s*<returncode>(-?\d+)</returncode>\s*(?:<output>\s*)?(.*?)(?:\s*</output>)?\s*\Z", re.DOTALL)
_EXIT = re.compile(r"\b(?:exit(?:ed with)?[ _-]?(?:code|status)|return[ _]?code)\b\W{0,4}(-?\d{1,5})\b", re.IGNORECASE)
_TALLY = re.compile(
    r"^.*?\b\d+ (?:passed|failed|errors?|failing|passing|tests? (?:passed|failed))\b.*$|^(?:OK|FAILED) \(.*\)$"
    r"|^Ran \d+ tests? in .*$|^(?:FAIL|FAILED|ERROR)\b.*$",
    re.MULTILINE,
)
_RAISED = re.compile(
    r"^(?:E\s+)?(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning)\b(?::.*)?$"
    r"|^.*\berror(?: TS\d+|\[E\d+\])?: .*$|^(?:fatal|panic|FATAL|ERROR|Error)\b.*$",
    re.MULTILINE,
)
_REFUSED = re.compile(
    r"^.*\b(?:no such file|not found|denied|cannot|could not|failed|failure|invalid|unknown"
    r"|refused|timed out|does not exist|syntax error|not recognized|aborted)\b.*$",
    re.IGNORECASE | re.MULTILINE,
)
_LOOKS: frozenset[Deed] = frozenset({"read", "search", "list", "fetch"})


def outcome(text: str, deed: Deed, *, error: bool = False) -> tuple[str, bool]:
    """The line that tells how it ended, and whether it failed.

    What merely stands in a file that was read is no failure: there, only a short answer is taken at its word.
    """
    body = _PROMPT.sub("", text) if text.endswith(("$", "$ ", "#", ">")) else text
    looks = deed in _LOOKS
    code, body = _exit_code(body, stated=not looks or len(body) < 400)
    if deed == "search" and not error and not body.strip():
        return "no match", False
    judged = body if len(body) <= 6_000 else body[:2_000] + "\n" + body[-4_000:]
    raised = _RAISED.findall(judged) if not looks or len(body) < 400 or code not in {0, None} else []
    tally = [found for found in _TALLY.findall(judged) if not looks]
    refused = _REFUSED.search(body) if len(body) < 400 and (code != 0 or code is None) else None
    failed = error or code not in {0, None} or (code is None and bool(raised or refused))
    if code is None and tally and not failed:
        failed = bool(re.search(r"\b[1-9]\d* (?:failed|errors?|failing)\b|^FAIL", tally[-1]))
    if failed:
        line = (raised[-1:] or tally[-1:] or ([refused[0]] if refused else []) or _last_line(body))[0]
        return one_line(line, LIMIT), True
    if tally:
        return one_line(tally[-1], LIMIT), False
    return _shown(body, looks=looks), False


def _exit_code(text: str, *, stated: bool) -> tuple[int | None, str]:
    """The code it ended with, and the output alone; `stated`: a code that the text names is the command's own."""
    if found := _WRAPPED.match(text):
        return int(found[1]), found[2]
    if not stated:
        return None, text
    found = _EXIT.search(text[:200]) or _EXIT.search(text[-200:])
    return (int(found[1]) if found else None), text


def _last_line(text: str) -> list[str]:
    return [text.strip().rpartition("\n")[2].strip()]


def _shown(body: str, *, looks: bool) -> str:
    """A short result as it is; of a long one how long it was."""
    body = body.strip()
    if len(body) <= (80 if looks else LIMIT):
        return one_line(body)
    lines = body.count("\n") + 1
    if looks and body[0] in "{[" and lines < 3:  # a record from a service: its beginning names it
        return one_line(body, LIMIT)
    if looks:
        return f"{lines} lines" if lines > 1 else f"{len(body)} characters"
    last = _last_line(body)[0]
    told = lines > 3 and len(last) < LIMIT and any(char.isalnum() for char in last)  # a lone bracket tells nothing
    return one_line(last if told else body, LIMIT)
