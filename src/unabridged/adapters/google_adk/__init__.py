"""Google ADK: a plugin for the runner. Needs the extra `google-adk`.

    from unabridged.adapters.google_adk import CompactionPlugin

    app = App(name="desk", root_agent=agent, plugins=[CompactionPlugin(archive="sqlite:///desk.db")])

What a model is sent is compacted; the session keeps every event.
"""

from unabridged.errors import NotInstalled

try:
    from unabridged.adapters.google_adk.plugin import AdkContents, CompactionPlugin
    from unabridged.adapters.google_adk.tools import RecallTool
except ImportError as error:
    raise NotInstalled(__name__, "unabridged[google-adk]", error) from error

__all__ = ["AdkContents", "CompactionPlugin", "RecallTool"]
