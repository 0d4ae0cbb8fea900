"""LlamaIndex: an agent whose requests fit. Needs the extra `llama-index`.

    from unabridged.adapters.llama_index import AgentCompaction, CompactingFunctionAgent

    agent = CompactingFunctionAgent(tools=[read_log], llm=llm, compaction=AgentCompaction(archive="sqlite:///a.db"))

What a model is sent is compacted; the memory keeps every message.
"""

from unabridged.adapters.framework_versions import check_framework

with check_framework("llama-index", __name__):
    from unabridged.adapters.llama_index.agent import AgentCompaction, CompactingFunctionAgent
    from unabridged.adapters.llama_index.format import LlamaIndexMessages

__all__ = ["AgentCompaction", "CompactingFunctionAgent", "LlamaIndexMessages"]
