"""Builders for tests of summaries: views in a line, a block, and replies that pass or fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from unabridged.asking.ask import Ask, Reply
from unabridged.asking.asker import Asker
from unabridged.asking.drivers import arun_generator, run_generator
from unabridged.asking.exchange import Exchange
from unabridged.messages import Answer, Call, View
from unabridged.summary.ask_loop import ModelSummary, summarise
from unabridged.summary.brief import Brief, CarriedSummary, LivePrompt, Summariser, SummaryLimits, Surroundings
from unabridged.summary.chunks import FRAME_TOKENS, group_into_runs, plan_asks
from unabridged.summary.originals import EarlierProse

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


class Task(NamedTuple):
    """What `summarise` is given."""

    brief: Brief
    model: Summariser


def make_brief(
    views: Sequence[View],
    *,
    budget: int = 400,
    prior: str = "",
    proses: Sequence[EarlierProse] = (),
    beside: Sequence[View] = (),
    following: Sequence[tuple[int, View]] = (),
    other_text: str = "",
    **options: Any,
) -> Brief:
    """Return a brief from flat options."""
    surroundings = Surroundings(following, beside, other_text=other_text)
    earlier = CarriedSummary(prior, proses=proses)
    return Brief(views, SummaryLimits(budget), count, earlier=earlier, beside=surroundings, **options)


def calls_bound(brief: Brief, model: Summariser) -> int:
    """The most model calls that a summary takes: two for each chunk and for each fold.

    A reply that was cut off where there was little room for it is asked for once more, apart.
    """
    plan = plan_asks(brief, model)
    if plan.tight:
        return 2 + calls_bound(brief, replace(model, live=None))
    if plan.live is not None or plan.single:
        return 2
    asks = len(plan.chunks)
    sizes = [brief.count(plan.prior_note)] * bool(plan.prior_note) + [plan.note] * asks
    while len(runs := group_into_runs([size + FRAME_TOKENS for size in sizes], plan.fold_room)) > 1:
        asks += len(runs)
        sizes = [plan.note] * len(runs)
    return 2 * (asks + 1)


def block(views: Sequence[View] | None = None, **options: Any) -> Task:
    model = {name: options.pop(name) for name in Summariser.__dataclass_fields__ if name in options}
    brief = make_brief(talk(12) if views is None else views, **options)
    return Task(brief, Summariser(**{"window": 32_768, **model}))


def ends(text: str, **fields: Any) -> Reply:
    """A reply whose model said that it was done."""
    return Reply(text, fields.pop("stop", "end"), **fields)


Ran = Callable[[Generator[Ask, Reply, Any], Asker], Any]


def run(steps: Generator[Ask, Reply, Any], asker: Asker) -> Any:
    """Drive anything that yields asks to its end."""
    return run_generator(steps, Exchange(asker).ask)


def run_async(steps: Generator[Ask, Reply, Any], asker: Asker) -> Any:
    """`run` with the driver of an event loop."""

    async def body() -> Any:
        return await arun_generator(steps, Exchange(asker).aask)

    return asyncio.run(body())


BOTH = (run, run_async)
"""The two drivers; whatever is tried with one is tried with the other."""


def quick(model: Any, **options: Any) -> Asker:
    """An asker that does not make a test wait."""
    return Asker(model, **{"back_off": 0.0, "deadline": 30.0, **options})


def summary_of(scripted: Any, given: Task | None = None, ran: Ran = run, **options: Any) -> ModelSummary:
    summary: ModelSummary = ran(summarise(*(given or block())), quick(scripted, **options))
    return summary


def live(tokens: int = 5_000, tail: int = 0) -> LivePrompt:
    messages = [{"role": "user", "content": view.text} for view in talk(4)]
    return LivePrompt(messages, tokens, system="You are a builder.", tools=[{"name": "bash"}], kept=2, kept_tokens=tail)
