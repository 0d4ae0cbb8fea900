"""Ask models: a question, its reply, and everything that can go wrong between the two.

In reading order: `ask` (the values), `asker` (which model is asked, and which one next), `exchange` (the asks of one
compaction with retries, deadline and cancel), `model_calls` (one call), `providers` (`"provider:name"` strings),
`replies` (an SDK's response as a `Reply`), `failures` (what an error means), `overflow` ("the request is too long" as
each provider says it), `learned_limits` (the limits that follow from it). `drivers` run a generator that yields what it
needs.
"""

from __future__ import annotations

from unabridged.asking.ask import Ask, AskFailed, Rejected, Reply

__all__ = ["Ask", "AskFailed", "Rejected", "Reply"]
