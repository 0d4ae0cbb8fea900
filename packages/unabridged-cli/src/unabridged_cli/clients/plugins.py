"""The plugin as Claude Code and Codex keep it after an install: where, in which version, and whether it is enabled."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from unabridged_cli.clients.client import CodingAgent, Environ

PLUGIN_NAME: Final = "unabridged"


class InstalledPlugin(NamedTuple):
    """The plugin in one client."""

    id: str
    """As the client names it: `unabridged@MARKETPLACE`."""
    root: Path
    """The folder that the client loads it from."""
    is_enabled: bool
    record: Path
    """What the client wrote when it installed the plugin, and so the time of that."""

    @property
    def hooks(self) -> Path:
        """Return the file with its hooks."""
        return self.root / "hooks" / "hooks.json"

    @property
    def version(self) -> str:
        """Return the version in its manifest; empty if there is none to read."""
        return str(read_json(self.root / ".claude-plugin" / "plugin.json").get("version") or "")


def find_plugin(agent: CodingAgent, environ: Environ, project: Path) -> InstalledPlugin | None:
    """Return the plugin that this client has installed; None for none, and for clients that have no such plugins."""
    find = {"claude-code": _find_in_claude_code, "codex": _find_in_codex}.get(agent.name)
    return find(agent.home(environ), project) if find else None


def _find_in_claude_code(home: Path, project: Path) -> InstalledPlugin | None:
    record = home / "plugins" / "installed_plugins.json"
    id_ = _find_id(read_json(record).get("plugins"))
    if id_ is None:
        return None
    marketplace = read_json(home / "plugins" / "known_marketplaces.json").get(id_.partition("@")[2]) or {}
    if marketplace.get("source", {}).get("source") == "directory":  # Claude Code runs it where it is
        root = Path(marketplace["installLocation"]) / "plugins" / PLUGIN_NAME
    else:
        root = Path(read_json(record)["plugins"][id_][-1]["installPath"])
    local = project / ".claude"
    settings = (home / "settings.json", local / "settings.json", local / "settings.local.json")
    named = [read_json(path).get("enabledPlugins") or {} for path in settings]
    return InstalledPlugin(id_, root, ([False] + [one[id_] for one in named if id_ in one])[-1] is True, record)


def _find_in_codex(home: Path, _project: Path) -> InstalledPlugin | None:
    plugins = read_toml(home / "config.toml").get("plugins")
    id_ = _find_id(plugins)
    if plugins is None or id_ is None:
        return None
    folder = home / "plugins" / "cache" / id_.partition("@")[2] / PLUGIN_NAME
    root = max(folder.glob("*"), key=lambda path: path.stat().st_mtime, default=folder)
    return InstalledPlugin(id_, root, plugins[id_].get("enabled") is not False, root)


def _find_id(plugins: Any) -> str | None:
    listed = plugins if isinstance(plugins, Mapping) else {}
    return next((str(id_) for id_ in listed if str(id_).partition("@")[0] == PLUGIN_NAME), None)


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one if there is none to read."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def read_toml(path: Path) -> dict[str, Any]:
    """Return the TOML document in a file; an empty one if there is none to read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
