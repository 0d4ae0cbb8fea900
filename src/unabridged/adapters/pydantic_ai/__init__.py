"""Pydantic AI: one capability.

    from unabridged.adapters.pydantic_ai import Compaction

    agent = Agent("anthropic:claude-sonnet-4-5", capabilities=[Compaction(archive="sqlite:///agent.db")])

The modules, in reading order: `compaction` (the capability), `state` (what outlives the messages that go), `format` and
`parts` (Pydantic AI's messages), `focus` (its models as summarisers). What is not its own stands in `adapters.kit`.
"""

from __future__ import annotations

from unabridged.errors import NotInstalled

try:
    from unabridged.adapters.pydantic_ai.compaction import Compaction
    from unabridged.adapters.pydantic_ai.format import PydanticAI
except ImportError as error:
    raise NotInstalled(__name__, "unabridged[pydantic-ai]", error) from error

__all__ = ["Compaction", "PydanticAI"]
