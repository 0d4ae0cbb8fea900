"""Talking to models: a question, its reply, and everything that can go wrong between the two.

In reading order: `ask` (the values), `asker` (who is asked, and who next), `exchange` (one compaction's asks with
retries, deadline and cancel), `model_calls` (one call), `providers` (`"provider:name"` strings), `replies` (an SDK's
response as a `Reply`), `failures` (what an error means), `overflow` ("the request is too long", in every provider's
shape), `refused` (what it teaches). `drivers` run a generator that yields what it needs.
"""

from __future__ import annotations

from unabridged.asking.ask import Ask, AskFailed, Rejected, Reply

__all__ = ["Ask", "AskFailed", "Rejected", "Reply"]
