"""Microsoft Agent Framework: a middleware for chat clients. Needs the extra `agent-framework`.

    from unabridged.adapters.agent_framework import CompactionMiddleware

    agent = Agent(client, "You read logs.", tools=[read_log], middleware=[CompactionMiddleware(archive="sqlite:///a.db")])

What a model is sent is compacted; the session keeps every message.
"""

from unabridged.adapters.framework_versions import check_framework

with check_framework("agent-framework", __name__):
    from unabridged.adapters.agent_framework.format import StoredMessages
    from unabridged.adapters.agent_framework.middleware import CompactionMiddleware

__all__ = ["CompactionMiddleware", "StoredMessages"]
