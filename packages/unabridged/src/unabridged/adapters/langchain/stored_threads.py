"""Compact, undo, replay, search and forget the messages of a thread, on any compiled graph with a checkpointer.

`using` is the middleware or a `Compactor`; in an agent that has our middleware it is found by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from unabridged.adapters.kit import Steps, call_in_thread, call_method, make_sync_and_async
from unabridged.adapters.langchain.compactors import GraphValues, make_forced_request
from unabridged.adapters.langchain.format import FORMAT
from unabridged.adapters.langchain.graph_state import PENDING_KEY, assign_new_ids, replace_messages
from unabridged.adapters.langchain.message_names import apply_state_change, find_state_change, use_state_objects
from unabridged.adapters.langchain.middleware import SummarizationMiddleware
from unabridged.archive.names import Name, check_name
from unabridged.archive.protocol import Hit
from unabridged.compactor import Compaction, Compactor
from unabridged.errors import SettingsError
from unabridged.marks import find_view_record_ids

log = logging.getLogger("unabridged")

Thread = Name | Mapping[str, Any]
"""A thread's id, or a config (with a `checkpoint_id`, say)."""


class NoCheckpointer(SettingsError):  # noqa: N818 - reads as what it is
    """The graph has no checkpointer."""


class StoredThread(NamedTuple):
    """The messages of a thread as they are stored, the model's view of them, and who compacts them."""

    compactor: Compactor
    config: Any
    raw: list[BaseMessage]
    messages: list[BaseMessage]
    is_state_kept: bool
    """The state stays whole, and only the model's view changes."""
    values: Any
    """The values of the thread's state."""
    model: Any = None
    """The chat model that was asked last in the thread, as far as that is known."""

    @property
    def thread(self) -> str | None:
        """Return the thread's name in the archive; None where a summary turn has it (it was made in a sub-graph)."""
        name = _thread_id(self.config)
        is_marked = any(find_view_record_ids(FORMAT.read(message)) for message in self.messages)
        return None if is_marked else name

    def make_state_update(self, after: list[BaseMessage]) -> dict[str, Any]:
        """Return the state update that makes these the messages from now on."""
        named = assign_new_ids(self.raw, use_state_objects(self.raw, after), self.thread)
        if self.is_state_kept:
            return {PENDING_KEY: find_state_change(self.raw, self.raw, named)}
        return replace_messages(named)


def _compact(agent: Any, thread: Thread, *, using: Any = None) -> Steps[Compaction | None]:
    """Compact the thread now, whatever its size; return None when there is no history or nothing is gained.

    A graph without a checkpointer has no history: a warning says so.
    """
    try:
        stored = yield from _read_stored_thread(agent, thread, using)
    except NoCheckpointer as error:
        log.warning("nothing was compacted: %s", error)
        return None
    values = GraphValues(stored.values)
    done = yield from make_forced_request(stored.compactor, stored.messages, stored.thread, values, stored.model).fit()
    if not done.changed:
        return None
    yield call_method(agent, "update_state", stored.config, stored.make_state_update(done.messages))
    return done


def _undo(agent: Any, thread: Thread, *, using: Any = None) -> Steps[list[BaseMessage] | None]:
    """Take the thread's newest compaction back; return the messages as they are now, None when there was none."""
    stored = yield from _read_stored_thread(agent, thread, using)
    before: list[BaseMessage] = yield call_method(stored.compactor, "undo", stored.messages, thread=stored.thread)
    if before is stored.messages:
        return None
    yield call_method(agent, "update_state", stored.config, stored.make_state_update(before))
    return before


def _replay(agent: Any, thread: Thread, *, using: Any = None) -> Steps[list[BaseMessage]]:
    """Return the thread's original conversation, exactly; its state is not touched."""
    stored = yield from _read_stored_thread(agent, thread, using, idle=False)
    original: list[BaseMessage] = yield call_method(stored.compactor, "replay", stored.messages, thread=stored.thread)
    return original


def _search(agent: Any, thread: Thread, query: str, *, limit: int = 10, using: Any = None) -> Steps[Sequence[Hit]]:
    """Return what left the thread's context and matches best: literal words. The checkpointer is not asked."""
    compactor, name = _find_compactor(agent, thread, using)
    hits: Sequence[Hit] = yield call_method(compactor, "search", query, thread=name, limit=limit)
    return hits


def _read(agent: Any, thread: Thread, ref: str | int, *, using: Any = None) -> Steps[BaseMessage]:
    """Return the message that left the thread's context exactly as it was: by a hit's `ref`, or its turn."""
    compactor, name = _find_compactor(agent, thread, using)
    message: BaseMessage = yield call_method(compactor, "read", ref, thread=name)
    return message


def _forget(agent: Any, thread: Thread, *, using: Any = None) -> Steps[list[str]]:
    """Remove the thread and those of its sub-agents from the archive, for good; return the threads that went.

    The graph's state is the checkpointer's: call its `delete_thread` too.
    """
    name = _thread_id(thread) if isinstance(thread, Mapping) else str(thread)
    if not name:
        raise SettingsError('forget needs a thread: its id, or a config such as {"configurable": {"thread_id": "t1"}}')
    own = using if using is not None else find_middleware(agent)
    pool = own.compactors if isinstance(own, SummarizationMiddleware) else _compactor_for(own, name)[0]
    gone = yield call_in_thread(pool.forget, name)
    return list(gone)


compact, acompact = make_sync_and_async(_compact)
undo, aundo = make_sync_and_async(_undo)
replay, areplay = make_sync_and_async(_replay)
search, asearch = make_sync_and_async(_search)
read, aread = make_sync_and_async(_read)
forget, aforget = make_sync_and_async(_forget)


def find_middleware(agent: Any) -> SummarizationMiddleware | None:
    """Return our middleware in a compiled agent, found by its node; None where it has none."""
    for node in agent.nodes.values():
        for name in ("func", "afunc"):
            owner = getattr(getattr(getattr(node, "bound", None), name, None), "__self__", None)
            if isinstance(owner, SummarizationMiddleware):
                return owner
    return None


def _read_stored_thread(agent: Any, thread: Thread, using: Any, *, idle: bool = True) -> Steps[StoredThread]:
    config: Any = dict(thread) if isinstance(thread, Mapping) else {"configurable": {"thread_id": thread}}
    try:
        snapshot = yield call_method(agent, "get_state", config)
    except ValueError as error:
        if getattr(agent, "checkpointer", True):
            raise
        raise NoCheckpointer(
            f"the graph has no checkpointer, so no messages of {config.get('configurable')!r} are "
            "stored. Compile it with one, such as create_agent(..., checkpointer=InMemorySaver())"
        ) from error
    if idle and (snapshot.interrupts or snapshot.next):
        at = ", ".join(snapshot.next) or "an interrupt"
        raise SettingsError(
            f"thread {config['configurable']['thread_id']!r} is in the middle of a run, waiting at {at}: "
            "changing its messages now would drop what it waits for. Resume it first."
        )
    raw: list[BaseMessage] = list(snapshot.values.get("messages") or ())
    pending = snapshot.values.get(PENDING_KEY)
    own = using if using is not None else find_middleware(agent)
    is_kept = isinstance(own, SummarizationMiddleware) and own.state_mode == "kept"
    messages = apply_state_change(raw, raw, pending) if pending else raw
    compactor, model = _compactor_for(own, _thread_id(config))
    return StoredThread(compactor, config, raw, messages, is_kept, snapshot.values, model)


def _thread_id(config: Mapping[str, Any]) -> str:
    return check_name(config.get("configurable", {}).get("thread_id"), "thread_id")


def _find_compactor(agent: Any, thread: Thread, using: Any) -> tuple[Compactor, str]:
    """Return who compacts this thread of the graph, and the thread's name."""
    name = _thread_id(thread if isinstance(thread, Mapping) else {"configurable": {"thread_id": thread}})
    return _compactor_for(using if using is not None else find_middleware(agent), name)[0], name


def _compactor_for(own: Any, thread: str) -> tuple[Compactor, Any]:
    """Return the compactor for the model that was asked last in the thread, and that chat model."""
    if isinstance(own, Compactor):
        return own, None
    if not isinstance(own, SummarizationMiddleware):
        raise SettingsError(
            "this graph has no SummarizationMiddleware of ours: pass using=, the middleware or a Compactor that "
            "was made with format=LangChain()"
        )
    agent, model = own.last_asked.find(thread)
    return own.compactors.get(*agent), model
