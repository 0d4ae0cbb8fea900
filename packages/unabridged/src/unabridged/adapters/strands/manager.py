"""The conversation manager: every request fitted before the model is called, and what left the list kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from strands import Agent
from strands.agent.conversation_manager import ConversationManager
from strands.hooks import AfterModelCallEvent, AgentInitializedEvent, BeforeModelCallEvent, HookOrder, HookRegistry
from strands.tools.tools import PythonAgentTool
from strands.types.content import Message
from strands.types.exceptions import ContextWindowOverflowException
from strands.types.tools import ToolResult, ToolUse

from unabridged.adapters import kit
from unabridged.adapters.strands.session import count_common_end, count_stored, give_ids, session_manager
from unabridged.adapters.strands.summariser import model_name, own_model, summariser, usage_of
from unabridged.archive.names import Name, optional_name
from unabridged.asking.overflow import is_overflow
from unabridged.compactor import Compaction
from unabridged.errors import WontFit
from unabridged.formats import BedrockConverse
from unabridged.formats.fields import same_objects
from unabridged.settings import Settings
from unabridged.telemetry import otel

FORMAT = BedrockConverse()
_NAME, _AHEAD = "__name__", "messages_ahead"
_THEIRS = {"SlidingWindowConversationManager", "SummarizingConversationManager", "NullConversationManager"}
"""Managers of Strands' own whose sessions can be gone on with."""
_DEFAULT_AGENT = "default"


@dataclass(slots=True)
class _Sent:
    """The request that an agent sends, or sent last."""

    request: kit.Request
    fitted: Compaction
    settled: bool = False
    """It was made in place of one that was refused, and is sent as it is."""
    refused: _Refused | None = None


class _Refused(NamedTuple):
    """A refusal of what was sent, and what to send in its place: made before Strands asks for it, which can't wait."""

    error: Exception
    messages: list[Message]
    shorter: Compaction | Exception


class CompactingConversationManager(kit.PinMethods, ConversationManager):
    """Keeps `agent.messages` within the model's window; what leaves the list is in the archive first.

    Takes the keywords of `Compactor`; its `model`, who writes summaries, is the agent's own unless it is given: a model
    of Strands', what `Compactor` takes, or None for summaries without a model. The window is the
    model's `context_window_limit`, else what is known of its name. `thread` names the conversation: without it, it is
    the session's id, and without a session what `kit.thread` says. With `recall` the agent gets tools to search and
    read what left its list; what Strands has pinned stays in it. `host_state` is asked with the agent for what a
    summary should tell of `agent.state`. One manager for each agent that has a session; any number share an archive.
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
        if host_state is not None:
            keywords["state"] = lambda _: host_state(kit.current_values())
        keywords["model"] = summariser(keywords.get("model", kit.AGENT_MODEL))
        if isinstance(settings := keywords.get("settings", Settings()), Settings):
            keywords["settings"] = _pinning(settings)
        self.engine = kit.Engine(FORMAT, **{**keywords, "on_event": otel(also=keywords.get("on_event"))})
        self._sent: WeakKeyDictionary[Agent, _Sent] = WeakKeyDictionary()
        self._ahead: list[Message] = []
        """What stands before the messages that a session restores by itself."""

    def _pin_engine(self) -> kit.Engine:
        return self.engine

    # -- Strands' protocol --------------------------------------------------------------------------------------------

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Look at every request before it is sent, after all other hooks, and learn from what its answer reports."""
        super().register_hooks(registry, **kwargs)
        registry.add_callback(AgentInitializedEvent, self._begin)
        registry.add_callback(BeforeModelCallEvent, self._before_model_call, order=HookOrder.SDK_LAST)
        registry.add_callback(AfterModelCallEvent, self._after_model_call)

    def apply_management(self, agent: Agent, **kwargs: Any) -> None:  # noqa: ARG002 - the protocol's
        """Compact if it is time to, where this is called by hand.

        An agent calls it at the end of each turn, in its event loop: there is nothing to do then, since every request
        is fitted before it is sent, and an event loop must not wait.
        """
        if kit.in_event_loop():
            return
        request = self._request(agent)
        if request.compactor.plan(agent.messages, **request.named).trigger is not None:
            self.reduce_context(agent)

    def reduce_context(self, agent: Agent, e: Exception | None = None, **kwargs: Any) -> None:  # noqa: ARG002
        """Make the messages shorter: now, or in place of what the model refused as too long with `e`.

        A second refusal, and a first where nothing can go, is a `ContextWindowOverflowException` that says why. As
        Strands has it, whatever `e` says it is about the window.
        """
        if e is None:
            self._put(agent, kit.run(replace(self._request(agent), force=True).fit()).messages)
            return
        if isinstance(e.__cause__, WontFit):
            raise e
        sent = self._sent.get(agent) or self._measure(agent)
        known = sent.refused
        try:
            if known is None or known.error is not e or not same_objects(known.messages, agent.messages):
                again = kit.run(self._shorter(agent, sent, e))
            elif isinstance(known.shorter, Exception):
                raise known.shorter
            else:
                again = known.shorter
        except WontFit as wont:
            raise ContextWindowOverflowException(str(wont)) from wont
        self._put(agent, again.messages)
        self._sent[agent] = _Sent(sent.request, again, settled=True)

    def get_state(self) -> dict[str, Any]:
        """What a session must know to restore the messages as they are now."""
        return {**super().get_state(), _AHEAD: self._ahead}

    def restore_from_session(self, state: dict[str, Any]) -> list[Message] | None:
        """The messages that stand before those which the session restores by itself.

        The state of a manager of Strands' own is taken too: what it dropped stays in the session, unread.
        """
        name = state.get(_NAME)
        if name in _THEIRS:
            summary = state.get("summary_message")
            state = {**state, _NAME: type(self).__name__, _AHEAD: [summary] if summary else []}
        super().restore_from_session(state)
        self._ahead = list(state.get(_AHEAD) or ())
        return list(self._ahead) or None

    # -- by hand ------------------------------------------------------------------------------------------------------

    def _replay(self, agent: Agent) -> kit.Steps[list[Message]]:
        """The original conversation, exactly: every compaction that stands in the agent's messages is taken back."""
        request = self._request(agent)
        whole: list[Message] = yield kit.method(request.compactor, "replay", agent.messages, thread=request.thread)
        return whole

    def _undo(self, agent: Agent) -> kit.Steps[None]:
        """Take the newest compaction back: the agent has the messages that it had before, and those since."""
        request = self._request(agent)
        before = yield kit.method(request.compactor, "undo", agent.messages, thread=request.thread)
        self._sent.pop(agent, None)
        self._put(agent, before)
        if (sessions := session_manager(agent)) is not None:
            sessions.sync_agent(agent)

    replay, areplay = kit.in_both_forms(_replay)
    undo, aundo = kit.in_both_forms(_undo)

    def thread_of(self, agent: Agent) -> str | None:
        """The name under which the agent's conversation is kept; None where nobody gave it one."""
        session = getattr(session_manager(agent), "session_id", None)
        if session and agent.agent_id != _DEFAULT_AGENT:
            session = f"{session}/{agent.agent_id}"
        return self.thread or session or kit.current_thread()

    def close(self) -> None:
        """Let go of the archive, if it was opened here."""
        self.engine.close()

    # -- around a model call ------------------------------------------------------------------------------------------

    def _begin(self, event: AgentInitializedEvent) -> None:
        for name in (kit.SEARCH, kit.READ) if self.recall else ():
            event.agent.tool_registry.register_tool(self._recall_tool(name))

    async def _before_model_call(self, event: BeforeModelCallEvent) -> None:
        agent = event.agent
        sent = self._sent.get(agent)
        if sent is not None and sent.settled:
            sent.settled = False
            return
        if not self.engine.ready:
            await asyncio.to_thread(self.engine.start)
        request = self._request(agent)
        try:
            fitted = await _counted(agent, request.fit())
        except WontFit as wont:
            raise ContextWindowOverflowException(str(wont)) from wont
        self._put(agent, fitted.messages)
        self._sent[agent] = _Sent(request, fitted)

    async def _after_model_call(self, event: AfterModelCallEvent) -> None:
        agent, error, answer = event.agent, event.exception, event.stop_response
        if (sent := self._sent.get(agent)) is None:
            return
        if answer is not None and len(agent.messages) == len(sent.fitted.messages):
            sent.request.observe(sent.fitted, usage_of(answer.message.get("metadata", {}).get("usage")))
        if isinstance(error, ContextWindowOverflowException) and not isinstance(error.__cause__, WontFit):
            before = list(agent.messages)
            try:
                shorter: Compaction | Exception = await _counted(agent, self._shorter(agent, sent, error))
            except Exception as failed:  # noqa: BLE001 - raised where Strands asks for it
                shorter = failed
            sent.refused = _Refused(error, before, shorter)

    def _shorter(self, agent: Agent, sent: _Sent, e: Exception) -> kit.Steps[Compaction]:
        """What to send in place of what was refused."""
        error = e if is_overflow(e) else ContextWindowOverflowException(str(e))
        return (yield from sent.request.shorten(replace(sent.fitted, messages=agent.messages), error))

    def _request(self, agent: Agent) -> kit.Request:
        """The agent's next request."""
        model, recall = agent.model, kit.SEARCH in agent.tool_names
        return self.engine.request(
            agent.messages,
            kit.Agent(model_name(model), model.context_window_limit, recall),
            thread=self.thread_of(agent),
            system=agent.system_prompt_content,
            tools=agent.tool_registry.get_all_tool_specs(),
            values=agent,
            own=own_model(model),
        )

    def _measure(self, agent: Agent) -> _Sent:
        """What the agent would send."""
        request = self._request(agent)
        return _Sent(request, kit.run(request.fit()))

    def _put(self, agent: Agent, new: list[Message]) -> None:
        """Let these be the agent's messages, in the list that it has; the session's state follows."""
        before = agent.messages
        if new is before:
            return
        kept = count_common_end(before, new)
        stored = count_stored(agent)
        if stored is None:
            stored = self.removed_message_count + max(len(before) - len(self._ahead), kept)
        give_ids(new, before)
        self.removed_message_count = stored - kept
        self._ahead = new[: len(new) - kept]
        before[:] = new

    def _recall_tool(self, name: str) -> PythonAgentTool:
        def look(tool_use: ToolUse, *, agent: Agent, **_: Any) -> ToolResult:
            scope = self.engine.scope(self.thread_of(agent))
            found = kit.look_up(self.engine.archive, scope, name, tool_use["input"], FORMAT)
            return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": found}]}

        spec: Any = {"name": name, "description": kit.DESCRIPTIONS[name], "inputSchema": {"json": kit.PARAMETERS[name]}}
        look.__name__ = name
        return PythonAgentTool(name, spec, look)


async def _counted(agent: Agent, steps: kit.Steps[Compaction]) -> Compaction:
    """Carry out the work; what the summariser used is in the agent's metrics."""
    with kit.collected_events() as events:
        try:
            return await kit.arun(steps)
        finally:
            requests, used = kit.summaries_used(events)
            if requests:
                told = {"inputTokens": used.input, "outputTokens": used.output, "totalTokens": used.input + used.output}
                cached = {"cacheReadInputTokens": used.cache_read, "cacheWriteInputTokens": used.cache_write}
                agent.event_loop_metrics.update_usage({**told, **cached})  # type: ignore[typeddict-item]


def _pinning(settings: Settings) -> Settings:
    """The settings, with what Strands has pinned staying verbatim, too."""
    own = settings.pin

    def pin(message: Message) -> bool:
        custom = (message.get("metadata") or {}).get("custom") or {}
        return custom.get("pinned") is True or (own is not None and own(message))

    return replace(settings, pin=pin)
