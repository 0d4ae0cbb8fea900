"""Shorten a conversation in the ways that are compared, each within the same budget of tokens.

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
from unabridged.formats import get_format
from unabridged.results import Compaction
from unabridged.settings import Settings
from unabridged.summary.gather import gather_ledger
from unabridged.summary.layout import render_within_budget
from unabridged.summary.ledger import Ledger
from unabridged_corpus.evaluate import peers
from unabridged_corpus.evaluate.cut_points import Arm, ArmFactory, CountFunction, CutPoint, join_last_texts

SUMMARY_START = "[unabridged summary "
KEPT_MESSAGES = 20
"""Messages that LangChain's middleware keeps by default, and `unabridged+20` for comparison."""


def build_unabridged_arm(budget: int, count: CountFunction) -> Arm:
    """Return our summary turns without a model, each made from the ledger of the one before and what came since."""
    start, prior = 0, Ledger()

    def arm(cut_point: CutPoint) -> str:
        nonlocal start, prior
        prior = gather_ledger(cut_point.before[start:], prior=prior, first_turn=start)
        start = cut_point.place
        return render_within_budget(prior, budget, count, kept=cut_point.kept).text()

    return arm


def build_arm_with_last_messages(budget: int, count: CountFunction) -> Arm:
    """Return the same beside the last 20 messages, to compare with a peer that keeps those on top of its summary."""
    summary = build_unabridged_arm(budget, count)
    return lambda cut_point: "\n".join(
        [summary(cut_point), *(view.whole_text() for view in cut_point.before[-KEPT_MESSAGES:])]
    )


def build_tail_arm(budget: int, count: CountFunction) -> Arm:
    """Return the last messages, as many as fit."""
    return lambda cut_point: join_last_texts(cut_point.before, budget, count)


def build_model_arm(model: Any) -> ArmFactory:
    """Return our summary turns with a model's prose in them."""

    def begin(budget: int, _count: CountFunction) -> Arm:
        shorten = build_shortener(model, budget)
        carried: list[Any] = []
        start = 0

        def arm(cut_point: CutPoint) -> str:
            nonlocal start, carried
            carried = [*carried, *cut_point.conversation.messages[start : cut_point.place]]
            start = cut_point.place
            carried = list(shorten(carried, cut_point.conversation.name).messages)
            return find_summary_text(carried, cut_point.conversation.format)

        return arm

    return begin


def build_shortener(
    model: Any, budget: int, pay: Callable[[Mapping[str, float]], None] = lambda _: None
) -> Callable[[list[Any], str], Compaction]:
    """Return a function that compacts a conversation to our summary turn and its last two messages.

    It raises `SettingsError` where that fails, and calls `pay` with what the model took, even for nothing.
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


def find_summary_text(messages: Iterable[Any], format_: str) -> str:
    """Return the summary turn of a list that was compacted."""
    read = get_format(format_).read
    return "\n".join(text for text in (read(one).text for one in messages) if text.startswith(SUMMARY_START))


def choose_arms(names: list[str], model: Any = None) -> dict[str, ArmFactory]:
    """Return the arms with these names; by default all that can run here."""
    known: dict[str, ArmFactory] = {"unabridged": build_unabridged_arm}
    if model is not None:
        known["model"] = build_model_arm(model)
    known["tail"] = build_tail_arm
    if peers.is_langchain_installed():
        known["langchain"] = peers.build_langchain_arm(trim=peers.DEFAULT_TRIM_TOKENS)
        known["langchain-untrimmed"] = peers.build_langchain_arm(trim=None)
        known["unabridged+20"] = build_arm_with_last_messages
    unknown = [name for name in names if name not in known]
    if unknown:
        missing = " (needs --model)" if unknown[0] == "model" else ""
        missing = " (needs pip install 'unabridged[langchain]')" if unknown[0].startswith("langchain") else missing
        raise SettingsError(f"there is no arm {unknown[0]!r}{missing} here: choose from {', '.join(known)}")
    return {name: known[name] for name in names or known}
