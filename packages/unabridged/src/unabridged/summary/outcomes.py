"""Say how a tool call ended, in one line: the error it ended with, the tally of its tests, or a short result."""

from __future__ import annotations

import json
import re

from unabridged.authorship import find_exit_code
from unabridged.summary.ledger import Deed
from unabridged.summary.shell import TOOL_TABLE
from unabridged.text_cache import cache_by_text
from unabridged.text_tools import cut_to_head_and_tail, mark_line_ends, parse_json, to_one_line

LIMIT, REPORT = 600, 1_200
"""Characters of an outcome that an action carries, and of what an agent reports to the one that called it."""
FAILURE, _DECISIVE = 360, 3
"""The same of one that failed: the lines that say where and why, and how many of them."""

NO_MATCH = "no match"
"""The outcome of a search that found nothing: our own word, not the tool's."""

_PROMPT_PATTERN = re.compile(TOOL_TABLE["lines"]["prompt"])
_OBSERVATION_PATTERN = re.compile(r"\A\s*(?:Observation|OBSERVATION|Output|Result)[ \t]*:[ \t]*\n?")
_QUOTED_TEXT_PATTERN = re.compile(r'"((?:[^"\\]|\\(?:.|\Z))*+)(?:"|\Z)', re.DOTALL)
_MAX_JSON_CHARACTERS = 20_000
"""Characters of an answer that is read as a record."""
_TALLY, _RAISED, _PLACED = (
    re.compile(TOOL_TABLE["lines"][kind], re.MULTILINE) for kind in ("tally", "raised", "placed")
)
"""What became of tests, what was raised; lines that name a file and a line in it, and tests that failed."""
_FAILURE_COUNT_PATTERN = re.compile(r"\b[1-9]\d* (?:failed|errors?|failing)\b|^FAIL")
"""A tally whose lines about places are quoted with it; nothing is called a failure by it."""
_RETURN_CODE_PATTERN = re.compile(r"\A\s*+<returncode>-?\d+</returncode>\s*+(?:<output>)?")
_READING_DEEDS: frozenset[Deed] = frozenset({"read", "search", "list", "fetch"})


@cache_by_text
def read_outcome(text: str, deed: Deed, *, error: bool = False, most: int = LIMIT) -> tuple[str, str]:
    """Return one line on how a call ended, and its status: `error` or `exit 1` where the protocol says so.

    What a text merely reads like is no error: its lines are quoted, and the reader judges.
    """
    body = _PROMPT_PATTERN.sub("", text) if text.endswith(("$", "$ ", "#", "# ", ">")) else text
    body = _OBSERVATION_PATTERN.sub("", body)
    code = find_exit_code(body)
    if opening := _RETURN_CODE_PATTERN.match(body):
        body = body[opening.end() :].rstrip().removesuffix("</output>").strip()
    status = f"exit {code}" if code else "error" if error else ""
    looks = deed in _READING_DEEDS
    if deed == "search" and not status and not body.strip():
        return NO_MATCH, ""
    judged = body if len(body) <= 6_000 else body[:2_000] + "\n" + body[-4_000:]
    raised = _RAISED.findall(judged) if not looks or status else []
    tally = [found for found in _TALLY.findall(judged) if not looks]
    if status and (record := _render_json_record(body)):
        return to_one_line(record, LIMIT), status
    if status or raised or (tally and _FAILURE_COUNT_PATTERN.search(tally[-1])):
        lines = _PLACED.findall(judged)[:_DECISIVE] + (raised[-1:] + tally[-1:])
        return to_one_line(" | ".join(dict.fromkeys(map(str.strip, lines))) or _find_last_line(body), FAILURE), status
    if tally:
        return to_one_line(tally[-1], LIMIT), status
    return _shorten_result(body, looks=looks, most=most), status


def _find_last_line(text: str) -> str:
    """Return the last line that says something: a lone bracket says nothing."""
    lines = [line.strip() for line in text.strip()[-2_000:].split("\n")]
    return next((line for line in reversed(lines) if any(map(str.isalnum, line))), lines[-1])


def _render_json_record(body: str) -> str:
    """Return a record from a service without its quotation marks, its error first; "" for anything else."""
    body = body.strip()
    is_record = body.startswith(("{", "[")) and len(body) <= _MAX_JSON_CHARACTERS
    if (value := parse_json(body) if is_record else None) is None:
        return ""
    if isinstance(value, dict):
        value = {**{key: value[key] for key in ("error", "message", "detail") if value.get(key)}, **value}
    text = json.dumps(value, ensure_ascii=False)
    return _QUOTED_TEXT_PATTERN.sub(r"\1", text[1:-1] if isinstance(value, dict) else text)


def _shorten_result(body: str, *, looks: bool, most: int) -> str:
    """Return a short result as it is, of a record its beginning; "" where something was merely looked at."""
    body = body.strip()
    if record := _render_json_record(body):
        return to_one_line(record, LIMIT)
    if len(body) <= (80 if looks else most):
        return to_one_line(body)
    if looks:
        return ""
    return cut_to_head_and_tail(to_one_line(mark_line_ends(body)), most)
