"""The new list: what stays, in order and the same objects, with the summary turn in the place of what went."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from unabridged.formats.base import Format, Message
from unabridged.languages import labels
from unabridged.messages import View


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
