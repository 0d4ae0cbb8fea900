"""A client that grows its conversation over its own limit, compacts, and asks our record for a fact from before."""

from __future__ import annotations

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

RULE = "Never edit anything under vendor/, not even to fix a typo."
REQUEST = f"Write the tide report for all five stations into report.txt. {RULE}"
FACT = "KESTREL-7319"
SUMMARY = (
    "<summary>\nThe user wants a report about tide stations. Some stations were read; the next ones follow.\n</summary>"
)
STEPS = 14


class Check(NamedTuple):
    """Something that must hold, and whether it does."""

    what: str
    holds: bool
    detail: str = ""


@dataclass(slots=True)
class Model:
    """What the model says: it reads much, and once its context was compacted it searches for the fact."""

    driver: Driver
    upstream: Loopback | None = None
    asked: list[str] = field(default_factory=list)
    """The tools that it searched with."""

    def __call__(self, number: int, request: Request) -> Answer:
        """The answer to a turn."""
        if self.upstream is not None and self.upstream.of("compaction"):
            tool = next((name for name in tool_names(request) if name.endswith("search_history")), None)
            if self.asked or tool is None:
                return Answer("Done.")
            self.asked.append(tool)
            return Answer("I need the depot's code.", Call(tool, {"query": "depot code"}))
        if number >= STEPS:
            return Answer("Done without a compaction.")
        command = f"seq -f 'station {number} level %g cm' 1 900" if number else f"echo 'The depot code is {FACT}'"
        return Answer(f"Reading station {number}.", Call(self.driver.shell, {self.driver.argument: command}))


def tool_names(request: Request) -> Iterator[str]:
    """Every tool that the request offers."""
    for tool in request.body.get("tools") or ():
        if tool.get("type") == "namespace":
            yield from (str(inner.get("name")) for inner in tool.get("tools") or ())
        elif tool.get("name"):
            yield str(tool["name"])


def grow(driver: Driver, place: Place, before: Callable[[Place], None] = lambda _place: None) -> list[Check]:
    """Run the client with our hooks over its limit; what held. `before` may spoil something first."""
    place.environment["UNABRIDGED_ARCHIVE"] = f"sqlite:///{place.home / 'archive.db'}"
    model = Model(driver)
    with serving(Loopback(SUMMARY, model)) as upstream:
        model.upstream = upstream
        driver.prepare(place, upstream)
        installed = unabridged(place, "install", driver.name)
        before(place)
        done = driver.start(place, REQUEST)
        checks = [
            Check("install says it is done", installed.returncode == 0, installed.stderr[-300:]),
            Check("the client ends well", done.returncode == 0, (done.stderr or done.stdout)[-300:]),
            Check("it compacted by itself", bool(upstream.of("compaction")), f"{len(upstream.requests)} requests"),
        ]
        return checks + (list(_after(model, upstream, place)) if upstream.of("compaction") else [])


def _after(model: Model, upstream: Loopback, place: Place) -> Iterator[Check]:
    context = flat(upstream.after_compaction().text())
    yield Check("the rule stands word for word", RULE in context)
    yield Check("the request stands word for word", flat(REQUEST) in context)
    yield Check("the fact has left the context", FACT not in context)
    kept = _kept(place.home / "archive.db")
    yield Check("the archive has the fact", FACT in kept)
    stations = [f"station {number} level 900 cm" for number in range(1, 5)]
    yield Check("the archive has every result from before", all(one in kept for one in stations))
    yield Check(
        "the model is offered our search", bool(model.asked), ", ".join(tool_names(upstream.requests[-1]))[:300]
    )
    found = FACT in flat(upstream.requests[-1].text())
    yield Check("the search gives the fact back", found, upstream.requests[-1].text()[-300:])


def _kept(path: Path) -> str:
    if not path.is_file():
        return ""
    archive = open_archive(f"sqlite:///{path}")
    try:
        threads = archive.threads(NAMESPACE)
        return "\n".join(part.text for thread in threads for part in archive.parts(Scope(NAMESPACE, thread)))
    finally:
        archive.close()
