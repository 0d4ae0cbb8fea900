"""The layout: nothing imports upward, nothing in a circle, and each room knows only what it should."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from places import ROOT
from syntax import parse_file

SOURCES = sorted((ROOT / "packages").glob("*/src"))
SOURCE = ROOT / "packages" / "unabridged" / "src" / "unabridged"

LAYERS = (
    {"errors", "file_lock", "messages", "text_cache"}, {"languages"}, {"text_tools"}, {"marks"}, {"formats"},
    {"legality"}, {"tokens"}, {"archive"}, {"authorship"}, {"settings", "events"}, {"asking"}, {"history"}, {"summary"},
    {"results", "sizes"}, {"recall"}, {"engine"}, {"arguments"}, {"archive_access"}, {"compactor"},
    {"sessions", "telemetry", "live"},
    {"adapters"}, {"unabridged"}, {"__main__"},
    {"unabridged_corpus", "unabridged_testing"}, {"unabridged_cli"}, {"unabridged_gateway"},
)  # fmt: skip
"""From the bottom to the top: each imports only what stands below it, and its own. `unabridged` is the list of public
names, each loaded when it is used; above it stand the other distributions."""
UPWARD = {"unabridged.adapters.claude_agent_sdk.hooks"}
"""Its extra brings `unabridged-cli`, whose hook it calls: imported where it is used."""
DOORS = set[str]().union(*LAYERS[-6:]) - {"unabridged"}
HEIGHT = {room: height for height, rooms in enumerate(LAYERS) for room in rooms}
FRAMEWORKS = (
    "agent_framework", "claude_agent_sdk", "deepagents", "fastapi", "httpx", "langchain", "langgraph", "llama_index",
    "openai", "pydantic", "requests", "starlette", "strands",
)  # fmt: skip
MAY_IMPORT = {"archive", "asking", "tokens", "recall", "telemetry"}
"""Rooms of the core that load a library of their extra where it is used: a driver, an SDK, a tokenizer."""

OPENS_CONNECTIONS = {
    "unabridged_cli.event_source",  # `watch URL`
    "unabridged_cli.mcp_server",  # listens
    "unabridged_corpus.cluster",  # whether `--ray ADDRESS` answers
    "unabridged_gateway.metrics",  # names an error
    "unabridged_gateway.server",  # listens
    "unabridged_gateway.upstream",  # the upstreams of the configuration
}
"""Modules that import a client of the network. Models, databases and buckets are asked by the libraries of extras."""


def name_of(path: Path) -> str:
    (source,) = (source for source in SOURCES if path.is_relative_to(source))
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for source in SOURCES for path in sorted(source.rglob("*.py"))}


def room(module: str) -> str:
    """The package or file directly below the library's root that a module stands in; else its distribution."""
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == "unabridged" and rest else package


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return every node of a file's syntax tree."""
    return tuple(ast.walk(parse_file(path)))


def imported(path: Path) -> Iterator[str]:
    """Yield every module that a file imports: at the top, in a function, or for types only."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@cache
def imports() -> dict[str, set[str]]:
    """Return what each module imports besides itself."""
    return {module: set(imported(path)) - {module} for module, path in MODULES.items()}


SAME_CLASS_NAMES = {
    "Compaction",  # what `fit` returns, and the capability of Pydantic AI, named as that framework names its own
}
"""Public names that mirror a framework's: the only class names that the published packages use twice."""


def test_no_class_name_is_used_twice() -> None:
    files: dict[str, set[str]] = defaultdict(set)
    for module, path in MODULES.items():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                files[node.name].add(module)
    assert {name: where for name, where in files.items() if len(where) > 1 and name not in SAME_CLASS_NAMES} == {}


MOST_FIELDS = 12
LARGE_CARRIERS = {"Settings", "RecordData", "View", "Receipt", "Result"}
"""Public or stored, and read field by field: settings, a message, a compaction, a search."""


def test_no_carrier_has_many_fields() -> None:
    """A dataclass, NamedTuple or TypedDict with more fields than this says that it is several things."""
    large: dict[str, int] = {}
    for path in MODULES.values():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and is_carrier(node):
                fields = sum(isinstance(item, ast.AnnAssign) for item in node.body)
                if fields > MOST_FIELDS and node.name not in LARGE_CARRIERS:
                    large[node.name] = fields
    assert large == {}


def is_carrier(node: ast.ClassDef) -> bool:
    """Return whether a class is a dataclass, a NamedTuple or a TypedDict."""
    words = [ast.unparse(item) for item in (*node.decorator_list, *node.bases)]
    return any(word.startswith(("dataclass", "NamedTuple", "TypedDict")) for word in words)


def test_nothing_imports_upward() -> None:
    # R47
    assert {room(module) for module in MODULES} == set(HEIGHT), "every room has its layer"
    upward = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in others & MODULES.keys()
        if room(other) != room(module) and HEIGHT[room(other)] >= HEIGHT[room(module)] and module not in UPWARD
    ]
    assert not upward, "\n".join(upward)


def test_no_module_is_imported_in_a_circle() -> None:
    graph: dict[str, set[str]] = defaultdict(set)
    for module, others in imports().items():  # a package's `__init__` is loaded before what is in it
        graph[module] = {other for other in others & MODULES.keys() if not module.startswith(f"{other}.")}
    TopologicalSorter(graph).prepare()  # raises CycleError with the circle


def test_the_core_imports_no_framework_and_no_http_library() -> None:
    found = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in others
        if room(module) not in DOORS | MAY_IMPORT and other.partition(".")[0].startswith(FRAMEWORKS)
    ]
    assert not found, "\n".join(found)


def test_only_named_modules_can_open_a_connection_of_their_own() -> None:
    clients = ("aiohttp", "http.client", "httpx", "requests", "smtplib", "socket", "urllib.request", "urllib3")
    found = {
        module
        for module, others in imports().items()
        for other in others
        if other in clients or other.startswith(tuple(f"{client}." for client in clients))
    }
    assert found == OPENS_CONNECTIONS, "SECURITY.md promises that nothing is sent but to what the user names"


def test_the_core_is_small_enough_to_find_ones_way_in() -> None:
    core = [path for module, path in MODULES.items() if room(module) not in DOORS]
    assert len(core) < 165


def test_words_of_a_language_stand_in_its_file() -> None:
    tables = sorted((SOURCE / "languages").glob("*.json"))
    assert {path.stem for path in tables} >= {"en", "de", "es", "fr", "ja", "zh"}
    others = [path for path in SOURCE.rglob("*.json") if path.parent.name != "languages"]
    folders = {"asking", "tokens", "authorship", "summary"}
    assert {path.parent.name for path in others} <= folders, "but for what others write"
    tables_of_others = {path.name for path in others if path.parent.name != "tokens"}
    assert tables_of_others == {"frames.json", "tools.json", "overflow.json", "bad_replies.json"}
    english = json.loads((SOURCE / "languages" / "en.json").read_text(encoding="utf-8"))
    assert all(set(json.loads(path.read_text(encoding="utf-8"))) <= set(english) for path in tables)


def test_the_page_on_the_architecture_names_every_room_and_no_file_that_is_not_there() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = {room(module) for module in MODULES if module.startswith("unabridged.")}
    assert [name for name in sorted(rooms) if f"`{name}/`" not in page and f"`{name}.py`" not in page] == []
    named = {name for name in re.findall(r"`([\w/]+\.py)`", page) if not name.startswith("tests/")}
    here = {"/".join(path.parts[-depth:]) for path in MODULES.values() for depth in range(1, 5)}
    assert sorted(name for name in named if name not in here) == []
