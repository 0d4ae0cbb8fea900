"""Tokens per second of a whole model-free compaction, archive in memory included."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from unabridged import Compactor

EXAMPLE = Path(__file__).parents[2] / "examples" / "coding_session.json"


def run(*, quick: bool = False) -> list[dict[str, Any]]:
    """Return a row per size of conversation, built from renamed copies of the example session."""
    rows = []
    for copies in (1,) if quick else (1, 3, 10):
        messages = conversation(copies)
        engine = Compactor(window=16_000, archive="memory:", namespace="bench")
        engine.plan([{"role": "user", "content": "warm up"}])
        start = time.perf_counter()
        fitted = engine.fit(messages, thread="t")
        seconds = time.perf_counter() - start
        rows.append(
            {
                "tokens before": fitted.tokens_before,
                "tokens after": fitted.tokens_after,
                "seconds": round(seconds, 3),
                "tokens per second": round(fitted.tokens_before / seconds),
            }
        )
    return rows


def conversation(copies: int) -> list[dict[str, Any]]:
    """Return the example `copies` times, each copy with names of its own, so that no text occurs twice."""
    text = EXAMPLE.read_text(encoding="utf-8")
    messages: list[dict[str, Any]] = []
    for i in range(copies):
        again = json.loads(text.replace("ferryboard", f"ferryboard{i}").replace("call_", f"call_{i}_"))
        messages += again["messages"]
        if i + 1 < copies:
            messages.append({"role": "assistant", "content": f"That was part {i}."})
    return messages
