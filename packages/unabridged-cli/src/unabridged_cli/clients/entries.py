"""What we put into a client's files, as functions on their text: hooks and an MCP server.

An entry is ours if it starts a program named `unabridged` with `hook` or `mcp` and nothing more behind it. Everything
else is somebody's own and stays.
"""

from __future__ import annotations

import json
import shlex
from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from unabridged_cli.clients import jsonc, toml_tables
from unabridged_cli.clients.client import ConfigEntry


class HookSetting(NamedTuple):
    """A hook event, a matcher that limits it to some cases (empty: all cases), and a timeout in seconds."""

    event: str
    matcher: str
    timeout: int


HOOKS = (
    HookSetting("PreCompact", "", 30),
    HookSetting("SessionStart", "startup|resume|clear", 5),
    HookSetting("SessionStart", "compact", 30),
    HookSetting("PostCompact", "", 30),
    HookSetting("SessionEnd", "", 3),
)
"""The hook ends by itself before that. For the last one Claude Code waits 1.5 s whatever stands here, Codex 3 s."""
HOOK_EVENTS = tuple(dict.fromkeys(hook.event for hook in HOOKS))
SERVER_NAME = "unabridged"
_PASSED_VARIABLES = ["UNABRIDGED_ARCHIVE", "UNABRIDGED_NAMESPACE", "CODEX_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"]
"""Codex hands on no variables but those that are named."""
_START_SECONDS = 60
"""How long Codex waits for the server to start; by default ten seconds, which a busy machine may need."""


class _JsonEntry(ConfigEntry):
    """An entry in a JSON file, with comments or without."""

    @abstractmethod
    def find_own_paths(self, text: str) -> list[jsonc.JsonPath]:
        """Return where ours is."""

    def mask_foreign(self, text: str, other: str) -> str:
        """Return the text with everything masked that is not ours."""
        own = self.find_own_paths(text)
        return jsonc.mask(text, own, [*own, *self.find_own_paths(other)])


# -- hooks: Claude Code and Codex have the same layout ----------------------------------------------------------------


def build_hook_command(program: str) -> str:
    """Return the shell command of a hook, which always exits with 0 so that a failure never stops the client.

    Claude Code takes an exit code of 2 for a refusal to compact.
    """
    return f"{shlex.quote(program)} hook || exit 0"


class HooksEntry(_JsonEntry):
    """The hooks in a JSON file, under `hooks`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "hooks")

    def add(self, text: str, program: str) -> str:
        """Add a group to each event, the last: what stands before it keeps its index, by which Codex trusts it."""
        for hook in HOOKS:
            cases = {"matcher": hook.matcher} if hook.matcher else {}
            text = jsonc.insert(text, ("hooks", hook.event), None, {**cases, "hooks": [_build_handler(program, hook)]})
        return text

    def remove(self, text: str, before: str) -> str:
        """Remove our handlers, and the groups and lists that hold nothing else."""
        while found := next(find_own_handlers(text), None):
            path, _ = found
            text = jsonc.remove(text, path)
            if jsonc.value_at(text, path[:-1]) == []:
                text = jsonc.remove(text, path[:-2])
            text = _remove_empty_containers(text, path[:2], before)
        return text

    def program(self, text: str) -> str | None:
        """Return the program, if every event calls it."""
        programs = {str(path[1]): program for path, program in find_own_handlers(text)}
        return programs[HOOK_EVENTS[0]] if set(HOOK_EVENTS) <= set(programs) else None

    def is_up_to_date(self, text: str, program: str) -> bool:
        """Return whether each hook has one handler of ours, as it should be."""
        wanted = {(hook.event, hook.matcher): _build_handler(program, hook) for hook in HOOKS}
        handlers = []
        for path, _ in find_own_handlers(text):
            matcher = jsonc.value_at(text, (*path[:3], "matcher"))
            case = (str(path[1]), "" if matcher in (None, "*") else matcher)
            handlers.append((case, jsonc.value_at(text, path)))
        return sorted(str(case) for case, _ in handlers) == sorted(map(str, wanted)) and all(
            _contains_items(handler, wanted[case]) for case, handler in handlers
        )

    def find_ignore_reason(self, text: str) -> str | None:
        """Return why both clients would ignore the hooks."""
        is_off = jsonc.value_at(text, ("disableAllHooks",)) is True
        return _find_json_problem(text) or ("disableAllHooks is set" if is_off else None)

    def find_own_paths(self, text: str) -> list[jsonc.JsonPath]:
        """Return the path of the group of each handler; of the handler, where the group is somebody's too."""
        paths = [path for path, _ in find_own_handlers(text)]
        return [path[:3] if len(jsonc.value_at(text, path[:-1])) == 1 else path for path in paths]


def _build_handler(program: str, hook: HookSetting) -> dict[str, Any]:
    return {"type": "command", "command": build_hook_command(program), "timeout": hook.timeout}


def find_own_handlers(text: str) -> Iterator[tuple[jsonc.JsonPath, str]]:
    """Yield where each of our handlers is, and the program that it starts."""
    for event, groups in _list_items(jsonc.value_at(text, ("hooks",))):
        for number, group in _list_items(groups):
            for index, handler in _list_items(group.get("hooks") if isinstance(group, dict) else None):
                command = handler.get("command") if isinstance(handler, dict) else None
                program = _match_own_program(_split_hook_command(command), "hook")
                if program is not None:
                    yield ("hooks", event, number, "hooks", index), program


def _contains_items(entry: Any, wanted: dict[str, Any]) -> bool:
    """Return whether the entry has all that is wanted; a client may have added to it."""
    return isinstance(entry, dict) and wanted.items() <= entry.items()


def _find_json_problem(text: str) -> str | None:
    """Return why this is not plain JSON: with a comment, or a comma too many, such clients ignore the whole file."""
    try:
        json.loads(text.removeprefix("\ufeff") or "{}")
    except ValueError as error:
        return f"it is no plain JSON (a comment, or a comma too many): {error}"
    return None


def _list_items(value: Any) -> list[tuple[Any, Any]]:
    """Return the names and values of an object or a list; of anything else none."""
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


def _split_hook_command(command: Any) -> list[str]:
    """Return a shell command's words, without what makes it end clean."""
    try:
        return shlex.split(command.removesuffix("|| exit 0")) if isinstance(command, str) else []
    except ValueError:
        return []


def _match_own_program(words: list[Any], verb: str) -> str | None:
    """Return the program if these words are `PROGRAM VERB` with a program named `unabridged`; else None."""
    match words:
        case [str(program), str(word)] if word == verb and Path(program).stem == SERVER_NAME:
            return program
    return None


# -- the MCP server ---------------------------------------------------------------------------------------------------


class _JsonServerEntry(_JsonEntry):
    def __init__(
        self, path: Path, table: str, build: Callable[[str], dict[str, Any]], *, is_plain: bool = False
    ) -> None:
        super().__init__(path, "MCP server")
        self._servers = (table,)
        self._server = (table, SERVER_NAME)
        self._build = build
        self._is_plain = is_plain

    def add(self, text: str, program: str) -> str:
        is_taken = jsonc.value_at(text, self._server) is not None  # by one that somebody made: it stays
        return text if is_taken else jsonc.insert(text, self._servers, SERVER_NAME, self._build(program))

    def remove(self, text: str, before: str) -> str:
        if self.program(text) is None:
            return text
        return _remove_empty_containers(jsonc.remove(text, self._server), self._servers, before)

    def program(self, text: str) -> str | None:
        return _read_server_program(jsonc.value_at(text, self._server))

    def is_up_to_date(self, text: str, program: str) -> bool:
        return _contains_items(jsonc.value_at(text, self._server), self._build(program))

    def find_ignore_reason(self, text: str) -> str | None:
        return _find_json_problem(text) if self._is_plain else None

    def find_own_paths(self, text: str) -> list[jsonc.JsonPath]:
        return [self._server] if self.program(text) is not None else []


def build_claude_code_server_entry(path: Path) -> ConfigEntry:
    """Return the server in Claude Code's JSON."""

    def build(program: str) -> dict[str, Any]:
        return {"type": "stdio", "command": program, "args": ["mcp"]}

    return _JsonServerEntry(path, "mcpServers", build, is_plain=True)


def build_opencode_server_entry(path: Path) -> ConfigEntry:
    """Return the server in opencode's JSON."""

    def build(program: str) -> dict[str, Any]:
        return {"type": "local", "command": [program, "mcp"], "enabled": True}

    return _JsonServerEntry(path, "mcp", build)


class CodexServerEntry(ConfigEntry):
    """The server in Codex's TOML."""

    _TABLE = ("mcp_servers", SERVER_NAME)

    def __init__(self, path: Path) -> None:
        super().__init__(path, "MCP server")

    def add(self, text: str, program: str) -> str:
        """Add a table of ours at the end, unless there is one of this name."""
        return text if self._server(text) is not None else toml_tables.insert(text, self._TABLE, self._build(program))

    def remove(self, text: str, before: str) -> str:
        """Remove our table."""
        del before
        return toml_tables.remove(text, self._TABLE) if self.program(text) is not None else text

    def program(self, text: str) -> str | None:
        """Return the program of our table."""
        return _read_server_program(self._server(text))

    def is_up_to_date(self, text: str, program: str) -> bool:
        """Return whether our table has all that it should have."""
        return _contains_items(self._server(text), self._build(program))

    def mask_foreign(self, text: str, other: str) -> str:
        """Return the text with all other tables masked."""
        del other
        return toml_tables.mask(text, self._TABLE)

    def _server(self, text: str) -> Any:
        return toml_tables.value_at(toml_tables.parse_document(text), self._TABLE)

    def _build(self, program: str) -> dict[str, Any]:
        limits = {"startup_timeout_sec": _START_SECONDS}
        return {"command": program, "args": ["mcp"], "env_vars": _PASSED_VARIABLES, **limits}


def _read_server_program(entry: Any) -> str | None:
    """Return the program of a server that is ours; one with other arguments is somebody's own."""
    if not isinstance(entry, dict):
        return None
    command, arguments = entry.get("command"), entry.get("args")
    words = command if isinstance(command, list) else [command, *(arguments if isinstance(arguments, list) else [])]
    return _match_own_program(words, "mcp")


def replace_program(text: str, old: str, new: str) -> str:
    """Replace the program's path in every command that we wrote, and return the text."""
    for spell in (str, build_hook_command):
        before, after = (json.dumps(spell(program), ensure_ascii=False) for program in (old, new))
        text = text.replace(before, after)
    return text


def _remove_empty_containers(text: str, path: jsonc.JsonPath, before: str) -> str:
    """Remove containers at the path that are empty now and were not there before the install."""
    while path and jsonc.value_at(text, path) in ({}, []) and jsonc.value_at(before, path) is None:
        text, path = jsonc.remove(text, path), path[:-1]
    return text
