"""OpenAI Agents: a model provider for what is sent, a session for what is stored.

    provider = CompactingProvider(archive="sqlite:///agent.db")
    session = CompactingSession(SQLiteSession("user-42", "sessions.db"), provider)
    await Runner.run(agent, "Go on.", session=session, run_config=RunConfig(model_provider=provider))

The modules, in reading order: `provider`, `session`, `tools`, and `runs`, which they share.
"""

from unabridged.adapters.framework_versions import check_framework

with check_framework("openai-agents", __name__):
    from unabridged.adapters.kit import thread
    from unabridged.adapters.openai_agents.provider import CompactingModel, CompactingProvider
    from unabridged.adapters.openai_agents.session import CompactingSession
    from unabridged.adapters.openai_agents.tools import input_filter, recall_tools

__all__ = ["CompactingModel", "CompactingProvider", "CompactingSession", "input_filter", "recall_tools", "thread"]
