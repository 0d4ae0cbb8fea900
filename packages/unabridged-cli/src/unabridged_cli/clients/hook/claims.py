"""The client's summary, held against the record: what it names or quotes that stands nowhere in the session.

Every check is exact, and none of them understands the text. All that is found goes into a record. Only what is certain
is told to the model: words that the summary lists as the user's, and that nobody said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from unabridged.archive.protocol import Archive
from unabridged.summarise.checks import find_unfounded, normal
from unabridged.text_tools import quote
from unabridged_cli.clients.hook.continued import is_continued
from unabridged_cli.clients.hook.copying import COPY, keep, newest_place, views_of
from unabridged_cli.clients.hook.findings import CERTAIN, CLAIMS
from unabridged_cli.clients.hook.transcript import Source, lines_of, read_from

_LARGEST: Final = 40_000_000
"""Bytes of a session file that is read whole for this."""
_MOST, _WIDTH = 8, 200
"""Findings that are told one by one, and characters of each."""
_LISTED: Final = re.compile(r"(?:\d{1,2}\.|#{1,4})?[ *]*All user messages\b", re.IGNORECASE)
"""How Claude Code heads its list of what the user said."""
_NEXT: Final = re.compile(r"(?:\d{1,2}\.|#{1,4}) ?\S|</")
_SAID: Final = re.compile(r'(?:[-*•]|\d{1,3}[.)])[ *]*"(.{8,2000})"')
_LEFT_OUT: Final = re.compile(r"\.{3}|…|\[[^\]]{0,400}\]")
_TAG: Final = re.compile(r"</?[a-z]{1,20}>")
_TAIL: Final = 200
"""Characters by which a summary is known again."""
_ENDS: Final = ".,;:!? "
_FEWEST: Final = 5
"""Words of a quotation in a row: fewer may stand together by chance, or be a label."""


def check(archive: Archive, source: Source, summary: str) -> tuple[str, ...]:
    """What the summary says and the record does not, archived: a sentence each. An empty `summary` is the newest one.

    Codex hands out no summary: it stands in the session file.
    """
    unchecked = _why_not(source)
    text = summary.strip() or ("" if unchecked else _newest_summary(source))
    if not text and not unchecked:
        return ()
    found = [f"not checked: {unchecked}"] if unchecked else _find(source.path, text)
    place = newest_place(archive, source, COPY)
    keep(archive, source, CLAIMS, place, reason="PostCompact", of=text, notes=found)
    return tuple(found)


def _find(path: Path, summary: str) -> list[str]:
    record = _record(path, summary)
    certain = find_certain(summary, record)
    return [*certain, *_notes(summary, record, certain)]


def _why_not(source: Source) -> str:
    """Why the summary can't be held against the session file; empty where it can."""
    if source.path.stat().st_size > _LARGEST:
        return f"the session file has more than {_LARGEST:,} bytes"
    if is_continued(source):
        return "the session goes on from another file, of which the summary may speak"
    return ""


def _newest_summary(source: Source) -> str:
    summaries = [said for said in read_from(source.path, source.kind, 0) if said.origin == "summary"]
    return views_of(source.kind, summaries[-1:])[0].text if summaries else ""


def find_certain(summary: str, record: str) -> list[str]:
    """A sentence on what is listed as the user's words, and stands nowhere: not in what anybody or anything said."""
    unsaid = [said for said in _listed(summary) if any(bit not in record for bit in _bits(said))]
    return [CERTAIN + ", ".join(quote(said, _WIDTH) for said in unsaid[:_MOST])] if unsaid else []


def _notes(summary: str, record: str, told: Sequence[str]) -> list[str]:
    """What else stands in none of the session: a quotation that was told already is told once."""
    names, quoted = find_unfounded(summary, [record])
    quoted = [one for one in quoted if not any(quote(one.strip('"'), _WIDTH)[1:-1] in said for said in told)]
    found = {"named in the summary and not in the record": names, "quoted in it and not in the record": quoted}
    return [
        f"{what}: {', '.join(quote(one, _WIDTH) for one in which[:_MOST])}" for what, which in found.items() if which
    ]


def _record(path: Path, summary: str) -> str:
    """Every text in the session file, whatever line it is in, but for the summary: it is no witness for itself."""
    tail = _plain(summary)[-_TAIL:]
    texts = (text for line in lines_of(path) for text in _texts(line))
    return normal("\n".join(text for text in texts if len(text) < len(tail) or tail not in _plain(text))).lower()


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value, in order."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, dict):
            waiting += reversed(found.values())
        elif isinstance(found, list):
            waiting += reversed(found)


def _plain(text: str) -> str:
    return normal(_TAG.sub(" ", text))


def _listed(summary: str) -> Iterator[str]:
    """What stands in quotation marks in the list of the user's messages."""
    lines = [normal(line) for line in summary.split("\n")]
    start = next((i + 1 for i, line in enumerate(lines) if _LISTED.match(line)), len(lines))
    for line in lines[start:]:
        if found := _SAID.match(line):
            yield found[1]
        elif _NEXT.match(line):
            return


def _bits(said: str) -> Iterator[str]:
    """The stretches of a quotation between what was left out of it, those that are long enough to tell."""
    for bit in _LEFT_OUT.split(said):
        plain = bit.strip(_ENDS).lower()
        if len(plain.split()) >= _FEWEST and '"' not in plain:
            yield plain
