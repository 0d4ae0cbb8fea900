"""How a turn of the model ends in a text protocol: in an action, in a fence of code, or in words.

The forms of actions are data (`frames.json`): tags, `Action:` lines, a JSON object that orders something, a bare call.
"""

from __future__ import annotations

import re

from unabridged.authorship.frames import load_frame_table
from unabridged.text_cache import cache_by_text

_TAIL_CHARACTERS = 4_000
"""Characters at the end of a turn in which its action is looked for."""
_ACTION_WORDS = {kind: "|".join(words) for kind, words in load_frame_table()["actions"].items()}
_CLOSING_TAG_PATTERN = re.compile(rf"(?<!`)</(?:{_ACTION_WORDS['tags']})>")
_BEGINS, _ENDS = (tuple(load_frame_table()["actions"][kind]) for kind in ("begins", "ends"))
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
    return (
        _LABEL_PATTERN.search(end.rpartition("\n\n")[2]) is not None
        or _ends_in_action_object(end)
        or _ends_in_code(end, len(text) <= _TAIL_CHARACTERS)
    )


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
