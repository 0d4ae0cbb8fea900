"""Offer search and read as two tools that an agent calls: their schemas for each provider, and what they answer.

recall = tools(archive, Scope("my-app", "t1"))
client.chat.completions.create(tools=recall.schemas("openai-chat"), …)
answer = recall.call(name, arguments)          # a text, whatever the arguments are
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final, NamedTuple

from unabridged.archive.protocol import Archive, Part, Scope
from unabridged.errors import SettingsError, UnabridgedError
from unabridged.formats import FORMATS, Format
from unabridged.recall import lookup
from unabridged.recall.passages import MAX_RESULTS
from unabridged.recall.results import RECALL_MARK, Found
from unabridged.text_tools import quote

MCP_DIALECT: Final = "mcp"
SEARCH_TOOL: Final = "search_history"
READ_TOOL: Final = "read_history"
CONVERSATION_PARAMETER: Final = "conversation"
"""The parameter by which a server of many conversations is asked for one."""

TOOL_DESCRIPTIONS: Final = {
    SEARCH_TOOL: (
        "Search the part of this conversation that left the context when it was compacted: every message and tool "
        "output is kept there word for word. Use it when the summary names something without the detail you need "
        "(an exact id, path, number, command, error or wording), before asking the user again or redoing work. Search "
        "is literal: words, file names, identifiers or parts of them, and phrases in double quotes. Each result has "
        "its turn, whose words it is, what stood around it, and a ref for read_history."
    ),
    READ_TOOL: (
        "Read one message that left the context, exactly as it was. Takes a ref from search_history (12-9f3ac1d2ab), "
        "or the number of a turn as it stands in brackets in the summary, for example 12 for [12]."
    ),
}
_PASSAGES: Final = f"Passages to show; {lookup.DEFAULT_RESULTS} if left out, fewer take less room."
TOOL_PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    SEARCH_TOOL: {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for: the most telling words or names."},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS, "description": _PASSAGES},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    READ_TOOL: {
        "type": "object",
        "properties": {
            "ref": {"type": "string", "description": "A ref that search_history gave, or a turn's number."},
            "offset": {"type": "integer", "minimum": 0, "description": "The character to begin at; 0 if left out."},
        },
        "required": ["ref"],
        "additionalProperties": False,
    },
}


class ToolAnswer(NamedTuple):
    """A tool's answer, and whether it is an error that the agent can mend."""

    text: str
    error: bool = False


class WrongArguments(Exception):  # noqa: N818 - becomes an answer, never an error of the caller's
    """Arguments that can't be used; the message says which can."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Search and read for the agent of one thread: nothing it passes can reach another one."""

    archive: Archive
    scope: Scope
    _: KW_ONLY
    format: Format | None = None
    """Reads messages that no built-in format does."""
    room: int = lookup.RESULT_ROOM_CHARACTERS
    """Characters that the answer to a search may take."""
    live: Callable[[], Sequence[Part] | None] | None = None
    """Returns what is still in the context, which is then searched too; None where it can't say."""
    whose: str = "this conversation"
    """What the thread is to the agent that asks."""

    def schemas(self, dialect: str) -> list[dict[str, Any]]:
        """Return both tools as requests of this wire format offer them, or as MCP does."""
        if dialect != MCP_DIALECT and dialect not in FORMATS:
            raise SettingsError(f"no tool schemas for {dialect!r}: choose one of {', '.join((*FORMATS, MCP_DIALECT))}")
        return [_build_schema(name, dialect) for name in (SEARCH_TOOL, READ_TOOL)]

    def call(self, name: str, arguments: Mapping[str, Any] | str | None) -> str:
        """Return the tool's answer as text; never raise: what is wrong with the call or the archive is the answer."""
        return self.answer(name, arguments).text

    def answer(self, name: str, arguments: Mapping[str, Any] | str | None) -> ToolAnswer:
        """Return what `call` does, and whether it is an error: for hosts that mark it."""
        answers = {SEARCH_TOOL: self._search, READ_TOOL: self._read}
        if name not in answers:
            text = f"{RECALL_MARK} there is no tool {quote(str(name), 60)}: call {SEARCH_TOOL} or {READ_TOOL}."
            return ToolAnswer(text, error=True)
        try:
            return ToolAnswer(answers[name](parse_arguments(arguments, TOOL_PARAMETERS[name])))
        except (WrongArguments, UnabridgedError) as error:
            return ToolAnswer(f"{RECALL_MARK} {error}", error=True)

    def _search(self, arguments: Mapping[str, Any]) -> str:
        return self.search(*parse_search_arguments(arguments)).text()

    def search(self, query: str, limit: int) -> Found:
        """Return what a search finds, as a value."""
        live = None if self.live is None else self.live()
        results = lookup.search(self.archive, self.scope, query, limit, room=self.room, format=self.format, live=live)
        return replace(results, whose=self.whose)

    def _read(self, arguments: Mapping[str, Any]) -> str:
        ref = arguments.get("ref")
        if isinstance(ref, int) and not isinstance(ref, bool):
            ref = str(ref) if abs(ref) < 10**9 else "too large"
        if not isinstance(ref, str) or not ref.strip():
            wanted = f"`ref`, one that {SEARCH_TOOL} gave, or a turn's number"
            raise WrongArguments(f'{READ_TOOL} needs {wanted}: {{"ref": "12"}}.')
        offset = _read_whole_number(arguments, "offset", 0, (0, 10**12))
        return lookup.read(self.archive, self.scope, ref, offset, format=self.format).text()


tools = Tools


def parse_search_arguments(arguments: Mapping[str, Any]) -> tuple[str, int]:
    """Return the query and the limit of a search; raise `WrongArguments` where they can't be used."""
    query = arguments.get("query")
    if not isinstance(query, str) or not query.strip():
        raise WrongArguments(f'{SEARCH_TOOL} needs `query`, the words to look for: {{"query": "invoice 4711"}}.')
    return query, _read_whole_number(arguments, "limit", lookup.DEFAULT_RESULTS, (1, MAX_RESULTS))


def _build_schema(name: str, dialect: str) -> dict[str, Any]:
    description, parameters = TOOL_DESCRIPTIONS[name], deepcopy(TOOL_PARAMETERS[name])
    if dialect == MCP_DIALECT:
        return {"name": name, "description": description, "inputSchema": parameters}
    return FORMATS[dialect].tool_schema(name, description, parameters)


def parse_arguments(arguments: Mapping[str, Any] | str | None, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments as an object with nothing unknown in it; raise `WrongArguments` where they are none."""
    names = ", ".join(schema["properties"])
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            raise WrongArguments(f"the arguments are not JSON: pass an object with {names}.") from None
    if not isinstance(arguments, Mapping):
        raise WrongArguments(f"the arguments must be an object with {names}.")
    unknown = [str(name) for name in arguments if name not in schema["properties"]]
    if unknown:
        raise WrongArguments(f"there is no argument {quote(unknown[0], 60)}: pass {names}.")
    return arguments


def _read_whole_number(arguments: Mapping[str, Any], name: str, default: int, bounds: tuple[int, int]) -> int:
    """Return a whole number within bounds; one as text, which models like to write, counts, too."""
    value = arguments.get(name)
    if value is None:
        return default
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 15:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    low, high = bounds
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise WrongArguments(f"`{name}` must be a whole number from {low:,} to {high:,}, not {quote(str(value)[:60])}.")
    return value
