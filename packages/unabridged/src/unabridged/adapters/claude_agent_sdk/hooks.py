"""The work of `unabridged hook` around a compaction, as callbacks inside the program that runs the agent.

Before a compaction the session is archived; after it the context gets what a summary loses; then the client's summary
is checked against the record. Whatever goes wrong, the agent goes on: the reason is in the log named `unabridged`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from unabridged.adapters.framework_versions import check_framework
from unabridged.archive.names import Name, check_name
from unabridged.archive.opening import open_or_keep_archive
from unabridged.archive.protocol import DEFAULT_NAMESPACE, Archive

Event = Mapping[str, Any]
"""The client's description of an event: `hook_event_name`, `session_id`, `transcript_path` and more."""
Callback = Callable[[Any, str | None, Any], Awaitable[Any]]
"""A `HookCallback` of the SDK's, whose types name only some of the events."""

EVENTS: Final = ("PreCompact", "SessionStart", "PostCompact")
"""The SDK's types name only the first; the client calls all three."""

log = logging.getLogger("unabridged")


def compaction_hooks(
    archive: str | Archive | None = None, *, namespace: Name = DEFAULT_NAMESPACE
) -> dict[Any, list[Any]]:
    """Return `ClaudeAgentOptions(hooks=...)`: the callback below for every event around a compaction.

    The archive is the user's own; or the one that a URL names; or one that you opened, and close.
    """
    with check_framework("claude-agent-sdk", "compaction_hooks"):
        from claude_agent_sdk import HookMatcher  # noqa: PLC0415 - only this needs it

        from unabridged_cli.clients.hook import HOOK_TIMEOUT_SECONDS  # noqa: PLC0415 - likewise

    # The callback answers before the client would give it up.
    matcher = HookMatcher(hooks=[compaction_callback(archive, namespace=namespace)], timeout=HOOK_TIMEOUT_SECONDS + 15)
    return {event: [matcher] for event in EVENTS}


def compaction_callback(archive: str | Archive | None = None, *, namespace: Name = DEFAULT_NAMESPACE) -> Callback:
    """Return the callback by itself, for matchers of your own. `namespace` says whose sessions these are."""
    with check_framework("claude-agent-sdk", "compaction_callback"):
        from unabridged_cli.clients.hook.callback import HOOK_TIMEOUT_SECONDS, answer_event  # noqa: PLC0415 - only this needs it

    space, store = check_name(namespace, "namespace"), open_or_keep_archive(archive)

    async def answer(event: Event, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """Return the answer to the client; an empty one where there is nothing to say, or something went wrong."""
        del tool_use_id, context
        name = event.get("hook_event_name")
        try:
            return await asyncio.wait_for(asyncio.to_thread(answer_event, event, store, space), HOOK_TIMEOUT_SECONDS)
        except Exception as error:  # noqa: BLE001 - an agent goes on whatever happens here
            log.warning("%s of session %s: %s: %s", name, event.get("session_id"), type(error).__name__, error)
            return {}

    return answer
