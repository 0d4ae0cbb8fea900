"""LiteLLM: a callback for its async calls, and a function around those that you make yourself. Needs `litellm`.

    from unabridged.adapters.litellm import CompactionCallback

    compaction = CompactionCallback(archive="sqlite:///agent.db")
    litellm.callbacks.append(compaction)      # every acompletion, anthropic_messages and aresponses, the router's too

A request is fitted after a deployment was chosen, in the format that its caller wrote it in.
"""

from unabridged.adapters.framework_versions import check_framework

with check_framework("litellm", __name__):
    from unabridged.adapters.litellm.callback import CompactionCallback

__all__ = ["CompactionCallback"]
