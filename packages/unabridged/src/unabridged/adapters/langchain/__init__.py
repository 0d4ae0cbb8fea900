"""LangChain, LangGraph and Deep Agents: swap one import.

`from unabridged.adapters.langchain import SummarizationMiddleware`

The modules, in reading order: `middleware`, `arguments`, `compactors` (the engine, one for each model), `graph_state`
(how a graph's state follows, and what of it is shown), `message_names` (its messages, with ids and without), `format`
and `blocks` (LangChain's messages), `chat_models` (as summarisers), `deep_agents` and `history_file` (what Deep Agents
does besides), `tools`, `factories`, `stored_threads`. The rest is in `adapters.kit`.
"""

from __future__ import annotations

from unabridged.adapters.framework_versions import check_framework

with check_framework("langchain", __name__):
    from langchain.agents.middleware.summarization import DEFAULT_SUMMARY_PROMPT, ContextSize, TriggerClause

    from unabridged.adapters.langchain.arguments import SummarizationDefaults, compute_summarization_defaults
    from unabridged.adapters.langchain.chat_models import summariser_of
    from unabridged.adapters.langchain.factories import (
        create_agent,
        create_deep_agent,
        create_summarization_middleware,
        create_summarization_tool_middleware,
    )
    from unabridged.adapters.langchain.format import LangChain
    from unabridged.adapters.langchain.graph_state import SummarizationState, todos
    from unabridged.adapters.langchain.middleware import SummarizationMiddleware
    from unabridged.adapters.langchain.stored_threads import (
        acompact,
        aforget,
        aread,
        areplay,
        asearch,
        aundo,
        compact,
        forget,
        read,
        replay,
        search,
        undo,
    )
    from unabridged.adapters.langchain.tools import SummarizationToolMiddleware, compaction_tool, history_tools

__all__ = ["DEFAULT_SUMMARY_PROMPT"]
__all__ += ["ContextSize", "LangChain", "SummarizationDefaults", "SummarizationMiddleware", "SummarizationState"]
__all__ += ["SummarizationToolMiddleware", "TriggerClause"]
__all__ += ["acompact", "aforget", "areplay", "aundo", "compact", "compaction_tool", "compute_summarization_defaults"]
__all__ += ["create_agent", "create_deep_agent", "create_summarization_middleware"]
__all__ += ["create_summarization_tool_middleware", "forget", "history_tools", "replay", "summariser_of", "todos"]
__all__ += ["aread", "asearch", "read", "search", "undo"]
