"""The ways to shorten a conversation that are compared, each within the same budget of tokens.

An arm is begun anew for every conversation and budget, and then asked at one cut after another: what it carries over is
what a long-running agent would.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

from unabridged.compactor import Compactor
from unabridged.errors import SettingsError
from unabridged.events import Event, Failed
from unabridged.formats import format_named
from unabridged.ledger.entries import Ledger
from unabridged.ledger.gather import gather
from unabridged.ledger.summary_turn import render
from unabridged.outcome import Compaction
from unabridged.settings import Settings
from unabridged_corpus.evaluate import peers
from unabridged_corpus.evaluate.moments import Arm, Begin, Count, Moment, last_texts

SUMMARY = "[unabridged summary "
KEPT = 20
"""Messages that LangChain's middleware keeps by default, and `unabridged+20` for comparison."""


def unabridged(budget: int, count: Count) -> Arm:
    """Our summary turn without a model, each made from the ledger of the one before and what came since."""
    start, prior = 0, Ledger()

    def arm(moment: Moment) -> str:
        nonlocal start, prior
        prior = gather(moment.before[start:], prior=prior, first_turn=start)
        start = moment.place
        return render(prior, budget, count, kept=moment.kept).text()

    return arm


def with_last_messages(budget: int, count: Count) -> Arm:
    """The same beside the last 20 messages: what compares with a peer that keeps those on top of its summary."""
    summary = unabridged(budget, count)
    return lambda moment: "\n".join([summary(moment), *(view.whole_text() for view in moment.before[-KEPT:])])


def plain_tail(budget: int, count: Count) -> Arm:
    """The last messages, as many as fit."""
    return lambda moment: last_texts(moment.before, budget, count)


def with_model(model: Any) -> Begin:
    """Our summary turn with a model's prose in it."""

    def begin(budget: int, _count: Count) -> Arm:
        shorten = shortener(model, budget)
        carried: list[Any] = []
        start = 0

        def arm(moment: Moment) -> str:
            nonlocal start, carried
            carried = [*carried, *moment.conversation.messages[start : moment.place]]
            start = moment.place
            carried = list(shorten(carried, moment.conversation.name).messages)
            return summary_in(carried, moment.conversation.format)

        return arm

    return begin


def shortener(
    model: Any, budget: int, pay: Callable[[Mapping[str, float]], None] = lambda _: None
) -> Callable[[list[Any], str], Compaction]:
    """Compacts a conversation to our summary turn and its last two messages; `SettingsError` where that fails.

    `pay` is told what the model took, for nothing or not.
    """
    settings = Settings(trigger=None, keep=("messages", 2), summary=budget)
    events = deque[Event](maxlen=10)
    compactor = Compactor(model, window=1_000_000, archive="memory:", settings=settings, on_event=events.append)

    def shorten(messages: list[Any], name: str) -> Compaction:
        events.clear()
        done = compactor.compact(messages, thread=sha256(name.encode("utf-8", "surrogatepass")).hexdigest())
        failures = [event for event in events if isinstance(event, Failed) and not event.goes_on]
        for cost in (*(event.cost for event in failures), *([done.receipt.cost] if done and done.receipt else [])):
            pay(cost)
        if done is None:
            why = f"{failures[-1].stage}: {failures[-1].error}" if failures else "nothing was gained"
            writer = "" if model is None else f" by {getattr(model, 'name', model)}"
            raise SettingsError(f"there is no summary{writer} of {name} ({why})")
        return done

    return shorten


def summary_in(messages: Iterable[Any], format_: str) -> str:
    """The summary turn of a list that was compacted."""
    read = format_named(format_).read
    return "\n".join(text for text in (read(one).text for one in messages) if text.startswith(SUMMARY))


def choose_arms(names: list[str], model: Any = None) -> dict[str, Begin]:
    """The arms with these names; by default all that can run here."""
    known: dict[str, Begin] = {"unabridged": unabridged}
    if model is not None:
        known["model"] = with_model(model)
    known["tail"] = plain_tail
    if peers.installed():
        known |= {
            "langchain": peers.langchain(trim=peers.DEFAULT_TRIM),
            "langchain-untrimmed": peers.langchain(trim=None),
            "unabridged+20": with_last_messages,
        }
    unknown = [name for name in names if name not in known]
    if unknown:
        missing = " (needs --model)" if unknown[0] == "model" else ""
        missing = " (needs pip install 'unabridged[langchain]')" if unknown[0].startswith("langchain") else missing
        raise SettingsError(f"there is no arm {unknown[0]!r}{missing} here: choose from {', '.join(known)}")
    return {name: known[name] for name in names or known}
