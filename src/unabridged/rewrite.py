"""The new list: what stays, in order and the same objects, with the summary turn in the place of what went."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from unabridged.formats.base import Format, Message
from unabridged.messages import View

ACKNOWLEDGMENT = "Understood. I have the record of the earlier conversation and go on from it."
BRIDGE = "[unabridged] What stood here is part of the summary above."
_MARK = re.compile(r"\[unabridged (?:summary )?([0-9a-f]{12})\b")


def summary_text(record_id: str, body: str, first: int, last: int) -> str:
    """The text of a summary turn: whose it is, what it stands for, the body, and where it ends."""
    return (
        f"[unabridged summary {record_id}] Turns {first + 1} to {last} of this conversation were compacted to fit the "
        "model's window. This is the record of them, not a new request: go on from where it ends.\n\n"
        f"{body.strip()}\n\n[end of summary {record_id}]"
    )


def shortening_note(record_id: str) -> str:
    """What stands between head and tail of a shortened text; `{tokens}` is filled in later."""
    return f"[unabridged {record_id}: the middle of this text of {{tokens}} tokens was left out to fit the window]"


def marked_ids(view: View) -> list[str]:
    """The record ids a message names. Names prove nothing: the archive decides which to trust."""
    found = _MARK.findall(view.text) if "[unabridged" in view.text else []
    for answer in view.answers:
        if "[unabridged" in answer.text:
            found += _MARK.findall(answer.text)
    for call in view.calls:
        if "[unabridged" in call.arguments:
            found += _MARK.findall(call.arguments)
    return found


def is_ours(view: View) -> bool:
    """Whether a turn that the archive vouches for is wholly ours: summary, acknowledgment or bridge."""
    if view.calls or view.answers:
        return False
    return view.text.startswith("[unabridged summary ") or view.text in {ACKNOWLEDGMENT, BRIDGE}


def rewrite(
    messages: Sequence[Message],
    views: Sequence[View],
    *,
    format_: Format,
    gone: Collection[int],
    place: int,
    summary: str | None,
    edited: Mapping[int, Message],
) -> list[Message]:
    """The list with `gone` left out, the summary turn at `place`, `edited` messages exchanged, and roles alternating.

    Where the gap brings two turns of one side together, an acknowledgment (or a bridge) keeps them apart.
    """
    lost = set(gone)
    built: list[Message] = []
    side: str | None = None
    joint = False

    def add(message: Message, its_side: str | None) -> None:
        nonlocal side, joint
        if its_side is not None:
            if joint and side == its_side:
                turn = ("assistant", ACKNOWLEDGMENT) if its_side == "user" else ("user", BRIDGE)
                built.append(format_.text(turn[0], turn[1]))  # type: ignore[arg-type] # mypy widens the tuple
            side, joint = its_side, False
        built.append(message)

    for i, message in enumerate(messages):
        if summary is not None and i == place:
            joint = True
            add(format_.text("user", summary), "user")
            joint = True
        if i in lost:
            joint = True
        else:
            add(edited.get(i, message), _side(views[i]))
    return built


def _side(view: View) -> str | None:
    if view.role == "system":
        return None
    return "assistant" if view.role == "assistant" else "user"
