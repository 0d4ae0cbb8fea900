"""How a turn of the model ends in a text protocol: in words, in an action, or in code that may be one.

An action has many forms: tags, `Action:` lines, a JSON object with a command in it, a bare call. Code in a fence is
run by some hosts and shown to people by others: there, the words beside it tell.
"""

from __future__ import annotations

import re
from typing import Literal

from unabridged.intent.frames import frames
from unabridged.languages import folded, phrases
from unabridged.text_cache import remembered

Manner = Literal["", "marked", "coded", "shown"]
"""In words; in an action that is marked as one; in code; in words after code."""

_LAST = 4_000
"""Characters at the end of a turn in which its action is looked for."""
_SAID = frozenset(frames()["tags"]["said"].split())
"""Tags that a turn may end with though it only says something."""
_TAG = re.compile(r"</([A-Za-z][\w.:-]*)>\Z")
_WORDS = {kind: "|".join(words) for kind, words in frames()["actions"].items()}
_INSIDE = re.compile(rf"(?<!`)</(?:{_WORDS['inside']})>")
"""Tags that are an action's, wherever they stand."""
_TOKENS = ("<end_code>", "<end_action>", "<|eom_id|>", "[[ ## completed ## ]]")
_LABEL = re.compile(rf"^[ \t]*(?:{_WORDS['labels']})(?: Input)?[ \t]*:[ \t]*\S", re.MULTILINE)
_KEYS = re.compile(rf'"(?:{_WORDS["keys"]})"\s?:')
"""Keys of an object that orders something."""
_MORE_KEYS = re.compile(rf'"(?:{_WORDS["keys_alone"]})"\s?:')
"""Keys that do so where the object is all there is, or stands without a fence."""
_CALL = re.compile(r"\[?[A-Za-z_][\w.]*[(\[].*[)\]];?\]?\Z")
_CODE = re.compile(r"(?:import|from|def|class|for|with|while|if|try|print)\b.*[\w):\"']\Z|[A-Za-z_][\w.]* ?= ?\S|#")
_COMMAND = re.compile(r"[ \t]*[$!] ?\S")
_ACTS = re.compile(rf"<(?:{_WORDS['opened']})\b|^[ \t]*\$ \S", re.MULTILINE)


@remembered
def manner(text: str) -> Manner:
    """How the model's turn ends."""
    end = text.rstrip()[-_LAST:]
    if _is_marked(end, whole=len(text) <= _LAST):
        return "marked"
    return ("coded" if end.endswith("```") else "shown") if "```" in text else ""


@remembered
def acts(text: str) -> bool:
    """Whether the model's turn holds what may be an action; words around code that is only shown hold none."""
    return manner(text) not in {"", "shown"} or _ACTS.search(text) is not None


@remembered
def addresses(text: str) -> bool:
    """Whether the words before the code speak to somebody: who shows a command does, who runs it does not."""
    return phrases("addressee").inside(folded(text.partition("```")[0]))


@remembered
def intends(text: str) -> bool:
    """Whether the words before the code say that the model is about to do something itself."""
    words = folded(text.partition("```")[0])
    return phrases("acts_next").inside(words) and not phrases("addressee", "presents").inside(words)


def _is_marked(end: str, *, whole: bool) -> bool:
    """Whether it ends in an action that nobody would only show."""
    tag = _TAG.search(end, max(0, len(end) - 80))
    if (tag and tag[1].lower() not in _SAID) or end.endswith(_TOKENS) or end.startswith("<|python_tag|>"):
        return True
    if _INSIDE.search(end):
        return True
    last = end.rpartition("\n\n")[2]
    if end.endswith("```"):
        opened = end.rfind("```", 0, len(end) - 3)
        fence = end[opened:]
        if _KEYS.search(fence) and "{" in fence:
            return True
        last = end[:opened].rstrip().rpartition("\n\n")[2]  # "Action:" and a block below it
        return fence.startswith("```tool_code") or (last.endswith(":") and bool(_LABEL.search(f"{last} -")))
    return _LABEL.search(last) is not None or _is_an_object(end) or _is_code(end, whole=whole)


def _is_an_object(end: str) -> bool:
    """Whether the turn ends in a JSON object that orders something."""
    if not end.endswith(("}", "]")):
        return False
    begin = 0 if end.startswith(("{", "[")) else end.rfind("\n{") + 1
    found = end[begin:]
    return found.startswith(("{", "[{")) and bool(_KEYS.search(found) or _MORE_KEYS.search(found))


def _is_code(end: str, *, whole: bool) -> bool:
    """Whether the turn is nothing but code, or ends in a call or a command on a line of its own."""
    lines = [line for line in end.splitlines() if line.strip()]
    if not lines or "](" in lines[-1]:
        return False
    given = _CALL.match(lines[-1]) and not lines[-1].endswith(("()", "[]"))
    if (_CALL.match(lines[-1]) and len(lines) == 1) or given or _COMMAND.match(lines[-1]):
        return True
    return whole and len(lines) > 1 and all(_CODE.match(line.strip()) for line in (lines[0], lines[-1]))
