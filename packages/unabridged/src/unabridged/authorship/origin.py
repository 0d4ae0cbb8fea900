"""Whose words each turn is: what the caller says, else its role, its blocks and the known frames of hosts.

One exception to the role is told by structure. In a list without tool calls, a `user` turn right behind an assistant
turn that ends in an action is the tool's observation. A turn that only ends in a fence of code counts as one where at
least three quarters of the assistant's turns do so. The counts are stored with each record, so that a list that was
shortened since is read alike.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from unabridged.authorship.frames import FRAME_TABLE, split_turn_by_author
from unabridged.authorship.own_words import is_host_text
from unabridged.marks import is_cleared, is_generated_turn
from unabridged.messages import Origin, View
from unabridged.text_cache import cache_by_text

TurnCounts = Mapping[str, int]
"""How many turns of the assistant there were (`turns`), how many ended in a fence (`fenced`), and whether any message
called a tool (`calls`)."""
_NO_TURNS: TurnCounts = {}
_MIN_OBSERVATIONS = 3
"""Turns of the assistant from which on fences may be actions."""
_OBSERVATION_PREFIXES = tuple(FRAME_TABLE["observations"])
_TAIL_CHARACTERS = 4_000
"""Characters at the end of a turn in which its action is looked for."""
_ACTION_WORDS = {kind: "|".join(words) for kind, words in FRAME_TABLE["actions"].items()}
_CLOSING_TAG_PATTERN = re.compile(rf"(?<!`)</(?:{_ACTION_WORDS['tags']})>")
_BEGINS, _ENDS = (tuple(FRAME_TABLE["actions"][kind]) for kind in ("begins", "ends"))
_LABEL_PATTERN = re.compile(rf"^[ \t]*(?:{_ACTION_WORDS['labels']})(?: Input)?[ \t]*:[ \t]*\S", re.MULTILINE)
_KEY_PATTERN = re.compile(rf'"(?:{_ACTION_WORDS["keys"]})"\s?:')
"""Keys of an object that orders something."""
_LONE_KEY_PATTERN = re.compile(rf'"(?:{_ACTION_WORDS["keys_alone"]})"\s?:')
"""Keys that do so where the object stands without a fence."""
_CALL_PATTERN = re.compile(r"\[?[A-Za-z_][\w.]*[(\[].*[)\]];?\]?\Z")
_CODE_LINE_PATTERN = re.compile(
    r"(?:import|from|def|class|for|with|while|if|try|print)\b.*[\w):\"']\Z|[A-Za-z_][\w.]* ?= ?\S|#"
)
_COMMAND_PATTERN = re.compile(r"[ \t]*[$!] ?\S")


def assign_origins(
    views: Sequence[View], before: TurnCounts = _NO_TURNS, stated_origins: Sequence[Origin | None] = ()
) -> list[View]:
    """Return the views with the origin of every `user` turn.

    `before` counts the turns that are no longer in the list; `stated_origins` is what the caller says of each message.
    """
    found = [_assign_origin_by_frames(view) for view in views]
    counts = count_turn_endings(views, range(len(views)), before)
    if not counts.get("calls"):
        fences_act = counts["turns"] >= _MIN_OBSERVATIONS and 4 * counts["fenced"] >= 3 * counts["turns"]
        for i, view in enumerate(found):
            may_be = view.role == "user" and view.origin in {"person", "summary"}
            if may_be and _is_tool_observation(views, i, fences_act):
                found[i] = views[i].with_origin("tool")
    if not stated_origins:
        return found
    return [view.with_origin(origin) if origin else view for view, origin in zip(found, stated_origins, strict=True)]


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
    blocks, own = split_turn_by_author(view), view.text
    if others := tuple(block.text for block in blocks if block.author != "person"):
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


def count_turn_endings(views: Sequence[View], indices: Collection[int], before: TurnCounts = _NO_TURNS) -> TurnCounts:
    """Return `before` with the assistant's turns at these indices counted too; only `calls` where tools are called."""
    if before.get("calls") or any(view.calls or view.answers for view in views):
        return {"calls": 1}
    turns = [views[i] for i in indices if _is_model_turn(views[i])]
    fenced = sum(ends_in_fence(view.text) for view in turns)
    return {"turns": before.get("turns", 0) + len(turns), "fenced": before.get("fenced", 0) + fenced}


# -- how a turn of the model ends in a text protocol -------------------------------------------------------------------
#
# In an action, in a fence of code, or in words. The forms of actions are data (`frames.json`): tags, `Action:` lines,
# a JSON object that orders something, a bare call.


@cache_by_text
def ends_in_fence(text: str) -> bool:
    """Return whether a turn ends in a fence of code."""
    return text.rstrip().endswith("```")


@cache_by_text
def ends_in_action(text: str) -> bool:
    """Return whether a turn ends in an action of a known form."""
    end = text.rstrip()[-_TAIL_CHARACTERS:]
    if end.endswith(_ENDS) or end.startswith(_BEGINS) or _CLOSING_TAG_PATTERN.search(end):
        return True
    if end.endswith("```"):
        opened = end.rfind("```", 0, len(end) - 3)
        fence = end[opened:]
        if fence.startswith("```tool_code") or ("{" in fence and _KEY_PATTERN.search(fence)):
            return True
        above = end[:opened].rstrip().rpartition("\n\n")[2]  # "Action:" with a block below it
        return above.endswith(":") and _LABEL_PATTERN.search(f"{above} -") is not None
    is_labelled = _LABEL_PATTERN.search(end.rpartition("\n\n")[2]) is not None
    return is_labelled or _ends_in_action_object(end) or _ends_in_code(end, len(text) <= _TAIL_CHARACTERS)


def _ends_in_action_object(end: str) -> bool:
    """Return whether a turn ends in a JSON object that orders something."""
    if not end.endswith(("}", "]")):
        return False
    found = end if end.startswith(("{", "[")) else end[end.rfind("\n{") + 1 :]
    return found.startswith(("{", "[{")) and bool(_KEY_PATTERN.search(found) or _LONE_KEY_PATTERN.search(found))


def _ends_in_code(end: str, whole: bool) -> bool:
    """Return whether a turn is nothing but code, or ends in a call or a command on a line of its own."""
    lines = [line for line in end.splitlines() if line.strip()]
    if not lines or "](" in lines[-1]:
        return False
    is_call = _CALL_PATTERN.match(lines[-1]) is not None
    if (is_call and (len(lines) == 1 or not lines[-1].endswith(("()", "[]")))) or _COMMAND_PATTERN.match(lines[-1]):
        return True
    return whole and len(lines) > 1 and all(_CODE_LINE_PATTERN.match(line.strip()) for line in (lines[0], lines[-1]))
