"""pydantic-ai-harness: its summarising and its tiered compaction, with the release of Pydantic AI that it wants."""

# requirements: pydantic-ai-harness

from __future__ import annotations

from functools import partial

from pydantic_ai_harness.compaction import ClearToolResults, SummarizingCompaction, TieredCompaction

from benchmarks.adapter_steps import FAR, Side, serve
from benchmarks.pydantic_ai_steps import run


def tiered() -> TieredCompaction:
    """Return the tiers that its documentation describes."""
    tiers = [ClearToolResults(max_tokens=1, keep_pairs=3), SummarizingCompaction(max_messages=1)]
    return TieredCompaction(tiers, target_fraction=0.85, context_window=FAR)


if __name__ == "__main__":
    summarizing = partial(SummarizingCompaction, max_fraction=0.85, context_window=FAR)
    sides = {
        "harness: SummarizingCompaction": Side(
            partial(run, summarizing), [(SummarizingCompaction, "before_model_request")]
        ),
        "harness: TieredCompaction": Side(partial(run, tiered), [(TieredCompaction, "before_model_request")]),
    }
    serve({"Pydantic AI": sides})
