"""The client's summary, compared with the record: what it names or quotes that is nowhere in the session.

Every check is exact, and none of them understands the text. All that is found goes into a record. Only what is certain
reaches the model: words that the summary lists as the user's, and that nobody said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from unabridged.archive.protocol import Archive
from unabridged.summary.citations import find_unfounded, normalise_quotation
from unabridged.text_tools import quote
from unabridged_cli.clients.hook.findings import CERTAIN_PREFIX, CLAIMS_KIND
from unabridged_cli.clients.hook.session_copy import COPY_KIND, build_views, find_newest_position, store_record
from unabridged_cli.clients.hook.transcript import HookSession, read_json_lines, read_messages_from

_MAX_FILE_BYTES: Final = 40_000_000
"""Bytes of a session file that is read whole for this."""
_MAX_FINDINGS, _MAX_FINDING_CHARACTERS = 8, 200
_USER_LIST_PATTERN: Final = re.compile(r"(?:\d{1,2}\.|#{1,4})?[ *]*All user messages\b", re.IGNORECASE)
"""How Claude Code heads its list of what the user said."""
_NEXT_SECTION_PATTERN: Final = re.compile(r"(?:\d{1,2}\.|#{1,4}) ?\S|</")
_LISTED_QUOTE_PATTERN: Final = re.compile(r'(?:[-*•]|\d{1,3}[.)])[ *]*"(.{8,2000})"')
_ELLIPSIS_PATTERN: Final = re.compile(r"\.{3}|…|\[[^\]]{0,400}\]")
_TAG_PATTERN: Final = re.compile(r"</?[a-z]{1,20}>")
_TAIL_CHARACTERS: Final = 200
"""Characters by which a summary is recognised."""
_PUNCTUATION: Final = ".,;:!? "
_MIN_WORDS: Final = 5
"""Words of a quotation in a row: fewer may stand together by chance, or be a label."""
_FORK_FIELDS: Final = ("forkedFrom", "forked_from_id", "parentSession")
"""How Claude Code, Codex and pi name the session that a fork was made from."""
_FORK_LINES: Final = 200
"""Lines in which a fork is looked for."""


def record_findings(archive: Archive, session: HookSession, summary: str) -> tuple[str, ...]:
    """Archive the differences between the summary and the session, and return them, a sentence each.

    If `summary` is empty, read the newest one from the session file: Codex does not hand its summary out.
    """
    obstacle = _find_obstacle(session)
    text = summary.strip() or ("" if obstacle else _read_newest_summary(session))
    if not text and not obstacle:
        return ()
    findings = [f"not checked: {obstacle}"] if obstacle else _compare_summary(session.path, text)
    position = find_newest_position(archive, session, COPY_KIND)
    store_record(archive, session, CLAIMS_KIND, position, reason="PostCompact", made_of=text, notes=findings)
    return tuple(findings)


def _compare_summary(path: Path, summary: str) -> list[str]:
    record = _read_session_text(path, summary)
    certain = find_invented_quotes(summary, record)
    names, quoted = find_unfounded(summary, [record])
    # A quotation that is reported already is reported once.
    quoted = [q for q in quoted if not any(quote(q.strip('"'), _MAX_FINDING_CHARACTERS)[1:-1] in c for c in certain)]
    found = {"named in the summary and not in the record": names, "quoted in it and not in the record": quoted}
    return [*certain, *(f"{what}: {_join_findings(which)}" for what, which in found.items() if which)]


def _join_findings(findings: Sequence[str]) -> str:
    return ", ".join(quote(finding, _MAX_FINDING_CHARACTERS) for finding in findings[:_MAX_FINDINGS])


def _find_obstacle(session: HookSession) -> str:
    """Return why the summary can't be compared with the session file; empty where it can."""
    if session.path.stat().st_size > _MAX_FILE_BYTES:
        return f"the session file has more than {_MAX_FILE_BYTES:,} bytes"
    if _continues_another_file(session):
        return "the session goes on from another file, of which the summary may speak"
    return ""


def _continues_another_file(session: HookSession) -> bool:
    """Return whether the session begins with a summary, was forked, or hangs on a line that is not in its file."""
    first = next(read_messages_from(session.path, session.kind, 0), None)
    if first is None or first.origin == "summary":
        return True
    seen: set[str] = set()
    for line in read_json_lines(session.path, _FORK_LINES):
        payload = line.get("payload")
        if any(line.get(name) or (isinstance(payload, dict) and payload.get(name)) for name in _FORK_FIELDS):
            return True
        # The lines that a line of Claude Code's hangs on.
        if not {str(line[name]) for name in ("parentUuid", "logicalParentUuid") if line.get(name)} <= seen:
            return True
        seen.add(str(line.get("uuid")))
    return False


def _read_newest_summary(session: HookSession) -> str:
    messages = read_messages_from(session.path, session.kind, 0)
    summaries = [message for message in messages if message.origin == "summary"]
    return build_views(session.kind, summaries[-1:])[0].text if summaries else ""


def find_invented_quotes(summary: str, record: str) -> list[str]:
    """Return a sentence that names quotations which the summary ascribes to the user and which nobody said."""
    quotes = _find_listed_quotes(summary)
    invented = [words for words in quotes if any(part not in record for part in _split_quotation(words))]
    return [CERTAIN_PREFIX + _join_findings(invented)] if invented else []


def _read_session_text(path: Path, summary: str) -> str:
    """Return every text in the session file, whatever line it is in, but for the summary itself."""
    tail = _normalise_text(summary)[-_TAIL_CHARACTERS:]
    texts = (text for line in read_json_lines(path) for text in _iterate_json_strings(line))
    others = (text for text in texts if len(text) < len(tail) or tail not in _normalise_text(text))
    return normalise_quotation("\n".join(others)).lower()


def _iterate_json_strings(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, in order."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += reversed(item.values())
        elif isinstance(item, list):
            waiting += reversed(item)


def _normalise_text(text: str) -> str:
    return normalise_quotation(_TAG_PATTERN.sub(" ", text))


def _find_listed_quotes(summary: str) -> Iterator[str]:
    """Yield what is in quotation marks in the list of the user's messages."""
    lines = [normalise_quotation(line) for line in summary.split("\n")]
    start = next((i + 1 for i, line in enumerate(lines) if _USER_LIST_PATTERN.match(line)), len(lines))
    for line in lines[start:]:
        if found := _LISTED_QUOTE_PATTERN.match(line):
            yield found[1]
        elif _NEXT_SECTION_PATTERN.match(line):
            return


def _split_quotation(words: str) -> Iterator[str]:
    """Yield the parts of a quotation between its ellipses that are long enough to be compared."""
    for part in _ELLIPSIS_PATTERN.split(words):
        plain = part.strip(_PUNCTUATION).lower()
        if len(plain.split()) >= _MIN_WORDS and '"' not in plain:
            yield plain
