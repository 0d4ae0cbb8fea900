"""The new list: what stays, in order and the same objects, with the summary turn in the place of what went."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Literal

from unabridged.formats.base import Format, Message
from unabridged.languages import labels, tables
from unabridged.marks import ids_in
from unabridged.messages import View

JOINTS = ("acknowledgment", "bridge", "question")
"""The labels of what we say besides the summary, to keep the roles in order."""


def summary_text(record_id: str, body: str, first: int, last: int, language: str = "") -> str:
    """The text of a summary turn: whose it is, what it stands for, the body, and where it ends.

    It speaks the conversation's language; the marks around it are the same in every one.
    """
    told = labels(language)["compacted"].format(first=first, last=last - 1)
    return f"[unabridged summary {record_id}] {told}\n\n{body.strip()}\n\n[end of summary {record_id}]"


@cache
def joints() -> frozenset[str]:
    """Everything that `rewrite` may say besides the summary, in every language."""
    return frozenset(labels(code)[kind] for code in tables() for kind in JOINTS)


def shortening_note(record_id: str) -> str:
    """What stands between head and tail of a shortened text; `{tokens}` is filled in later."""
    return f"[unabridged {record_id}: the middle of this text of {{tokens}} tokens was left out to fit the window]"


def marked_ids(view: View) -> list[str]:
    """The record ids a message names. Names prove nothing: the archive decides which to trust."""
    said = (*(answer.text for answer in view.answers), *(call.arguments for call in view.calls))
    return [record_id for text in (view.text, *said, *view.attached) for record_id in ids_in(text)]


def framed_id(view: View) -> str | None:
    """The record id of a message that is, from its first to its last character, a summary turn; else None."""
    if view.calls or view.answers or not view.text.startswith("[unabridged summary "):
        return None
    found = ids_in(view.text[:40])
    return found[0] if found and view.text.endswith(f"[end of summary {found[0]}]") else None


def asks_for_summary(view: View) -> bool:
    """Whether a message is, word for word, the question that stands before a summary in the assistant's voice."""
    asks = view.text.startswith("[unabridged] ") and not (view.calls or view.answers)
    return asks and any(view.text == labels(code)["question"] for code in tables())


def is_ours(view: View) -> bool:
    """Whether a turn that the archive vouches for is wholly ours: summary, acknowledgment or bridge."""
    if view.calls or view.answers or view.attached:
        return False
    return view.text.startswith("[unabridged summary ") or view.text in joints()


def rewrite(
    messages: Sequence[Message],
    views: Sequence[View],
    *,
    format_: Format,
    gone: Collection[int],
    place: int,
    summary: str | None,
    edited: Mapping[int, Message],
    form: Literal["user", "pair"] = "user",
    language: str = "",
) -> list[Message]:
    """The list with `gone` left out, the summary turn at `place`, `edited` messages exchanged, and roles alternating.

    Where the gap brings two turns of one side together, an acknowledgment (or a bridge) keeps them apart.
    """
    built = _Built(format_, labels(language))
    lost = set(gone)
    for i, message in enumerate(messages):
        if summary is not None and i == place:
            built.joint = not format_.merges_turns
            if form == "pair":
                built.add(format_.text("user", labels(language)["question"]), "user")
            built.add(
                format_.text("user" if form == "user" else "assistant", summary),
                "user" if form == "user" else "assistant",
            )
            built.joint = True
        if i in lost:
            built.joint = built.joint or not format_.merges_turns
        else:
            built.add(edited.get(i, message), _side(views[i]))
    return built.messages


class _Built:
    """The list so far, whose side spoke last, and whether something is missing since."""

    def __init__(self, format_: Format, words: Mapping[str, str]) -> None:
        self.messages: list[Message] = []
        self.joint = False
        self._format, self._words = format_, words
        self._side: str | None = None
        self._after_system = False

    def add(self, message: Message, side: str | None) -> None:
        """Append the message; at a joint, whatever keeps the roles in order first."""
        if self.joint and side is None and self._format.lone_system:
            if self._after_system:
                self._say("assistant")
            if self._side == "assistant":
                self._say("user")
        elif self.joint and side is not None and side == self._side:
            self._say("assistant" if side == "user" else "user")
        self.messages.append(message)
        self._after_system = side is None and self._side is not None
        if side is not None:
            self._side, self.joint = side, False

    def _say(self, side: Literal["user", "assistant"]) -> None:
        said = self._words["acknowledgment" if side == "assistant" else "bridge"]
        self.messages.append(self._format.text(side, said))
        self._side = side


def _side(view: View) -> str | None:
    if view.role == "system":
        return None
    return "assistant" if view.role == "assistant" else "user"
