"""Stand-ins for Strands' conversation managers, with their names and arguments: the migration table as code.

`lab/scripts/peers.py` runs their tests with these in their place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from strands.agent.conversation_manager.conversation_manager import DEFAULT_COMPRESSION_THRESHOLD

from unabridged.adapters.strands import CompactingConversationManager
from unabridged.settings import Settings

__all__ = ["SlidingWindowConversationManager", "SummarizingConversationManager"]


def _threshold(proactive: Any) -> float | None:
    if isinstance(proactive, dict):
        return float(proactive.get("compression_threshold", DEFAULT_COMPRESSION_THRESHOLD))
    return DEFAULT_COMPRESSION_THRESHOLD if proactive else None


class SlidingWindowConversationManager(CompactingConversationManager):
    """Our manager, which compacts above `window_size` messages and keeps as many."""

    def __init__(
        self,
        window_size: int = 40,
        should_truncate_results: bool = True,
        *,
        per_turn: bool | int = False,
        pin_first: int | None = None,
        proactive_compression: Any = None,
    ) -> None:
        del should_truncate_results, per_turn, pin_first
        triggers: list[Any] = [("messages", window_size + 1)]
        if (share := _threshold(proactive_compression)) is not None:
            triggers.append(("fraction", share))
        settings = Settings(trigger=triggers, keep=("messages", max(window_size, 1)))
        super().__init__(model=None, archive="memory:", settings=settings)


class SummarizingConversationManager(CompactingConversationManager):
    """Our manager, which compacts at a share of the window and keeps so many messages; the agent's model writes."""

    def __init__(
        self,
        summary_ratio: float = 0.3,
        preserve_recent_messages: int = 10,
        summarization_agent: Any = None,
        summarization_system_prompt: str | None = None,
        *,
        pin_first: int | None = None,
        proactive_compression: Any = None,
    ) -> None:
        del summary_ratio, summarization_system_prompt, pin_first
        share = _threshold(proactive_compression)
        settings = Settings(keep=("messages", max(preserve_recent_messages, 1)))
        super().__init__(
            model=getattr(summarization_agent, "model", None),
            archive="memory:",
            settings=settings if share is None else replace(settings, trigger=("fraction", share)),
        )
