"""The client's summary, held against the record: what it names or quotes that stands nowhere in the session.

Every check is exact, and none of them understands the text. All that is found goes into a record. Only what is certain
is told to the model: words that the summary lists as the user's, and that nobody said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from unabridged.archive.protocol import Archive
from unabridged.clients.hook.copying import COPY, keep, newest_place, views_of
from unabridged.clients.hook.findings import CERTAIN, CLAIMS
from unabridged.clients.hook.transcript import Source, read_from
from unabridged.messages import View
from unabridged.summarise.checks import find_unfounded, normal
from unabridged.text_tools import quote

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
    if source.path.stat().st_size > _LARGEST:
        return (f"not checked: the session file has more than {_LARGEST:,} bytes",)
    views = views_of(source.kind, list(read_from(source.path, source.kind, 0)))
    summaries = [view.text for view in views if view.origin == "summary"]
    text = summary.strip() or (summaries[-1] if summaries else "")
    if not text:
        return ()
    found = (*find_certain(text, views), *_notes(text, views))
    place = newest_place(archive, source, COPY)
    keep(archive, source, CLAIMS, place, reason="PostCompact", of=text, notes=found)
    return found


def find_certain(summary: str, views: Sequence[View]) -> list[str]:
    """A sentence on what is listed as the user's words, and stands nowhere: not in what anybody or anything said."""
    record = _record(summary, views)
    unsaid = [said for said in _listed(summary) if any(bit not in record for bit in _bits(said))]
    return [CERTAIN + ", ".join(quote(said, _WIDTH) for said in unsaid[:_MOST])] if unsaid else []


def _notes(summary: str, views: Sequence[View]) -> list[str]:
    names, quoted = find_unfounded(summary, [_whole(view) for view in views if not _repeats(view, summary)])
    found = {"named in the summary and not in the record": names, "quoted in it and not in the record": quoted}
    return [
        f"{what}: {', '.join(quote(one, _WIDTH) for one in which[:_MOST])}" for what, which in found.items() if which
    ]


def _record(summary: str, views: Sequence[View]) -> str:
    return normal("\n".join(_whole(view) for view in views if not _repeats(view, summary))).lower()


def _whole(view: View) -> str:
    return "\n".join([view.whole_text(), *(block.text for block in view.reasoning)])


def _repeats(view: View, summary: str) -> bool:
    """Whether this is the very summary, as the session file has it: it is no witness for itself."""
    return view.origin in {"summary", "model"} and _plain(summary)[-_TAIL:] in _plain(view.text)


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
