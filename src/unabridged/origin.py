"""Whose words a `user` turn is: a person's, a tool's observation, or the host's.

In a text protocol (no tool calls; the model writes an action into its text and the host answers in a `user` turn) an
observation is not a person's request. A turn is taken for one only when both sides say so: the model acted right
before it, and the turn itself looks machine-made, by its wording or because it shares its last line with the others.
One that has both the wording and the last line of the others needs no action before it: the model's text may have been
edited or shortened since. A host that hands outputs over bare shows it by doing so every time: where the model's turns
end with a marked action and what follows looks like nothing in particular, it is what the action gave. The caller or an
adapter that knows better says so with `origin=`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from unabridged.messages import View

_ACTION = re.compile(
    r"<(?:command|execute\w*|tool_call|tool_use|function[=_]\w*|invoke|action|bash|shell|run)\b"
    r"|^[ \t]*(?:Action|ACTION|Command|Tool|Action Input)[ \t]*:"
    r"|```(?:bash|sh|shell|console|python|tool_code|json|mswea_bash_command|repl)?\s*\n[^`]+```\s*$"
    r"|^[ \t]*\$ \S",
    re.MULTILINE,
)
_ENDS_ACTING = re.compile(
    r"</(?:command|execute\w*|tool_call|tool_use|function|invoke|action|bash|shell|run|function_calls)>\s*\Z"
    r"|^[ \t]*Action[ \t]*:[^\n]+(?:\n[ \t]*Action Input[ \t]*:[^\n]*)?\s*\Z",
    re.MULTILINE,
)
_OBSERVATION = re.compile(
    r"\A\s*(?:<(?:output|returncode|observation|tool_result|tool_response|function_result|stdout|stderr|result)\b"
    r"|\[?(?:Observation|OBSERVATION|Tool (?:output|result)|Output|OUTPUT|Command output|Execution result"
    r"|EXECUTION RESULT|STDOUT|STDERR)\b[^\n]{0,40}[:\]]"
    r"|Traceback \(most recent call last\)|\[File: |Your command ran |Exit code\b|exit code\b|returncode\b)"
    r"|(?:\n|\A)\S{0,40}[$#>]\s*\Z"
    r"|\n\[?(?:exit code|Exit code|returncode|The command completed with exit code)\W{0,3}\d+",
)
_HOST = re.compile(
    r"\A\s*<(system-reminder|environment_context|user_instructions|permissions instructions|"
    r"turn_aborted|task-notification|local-command-\w+)>.*</\1>\s*\Z",
    re.DOTALL,
)


def with_origins(views: Sequence[View]) -> list[View]:
    """The same views, with observations and host notes that sit in `user` turns given their true origin."""
    found = list(views)
    turns = [i for i, view in enumerate(views) if view.role == "user" and view.origin == "person"]
    for i in turns:
        if _HOST.match(views[i].text):
            found[i] = replace(views[i], origin="host")
    if any(view.calls or view.answers for view in views):
        return found
    after_action = [i for i in turns if found[i].origin == "person" and _answers_action(views, i)]
    template = _template(views[i].text for i in after_action)
    acted = set(after_action)
    bare = _bare(views, after_action, template)
    for i in turns:
        if found[i].origin != "person" or _answered(views, i) is None:
            continue
        templated = _last_line(views[i].text) in template
        worded = bool(_OBSERVATION.search(views[i].text))
        if i in bare or ((templated or worded) if i in acted else (templated and worded)):
            found[i] = replace(views[i], origin="tool")
    return found


def _bare(views: Sequence[View], after_action: Sequence[int], template: Collection[str]) -> frozenset[int]:
    """The turns that answer a marked action, where the host puts nothing of its own around most of them.

    Where it does, one without is a person's who spoke in between.
    """
    answering = [i for i in after_action if (said := _answered(views, i)) and _ENDS_ACTING.search(said.text)]
    wrapped = [i for i in answering if _OBSERVATION.search(views[i].text) or _ends_with(views[i].text, template)]
    return frozenset(answering) if len(answering) > 1 and 2 * len(wrapped) < len(answering) else frozenset()


def _ends_with(text: str, template: Collection[str]) -> bool:
    """Whether the host put its last line under the text; a bare "ok" that comes often is the output itself."""
    return "\n" in text.strip() and _last_line(text) in template


def _template(observed: Iterable[str]) -> set[str]:
    """Last lines that the host puts under what it answers: a person does not end three messages with the very same."""
    endings = Counter(map(_last_line, observed))
    often = max(3, endings.total() // 2)
    return {ending for ending, times in endings.items() if ending and times >= often}


def _answers_action(views: Sequence[View], index: int) -> bool:
    said = _answered(views, index)
    return said is not None and bool(_ACTION.search(said.text))


def _answered(views: Sequence[View], index: int) -> View | None:
    """The model's turn right before this one, if it is the model's."""
    before = next((views[i] for i in range(index - 1, -1, -1) if views[i].role != "system"), None)
    return before if before is not None and before.role == "assistant" else None


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2].strip()[-80:]
