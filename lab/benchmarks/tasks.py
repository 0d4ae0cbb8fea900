"""Replay whole recorded tasks through an arm: `unabridged_corpus.evaluate.task_cost`, with the arm in its process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.data import Recorded, placeless
from benchmarks.driver import PeerEndedError, Process
from benchmarks.harness import MADE
from benchmarks.policies import count
from unabridged_corpus.evaluate.task_cost import (
    MeasuredMessage,
    Miss,
    SentRequest,
    SideAsk,
    TaskRecall,
    measure_messages,
    measure_schemas,
    replay_task,
)
from unabridged_testing import refusals


def replay_one(
    process: Process, given: Recorded, on_miss: Callable[[Miss], object] = lambda _: None, **start: Any
) -> dict[str, Any]:
    """Return what one task took."""
    system = ProcessSystem(process, given, **start)
    cost = replay_task(given.task(), system, on_miss=on_miss)
    return {"name": given.name, "data": given.data, "ended": system.ended, **asdict(cost)}


class ProcessSystem:
    """An arm that runs in a process of its own, and whose requests are judged as the recording would be."""

    def __init__(self, process: Process, given: Recorded, **start: Any) -> None:
        self.ended = False
        self._process, self._given, self._window = process, given, start["window"]
        schemas = process.ask("start", **start)["schemas"]
        self.recall = TaskRecall(measure_schemas(schemas, count), self._search) if schemas else None
        self._recorded = set(map(id, given.task().messages))
        self._fed: list[MeasuredMessage] = []
        self._made: dict[int, MeasuredMessage] = {}
        self._usage: int | None = None

    def send(self, new: Sequence[MeasuredMessage]) -> SentRequest | None:
        """Return what the arm sends; None where it raised or its process ended."""
        self._fed += new
        try:
            answer = self._process.ask("turn", new=[one.message for one in new], usage=self._usage)
        except PeerEndedError:
            self.ended = True
            return None
        if answer["error"]:
            return None
        made = zip(map(int, answer["made"]), measure_messages(list(answer["made"].values()), count), strict=True)
        self._made |= dict(made)
        rate = self._given.rate
        asks = [
            SideAsk(self._find(call["live"]), round(rate * call["shown"]), round(rate * call["reply"]))
            for call in answer["calls"]
        ]
        request = self._find(answer["request"])
        self._usage = sum(one.tokens for one in request) + (self.recall.schemas.tokens if self.recall else 0)
        return SentRequest(request, asks, self._is_accepted(request))

    def _find(self, numbers: Sequence[int]) -> list[MeasuredMessage]:
        return [self._fed[number] if number < MADE else self._made[number] for number in numbers]

    def _search(self, query: str) -> str:
        return str(self._process.ask("search", query=query)["text"])

    def _is_accepted(self, request: Sequence[MeasuredMessage]) -> bool:
        """Return whether the request fits the window and is legal; the recording's own faults may remain."""
        reasons = refusals("openai-chat", [one.message for one in request])
        known = self._given.faults(sum(id(one) in self._recorded for one in self._fed)) if reasons else frozenset()
        return (self._usage or 0) <= self._window and all(placeless(reason) in known for reason in reasons)
