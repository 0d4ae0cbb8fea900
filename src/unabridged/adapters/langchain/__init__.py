"""LangChain, LangGraph and Deep Agents: swap one import.

`from unabridged.adapters.langchain import SummarizationMiddleware`

The modules, in reading order: `middleware`, `compactors` (the engine, one for each model), `state` (how a graph's
state follows), `host` (what it tells in a summary turn), `format` and `blocks` (LangChain's messages), `legal`, `model`
(chat models as summarisers), `arguments`, `telling` (events), `tools`, `factories`, `manual`.
"""

from __future__ import annotations

from unabridged.adapters.langchain.factories import create_agent, create_deep_agent
from unabridged.adapters.langchain.format import LangChain
from unabridged.adapters.langchain.host import todos
from unabridged.adapters.langchain.manual import acompact, areplay, aundo, compact, replay, undo
from unabridged.adapters.langchain.middleware import SummarizationMiddleware
from unabridged.adapters.langchain.model import summariser_of
from unabridged.adapters.langchain.tools import SummarizationToolMiddleware, compaction_tool, history_tools

__all__ = [
    "LangChain",
    "SummarizationMiddleware",
    "SummarizationToolMiddleware",
    "acompact",
    "areplay",
    "aundo",
    "compact",
    "compaction_tool",
    "create_agent",
    "create_deep_agent",
    "history_tools",
    "replay",
    "summariser_of",
    "todos",
    "undo",
]
