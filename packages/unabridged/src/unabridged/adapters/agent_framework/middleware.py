"""The middleware: each request is fitted before it is sent, observed after, and sent once more where it is refused.

The framework sends its whole list at every step, and keeps it whole. So nothing is written back: the compactions on
record are found again and applied, which gives the same bytes each time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import agent_framework as framework
from agent_framework import ChatContext, FunctionTool, Message

from unabridged.adapters import kit
from unabridged.adapters.agent_framework import summariser
from unabridged.adapters.agent_framework.format import FORMAT
from unabridged.archive.names import Name
from unabridged.telemetry import otel
from unabridged.tokens.calibrate import Usage

log = logging.getLogger("unabridged.agent_framework")

Session = framework.AgentSession | Name
"""A session, or the name of a conversation without one."""


class _Updates(kit.Stream):
    """The updates of a streamed response."""

    def begins_answer(self, item: framework.ChatResponseUpdate) -> bool:
        """Return whether the model has begun to answer."""
        return any(content.type != "usage" for content in item.contents)

    def usage(self, item: framework.ChatResponseUpdate) -> Usage | None:
        """Return what the update reports."""
        return next(filter(None, map(summariser.read_usage, item.contents)), None)


class CompactionMiddleware(kit.PinMethods, framework.ChatMiddleware):
    """Keeps what an agent's model is sent within its window. Takes the keywords of `Compactor`.

    Its `model`, which writes the summaries, is that of the agent unless it is given: a chat client of the framework's,
    what `Compactor` takes, or None for summaries without a model. A thread is a session, by its id; without a session
    it is what `kit.thread` says. `host_state` gets the session's state at each compaction and returns a text: what a
    summary turn should show of it. One middleware serves any number of agents and sessions.
    """

    def __init__(self, *, host_state: Callable[[dict[str, Any]], str | None] | None = None, **keywords: Any) -> None:
        keywords["model"] = summariser.to_summariser(keywords.get("model", kit.AGENT_MODEL))
        keywords["on_event"] = otel(also=keywords.get("on_event"))
        self.engine = kit.Engine(FORMAT, host_state=host_state, **keywords)
        self._has_warned = False

    # -- what the framework calls -------------------------------------------------------------------------------------

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Send what fits in the place of the request's messages."""
        if summariser.is_summary_request() or self._is_kept_elsewhere(context):
            await call_next()
            return
        agent = _describe_agent(context)
        if not self.engine.is_ready_for(agent):  # the archive is read, for which the event loop does not wait
            await asyncio.to_thread(self.engine.compactor_for, agent)
        request = self._make_request(context, agent)
        originals = dict(zip(map(id, request.messages), context.messages, strict=True))

        opened: list[Any] = []

        async def send(messages: list[Any]) -> Any:
            if messages is not request.messages:
                context.messages = [originals.get(id(each)) or Message.from_dict(each) for each in messages]
            await call_next()
            opened.append(context.result)
            return context.result if context.stream else summariser.read_usage(context.result)

        if not context.stream:
            await kit.arun(request.exchange(send))
            return
        fitted = await kit.arun(request.fit())
        if (stream := await send(fitted.messages)) is not None:
            updates = kit.astream_fitted(request, fitted, stream, send, _Updates())
            context.result = framework.ResponseStream(updates, finalizer=lambda _: opened[-1].get_final_response())

    def _is_kept_elsewhere(self, context: ChatContext) -> bool:
        """Return whether the request has only what is new, and somebody else the conversation; warn of that once."""
        if not (context.options or {}).get("conversation_id"):
            return False
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "not compacted: the request names a conversation that is kept elsewhere, and has only its news. "
                "Agent(default_options={'store': False}) sends it whole"
            )
        return True

    def _make_request(self, context: ChatContext, agent: kit.Agent) -> kit.Request:
        options, session = context.options or {}, context.session
        beside: dict[str, Any] = {"system": options.get("instructions"), "tools": _list_schemas(options) or None}
        beside |= {"max_tokens": options.get("max_tokens"), "own": summariser.make_own_model(context.client, options)}
        beside |= {"thread": self.thread_of(session), "values": None if session is None else session.state}
        return self.engine.request(_to_plain(context.messages), agent, **beside)

    # -- what a host asks ---------------------------------------------------------------------------------------------

    def thread_of(self, session: framework.AgentSession | None) -> str | None:
        """Return the name under which a session's conversation is kept; None for one without a name."""
        return kit.current_thread() or (None if session is None else session.session_id)

    def tools(self) -> list[FunctionTool]:
        """Return the recall tools: with them an agent searches and reads what left its context."""
        return [self._make_recall_tool(name) for name in (kit.SEARCH_TOOL, kit.READ_TOOL)]

    def _make_recall_tool(self, name: str) -> FunctionTool:
        async def answer(ctx: framework.FunctionInvocationContext, **arguments: Any) -> str:
            scope = self.engine.scope(self.thread_of(ctx.session))
            return await asyncio.to_thread(lambda: kit.look_up(self.engine.archive, scope, name, arguments, FORMAT))

        description, schema = kit.TOOL_DESCRIPTIONS[name], kit.TOOL_PARAMETERS[name]
        return FunctionTool(name=name, description=description, func=answer, input_model=schema)

    def _replay(self, messages: Sequence[Message], session: Session) -> kit.Steps[list[Message]]:
        """Return the original conversation, exactly, of what a model was sent and what came since."""
        return (yield from self._restore("replay", messages, session))

    def _undo(self, messages: Sequence[Message], session: Session) -> kit.Steps[list[Message]]:
        """Take the newest compaction back; return what is sent without it.

        `messages` are those of the session, or what a model was sent and what came since.
        """
        return (yield from self._restore("undo", messages, session))

    def _restore(self, method: str, messages: Sequence[Message], session: Session) -> kit.Steps[list[Message]]:
        earlier = yield from self.engine.restore(method, _to_plain(messages), _read_name(session))
        return [Message.from_dict(each) for each in earlier]

    replay, areplay = kit.make_sync_and_async(_replay)
    undo, aundo = kit.make_sync_and_async(_undo)

    def close(self) -> None:
        """Close the archive, if it was opened here."""
        self.engine.close()


def _to_plain(messages: Sequence[Message]) -> list[Any]:
    """Return the messages as a session stores them: without what says which provider put them into a request."""
    plain = [message.to_dict() for message in messages]
    for message in plain:
        message["additional_properties"].pop("_attribution", None)
    return plain


def _describe_agent(context: ChatContext) -> kit.Agent:
    """Return the model that reads the conversation, as far as the framework knows it."""
    options = context.options or {}
    name = options.get("model") or summariser.read_model_name(context.client)
    return kit.Agent(name, recall=kit.has_recall(_list_schemas(options)))


def _list_schemas(options: Mapping[str, Any]) -> list[Any]:
    """Return all that the model reads besides messages and instructions: tools, and the form of its answer."""
    tools = framework.normalize_tools(options.get("tools"))
    schemas = [tool.to_json_schema_spec() if isinstance(tool, FunctionTool) else tool for tool in tools]
    return [*schemas, *([kit.to_schema(form)] if (form := options.get("response_format")) else ())]


def _read_name(session: Session) -> Name:
    return session.session_id if isinstance(session, framework.AgentSession) else session
