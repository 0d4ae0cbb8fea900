"""The Claude Agent SDK: its sessions in the archive, and what a compaction loses put back into the context.

    from unabridged.adapters.claude_agent_sdk import ArchiveSessionStore, compaction_hooks

    options = ClaudeAgentOptions(hooks=compaction_hooks(), session_store=ArchiveSessionStore(), resume=session_id)

Each of the two does without the other. Only those who call the SDK need it installed: the extra `claude-agent-sdk`.
"""

from __future__ import annotations

from unabridged.adapters.claude_agent_sdk.hooks import compaction_callback, compaction_hooks
from unabridged.adapters.claude_agent_sdk.store import NAMESPACE, ArchiveSessionStore

__all__ = ["NAMESPACE", "ArchiveSessionStore", "compaction_callback", "compaction_hooks"]
