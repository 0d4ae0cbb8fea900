"""What of a conversation a session manager restores, and what the conversation manager's own state must hold.

A session stores each message once, as it was said, and never again. It restores those behind `removed_message_count`,
with what the conversation manager gives in front. So the state holds what stands before the messages that are still the
very ones that were said: the summary, what was cleared or shortened, and whatever else stands among these.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any
from uuid import uuid4

from strands import Agent
from strands.types.content import Message


def count_common_end(before: Sequence[Message], after: Sequence[Message]) -> int:
    """How many messages at the end of both lists are the very same."""
    pairs = zip(reversed(before), reversed(after), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))


def count_stored(agent: Agent) -> int | None:
    """How many messages of this agent its session holds; None without a session, and for one of snapshots."""
    latest: dict[str, Any] | None = getattr(session_manager(agent), "_latest_agent_message", None)
    newest = latest.get(agent.agent_id) if latest else None
    return None if newest is None else int(newest.message_id) + 1


def session_manager(agent: Agent) -> Any:
    """The agent's session manager, or None."""
    return getattr(agent, "_session_manager", None)


def give_ids(new: Sequence[Message], before: Sequence[Message]) -> None:
    """Give each message that was made here the id by which Strands tracks its messages."""
    theirs = {id(message) for message in before}
    for message in new:
        if id(message) not in theirs and not message.get("tracking_id"):
            message["tracking_id"] = str(uuid4())
