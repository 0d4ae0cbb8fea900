"""A client that grows its conversation over its own limit, compacts, and asks our record for a fact from before."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from real_clients.clients import Driver, Place, unabridged
from real_clients.loopback import Loopback, Request, serving
from real_clients.recorded import NAMESPACE, flat
from real_clients.streams import Answer, Call
from unabridged.archive import open_archive
from unabridged.archive.protocol import Scope
from unabridged.errors import ArchiveError
from unabridged_cli.clients.hook.log import log_file_path

RULE = "Never edit anything under vendor/, not even to fix a typo."
REQUEST = f"Write the tide report for all five stations into report.txt. {RULE}"
FACT = "KESTREL-7319"
SUMMARY = (
    "<summary>\nThe user wants a report about tide stations. Some stations were read; the next ones follow.\n</summary>"
)
SEARCH = "search_history"
STEPS = 20
_CODE = re.compile(r"KESTREL-\d{4}")
_ONE_BY_ONE = threading.Lock()
"""Two that run at once may share a home: its configuration is written by one of them at a time."""
_EVENTS = {True: ("PreCompact", "SessionStart compact", "PostCompact"), False: ("session_before_compact",)}
"""What the log must tell of: of clients that call commands, and of pi."""


class Check(NamedTuple):
    """A sentence that must hold, and whether it does."""

    what: str
    holds: bool
    detail: str = ""


@dataclass(slots=True)
class Model:
    """A scripted model that reads much, and searches for the fact once its context was compacted."""

    driver: Driver
    upstream: Loopback | None = None
    asked: list[str] = field(default_factory=list)
    """The tools that it called for that."""

    def __call__(self, number: int, request: Request) -> Answer:
        """Return the answer to a turn."""
        if self.upstream is not None and self.upstream.after_compaction():
            call = self.recall(request)
            return Answer("I need the depot's code." if call else "Done.", call)
        if number >= STEPS:
            return Answer("Done without a compaction.")
        command = f"seq -f 'station {number} level %g cm' 1 900" if number else "sh depot.sh"
        return Answer(f"Reading station {number}.", Call(self.driver.shell, {self.driver.argument: command}))

    def recall(self, request: Request) -> Call | None:
        """Return a call of our search; where the client defers tools, first a call of its own search for tools."""
        found = next((tool for tool in tools_in(request) if tool.name.endswith(SEARCH)), None)
        if found is not None and found.name not in self.asked:
            self.asked.append(found.name)
            return Call(found.name, {"query": "depot code"}, found.namespace)
        if found is None and not self.asked:
            self.asked.append(self.driver.find_tool)
            names = ",".join(f"mcp__{server}__{SEARCH}" for server in ("unabridged", "plugin_unabridged_unabridged"))
            query = f"select:{names}" if self.driver.name == "claude-code" else SEARCH
            return Call(self.driver.find_tool, {"query": query})
        return None


class Tool(NamedTuple):
    """A tool that a request offers."""

    name: str
    namespace: str = ""


def tools_in(request: Request) -> Iterator[Tool]:
    """Yield every tool that the request offers, including those that a search for tools returned."""
    listed = [*(request.body.get("tools") or ())]
    for turn in request.turns():
        if turn.get("type") == "tool_search_output":
            listed += turn.get("tools") or ()
    for tool in listed:
        if tool.get("type") == "namespace":
            yield from (Tool(str(inner.get("name")), str(tool["name"])) for inner in tool.get("tools") or ())
        elif tool.get("name"):
            yield Tool(str(tool["name"]))


def grow(driver: Driver, place: Place, before: Callable[[Place], None] = lambda _place: None) -> list[Check]:
    """Run the client with our hooks over its limit; what held. `before` may spoil something first."""
    model = Model(driver)
    with serving(Loopback(SUMMARY, model)) as upstream:
        model.upstream = upstream
        with _ONE_BY_ONE:
            driver.prepare(place, upstream)
            installed = unabridged(place, "install", driver.name)
        before(place)
        write_depot(place)
        done = driver.start(place, REQUEST)
        after = upstream.after_compaction()
        checks = [
            Check("install says it is done", installed.returncode == 0, installed.stderr[-300:]),
            Check("the client ends well", done.returncode == 0, (done.stderr or done.stdout)[-300:]),
            Check("it compacted by itself", after is not None, f"{len(upstream.requests)} requests"),
        ]
        if after is None:
            return checks
        return [*checks, _were_called(driver, place), *after_growing(upstream, after, place)]


def _were_called(driver: Driver, place: Place) -> Check:
    log = log_file_path(place.environ())
    told = log.read_text(encoding="utf-8") if log.is_file() else ""
    return Check("every hook was called", all(f"({event}" in told for event in _EVENTS[driver.hooks]), told[-300:])


def write_depot(place: Place) -> None:
    """Write the project: a script that prints the fact, since a client may restore files it read to the context."""
    place.write(
        "project/depot.sh", f"seq -f 'pier %g is open' 300; echo The depot code is ${{DEPOT:-{FACT}}}; seq 300\n"
    )


def after_growing(upstream: Loopback, after: Request, place: Place) -> Iterator[Check]:
    """Check the first request after the compaction, and the archive."""
    context = flat(after.text())
    yield Check("the rule stands word for word", RULE in context)
    yield Check("the request stands word for word", flat(REQUEST) in context)
    fact = place.environment.get("DEPOT", FACT)
    yield Check("the fact has left the context", fact not in context)
    kept = kept_in(place.archive)
    yield Check("the archive has the fact", fact in kept)
    missing = [words for words in _said_before(upstream.of("turn").index(after)) if words not in kept]
    yield Check("the archive has every message from before", not missing, ", ".join(missing))
    # In a list of its own where the client keeps tools back until they are asked for.
    offered = SEARCH in json.dumps(after.body)
    yield Check(
        "the model is offered our search",
        offered,
        ", ".join(tool.name for tool in tools_in(upstream.requests[-1]))[:300],
    )
    found = set(_CODE.findall(upstream.requests[-1].text()))
    yield Check("the search gives the fact back, and no other session's", found == {fact}, str(found))


def _said_before(turns: int) -> list[str]:
    """Return the request, and for each turn the model's text and the end of what its command printed."""
    said = [f"Reading station {number}." for number in range(turns)]
    return [REQUEST, *said, *(f"station {number} level 900 cm" for number in range(1, turns))]


def kept_in(path: Path, namespace: str = NAMESPACE) -> str:
    """Return every text in the archive, or nothing when it cannot be opened."""
    if not path.is_file():
        return ""
    try:
        archive = open_archive(f"sqlite:///{path}", wait=1)
    except ArchiveError:  # broken, or locked, on purpose
        return ""
    try:
        scopes = [Scope(namespace, thread) for thread in archive.threads(namespace)]
        return "\n".join(part.text for scope in scopes for part in archive.parts(scope))
    finally:
        archive.close()
