"""What we put into a client's files, as functions on their text: hooks, an MCP server, a file of our own.

Ours is told by the program that it starts: one named `unabridged`, with `hook` or `mcp` and nothing more behind it.
Everything else is somebody's own and stays.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from unabridged_cli.clients import jsonc, toml_tables
from unabridged_cli.clients.client import Place


class Hook(NamedTuple):
    """A hook of Claude Code and Codex that is used, for which cases (empty: all), and the seconds that it may take."""

    event: str
    matcher: str
    timeout: int


HOOKS = (
    Hook("PreCompact", "", 30),
    Hook("SessionStart", "startup|resume|clear", 5),
    Hook("SessionStart", "compact", 30),
    Hook("PostCompact", "", 30),
    Hook("SessionEnd", "", 3),
)
"""The hook ends by itself before that. For the last one Claude Code waits 1.5 s whatever stands here, Codex 3 s."""
EVENTS = tuple(dict.fromkeys(hook.event for hook in HOOKS))
NAME = "unabridged"
"""Of the MCP server."""
MADE = "// made by `unabridged install`"
"""How a file of our own begins: without it, it is somebody's."""
_PROGRAM = re.compile(r'^const PROGRAM = ("(?:[^"\\\n]|\\.)*")', re.MULTILINE)


# -- hooks: Claude Code and Codex have the same layout ----------------------------------------------------------------


def hooks(path: Path) -> Place:
    """The hooks in a JSON file, under `hooks`."""
    return Place(
        path, "hooks", _add_hooks, _remove_hooks, _hooks_program, _hooks_right, _hooks_ignored, show=_shown_in(_groups)
    )


def hook_command(program: str) -> str:
    """The shell command of a hook. It ends clean whatever happens: a program that is gone must not stop the client.

    An exit code of 2 would: Claude Code takes it for a refusal to compact.
    """
    return f"{shlex.quote(program)} hook || exit 0"


def _add_hooks(text: str, program: str) -> str:
    """Each event with one more group, the last: what stands before it keeps its index, by which Codex trusts it."""
    for hook in HOOKS:
        cases = {"matcher": hook.matcher} if hook.matcher else {}
        text = jsonc.insert(text, ("hooks", hook.event), None, {**cases, "hooks": [_handler(program, hook)]})
    return text


def _handler(program: str, hook: Hook) -> dict[str, Any]:
    return {"type": "command", "command": hook_command(program), "timeout": hook.timeout}


def _remove_hooks(text: str, before: str) -> str:
    while found := next(_our_handlers(text), None):
        path, _ = found
        text = jsonc.remove(text, path)
        if jsonc.value_at(text, path[:-1]) == []:
            text = jsonc.remove(text, path[:-2])
        text = _drop_empty(text, path[:2], before)
    return text


def _our_handlers(text: str) -> Iterator[tuple[jsonc.Path, str]]:
    """Where each of our handlers stands, and the program that it starts."""
    events = jsonc.value_at(text, ("hooks",))
    for event, groups in _pairs(events):
        for number, group in _pairs(groups):
            for index, handler in _pairs(group.get("hooks") if isinstance(group, dict) else None):
                command = handler.get("command") if isinstance(handler, dict) else None
                program = _program_in(_words(command), "hook")
                if program is not None:
                    yield ("hooks", event, number, "hooks", index), program


def _hooks_program(text: str) -> str | None:
    """The program, if every event calls it."""
    found = {str(path[1]): program for path, program in _our_handlers(text)}
    return found[EVENTS[0]] if set(EVENTS) <= set(found) else None


def _hooks_right(text: str, program: str) -> bool:
    """Whether each hook has one handler of ours, as it should be."""
    found = {}
    for path, _ in _our_handlers(text):
        matcher = jsonc.value_at(text, (*path[:3], "matcher"))
        found[path] = (str(path[1]), "" if matcher in (None, "*") else matcher)
    wanted = {(hook.event, hook.matcher): _handler(program, hook) for hook in HOOKS}
    return sorted(map(str, found.values())) == sorted(map(str, wanted)) and all(
        _has_all(jsonc.value_at(text, path), wanted[case]) for path, case in found.items()
    )


def _groups(text: str) -> list[jsonc.Path]:
    """Where ours stands: the group of each handler, or the handler in a group that is somebody's too."""
    paths = [path for path, _ in _our_handlers(text)]
    return [path[:3] if len(jsonc.value_at(text, path[:-1])) == 1 else path for path in paths]


def _has_all(entry: Any, wanted: dict[str, Any]) -> bool:
    """Whether the entry has all that is wanted; a client may have added to it."""
    return isinstance(entry, dict) and wanted.items() <= entry.items()


def _hooks_ignored(text: str) -> str | None:
    """Both clients read plain JSON: with a comment in it, or a comma too many, the whole file is nothing to them."""
    return _not_plain(text) or (
        "disableAllHooks is set" if jsonc.value_at(text, ("disableAllHooks",)) is True else None
    )


def _not_plain(text: str) -> str | None:
    try:
        json.loads(text.removeprefix("\ufeff") or "{}")
    except ValueError as error:
        return f"it is no plain JSON (a comment, or a comma too many): {error}"
    return None


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    """Names and values of an object or a list; of anything else none."""
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


def _words(command: Any) -> list[str]:
    """A shell command's words, without what makes it end clean."""
    try:
        return shlex.split(command.removesuffix("|| exit 0")) if isinstance(command, str) else []
    except ValueError:
        return []


def _program_in(words: list[Any], verb: str) -> str | None:
    """The program, if these are the words of one of our commands."""
    match words:
        case [str(program), str(said)] if said == verb and Path(program).stem == NAME:
            return program
    return None


# -- the MCP server ---------------------------------------------------------------------------------------------------


def mcp_claude_code(path: Path) -> Place:
    """The server in Claude Code's JSON."""

    def entry(program: str) -> dict[str, Any]:
        return {"type": "stdio", "command": program, "args": ["mcp"]}

    return replace(_mcp_json(path, ("mcpServers",), entry), ignored=_not_plain)


def mcp_opencode(path: Path) -> Place:
    """The server in opencode's JSON."""
    return _mcp_json(path, ("mcp",), lambda program: {"type": "local", "command": [program, "mcp"], "enabled": True})


def mcp_codex(path: Path) -> Place:
    """The server in Codex's TOML. Codex hands on no variables but those that are named."""
    table = ("mcp_servers", NAME)
    passed = ["UNABRIDGED_ARCHIVE", "UNABRIDGED_NAMESPACE", "CODEX_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"]

    def entry(program: str) -> dict[str, Any]:
        return {"command": program, "args": ["mcp"], "env_vars": passed}

    def program(text: str) -> str | None:
        return _server_program(toml_tables.value_at(text, table))

    def right(text: str, program: str) -> bool:
        return _has_all(toml_tables.value_at(text, table), entry(program))

    def add(text: str, program: str) -> str:
        taken = toml_tables.value_at(text, table) is not None
        return text if taken else toml_tables.insert(text, table, entry(program))

    def remove(text: str, _before: str) -> str:
        return toml_tables.remove(text, table) if program(text) is not None else text

    return Place(path, "MCP server", add, remove, program, right, show=toml_tables.mask(table))


def _mcp_json(path: Path, place: tuple[str, ...], entry: Callable[[str], dict[str, Any]]) -> Place:
    full = (*place, NAME)

    def program(text: str) -> str | None:
        return _server_program(jsonc.value_at(text, full))

    def right(text: str, program: str) -> bool:
        return _has_all(jsonc.value_at(text, full), entry(program))

    def add(text: str, program: str) -> str:
        taken = jsonc.value_at(text, full) is not None  # by one that somebody made: it stays
        return text if taken else jsonc.insert(text, place, NAME, entry(program))

    def remove(text: str, before: str) -> str:
        return _drop_empty(jsonc.remove(text, full), place, before) if program(text) is not None else text

    def ours(text: str) -> list[jsonc.Path]:
        return [full] if program(text) is not None else []

    return Place(path, "MCP server", add, remove, program, right, show=_shown_in(ours))


def _shown_in(ours: Callable[[str], list[jsonc.Path]]) -> Callable[[str, str], str]:
    """How a JSON text is shown beside another version of it: what is not ours is left out."""

    def show(text: str, other: str) -> str:
        own = ours(text)
        return jsonc.mask(text, own, [*own, *ours(other)])

    return show


def _server_program(entry: Any) -> str | None:
    """The program of a server that is ours; one with other arguments is somebody's own."""
    if not isinstance(entry, dict):
        return None
    command, rest = entry.get("command"), entry.get("args")
    words = command if isinstance(command, list) else [command, *(rest if isinstance(rest, list) else [])]
    return _program_in(words, "mcp")


def repoint(text: str, old: str, new: str) -> str:
    """The text with the new program wherever the old one stands as we write it."""
    for spelled in (str, hook_command):
        before, after = (json.dumps(spelled(program), ensure_ascii=False) for program in (old, new))
        text = text.replace(before, after)
    return text


def _drop_empty(text: str, path: jsonc.Path, before: str) -> str:
    """The text without brackets that hold nothing any more, unless they were there before."""
    while path and jsonc.value_at(text, path) in ({}, []) and jsonc.value_at(before, path) is None:
        text, path = jsonc.remove(text, path), path[:-1]
    return text


# -- a file that is ours alone ----------------------------------------------------------------------------------------


def own_file(path: Path, what: str, template: str, project: Path | None) -> Place:
    """A file of our own, made from a template that begins with `MADE` and names the program once as `"__PROGRAM__"`."""
    if project is not None:
        template = template.replace("` takes it away", " --scope project` takes it away", 1)

    def program(text: str) -> str | None:
        found = _PROGRAM.search(text) if text.startswith(MADE) else None
        try:
            return str(json.loads(found[1])) if found else None
        except ValueError:  # somebody wrote into it
            return None

    def right(text: str, program: str) -> bool:
        return text == add("", program)

    def add(text: str, program: str) -> str:
        return text or template.replace('"__PROGRAM__"', json.dumps(program, ensure_ascii=False))

    def remove(text: str, _before: str) -> str:
        return "" if text.startswith(MADE) else text

    return Place(path, what, add, remove, program, right)
