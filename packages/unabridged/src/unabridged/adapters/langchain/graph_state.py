"""The state of a graph: how a compaction gets into it, and what a summary turn shows of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NotRequired
from uuid import uuid4

from langchain.agents.middleware.types import AgentState, PrivateStateAttr
from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.config import get_config
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from unabridged.adapters.kit import PendingChange, name_sub_thread
from unabridged.adapters.langchain.message_names import MessageNames, Messages, name_by_text
from unabridged.archive.names import check_name
from unabridged.formats.fields import get

PENDING_KEY = "_unabridged_pending"
SENT_KEY = "_unabridged_sent"
"""The id of the newest record that the model was sent: also where the messages could not follow it."""
FILE_KEY = "_unabridged_file"
"""Whether what went last is in the history file of the backend; None where nothing was to be written."""
EVENT_KEY = "_summarization_event"
"""Where Deep Agents' own middleware and tool keep a compaction."""
HostState = Callable[[Any], Any]
"""Takes the values of the graph's state; returns a text, None, or an awaitable of one."""

_THREAD_KEY = "unabridged_thread"
_TODO_MARKS = {"completed": "x", "in_progress": "~"}


def keep_newer(_: Any, new: Any) -> Any:
    """Return the newer value: of two middleware of ours in one step the outer one, which saw more, comes last."""
    return new


class SummarizationState(AgentState[Any]):
    """The agent's state, and a compaction that the messages have yet to follow: ours, or one of Deep Agents' own."""

    _unabridged_pending: NotRequired[Annotated[PendingChange | None, keep_newer, PrivateStateAttr]]
    _unabridged_sent: NotRequired[Annotated[str | None, keep_newer, PrivateStateAttr]]
    _unabridged_file: NotRequired[Annotated[bool | None, keep_newer, PrivateStateAttr]]
    _summarization_event: NotRequired[Annotated[Any, PrivateStateAttr]]


# -- how a compaction gets into it ------------------------------------------------------------------------------------


def ensure_ids(messages: Messages) -> None:
    """Set the id of each message that has none."""
    for message in messages:
        if not message.id:
            message.id = str(uuid4())


def assign_new_ids(before: Messages, after: Messages, thread: str | None) -> list[BaseMessage]:
    """Return the compacted list with an id for each new message: that of one that went, which streams have seen.

    In a sub-graph it is an id of its own: the outer state still has the message that went, and would lose it. New
    messages also carry the name of a sub-agent's thread, by which its next call finds it again. A message that was
    there before without an id stays as it is.
    """
    names = MessageNames(before, after)
    earlier = names.names_of(before)
    staying = {message.id for message in after if message.id}
    went = [] if is_in_subgraph() else [message.id for message in before if message.id and message.id not in staying]
    free = iter(went)

    def named(message: BaseMessage) -> BaseMessage:
        extra = {**message.additional_kwargs, **({_THREAD_KEY: thread} if thread and "/" in thread else {})}
        return message.model_copy(update={"id": next(free, None) or str(uuid4()), "additional_kwargs": extra})

    return [message if message.id or names(message) in earlier else named(message) for message in after]


def replace_messages(messages: Messages) -> dict[str, Any]:
    """Return the state update that puts these messages in the place of all others."""
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages]}


def is_in_subgraph() -> bool:
    """Return whether this is a run of a graph inside another one, whose reducer merges what it returns by ids.

    Such a reducer adds and overwrites, and never removes: a state that was replaced would put the summary turn into the
    outer state and leave there what it stands for.
    """
    try:
        configurable = get_config().get("configurable", {})
    except RuntimeError:
        return False
    return "|" in str(configurable.get("checkpoint_ns") or "")


def find_run_thread(messages: Messages) -> str | None:
    """Return the name of the conversation in the archive: the run's `thread_id`; None outside of a thread.

    A sub-agent runs in its parent's thread, and several may run at once: each is named by its first message too.
    """
    try:
        configurable = get_config().get("configurable", {})
    except RuntimeError:
        return None
    if (thread := configurable.get("thread_id")) is None:
        return None
    name = check_name(thread, "thread_id")
    if not is_in_subgraph():
        return name
    first = next((m for m in messages if m.type != "system"), None)
    if first is None:
        return name
    return name_sub_thread(name, first.id or name_by_text(first), first.additional_kwargs.get(_THREAD_KEY))


# -- what a summary turn shows of it -----------------------------------------------------------------------------------


def todos(values: Any) -> str:
    """Return the to-dos that `TodoListMiddleware` and Deep Agents keep in the state, each in a line; "" without any."""
    stored = get(values, "todos")
    items = [item for item in stored if get(item, "content")] if isinstance(stored, list | tuple) else []
    lines = [f"- [{_TODO_MARKS.get(str(get(item, 'status')), ' ')}] {get(item, 'content')}" for item in items]
    return "\n".join(["To-dos ([x] done, [~] under way):", *lines]) if lines else ""
