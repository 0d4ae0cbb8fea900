"""CrewAI: an LLM whose requests fit, for crews, agents, flows and direct calls. Needs the extra `crewai`.

    from unabridged.adapters.crewai import LLMCompaction

    compaction = LLMCompaction(archive="sqlite:///crew.db")
    reader = Agent(llm=compaction.around(LLM(model="openai/gpt-5-mini")), ...)

What the model is sent is compacted; the list of the agent's executor keeps every message.
"""

from unabridged.adapters.framework_versions import check_framework

with check_framework("crewai", __name__):
    from unabridged.adapters.crewai.format import CrewMessages
    from unabridged.adapters.crewai.llm import LLMCompaction, RequestTooLong

__all__ = ["CrewMessages", "LLMCompaction", "RequestTooLong"]
