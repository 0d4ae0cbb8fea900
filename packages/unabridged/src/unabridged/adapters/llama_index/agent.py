"""The agent: each step's request is fitted before it is sent, observed after, and sent once more where it is refused.

A step sends what the memory holds and, behind it, what was said since the run began. Both stay whole: the compactions
on record are found again and applied, which gives the same bytes each time.
"""

# Annotations are looked at by `FunctionTool`, which knows `Context` only as a class: they are not postponed here.

import asyncio
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from llama_index.core.agent.workflow import AgentOutput, FunctionAgent
from llama_index.core.bridge.pydantic import Field
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.llms import LLM, ChatMessage
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY
from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolMetadata
from llama_index.core.workflow import Context

from unabridged.adapters import kit
from unabridged.adapters.llama_index.format import FORMAT
from unabridged.archive.names import Name
from unabridged.asking.ask import Ask, Reply
from unabridged.formats.fields import get

_NAMES = (kit.SEARCH_TOOL, kit.READ_TOOL)


class AgentCompaction(kit.PinMethods):
    """What agents share that keep their requests within their models' windows. Takes the keywords of `Compactor`.

    Its `model`, which writes the summaries, is the `llm` of the agent unless it is given: an LLM of the framework's,
    what `Compactor` takes, or None for summaries without a model. A thread is a memory, by its `session_id` or
    `chat_store_key`; what `kit.thread` says goes before that. `host_state` gets the workflow's state at each
    compaction and returns a text: what a summary turn should show of it.
    """

    def __init__(self, *, host_state: Callable[[Any], str | None] | None = None, **keywords: Any) -> None:
        keywords["model"] = _to_summariser(keywords.get("model", kit.AGENT_MODEL))
        self.engine = kit.Engine(FORMAT, host_state=host_state, **keywords)

    def thread_of(self, memory: BaseMemory | None) -> str | None:
        """Return the name under which a memory's conversation is kept; None for one without a name of its own."""
        key = getattr(memory, "session_id", None) or getattr(memory, "chat_store_key", None)
        return kit.current_thread() or (None if key == DEFAULT_CHAT_STORE_KEY else key)

    async def make_request(
        self, llm: LLM, messages: list[ChatMessage], tools: Sequence[AsyncBaseTool], **beside: Any
    ) -> kit.Request:
        """Return the request that a step is about to make; `beside` goes to the engine."""
        schemas = [tool.metadata.to_openai_tool(skip_length_check=True) for tool in tools]
        known = llm.metadata
        window = None if known.context_window == DEFAULT_CONTEXT_WINDOW else known.context_window
        agent = kit.Agent(known.model_name, window, kit.has_recall(schemas))
        if not self.engine.is_ready_for(agent):  # the archive is read, for which the event loop does not wait
            await asyncio.to_thread(self.engine.compactor_for, agent)
        return self.engine.request(messages, agent, tools=schemas or None, own=partial(_ask_llm, llm), **beside)

    def tools(self) -> list[FunctionTool]:
        """Return the recall tools: with them an agent searches and reads what left its context."""
        return [FunctionTool(metadata=_RecallMetadata(name), async_fn=self._make_recall(name)) for name in _NAMES]

    def _make_recall(self, name: str) -> Callable[..., Any]:
        async def answer(ctx: Context, **arguments: Any) -> str:
            scope = self.engine.scope(self.thread_of(await ctx.store.get("memory", default=None)))
            return await asyncio.to_thread(lambda: kit.look_up(self.engine.archive, scope, name, arguments, FORMAT))

        return answer

    def _replay(self, messages: Sequence[ChatMessage], thread: Name) -> kit.Steps[list[ChatMessage]]:
        """Return the original conversation, exactly, of what a model was sent and what came since."""
        return (yield from self.engine.restore("replay", list(messages), thread))

    def _undo(self, messages: Sequence[ChatMessage], thread: Name) -> kit.Steps[list[ChatMessage]]:
        """Take the newest compaction back; return what is sent without it.

        `messages` are those of the memory, or what a model was sent and what came since.
        """
        return (yield from self.engine.restore("undo", list(messages), thread))

    replay, areplay = kit.make_sync_and_async(_replay)
    undo, aundo = kit.make_sync_and_async(_undo)

    def close(self) -> None:
        """Close the archive, if it was opened here."""
        self.engine.close()


class CompactingFunctionAgent(FunctionAgent):
    """A `FunctionAgent` whose model is sent what fits; a run without a memory gets one that leaves nothing out."""

    compaction: AgentCompaction = Field(exclude=True, description="What keeps the requests within the model's window.")

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Start a run, as `FunctionAgent.run` does."""
        if kwargs.get("memory") is None and len(args) < 3:  # the third is a memory
            kwargs["memory"] = ChatMemoryBuffer.from_defaults(token_limit=sys.maxsize)
        return super().run(*args, **kwargs)

    async def take_step(
        self, ctx: Any, llm_input: list[ChatMessage], tools: Sequence[AsyncBaseTool], memory: BaseMemory
    ) -> AgentOutput:
        """Take a step with what fits in the place of the memory and of what was said since."""
        said = await ctx.store.get(self.scratchpad_key, default=[])
        is_prompted = bool(self.system_prompt) and llm_input[0].role == "system"
        prompt, messages = llm_input[:is_prompted], [*llm_input[is_prompted:], *said]
        beside = {"thread": self.compaction.thread_of(memory), "values": await ctx.store.get("state", default=None)}
        beside["system"] = self.system_prompt if is_prompted else None
        request = await self.compaction.make_request(self.llm, messages, tools, **beside)
        step = super().take_step

        async def send(messages: list[Any]) -> AgentOutput:
            await ctx.store.set(self.scratchpad_key, [])  # all of it is in the messages
            return await step(ctx, [*prompt, *map(_copy_lists, messages)], tools, memory)

        try:
            sent = await kit.arun(request.exchange(send))
            output: AgentOutput = sent.response
            request.observe(sent.fitted, output.raw)
            said = [*said, output.response]
        finally:
            await ctx.store.set(self.scratchpad_key, said)
        return output


def _copy_lists(message: ChatMessage) -> ChatMessage:
    """Return a copy with lists of its own: some clients join messages by changing the first one's."""
    return message.model_copy(update={"blocks": [*message.blocks], "additional_kwargs": {**message.additional_kwargs}})


class _RecallMetadata(ToolMetadata):
    """The description of a recall tool."""

    def __init__(self, name: str) -> None:
        super().__init__(kit.TOOL_DESCRIPTIONS[name], name)

    def get_parameters_dict(self) -> dict[str, Any]:
        """Return the schema of the tool's arguments."""
        return kit.TOOL_PARAMETERS[self.get_name()]


def _to_summariser(model: Any) -> Any:
    """Return what `Compactor(model)` takes: the same, unless it is an LLM of the framework's."""
    return kit.NamedModel(model.metadata.model_name, partial(_ask_llm, model)) if isinstance(model, LLM) else model


async def _ask_llm(llm: LLM, ask: Ask) -> Reply:
    """Return the model's reply to the instruction alone: no agent runs, and no tool."""
    system = [ChatMessage(ask.system, role="system")] if isinstance(ask.system, str) else []
    response = await llm.achat([*system, ChatMessage(ask.instruction)])
    said = next(iter(get(response.raw, "choices") or ()), response.raw)
    stop = get(said, "finish_reason") or get(said, "stop_reason")
    calls = len(FORMAT.read(response.message).calls)
    return Reply(response.message.content or "", stop, response.raw, calls, model=llm.metadata.model_name)
