"""Read what was done off tool calls and their answers: the deed, what it went to, and how it ended.

Any agent's tools are understood by the words in their names and the keys of their arguments; shell commands are read;
in text protocols, where the model writes its action into its text, the action is found there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from unabridged.authorship import find_rejection
from unabridged.messages import Answer, Call, View
from unabridged.summary import shell
from unabridged.summary.ledger import CHANGING_DEEDS, Action, Deed
from unabridged.summary.outcomes import LIMIT, REPORT, read_outcome
from unabridged.text_cache import cache_by_text
from unabridged.text_tools import blank_fences, outline, parse_json, to_one_line

TARGET, GIST, DOCUMENT = 300, 600, 2_000
"""Characters of a command or target, of what was written, and of a document, that an action carries."""
_DOCUMENTS, _COMMENTS = (".md", ".txt", ".rst"), ("//", "/*", "* ", "# ")
_LONG_TASK, _SIGNATURE = 200, "\nagentId: "
"""Characters of the task of an agent that reports back, and how a known host signs its report."""

_DEED_OF, _SHELLS = shell.load_deeds("verbs"), shell.load_words("shells")
"""The words in the names of tools that tell their deed; of several, the first deed."""
_COMMAND_KEYS, _PATH_KEYS = shell.TOOL_TABLE["command_keys"].split(), shell.TOOL_TABLE["path_keys"].split()
_PATCHED_FILE_PATTERN = re.compile(r"^(?:\*\*\* (Add|Update|Delete) File: |\+\+\+ (?:b/)?)(\S+)", re.MULTILINE)
_OLD_TEXT_KEY_PATTERN = re.compile(r"old|search|find|before", re.IGNORECASE)
_NEW_TEXT_KEY_PATTERN = re.compile(r"new|content|text$|replac|insert|patch|diff|body|code|message", re.IGNORECASE)
_TODO_TOOL_PATTERN = re.compile(r"todo|update_plan|write_plan|Task(?:Create|Update|List|Get)\Z", re.IGNORECASE)
_READING_TOOL_PATTERN = re.compile(r"(?:list|get|read)\Z", re.IGNORECASE)
_NAME_PART_PATTERN = re.compile(r"[A-Z]?[a-z]+|(?:[A-Z](?![a-z]))+")

_TAGGED_COMMAND_PATTERN = re.compile(
    r"<(command|execute\w{0,40}|bash|shell|action|run|tool_call|tool_use|tool_code)\b[^>\n]{0,300}>(.*?)(?:</\1>|\Z)",
    re.DOTALL,
)
_FUNCTION_TAG_PATTERN = re.compile(
    r"<(?:function=|invoke name=\"?)([\w.-]+)\"?>(.*?)(?:</(?:function|invoke)>|\Z)", re.DOTALL
)
_PARAMETER_TAG_PATTERN = re.compile(r"(?:=| name=\"?)([\w.-]+)\"?>")
_REACT_ACTION_PATTERN = re.compile(
    r"^[ \t]*+Action[ \t]*+:[ \t]*+(?=\S)([^\n]*[^ \t\n])[ \t]*+(?:\n[ \t]*+Action Input[ \t]*+:(.*))?\Z",
    re.MULTILINE | re.DOTALL,
)
_INVOCATION_PATTERN = re.compile(r"([\w.-][\w .-]{0,60}?)(?:\[(.*)\]|\((.*)\))\Z", re.DOTALL)
_OPEN_FILE_PATTERN = re.compile(r"\(Open file: (?!n/a)([^)\n]{1,400})\)|^\[File: (\S+) \(", re.MULTILINE)


class ToolUse(NamedTuple):
    """One action, with the text it was asked with and the text that came back."""

    place: int
    action: Action
    touched: tuple[tuple[str, Deed], ...]
    wrote: str


def find_tool_uses(views: Sequence[View], turns: Sequence[int]) -> Iterator[ToolUse]:
    """Yield every action in these views, in order; a call without an answer has no outcome."""
    answers = _match_answers_to_calls(views)
    current = ""
    for i, view in enumerate(views):
        for call in _list_calls(views, i):
            read, answer = read_call_effect(call.arguments, call.name), answers.get((call.id, i))
            if not view.calls and i + 1 < len(views):
                answer = Answer("", views[i + 1].text)
                shown = _OPEN_FILE_PATTERN.search(answer.text)
                current = (shown[1] or shown[2]) if shown else current
            command, _, rest = read.target.partition(" ")
            if not view.calls and not read.touched and current and command in shell.EDITOR:
                read = read._replace(touched=((current, read.deed),), target=f"{current} {rest}".rstrip())
            yield _build_tool_use(i, turns[i], call, read, answer)


def _list_calls(views: Sequence[View], index: int) -> Sequence[Call]:
    """Return the calls of a message; in a text protocol the action in its text, if it was carried out."""
    view = views[index]
    following = views[index + 1 : index + 2] or views  # of the last message the observation is to come
    may_act = not view.calls and view.origin == "model" and any(map(_is_observation, following))
    found = find_written_action(view.text) if may_act else None
    return [Call("", found[0], found[1])] if found else view.calls


def is_todo_tool(tool: str) -> bool:
    """Return whether a tool of this name keeps the assistant's list of what is to be done."""
    return bool(_TODO_TOOL_PATTERN.search(tool))


def may_change_todo(tool: str) -> bool:
    """Return whether a tool of this name may change that list; one that lists or gets tasks does not."""
    return is_todo_tool(tool) and not _READING_TOOL_PATTERN.search(tool)


def find_todo(views: Sequence[View], turns: Sequence[int]) -> tuple[str, int]:
    """Return the list of what is to be done as the assistant last wrote it, and in which message; "" without one."""
    items, turn, answers = dict[str, dict[str, Any]](), -1, _match_answers_to_calls(views)
    for i, call in ((i, call) for i, view in enumerate(views) for call in view.calls if is_todo_tool(call.name)):
        given, answer = parse_json(call.arguments), answers.get((call.id, i), Answer("", "")).text
        values = given if isinstance(given, dict) else {}
        listed = next((value for value in values.values() if isinstance(value, list)), [])
        states = {str(values.get("taskId")): values.get("status")}
        if listed := [item for item in listed if isinstance(item, dict)]:
            items = {str(number): item for number, item in enumerate(listed)}
        elif "subject" in values:  # a call for each task; its number comes back
            items[answer.partition("#")[2].partition(" ")[0]] = {"status": "pending", **values}
        elif not values:  # all tasks as they are: "#7 [completed] Run the tests"
            rows = (line[1:].partition(" [") for line in answer.splitlines())
            states = {number: state.partition("]")[0] for number, _, state in rows}
        items |= {n: {**items[n], "status": state} for n, state in states.items() if state and n in items}
        turn = turns[i] if items else -1
    return "\n".join(_render_todo_line(item) for item in items.values()), turn


def _render_todo_line(item: dict[str, Any]) -> str:
    state = to_one_line(str(item.get("status") or item.get("state") or ""), 20)
    told = next((value for value in item.values() if isinstance(value, str) and value != state), "")
    return f"- [{state}] {to_one_line(told, TARGET)}" if state else f"- {to_one_line(told, TARGET)}"


def _build_tool_use(place: int, turn: int, call: Call, read: shell.Effect, answer: Answer | None) -> ToolUse:
    frame, rejection = find_rejection(answer.text, call.name) if answer and answer.error else ("", "")
    reports = read.deed == "call" and len(read.wrote) > _LONG_TASK
    text = frame or (answer.text.partition(_SIGNATURE)[0] if reports else answer.text) if answer else ""
    most = REPORT if reports else LIMIT
    ended, status = read_outcome(text, read.deed, error=answer.error, most=most) if answer else ("", "")
    if not status and read.deed in CHANGING_DEEDS and any(path in ended for path, _ in read.touched):
        ended = ""  # "Successfully wrote theme.ts" says nothing that the deed and the target don't.
    paths = tuple(path for path, _ in read.touched)[:6]
    target, gist = to_one_line(read.target, TARGET), read.gist.strip()[:DOCUMENT]
    action = Action(turn, read.deed, call.name, target, ended, status, paths, gist, rejection, answer is not None)
    return ToolUse(place, action, read.touched, read.wrote)


def _match_answers_to_calls(views: Sequence[View]) -> dict[tuple[str, int], Answer]:
    """Return the answer to each call, by its id and place, since ids may be used again."""
    asked, found = dict[str, tuple[str, int]](), dict[tuple[str, int], Answer]()
    for i, view in enumerate(views):
        found.update({asked[a.call_id]: a for a in view.answers if a.call_id in asked})
        asked.update((id_, (call.id, i)) for call in view.calls for id_ in call.ids)
    return found


def _is_observation(view: View) -> bool:
    """Return whether this is what a tool says in a text protocol."""
    return view.origin == "tool" and view.role == "user" and not view.answers


@cache_by_text
def read_call_effect(arguments: str, tool: str) -> shell.Effect:
    """Return what a call does, whatever the agent's tools are called."""
    values = parse_json(arguments, arguments.replace("\\n", "\n").replace("\\t", "\t"))
    parts = {part.lower() for part in _NAME_PART_PATTERN.findall(tool)}
    if not isinstance(values, dict):
        text = values if isinstance(values, str) else arguments
        if parts & _SHELLS or not parts:
            return shell.read_command(text)
        values = {"input": values}
    wrote = "\x1f".join(_iterate_strings(values))  # A mark that is no line break: a value does not begin a line.
    command = next((values[key] for key in _COMMAND_KEYS if key in values), None)
    if isinstance(command, list):
        command = " ".join(map(str, command[2:] if command[1:2] in (["-lc"], ["-c"]) else command))
    if isinstance(command, str) and (parts & _SHELLS or "path" not in values):
        effect, why = shell.read_command(command), values.get("description")
        return effect._replace(wrote=wrote, gist=effect.gist or (why if isinstance(why, str) else ""))
    deed = _find_tool_deed(tool, values)
    touched = _find_touched_files(values, deed, wrote)
    gist = _extract_gist(values) if deed in CHANGING_DEEDS else ""
    return shell.Effect(deed, _describe_arguments(values, touched), touched, wrote, gist)


@cache_by_text
def find_written_action(text: str) -> tuple[str, str, str] | None:
    """Return the action a model wrote into its text, as tool, arguments and the words before it; None without one."""
    if found := _FUNCTION_TAG_PATTERN.search(text):
        arguments = dict(_find_parameters(found[2]))
        return found[1], json.dumps(arguments, ensure_ascii=False), text[: found.start()]
    if found := _TAGGED_COMMAND_PATTERN.search(text):
        tool = "shell" if found[1] in {"command", "bash", "shell", "action", "run"} else found[1]
        given, before = found[2].strip(), text[: found.start()]
        named = parse_json(given) if given.startswith("{") else None
        if isinstance(named, dict) and isinstance(named.get("name"), str):
            return named["name"], json.dumps(named.get("arguments") or named.get("parameters") or {}), before
        return tool, given, before
    if fenced := _find_last_fence(text):
        return fenced
    if found := _REACT_ACTION_PATTERN.search(text.rstrip()):
        return *_parse_action_line(found[1], found[2]), text[: found.start()]
    return None


def _find_parameters(body: str) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a call in tags, those that are closed before the next one begins."""
    for piece in body.split("<parameter")[1:]:
        value, closed, after = piece.partition("</parameter")
        if closed and after.startswith(">") and (named := _PARAMETER_TAG_PATTERN.match(value)):
            yield named[1], value[named.end() :].strip("\n")


def _parse_action_line(line: str, given: str | None) -> tuple[str, str]:
    """Return tool and arguments of an `Action:` line: `search[…]`, `read(…)`, a name and its input, or a command."""
    if given is not None:
        return line, given.strip()
    if found := _INVOCATION_PATTERN.match(line):
        return found[1].strip(), (found[2] or found[3] or "").strip()
    name, _, rest = line.partition(" ")
    if not rest:
        return line, ""
    named = name not in shell.PROGRAM_DEEDS and _find_tool_deed(name, {}) not in {"call", "run"}
    return (name, rest.strip()) if named else ("shell", line)


def _find_last_fence(text: str) -> tuple[str, str, str] | None:
    """Return the fenced block that the text ends with."""
    body = text.rstrip()
    before, opened, block = body.removesuffix("```").rpartition("```")
    language, newline, code = block.partition("\n")
    if not (body.endswith("```") and opened and newline):
        return None
    return language if language in {"python", "json"} else "shell", code.strip(), before


def _iterate_strings(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield every text and number in the arguments; their keys stand in the tool's schema."""
    if not isinstance(value, dict | list):
        if value is not None and not isinstance(value, bool):
            yield str(value)
    elif depth < 12:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _iterate_strings(item, depth + 1)


def _find_tool_deed(tool: str, values: dict[str, Any]) -> Deed:
    """Return the deed by the verb in the arguments (one editor tool for all), the first word of the name, or any."""
    verb = values.get("command") or values.get("action") or values.get("operation")
    spoken = _NAME_PART_PATTERN.findall(verb) if isinstance(verb, str) and len(verb) < 30 else []
    parts = [part.lower() for part in _NAME_PART_PATTERN.findall(tool)]
    for word in [*map(str.lower, spoken), *parts[:1]]:
        if _DEED_OF.get(word, "run") != "run":
            return _DEED_OF[word]
    found = {_DEED_OF[part] for part in parts if part in _DEED_OF}
    return next((deed for deed in shell.TOOL_TABLE["verbs"] if deed in found), "call")


def _find_touched_files(values: dict[str, Any], deed: Deed, wrote: str) -> tuple[tuple[str, Deed], ...]:
    found: dict[str, Deed] = {}
    for key in _PATH_KEYS:
        value = values.get(key)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str) and _is_file_name(key, path.strip()):
                found[path.strip().removeprefix("file://")] = deed
    kinds: dict[str, Deed] = {"Add": "create", "Update": "change", "Delete": "delete"}
    for kind, path in _PATCHED_FILE_PATTERN.findall(wrote) if "File: " in wrote or "+++ " in wrote else ():
        if path != "/dev/null":
            found[path] = kinds.get(kind, "change")
    if not found:
        for value in values.values():
            if isinstance(value, str) and len(value) < 260 and shell.looks_like_path(value):
                found[value] = deed
    return tuple(found.items())


def _extract_gist(values: dict[str, Any]) -> str:
    """Return the gist of what was written: a document's outline, the lines that an edit adds, else those it removes."""
    texts = {key: value for key, value in values.items() if isinstance(value, str)}
    before = [key for key in texts if _OLD_TEXT_KEY_PATTERN.match(key)]
    old = [line.strip() for key in before for line in texts[key].splitlines()]
    new = [text for key, text in texts.items() if _NEW_TEXT_KEY_PATTERN.search(key) and key not in before]
    lines = [line.strip() for line in (new[0] if new else "").splitlines()]
    added = [line for line in lines if line not in old and any(map(str.isalnum, line))]
    if new and not old and any(value.endswith(_DOCUMENTS) for value in texts.values()):
        return " \u23ce ".join(outline(blank_fences(new[0]), DOCUMENT))
    added = [line for line in added if not line.startswith(_COMMENTS)] or added
    taken = [f"\u2212 {line}" for line in old if line not in lines and any(map(str.isalnum, line))]
    return " \u23ce ".join((added or taken)[:12])[:GIST]


def _is_file_name(key: str, path: str) -> bool:
    return 0 < len(path) < 300 and "\n" not in path and ("/" in path or "." in path or key.startswith("file"))


def _describe_arguments(values: dict[str, Any], touched: tuple[tuple[str, Deed], ...]) -> str:
    """Return what is shown of the arguments: the files, else each short value with its key."""
    shown = [path for path, _ in touched]
    for key, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        # Beside files only short options: what was written is shown on its own.
        is_written = _OLD_TEXT_KEY_PATTERN.match(key) or _NEW_TEXT_KEY_PATTERN.search(key)
        beside = isinstance(value, str) and len(text) <= 40 and not is_written
        if text and text not in shown and (beside or not touched):
            alone = len(values) == 1 and isinstance(value, str)
            shown.append(to_one_line(text, 160) if alone else f"{key}={to_one_line(text, 120)}")
    return " ".join(shown)
