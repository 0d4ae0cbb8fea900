"""Builders for tests of summaries: views in a line, a block, and replies that pass or fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import Any

from unabridged.asking.asker import Asker
from unabridged.asking.drivers import adrive, drive
from unabridged.asking.exchange import Exchange
from unabridged.messages import Answer, Call, View
from unabridged.summarise.block import Ask, Block, Reply, Summary, summarise

GOOD = (
    "### Goals and constraints\nThe user wants the importer repaired without touching the public interface.\n"
    "### Current state and what remains\nThe parser was rewritten and its tests pass; the documentation is left to do."
)


def count(text: str) -> int:
    """Four bytes a token: simple, and good enough to prove bounds with."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def person(text: str) -> View:
    return View("user", "person", text)


def model(text: str) -> View:
    return View("assistant", "model", text)


def used(name: str, arguments: str, answer: str, number: int = 0) -> list[View]:
    """A tool call and its answer."""
    id_ = f"{name}-{number}"
    return [
        View("assistant", "model", calls=(Call(id_, name, arguments),)),
        View("tool", "tool", answers=(Answer(id_, answer),)),
    ]


def talk(turns: int, words: int = 60) -> list[View]:
    """Plain English turns; every message has a mark that occurs nowhere else."""
    views: list[View] = []
    for i in range(turns):
        filler = " ".join(f"item{i}n{j}" for j in range(words))
        views.append(
            person(
                f"Please repair the part of the importer that reads mark{2 * i}end, not its public interface: {filler}"
            )
        )
        views.append(model(f"I have looked at it, and this was wrong with mark{2 * i + 1}end: {filler}"))
    return views


def block(views: Sequence[View] | None = None, **options: Any) -> Block:
    settings: dict[str, Any] = {"budget": 400, "window": 32_768, "count": count, **options}
    return Block(talk(12) if views is None else views, **settings)


def ends(text: str, **fields: Any) -> Reply:
    """A reply whose model said that it was done."""
    return Reply(text, fields.pop("stop", "end"), **fields)


Ran = Callable[[Generator[Ask, Reply, Any], Asker], Any]


def run(steps: Generator[Ask, Reply, Any], asker: Asker) -> Any:
    """Drive anything that yields asks to its end."""
    return drive(steps, Exchange(asker).ask)


def run_async(steps: Generator[Ask, Reply, Any], asker: Asker) -> Any:
    """`run` with the driver of an event loop."""

    async def body() -> Any:
        return await adrive(steps, Exchange(asker).aask)

    return asyncio.run(body())


BOTH = (run, run_async)
"""The two drivers; whatever is tried with one is tried with the other."""


def quick(model: Any, **options: Any) -> Asker:
    """An asker that does not make a test wait."""
    return Asker(model, **{"back_off": 0.0, "deadline": 30.0, **options})


def summary_of(scripted: Any, given: Block | None = None, ran: Ran = run, **options: Any) -> Summary:
    summary: Summary = ran(summarise(given or block()), quick(scripted, **options))
    return summary
