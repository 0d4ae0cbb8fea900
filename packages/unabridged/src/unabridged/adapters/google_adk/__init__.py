"""Google ADK: a plugin for the runner. Needs the extra `google-adk`.

    from unabridged.adapters.google_adk import CompactionPlugin

    app = App(name="desk", root_agent=agent, plugins=[CompactionPlugin(archive="sqlite:///desk.db")])

What a model is sent is compacted; the session keeps every event.
"""

from unabridged.adapters.framework_versions import check_framework

with check_framework("google-adk", __name__):
    from unabridged.adapters.google_adk.plugin import AdkContents, CompactionPlugin, RecallTool

__all__ = ["AdkContents", "CompactionPlugin", "RecallTool"]
