"""Whose words each turn is: what the caller says, else its role, its blocks and the known frames of hosts.

One exception to the role is told by structure. In a list without tool calls, a `user` turn right behind an assistant
turn that ends in an action is the tool's observation. A turn that only ends in a fence of code counts as one where at
least three quarters of the assistant's turns do so. The counts are stored with each record, so that a list that was
shortened since is read alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from unabridged.archive.protocol import RecordData
from unabridged.authorship.frames import load_frame_table, split_turn_by_author
from unabridged.authorship.host_words import is_host_text
from unabridged.authorship.turn_endings import ends_in_action, ends_in_fence
from unabridged.marks import is_cleared, is_generated_turn
from unabridged.messages import Origin, View

TurnCounts = Mapping[str, int]
"""How many turns of the assistant there were (`turns`), how many ended in a fence (`fenced`), and whether any message
called a tool (`calls`)."""
NO_TURNS: TurnCounts = {}
_MIN_OBSERVATIONS = 3
"""Turns of the assistant from which on fences may be actions."""
_OBSERVATION_PREFIXES = tuple(load_frame_table()["observations"])


def assign_origins(
    views: Sequence[View], before: TurnCounts = NO_TURNS, stated_origins: Sequence[Origin | None] = ()
) -> list[View]:
    """Return the views with the origin of every `user` turn.

    `before` counts the turns that are no longer in the list; `stated_origins` is what the caller says of each message.
    """
    found = [_assign_origin_by_frames(view) for view in views]
    counts = count_turn_endings(views, range(len(views)), before)
    if not counts.get("calls"):
        fences_act = counts["turns"] >= _MIN_OBSERVATIONS and 4 * counts["fenced"] >= 3 * counts["turns"]
        for i, view in enumerate(found):
            if (
                view.role == "user"
                and view.origin in {"person", "summary"}
                and _is_tool_observation(views, i, fences_act)
            ):
                found[i] = views[i].with_origin("tool")
    return (
        [f.with_origin(o) if o else f for f, o in zip(found, stated_origins, strict=True)] if stated_origins else found
    )


def _assign_origin_by_frames(view: View) -> View:
    """Return the view with the origin that its own text shows: the host, another system or a person.

    A `user` turn without answers may have been taken for a tool's before: that is decided anew.
    """
    guessed = view.origin == "tool" and not view.answers
    if view.role != "user" or not (guessed or view.origin == "person"):
        return view
    return separate_inserted_blocks(view.with_origin("person"))


def separate_inserted_blocks(view: View) -> View:
    """Return a person's turn without the blocks that another system put into it, which become `inserted`.

    Where a person says nothing beside them, the turn is that system's. An image is sent by a person.
    """
    blocks = split_turn_by_author(view)
    others = tuple(block.text for block in blocks if block.author != "person")
    own = view.text
    if others:
        own = "\n".join(block.text.strip("\n") for block in blocks if block.author == "person")
    if view.media or not (is_host_text(own) or (others and not own.strip())):
        return view.with_inserted(own, others) if others else view
    return view.with_origin("summary" if any(block.author == "summary" for block in blocks) else "host")


def _is_tool_observation(views: Sequence[View], index: int, fences_act: bool) -> bool:
    """Return whether a `user` turn is the result of the action that the assistant's turn before it ends in."""
    before = next((views[i] for i in range(index - 1, -1, -1) if views[i].role != "system"), None)
    if before is None or not _is_model_turn(before):
        return False
    text = views[index].text
    framed = text.lstrip()[:40].startswith(_OBSERVATION_PREFIXES) or is_cleared(views[index])
    return framed or ends_in_action(before.text) or (fences_act and ends_in_fence(before.text))


def _is_model_turn(view: View) -> bool:
    return view.role == "assistant" and view.origin != "summary" and not is_generated_turn(view)


def count_turn_endings(views: Sequence[View], indices: Collection[int], before: TurnCounts = NO_TURNS) -> TurnCounts:
    """Return `before` with the assistant's turns at these indices counted too; only `calls` where tools are called."""
    if before.get("calls") or any(view.calls or view.answers for view in views):
        return {"calls": 1}
    turns = [views[i] for i in indices if _is_model_turn(views[i])]
    return {
        "turns": before.get("turns", 0) + len(turns),
        "fenced": before.get("fenced", 0) + sum(ends_in_fence(view.text) for view in turns),
    }


def read_turn_counts(data: RecordData) -> TurnCounts:
    """Return the counts that a record holds."""
    return dict(data.get("turn_counts", {}))
