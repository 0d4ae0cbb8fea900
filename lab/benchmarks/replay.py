"""Replay one conversation through one arm, call by call: what was sent, what it cost, what it still contained.

Tokens are o200k's, exact. The provider's cache is that of `unabridged_corpus.evaluate.task_cost`. A run whose arm
raises has ended there: what it would still have needed counts as lost, and its cost is compared with the same calls of
the raw run.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.data import Recorded, placeless
from benchmarks.driver import PeerEndedError, Process
from benchmarks.fakes import MARK
from benchmarks.harness import MADE
from benchmarks.policies import tokens_of
from unabridged.formats import get_format
from unabridged.settings import Prices
from unabridged_corpus.evaluate.score import NeedsScore, count_held_needs
from unabridged_corpus.evaluate.task_cost import CALL_GAP, Bill, MeasuredMessage, PromptCache
from unabridged_testing import refusals

ROUNDS = (1, 2, 4, 8)
_PREFIX = re.compile(r"^\[[^\]]{5,40}\] ")


def replay(process: Process, given: Recorded, *, gap: float = 0.0, **start: Any) -> dict[str, Any]:
    """Replay a conversation and return plain numbers.

    `start` names the arm, window, fake and settings; `gap` seconds pass between calls.
    """
    given.prepare()
    out: dict[str, Any] = {"name": given.name, "data": given.data, "points": [], "error": None, "ended": False}
    out |= dict.fromkeys(("turns", "refused", "passed", "over", "fine", "extra", "long", "stood", "rewrites"), 0)
    out |= dict.fromkeys(("seconds", "slowest", "compacting"), 0.0)
    out["tools"] = any(message.get("tool_calls") for message in given.messages)
    track = Track(given, start["window"], start.get("seconds", 0.0), out)
    taken, starts = 0, given.starts()
    try:
        process.ask("start", **start)
        for turn, at in enumerate(starts):
            time.sleep(gap)
            answer = process.ask("turn", new=given.messages[taken:at], usage=track.usage)
            stop = starts[turn + 1] if turn + 1 < len(starts) else len(given.lines)
            track.turn(answer, taken, at, stop)
            taken = at
            if out["error"]:
                break
        out["back"] = process.ask("originals")["back"]
    except PeerEndedError as error:
        out["error"], out["ended"] = str(error), True
    if out["error"]:
        track.lost(taken)
    elif given.questions:
        text = track.text(track.sent)
        found = sum(all(_said(part) in text for part in one) for one in given.questions)
        out["evidence"] = [found, len(given.questions)]
    for name, bill in (("bill", track.bill), ("raw", track.raw)):
        out[name] = [bill.read, bill.write, bill.fresh, bill.output]
    return out


@dataclass
class Track:
    """The state of a running replay."""

    given: Recorded
    window: int
    latency: float
    out: dict[str, Any]
    lines: dict[int, MeasuredMessage] = field(default_factory=dict)
    sent: list[int] = field(default_factory=list)
    memory: dict[str, str] = field(default_factory=dict)
    bill: Bill = field(default_factory=Bill)
    raw: Bill = field(default_factory=Bill)
    cache: PromptCache = field(default_factory=lambda: PromptCache(Prices().lifetime))
    raw_cache: PromptCache = field(default_factory=lambda: PromptCache(Prices().lifetime))
    usage: int | None = None

    def turn(self, answer: dict[str, Any], taken: int, at: int, stop: int) -> None:
        """Account for one model call, whose output is what the assistant wrote before `stop`."""
        out, now = self.out, (self.out["turns"] + 1) * CALL_GAP
        out["turns"] += 1
        out["seconds"] += answer["seconds"]
        out["slowest"] = max(out["slowest"], answer["seconds"])
        out["extra"] += len(answer["calls"])
        out["stood"] += self.latency > 0 and answer["waited"] >= self.latency / 2
        if answer["error"]:
            out["error"] = answer["error"]
            return
        self._learn(answer, now)
        request = answer["request"]
        self.cache.send([self.line(number) for number in request], now, self.bill)
        self.raw_cache.send(self.given.lines[:at], now, self.raw)
        written = sum(line.tokens for line in self.given.lines[at:stop] if line.view.role == "assistant")
        self.bill.output += written
        self.raw.output += written
        self.usage = sum(self.line(number).tokens for number in request)
        sendable = self._judge(request, self.usage, at)
        kinds: list[str | int] = ["cut"] if at in self.given.cuts() else []
        if request != [*self.sent, *range(taken, at)]:
            out["rewrites"] += 1
            out["compacting"] += answer["processor"]
            kinds += [out["rewrites"]] if out["rewrites"] in ROUNDS else []
        for kind in kinds:
            self._point(request, at, self.usage, {"kind": kind, "sent": sendable})
        self.sent = request

    def line(self, number: int) -> MeasuredMessage:
        """Return a message of the request, measured once."""
        return self.given.lines[number] if number < MADE else self.lines[number]

    def text(self, numbers: Sequence[int]) -> str:
        """Return all that the agent can read in a request; a mark of the perfect memory is replaced by its text."""
        text = "\n".join(self.line(number).view.whole_text() for number in numbers)
        found, todo = set[str](), set(MARK.findall(text))
        parts = [text]
        while todo:
            mark = todo.pop()
            found.add(mark)
            parts.append(self.memory.get(mark, ""))
            todo |= set(MARK.findall(parts[-1])) - found
        return "\n".join(parts)

    def lost(self, since: int) -> None:
        """Record, after the run ended early, that nothing still needed is there."""
        for at in sorted(cut for cut in self.given.cuts() if cut >= since):
            nothing = _counts(count_held_needs("", self.given.needs(at)))
            none: dict[str, Any] = {"tokens": 0, "people": [0, 1], "held": nothing, "tail": nothing}
            self.out["points"].append({"kind": "cut", "sent": False, "at": at, **none})

    def _learn(self, answer: dict[str, Any], now: float) -> None:
        """Read the messages that were made, and charge the model calls beside the agent's own."""
        read = get_format("openai-chat").read
        for number, message in answer["made"].items():
            view = read(message)
            self.lines[int(number)] = MeasuredMessage(message, view, tokens_of(view))
        for call in answer["calls"]:
            live = [self.line(number) for number in call["live"]]
            if live:
                self.cache.send(live, now, self.bill)
            shown, reply = round(call["shown"] * self.given.rate), round(call["reply"] * self.given.rate)
            self.bill.fresh += shown
            self.bill.output += reply
            self.out["long"] += sum(line.tokens for line in live) + shown + reply > self.window
            if "text" in call:
                before = "\n".join(line.view.whole_text() for line in live)
                self.memory[f"{len(self.memory):04}"] = f"{call['text']}\n{before}"

    def _judge(self, request: Sequence[int], tokens: int, at: int) -> bool:
        """Return whether the request fits the window and is legal; only the recording's own faults may remain."""
        reasons = refusals("openai-chat", [self.line(number).message for number in request])
        own = [reason for reason in reasons if placeless(reason) not in self.given.faults(at)] if reasons else []
        fine = not own and tokens <= self.window
        self.out["refused"] += bool(own)
        self.out["passed"] += bool(reasons) and not own
        self.out["over"] += tokens > self.window
        self.out["fine"] += fine
        if own:
            self.out.setdefault("refusal", own[0])
        return fine

    def _point(self, request: Sequence[int], at: int, tokens: int, point: dict[str, Any]) -> None:
        """Record what the request holds of what is needed next, beside a plain tail of as many tokens."""
        given = self.given
        needed, text = given.needs(at), self.text(request)
        said = [given.lines[i].view.text for i in given.people if i < at]
        point |= {"at": at, "tokens": tokens, "people": [sum(one in text for one in said), len(said)]}
        point |= {
            "held": _counts(count_held_needs(text, needed)),
            "tail": _counts(count_held_needs(tail(given.lines[:at], tokens), needed)),
        }
        self.out["points"].append(point)


def tail(lines: Sequence[MeasuredMessage], tokens: int) -> str:
    """Return the last `tokens` tokens of the conversation, its first message cut to fit."""
    kept: list[str] = []
    for line in reversed(lines):
        text = line.view.whole_text()
        if line.tokens > tokens:
            kept.append(text[len(text) - len(text) * max(tokens, 0) // line.tokens :])
            break
        tokens -= line.tokens
        kept.append(text)
    return "\n".join(reversed(kept))


def _said(text: str) -> str:
    """Return a text without the time in front of it."""
    return _PREFIX.sub("", text)


def _counts(one: NeedsScore) -> list[int]:
    return [one.files, one.files_needed, one.names, one.names_needed]
