"""An agent of the Claude Agent SDK that keeps everything when it is compacted, and can continue in another program.

    python examples/claude_sdk_agent.py "Write the tide report. Never edit anything under vendor/."
    python examples/claude_sdk_agent.py "And the one for May?" SESSION-ID

Needs `pip install 'unabridged[claude-agent-sdk,mcp]'` and an API key. The archive is the user's own, or the one that
UNABRIDGED_ARCHIVE names.
"""

from __future__ import annotations

import asyncio
import os
import sys

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from unabridged.adapters.claude_agent_sdk import ArchiveSessionStore, compaction_hooks
from unabridged.archive import open_archive


async def ask(prompt: str, session: str | None = None) -> tuple[str, str]:
    """Return the answer, and the session's id, with which another question can follow."""
    archive = open_archive(os.environ.get("UNABRIDGED_ARCHIVE"))
    options = ClaudeAgentOptions(
        hooks=compaction_hooks(archive),  # archives what a compaction takes, and puts back what a summary loses
        session_store=ArchiveSessionStore(archive),  # the session is resumed from the archive, on any machine
        mcp_servers={"unabridged": {"command": sys.executable, "args": ["-m", "unabridged", "mcp"]}},
        permission_mode="bypassPermissions",
        resume=session,
    )
    result = None
    async for message in query(prompt=prompt, options=options):
        result = message if isinstance(message, ResultMessage) else result
    archive.close()
    if result is None:
        raise RuntimeError("the agent ended without a result")
    return result.result or "", result.session_id


if __name__ == "__main__":
    answer, session_id = asyncio.run(ask(*sys.argv[1:]))
    print(answer)
    print(f"to go on: {session_id}", file=sys.stderr)
