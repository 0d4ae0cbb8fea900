"""Pydantic AI: one capability.

    from unabridged.adapters.pydantic_ai import Compaction

    agent = Agent("anthropic:claude-sonnet-4-5", capabilities=[Compaction(archive="sqlite:///agent.db")])

The modules, in reading order: `compaction` (the capability), `state` (what outlives the messages that go), `format` and
`parts` (Pydantic AI's messages), `focus` (its models as summarisers). What is not its own stands in `adapters.kit`.
"""

from __future__ import annotations

from unabridged.adapters.installed import needed

with needed("pydantic-ai", __name__):
    from unabridged.adapters.pydantic_ai.compaction import Compaction
    from unabridged.adapters.pydantic_ai.format import PydanticAI

__all__ = ["Compaction", "PydanticAI"]
