"""What a stream of events adds up to: how full each window is, what was compacted, and what that saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from unabridged.tokens.models import find_model_info
from unabridged_cli.event_source import PROBLEM, EventData
from unabridged_cli.screen import format_count

_MAX_THREADS: Final = 200
_MAX_COMPACTIONS: Final = 500
_MAX_POINTS: Final = 1_500


class LiveThread:
    """One conversation, as far as its events tell."""

    def __init__(self, namespace: str, thread: str) -> None:
        self.namespace, self.name = namespace, thread
        self.agent = ""
        self.sizes = {"messages": 0, "window": 0, "budget": 0, "trigger": 0}
        self.shares: dict[str, int] = {}
        """Tokens by speaker, where the source says so."""
        self.tokens = self.requests = self.grown = 0
        self.points: list[list[int]] = [[0, 0]]
        """Requests so far and tokens then: a compaction has two, one above the other."""
        self.compactions: list[dict[str, Any]] = []
        self.compaction_count = 0
        self.saved_tokens = 0
        """Tokens that were not sent, over all requests."""
        self.spent_dollars = 0.0
        self._last = (0, 0)
        self._freed = 0
        """Tokens that the list no longer has when it comes, since the caller goes on with the shorter one."""

    def add(self, event: EventData) -> None:
        """Take one event of this conversation."""
        kind = event["event"]
        if kind == "fitted":
            self._add_request(event)
        elif kind == "compacted":
            self.compaction_count += 1
            named = {name: str(event.get(name, "")) for name in ("kind", "summariser", "id")}
            sizes = {"turn": self.requests + 1, "before": _number(event, "tokens_before")}
            self.compactions.append({**named, **sizes, "after": _number(event, "tokens_after")})
            del self.compactions[:-_MAX_COMPACTIONS]
        if kind == "compacted" or (kind == "failed" and not event.get("goes_on")):
            cost = event.get("cost")
            self.spent_dollars += _number(cost, "dollars") if isinstance(cost, Mapping) else 0

    @property
    def saved_dollars(self) -> float | None:
        """Return what the tokens that were not sent would have cost as cached input; None for an unknown model."""
        info = find_model_info(self.agent)
        return None if info is None else self.saved_tokens * (info.cache_read or info.input) / 1e6

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        limits = {name: value for name, value in self.sizes.items() if name != "messages" and value}
        return {
            "namespace": self.namespace, "name": self.name, "agent": self.agent, "messages": self.sizes["messages"],
            "limits": limits, "tokens": self.tokens, "requests": self.requests, "points": self.points,
            "compactions": self.compactions, "count": self.compaction_count, "saved": self.saved_tokens,
            "saved_dollars": self.saved_dollars, "spent_dollars": self.spent_dollars,
        }  # fmt: skip

    def _add_request(self, event: EventData) -> None:
        before, after = _number(event, "tokens_before"), _number(event, "tokens_after")
        last_before, last_after = self._last
        if before < last_before:  # the caller goes on with the shorter list
            self._freed += last_before - last_after
        self._last, self.grown, self.tokens = (before, after), after - self.tokens, after
        self.requests += 1
        self.saved_tokens += self._freed + before - after
        self.points += [[self.requests, size] for size in dict.fromkeys((before, after))]
        self.points = thin_out_points(self.points)
        self.sizes = {name: _number(event, name) for name in self.sizes}
        self.agent = str(event.get("agent") or self.agent)
        shares = event.get("shares")
        self.shares = {str(name): _number(shares, name) for name in shares} if isinstance(shares, Mapping) else {}


class LiveView:
    """All conversations of a stream, the last used first."""

    def __init__(self) -> None:
        self.version = 0
        self.problem = ""
        """Why the source can't be read for now."""
        self._threads: dict[tuple[str, str], LiveThread] = {}

    @property
    def threads(self) -> list[LiveThread]:
        """Return the conversations, the last used first."""
        return list(reversed(self._threads.values()))

    def add(self, event: EventData) -> LiveThread | None:
        """Take an event; return its conversation."""
        self.version += 1
        self.problem = str(event.get("words", "")) if event["event"] == PROBLEM else ""
        if self.problem:
            return None
        key = str(event.get("namespace", "")), event["thread"]
        thread = self._threads.pop(key, None)
        if thread is None and event["event"] == "compacted":  # its first compaction gives a conversation a name
            thread = self._threads.pop((key[0], ""), None)
        thread = self._threads[key] = thread or LiveThread(*key)
        thread.name = key[1]
        thread.add(event)
        while len(self._threads) > _MAX_THREADS:
            self._threads.pop(next(iter(self._threads)))
        return thread

    def sum_up(self) -> dict[str, Any]:
        """Return what all conversations add up to; dollars are None where no model's price is known."""
        threads = self._threads.values()
        dollars = [thread.saved_dollars for thread in threads if thread.saved_dollars is not None]
        return {
            "requests": sum(thread.requests for thread in threads),
            "compactions": sum(thread.compaction_count for thread in threads),
            "saved": sum(thread.saved_tokens for thread in threads),
            "saved_dollars": sum(dollars) if dollars else None,
            "spent_dollars": sum(thread.spent_dollars for thread in threads),
        }

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        threads = [thread.to_json() for thread in self.threads[:20]]
        return {"version": self.version, "problem": self.problem, "totals": self.sum_up(), "threads": threads}


def format_event(event: EventData, thread: LiveThread | None) -> str:
    """Return one event as a line for people."""
    if thread is None:
        return str(event.get("words", ""))
    name, kind = thread.name or "a conversation without a name", str(event["event"])
    if kind == "fitted":
        return f"{name}: {format_fill(thread)}"
    words = {
        "compacting": "compacting at {tokens:,} tokens",
        "compacted": "compacted ({kind}, {summariser}) from {tokens_before:,} to {tokens_after:,} tokens",
        "unchanged": "nothing can go at {tokens:,} tokens",
        "failed": "{stage} failed ({error})",
        "undone": "compaction {record} undone",
    }.get(kind, kind)
    fields = {"kind": "", "summariser": "", "stage": "", "error": "", "record": ""}
    sizes = {size: _number(event, size) for size in ("tokens", "tokens_before", "tokens_after")}
    return f"{name}: {words.format(**{**fields, **event, **sizes})}"


def format_fill(thread: LiveThread) -> str:
    """Return how full the window of a conversation is, in words."""
    window = thread.sizes["window"] or 1
    grown = f" ({thread.grown:+,})" if thread.requests > 1 else ""
    full = f"{thread.tokens:,} of {window:,} tokens, {thread.tokens / window:.0%} full{grown}"
    return f"{format_count(thread.sizes['messages'], 'message')}, {full}"


def format_totals(totals: Mapping[str, Any]) -> str:
    """Return what all conversations add up to, in words."""
    line = f"{format_count(totals['requests'], 'request')}, {format_count(totals['compactions'], 'compaction')}"
    line += f", {totals['saved']:,} tokens not sent"
    if totals["saved_dollars"] is not None:
        line += (
            f" (${totals['saved_dollars']:,.2f} as cached input), ${totals['spent_dollars']:,.2f} spent on summaries"
        )
    return line


def thin_out_points(points: Sequence[list[int]]) -> list[list[int]]:
    """Return so many points that a chart is whole to the eye: every fall stays."""
    if len(points) <= _MAX_POINTS:
        return list(points)
    every = len(points) // _MAX_POINTS + 1
    falls = {i for i in range(1, len(points)) if points[i][1] < points[i - 1][1]}
    kept = falls | {i - 1 for i in falls} | set(range(0, len(points), every)) | {len(points) - 1}
    return [points[i] for i in sorted(kept)]


def _number(data: Mapping[str, Any], name: str) -> Any:
    value = data.get(name, 0)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0
