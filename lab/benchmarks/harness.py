"""The peer's side of every measurement: a peer only defines how it fits a conversation.

Needs nothing but the standard library, so that it runs in every peer's own environment. One JSON object a line:

    {"do": "hello", "packages": ["langchain"]}              -> {"arms": {"LangChain": {…}}, "versions": {…}}
    {"do": "start", "arm": …, "window": …, "fake": …}       -> {"schemas": […]}
    {"do": "turn", "new": [messages], "usage": tokens}      -> {"request": [numbers], "made": {number: message}, …}
    {"do": "originals"}                                     -> {"back": [had back, no longer in the request]}
    {"do": "search", "query": …}                            -> {"text": "…"}
    {"do": "overhead", "arm": …, "size": …, "samples": …}   -> {"seconds": […], "held": bytes, "peak": bytes}

Messages are OpenAI Chat Completions dicts. Those of the conversation are numbered as they come; a message that the
peer makes or changes gets a number from `MADE` on, one for each distinct content, and is sent once.
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from benchmarks.fakes import Asked, Fake

Message = dict[str, Any]
Fit = Callable[[list[Message], int | None], list[Message]]
"""Given what is new and the tokens that the provider reported for the last request: the request to send now."""
MADE = 1_000_000
KEEPS: tuple[dict[str, Any], ...] = ({}, {"keep": 0.25}, {"keep": 0.5})
"""Shares of the window to keep that are tried on the even conversations; the first is the peer's own default."""


@dataclass
class Clock:
    """A timer of the code in `with clock:`, the peer's own work without the conversion of messages."""

    seconds: float = 0.0
    processor: float = 0.0
    spans: list[tuple[float, float]] = field(default_factory=list)
    traced: bool = False
    held: int = 0
    peak: int = 0
    _began: tuple[float, float, int] = (0.0, 0.0, 0)

    def __enter__(self) -> Self:
        if self.traced:
            tracemalloc.reset_peak()
        memory = tracemalloc.get_traced_memory()[0] if self.traced else 0
        self._began = (time.perf_counter(), time.process_time(), memory)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        now, (wall, processor, memory) = time.perf_counter(), self._began
        self.seconds += now - wall
        self.processor += time.process_time() - processor
        self.spans.append((wall, now))
        if self.traced:
            current, peak = tracemalloc.get_traced_memory()
            self.held += current - memory
            self.peak = max(self.peak, peak - memory)

    def waited(self, calls: Sequence[Asked]) -> float:
        """Return the seconds in which the peer waited for its model."""
        overlap = sum(max(0.0, min(b, c.ended) - max(a, c.began)) for a, b in self.spans for c in calls)
        return max(0.0, min(overlap, self.seconds - self.processor))


@dataclass
class Given:
    """What an arm receives at the start of a conversation, and what it may set beside the `Fit` that it returns."""

    window: int
    model: Fake
    clock: Clock
    settings: dict[str, Any]
    originals: Callable[[], Sequence[Message]] = list
    """Returns the messages that can be had back from what the arm keeps beside the request; none unless it is set."""
    schemas: Sequence[Any] = ()
    """Of recall tools, as requests offer them."""
    search: Callable[[str], str] = str
    """Returns what the recall tool answers to a search."""


@dataclass(frozen=True)
class Arm:
    """One way to fit conversations: makes a `Fit` for each; `grid` are the settings to choose from."""

    make: Callable[[Given], Fit]
    model: bool = True
    """Whether it asks a summariser."""
    grid: Sequence[dict[str, Any]] = ({},)


class Originals:
    """A map from a peer's objects to their original messages; it holds the objects, so that no id is reused."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, Message]] = {}

    def add(self, own: object, message: Message) -> Any:
        """Remember the object's message, and return the object."""
        self._known[id(own)] = (own, message)
        return own

    def get(self, own: object) -> Message | None:
        """Return the message that the object was made from; None for an object that the peer made itself."""
        return self._known[id(own)][1] if id(own) in self._known else None


class Numbers:
    """Numbers for messages: by order for those of the conversation, by content for those of the peer."""

    def __init__(self) -> None:
        self._given: list[Message] = []
        self._by_id: dict[int, int] = {}
        self._by_content: dict[str, int] = {}

    def add(self, messages: Sequence[Message]) -> None:
        """Assign numbers to the new messages."""
        for message in messages:
            self._by_id[id(message)] = len(self._given)
            self._given.append(message)

    def count_back(self, request: Sequence[Message], back: Sequence[Message]) -> list[int]:
        """Return how many messages of the conversation are not in the request, and first how many of them are back."""
        shown, found = set(map(_to_json, request)), set(map(_to_json, back))
        gone = [text for text in map(_to_json, self._given) if text not in shown]
        return [sum(text in found for text in gone), len(gone)]

    def of(self, request: Sequence[Message]) -> tuple[list[int], dict[int, Message]]:
        """Return the numbers of a request, and the messages among them that were not numbered before."""
        numbers, made = [], {}
        for message in request:
            number = self._by_id.get(id(message))
            if number is None:
                content = _to_json(message)
                number = self._by_content.get(content)
                if number is None:
                    number = self._by_content[content] = MADE + len(self._by_content)
                    made[number] = message
            numbers.append(number)
        return numbers, made


class Server:
    """A server that carries out one command after another."""

    def __init__(self, arms: dict[str, Arm]) -> None:
        self.arms = arms
        self.clock, self.model = Clock(), Fake()
        self._given = Given(0, self.model, self.clock, {})
        self._fit: Fit | None = None
        self._sent: list[Message] = []
        self._numbers, self._reported = Numbers(), 0

    def hello(self, packages: Sequence[str]) -> dict[str, Any]:
        """Return the arms of this peer, and the installed versions of these packages."""
        versions = {name: importlib.metadata.version(name) for name in packages}
        arms = {name: {"model": arm.model, "grid": list(arm.grid)} for name, arm in self.arms.items()}
        return {"arms": arms, "versions": versions}

    def start(self, arm: str, window: int, **options: Any) -> dict[str, Any]:
        """Start a new conversation."""
        self.clock = Clock()
        self.model = Fake(options.get("fake", "extractive"), options.get("budget", 500), options.get("seconds", 0.0))
        self._given = Given(window, self.model, self.clock, options.get("settings", {}))
        self._fit = self.arms[arm].make(self._given)
        self._numbers, self._reported, self._sent = Numbers(), 0, []
        return {"schemas": list(self._given.schemas)}

    def turn(self, new: list[Message], usage: int | None = None) -> dict[str, Any]:
        """Return the request for the next model call; an exception of the peer becomes part of the answer."""
        if self._fit is None:
            raise ValueError("a turn before the start")
        self._numbers.add(new)
        self.model.hear(new)
        self.clock.seconds, self.clock.processor, self.clock.spans = 0.0, 0.0, []
        answer: dict[str, Any] = {"error": None, "request": [], "made": {}}
        try:
            self._sent = list(self._fit(new, usage))
            answer["request"], answer["made"] = self._numbers.of(self._sent)
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is a result
            answer["error"] = f"{type(error).__name__}: {error}"[:300]
        calls = self.model.calls[self._reported :]
        self._reported += len(calls)
        answer["seconds"], answer["processor"] = self.clock.seconds, self.clock.processor
        answer["waited"] = self.clock.waited(self.model.calls[-20:])
        answer["calls"] = [self._call(call, answer["made"]) for call in calls]
        return answer

    def originals(self) -> dict[str, Any]:
        """Return how many of the messages that are not in the last request can be had back, and of how many."""
        return {"back": self._numbers.count_back(self._sent, self._given.originals())}

    def search(self, query: str) -> dict[str, Any]:
        """Return what the recall tool answers."""
        return {"text": self._given.search(query)}

    def overhead(self, arm: str, size: int, samples: int, *, memory: bool = False, **options: Any) -> dict[str, Any]:
        """Measure seconds of each check with one message added to `size`, far below the trigger, or bytes held."""
        self.start(arm, 10**9, **options)
        if memory:
            tracemalloc.start()
            self.clock.traced = True
        first = self.turn(conversation(size))
        held, peak = self.clock.held, self.clock.peak
        times: list[float] = []
        gc.collect()
        gc.disable()
        for i in range(0 if memory else samples):
            self.turn([{"role": "user", "content": f"one more {i}"}])
            times.append(self.clock.processor)
        gc.enable()
        tracemalloc.stop()
        return {"seconds": times, "held": held, "peak": peak, "error": first["error"]}

    def _call(self, call: Asked, made: dict[int, Message]) -> dict[str, Any]:
        live, new = self._numbers.of(call.live)
        made |= new
        shown = {"text": call.shown} if self.model.kind == "echo" else {}
        return {"shown": len(call.shown), "reply": len(call.reply), "live": live, **shown}


def conversation(count: int) -> list[Message]:
    """Generate an agent's conversation: a call and its result, over and over."""
    messages: list[Message] = []
    for i in range(count):
        text = f"Turn {i}: " + " ".join(f"word{(i * 31 + j) % 997}" for j in range(40))
        call = {"id": f"c{i}", "type": "function", "function": {"name": "read", "arguments": '{"path": "src/a.py"}'}}
        if i % 2 == 0:
            messages.append({"role": "assistant", "content": text, "tool_calls": [call]})
        else:
            messages.append({"role": "tool", "tool_call_id": f"c{i - 1}", "content": text})
    return messages


def _to_json(message: Message) -> str:
    return json.dumps(message, sort_keys=True, default=str)


def serve(arms: dict[str, Arm]) -> None:
    """Answer commands until there are no more; output that a library prints goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server = Server(arms)
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(server, command.pop("do"))(**command)
        out.write(json.dumps(answer) + "\n")
        out.flush()
