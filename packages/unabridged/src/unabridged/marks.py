"""How our own texts look, and how they are recognised: summary turns, separators, shortened texts and stubs.

    [unabridged summary 9f3a1c2e4b5d] …        a summary turn, down to [end of summary 9f3a1c2e4b5d]
    [unabridged 9f3a1c2e4b5d: the middle …]    a note between head and tail of a shortened text
    [Tool result cleared: …; record …/12]      a stub in place of a tool result, an image, a document
    … [cleared: 812 more characters; …]        the end of an argument that was shortened

Marks prove nothing, since anybody can write them: the archive decides which records to trust.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache

from unabridged.languages import get_labels, load_language_tables
from unabridged.messages import View

CLEARED_PREFIX = "[cleared: "
"""Begins the note at the end of a shortened argument."""

_SUMMARY_PREFIX = "[unabridged summary "
_RECORD_ID_PATTERN = re.compile(r"(?:\[unabridged (?:summary )?|; record )([0-9a-f]{12})\b")
_NOTE_PATTERN = re.compile(
    r"\n?\[unabridged ([0-9a-f]{12}): the middle of this text of ([0-9,]+) tokens was left out[^\n\[\]]*+\]\n?"
)
_STUB_PATTERN = re.compile(r"\[(?:Tool result|Image|Audio|Video|Document) cleared: [^\n]{1,1200}\]")


def format_summary_turn(record_id: str, body: str, first: int, last: int, language: str = "") -> str:
    """Return the text of a summary turn: whose it is, what it stands for, the body, and where it ends.

    It speaks the conversation's language; the marks around it are the same in every one.
    """
    heading = get_labels(language)["compacted"].format(first=first, last=last - 1)
    return f"{_SUMMARY_PREFIX}{record_id}] {heading}\n\n{body.strip()}\n\n[end of summary {record_id}]"


def find_summary_turn_id(view: View) -> str | None:
    """Return the record id if the whole message is one summary turn, from first to last character; else None."""
    if view.calls or view.answers or not view.text.startswith(_SUMMARY_PREFIX):
        return None
    found = find_record_ids(view.text[:40])
    return found[0] if found and view.text.endswith(f"[end of summary {found[0]}]") else None


@cache
def list_separator_texts() -> frozenset[str]:
    """Return every text, in all languages, that the library inserts around a summary to keep the roles alternating."""
    kinds = ("acknowledgment", "bridge", "question")
    return frozenset(get_labels(code)[kind] for code in load_language_tables() for kind in kinds)


def is_summary_question(view: View) -> bool:
    """Return whether a message is exactly the question that stands before a summary in the assistant's voice."""
    asks = view.text.startswith("[unabridged] ") and not (view.calls or view.answers)
    return asks and any(view.text == get_labels(code)["question"] for code in load_language_tables())


def is_generated_turn(view: View) -> bool:
    """Return whether the whole turn was written by this library: a summary turn or a separator.

    Call it only for a turn that the archive knows: anybody can write such a text.
    """
    if view.calls or view.answers or view.attached:
        return False
    return view.text.startswith(_SUMMARY_PREFIX) or view.text in list_separator_texts()


def is_native_turn(view: View) -> bool:
    """Return whether an item of the provider's own is all of the message, as its own compaction is."""
    return view.opaque and not (view.text or view.calls or view.answers or view.media)


def is_inserted_turn(view: View) -> bool:
    """Return whether the whole turn came with a summary: ours, or the provider's own compaction beside it."""
    return is_generated_turn(view) or is_native_turn(view)


def is_trusted_summary(view: View) -> bool:
    """Return whether the turn is a summary, or a part of one, and the archive knows it."""
    return view.origin == "summary" and is_inserted_turn(view)


def format_shortening_note(record_id: str) -> str:
    """Return the note between head and tail of a shortened text; `{tokens}` is filled in later."""
    return f"[unabridged {record_id}: the middle of this text of {{tokens}} tokens was left out to fit the window]"


def find_shortening_note(text: str, records: Collection[str]) -> tuple[int, int, str] | None:
    """Return where the note of one of these records begins and ends in the text, and the tokens it tells; else None."""
    found = (note for note in _NOTE_PATTERN.finditer(text) if note[1] in records) if records else iter(())
    return next(((note.start(), note.end(), note[2]) for note in found), None)


def format_stub(kind: str, parts: Iterable[str]) -> str:
    """Return the one line that stands in for a "Tool result", an "Image" and so on."""
    return f"[{kind} cleared: {'; '.join(parts)}]"


def is_stub(text: str) -> bool:
    """Return whether the text is one line of the form of a stub, so that nothing is left to clear."""
    return _STUB_PATTERN.fullmatch(text) is not None


def is_shortened(arguments: str) -> bool:
    """Return whether these are arguments that were shortened before."""
    return CLEARED_PREFIX in arguments


def is_cleared(view: View) -> bool:
    """Return whether only stubs are left of the turn's text."""
    return bool(view.text) and all(map(is_stub, view.text.splitlines()))


def find_record_ids(text: str) -> list[str]:
    """Return the ids of the records that a text names."""
    return _RECORD_ID_PATTERN.findall(text) if "[unabridged " in text or "; record " in text else []


def remove_record_ids(text: str) -> str:
    """Return the text without the ids in our marks: they are no names of the conversation's."""
    return _RECORD_ID_PATTERN.sub("", text) if find_record_ids(text) else text


def find_view_record_ids(view: View) -> list[str]:
    """Return the ids of the records that a message names, in its text, its calls and its answers."""
    said = (*(answer.text for answer in view.answers), *(call.arguments for call in view.calls))
    return [record_id for text in (view.text, *said, *view.attached) for record_id in find_record_ids(text)]
