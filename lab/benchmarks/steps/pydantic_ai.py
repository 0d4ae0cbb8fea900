"""Pydantic AI: our capability beside its own `ProcessHistory`, whose function looks at nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic_ai.capabilities import ProcessHistory

from benchmarks.adapter_steps import FAR, Side, serve
from benchmarks.pydantic_ai_steps import run
from unabridged.adapters.pydantic_ai import Compaction

HOOKS = ("for_run", "before_model_request", "prepare_model_request", "after_model_request")


def keep_end(messages: list[Any]) -> list[Any]:
    """Return the end of the list: the least that such a function for `ProcessHistory` does."""
    return messages[-FAR:]


if __name__ == "__main__":
    ours = Side(partial(run, partial(Compaction, window=FAR, archive="memory:")), [(Compaction, h) for h in HOOKS])
    theirs = Side(partial(run, partial(ProcessHistory, keep_end)), [(ProcessHistory, "before_model_request")])
    serve({"Pydantic AI": {"ours": ours, "ProcessHistory": theirs}})
