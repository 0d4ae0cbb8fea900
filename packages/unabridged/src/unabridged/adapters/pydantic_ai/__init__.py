"""Pydantic AI: one capability.

    from unabridged.adapters.pydantic_ai import Compaction

    agent = Agent("anthropic:claude-sonnet-4-5", capabilities=[Compaction(archive="sqlite:///agent.db")])

The modules, in reading order: `compaction` (the capability), `carried_parts` (which outlive the messages that
go), `format` and `parts` (Pydantic AI's messages), `summariser` (its models as summarisers). The rest is in
`adapters.kit`.
"""

from __future__ import annotations

from unabridged.adapters.framework_versions import check_framework

with check_framework("pydantic-ai", __name__):
    from unabridged.adapters.pydantic_ai.compaction import Compaction
    from unabridged.adapters.pydantic_ai.format import PydanticAI

__all__ = ["Compaction", "PydanticAI"]
