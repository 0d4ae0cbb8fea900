"""Strands Agents: a conversation manager that compacts and loses nothing. Needs the extra `strands`.

    from unabridged.adapters.strands import CompactingConversationManager

    agent = Agent(conversation_manager=CompactingConversationManager(archive="sqlite:///agent.db"))

`manager` follows Strands' protocol, `summariser` lets a model of Strands' write the summaries. The messages are
Bedrock's Converse, whatever model reads them.
"""

from __future__ import annotations

from unabridged.adapters.framework_versions import check_framework

with check_framework("strands", __name__):
    from unabridged.adapters.strands.manager import CompactingConversationManager

__all__ = ["CompactingConversationManager"]
