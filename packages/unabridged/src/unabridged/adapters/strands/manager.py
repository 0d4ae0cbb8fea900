"""The conversation manager: every request fitted before the model is called, and what left the list kept.

A session stores each message once, as it was said, and never again. It restores those behind `removed_message_count`,
after what the conversation manager puts in front. So the manager's state holds all before the messages that are still
the very ones that were said: the summary, what was cleared or shortened, and whatever else is among these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from strands import Agent
from strands.agent.conversation_manager import ConversationManager
from strands.hooks import AfterModelCallEvent, AgentInitializedEvent, BeforeModelCallEvent, HookOrder, HookRegistry
from strands.tools.tools import PythonAgentTool
from strands.types.content import Message
from strands.types.exceptions import ContextWindowOverflowException
from strands.types.tools import ToolResult, ToolUse

from unabridged.adapters import kit
from unabridged.adapters.strands.summariser import make_own_model, model_name, read_usage, to_summariser
from unabridged.archive.names import Name, optional_name
from unabridged.asking.overflow import is_overflow
from unabridged.compactor import Compaction
from unabridged.errors import WontFit
from unabridged.formats import BedrockConverse
from unabridged.formats.fields import are_same_objects
from unabridged.telemetry import otel

FORMAT = BedrockConverse()
_NAME, _AHEAD = "__name__", "messages_ahead"
_FRAMEWORK_MANAGERS = {"SlidingWindowConversationManager", "SummarizingConversationManager", "NullConversationManager"}
"""Managers of Strands' own whose sessions can be gone on with."""
_DEFAULT_AGENT = "default"


@dataclass(slots=True)
class _AgentRequest:
    """The request that an agent sends, or sent last."""

    request: kit.Request
    fitted: Compaction
    is_sent_as_is: bool = False
    """It was made in place of one that was refused, and is sent as it is."""
    refusal: Exception | None = None
    """The error of a refusal of `refused_messages`; `shorter` is made before Strands asks for it, which can't wait."""
    refused_messages: list[Message] = field(default_factory=list)
    shorter: Compaction | Exception | None = None


class CompactingConversationManager(kit.PinMethods, ConversationManager):
    """Keeps `agent.messages` within the model's window; what leaves the list is in the archive first.

    Takes the keywords of `Compactor`; its `model`, who writes summaries, is the agent's own unless it is given: a model
    of Strands', what `Compactor` takes, or None for summaries without a model. The window is the
    model's `context_window_limit`, else what is known of its name. `thread` names the conversation: without it, it is
    the session's id, and without a session what `kit.thread` says. With `recall` the agent gets tools to search and
    read what left its list; what Strands has pinned stays in it. `host_state` is asked with the agent for what a
    summary should show of `agent.state`. One manager for each agent that has a session; any number share an archive.
    """

    def __init__(
        self,
        *,
        thread: Name | None = None,
        recall: bool = False,
        host_state: Callable[[Agent], Any] | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__()
        self.thread, self.recall = optional_name(thread), recall
        keywords["model"] = to_summariser(keywords.get("model", kit.AGENT_MODEL))
        keywords["settings"] = kit.with_pins(keywords.get("settings"), _is_pinned)
        keywords["on_event"] = otel(also=keywords.get("on_event"))
        self.engine = kit.Engine(FORMAT, host_state=host_state, **keywords)
        self._agent_requests: WeakKeyDictionary[Agent, _AgentRequest] = WeakKeyDictionary()
        self._messages_ahead: list[Message] = []
        """The messages before those that a session restores by itself."""

    # -- Strands' protocol --------------------------------------------------------------------------------------------

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Fit every request before it is sent, after all other hooks, and learn from what its answer reports."""
        super().register_hooks(registry, **kwargs)
        registry.add_callback(AgentInitializedEvent, self._register_recall_tools)
        registry.add_callback(BeforeModelCallEvent, self._before_model_call, order=HookOrder.SDK_LAST)
        registry.add_callback(AfterModelCallEvent, self._after_model_call)

    def apply_management(self, agent: Agent, **kwargs: Any) -> None:  # noqa: ARG002 - the protocol's
        """Compact if it is time to, where this is called by hand.

        An agent calls it at the end of each turn, in its event loop: there is nothing to do then, since every request
        is fitted before it is sent, and an event loop must not wait.
        """
        if kit.is_in_event_loop():
            return
        request = self._make_request(agent)
        if request.compactor.plan(agent.messages, **request.compactor_options).trigger is not None:
            self.reduce_context(agent)

    def reduce_context(self, agent: Agent, e: Exception | None = None, **kwargs: Any) -> None:  # noqa: ARG002
        """Make the messages shorter: now, or in place of what the model refused as too long with `e`.

        A second refusal, and a first where nothing can go, is a `ContextWindowOverflowException` that says why. As
        Strands has it, whatever `e` says it is about the window.
        """
        if e is None:
            request = replace(self._make_request(agent), force=True, as_host_error=None)
            self._replace_messages(agent, kit.run(request.fit()).messages)
            return
        if isinstance(e.__cause__, WontFit):
            raise e
        if (sent := self._agent_requests.get(agent)) is None:
            request = self._make_request(agent)
            sent = _AgentRequest(request, kit.run(request.fit()))
        shorter = sent.shorter
        if shorter is None or sent.refusal is not e or not are_same_objects(sent.refused_messages, agent.messages):
            shorter = kit.run(self._shorten(agent, sent, e))
        elif isinstance(shorter, Exception):
            raise shorter
        self._replace_messages(agent, shorter.messages)
        self._agent_requests[agent] = _AgentRequest(sent.request, shorter, is_sent_as_is=True)

    def get_state(self) -> dict[str, Any]:
        """Return what a session must keep to restore the messages as they are now."""
        return {**super().get_state(), _AHEAD: self._messages_ahead}

    def restore_from_session(self, state: dict[str, Any]) -> list[Message] | None:
        """Return the messages before those that the session restores by itself.

        The state of a manager of Strands' own is taken too: what it dropped stays in the session, unread.
        """
        name = state.get(_NAME)
        if name in _FRAMEWORK_MANAGERS:
            summary = state.get("summary_message")
            state = {**state, _NAME: type(self).__name__, _AHEAD: [summary] if summary else []}
        super().restore_from_session(state)
        self._messages_ahead = list(state.get(_AHEAD) or ())
        return list(self._messages_ahead) or None

    # -- by hand ------------------------------------------------------------------------------------------------------

    def _replay(self, agent: Agent) -> kit.Steps[list[Message]]:
        """Return the original conversation, exactly: every compaction in the agent's messages is taken back."""
        request = self._make_request(agent)
        step = kit.call_method(request.compactor, "replay", agent.messages, thread=request.thread)
        original: list[Message] = yield step
        return original

    def _undo(self, agent: Agent) -> kit.Steps[None]:
        """Take the newest compaction back: the agent has the messages that it had before, and those since."""
        request = self._make_request(agent)
        before = yield kit.call_method(request.compactor, "undo", agent.messages, thread=request.thread)
        self._agent_requests.pop(agent, None)
        self._replace_messages(agent, before)
        if (sessions := find_session_manager(agent)) is not None:
            sessions.sync_agent(agent)

    replay, areplay = kit.make_sync_and_async(_replay)
    undo, aundo = kit.make_sync_and_async(_undo)

    def thread_of(self, agent: Agent) -> str | None:
        """Return the name under which the agent's conversation is kept; None where it has none."""
        session = getattr(find_session_manager(agent), "session_id", None)
        if session and agent.agent_id != _DEFAULT_AGENT:
            session = f"{session}/{agent.agent_id}"
        return self.thread or session or kit.current_thread()

    def close(self) -> None:
        """Close the archive, if it was opened here."""
        self.engine.close()

    # -- around a model call ------------------------------------------------------------------------------------------

    def _register_recall_tools(self, event: AgentInitializedEvent) -> None:
        for name in (kit.SEARCH_TOOL, kit.READ_TOOL) if self.recall else ():
            event.agent.tool_registry.register_tool(self._recall_tool(name))

    async def _before_model_call(self, event: BeforeModelCallEvent) -> None:
        agent = event.agent
        if (sent := self._agent_requests.get(agent)) is not None and sent.is_sent_as_is:
            sent.is_sent_as_is = False
            return
        if not self.engine.is_ready:
            await asyncio.to_thread(self.engine.start)
        request = self._make_request(agent)
        fitted = await _run_counted(agent, request.fit())
        self._replace_messages(agent, fitted.messages)
        self._agent_requests[agent] = _AgentRequest(request, fitted)

    async def _after_model_call(self, event: AfterModelCallEvent) -> None:
        agent, error, answer = event.agent, event.exception, event.stop_response
        if (sent := self._agent_requests.get(agent)) is None:
            return
        if answer is not None and len(agent.messages) == len(sent.fitted.messages):
            sent.request.observe(sent.fitted, read_usage(answer.message.get("metadata", {}).get("usage")))
        if isinstance(error, ContextWindowOverflowException) and not isinstance(error.__cause__, WontFit):
            sent.refusal, sent.refused_messages = error, list(agent.messages)
            try:
                sent.shorter = await _run_counted(agent, self._shorten(agent, sent, error))
            except Exception as failure:  # noqa: BLE001 - raised where Strands asks for it
                sent.shorter = failure

    def _shorten(self, agent: Agent, sent: _AgentRequest, e: Exception) -> kit.Steps[Compaction]:
        """Return what to send in place of what was refused."""
        error = e if is_overflow(e) else ContextWindowOverflowException(str(e))
        return (yield from sent.request.shorten(replace(sent.fitted, messages=agent.messages), error))

    def _make_request(self, agent: Agent) -> kit.Request:
        """Return the agent's next request."""
        model, recall = agent.model, kit.SEARCH_TOOL in agent.tool_names
        reader = kit.Agent(model_name(model), model.context_window_limit, recall)
        beside: Any = {"system": agent.system_prompt_content, "tools": agent.tool_registry.get_all_tool_specs()}
        beside |= {"thread": self.thread_of(agent), "values": agent, "own": make_own_model(model)}
        return replace(self.engine.request(agent.messages, reader, **beside), as_host_error=_to_overflow_error)

    def _replace_messages(self, agent: Agent, new: list[Message]) -> None:
        """Make these the agent's messages, in the list that it has; the session's state follows."""
        before = agent.messages
        if new is before:
            return
        kept = count_common_end(before, new)
        if (stored := count_stored(agent)) is None:
            stored = self.removed_message_count + max(len(before) - len(self._messages_ahead), kept)
        add_tracking_ids(new, before)
        self.removed_message_count = stored - kept
        self._messages_ahead = new[: len(new) - kept]
        before[:] = new

    def _recall_tool(self, name: str) -> PythonAgentTool:
        def look(tool_use: ToolUse, *, agent: Agent, **_: Any) -> ToolResult:
            scope = self.engine.scope(self.thread_of(agent))
            text = kit.look_up(self.engine.archive, scope, name, tool_use["input"], FORMAT)
            return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": text}]}

        spec: Any = {"name": name, "description": kit.TOOL_DESCRIPTIONS[name]}
        spec["inputSchema"] = {"json": kit.TOOL_PARAMETERS[name]}
        look.__name__ = name
        return PythonAgentTool(name, spec, look)


async def _run_counted(agent: Agent, steps: kit.Steps[Compaction]) -> Compaction:
    """Carry out the work; add what the summariser used to the agent's metrics."""
    with kit.collect_events() as events:
        try:
            return await kit.arun(steps)
        finally:
            requests, used = kit.sum_summariser_usage(events)
            if requests:
                total = used.input + used.output
                usage = {"inputTokens": used.input, "outputTokens": used.output, "totalTokens": total}
                usage |= {"cacheReadInputTokens": used.cache_read, "cacheWriteInputTokens": used.cache_write}
                agent.event_loop_metrics.update_usage(usage)  # type: ignore[arg-type]


def _to_overflow_error(wont: WontFit) -> Exception:
    """Return the error that Strands has for it."""
    error = ContextWindowOverflowException(str(wont))
    error.__cause__ = wont
    return error


def _is_pinned(message: Message) -> bool:
    """Return whether Strands has pinned the message."""
    custom = (message.get("metadata") or {}).get("custom") or {}
    return custom.get("pinned") is True


# -- what a session restores -------------------------------------------------------------------------------------------


def count_common_end(before: Sequence[Message], after: Sequence[Message]) -> int:
    """Return how many messages at the end of both lists are the very same."""
    pairs = zip(reversed(before), reversed(after), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))


def count_stored(agent: Agent) -> int | None:
    """Return how many messages of this agent its session holds; None without a session, and for one of snapshots."""
    latest: dict[str, Any] | None = getattr(find_session_manager(agent), "_latest_agent_message", None)
    newest = latest.get(agent.agent_id) if latest else None
    return None if newest is None else int(newest.message_id) + 1


def find_session_manager(agent: Agent) -> Any:
    """Return the agent's session manager, or None."""
    return getattr(agent, "_session_manager", None)


def add_tracking_ids(new: Sequence[Message], before: Sequence[Message]) -> None:
    """Add to each message that was made here the id by which Strands tracks its messages."""
    theirs = {id(message) for message in before}
    for message in new:
        if id(message) not in theirs and not message.get("tracking_id"):
            message["tracking_id"] = str(uuid4())
