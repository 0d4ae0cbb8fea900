"""What the tests of an install share: a home folder of its own, and configurations with something in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from unabridged_cli.clients.configure import apply_change, plan_install, plan_uninstall
from unabridged_cli.clients.registry import CLIENTS

PROGRAM = "/opt/my tools/bin/unabridged"
SETTINGS = """\
// mine
{
  "model": "opus", // the large one
  "hooks": {
    "PreCompact": [
      {"matcher": "manual", "hooks": [{"type": "command", "command": "~/bin/save || true"}]} /* keep */
    ],
    /* while it lasts */
    "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
  },
  "mcpServers": {"github": {"command": "gh-mcp", "env": {"TOKEN": "ghp_secret"}}},
  "mcp": { "docs": {"type": "remote", "url": "https://example.org"} }
}
"""
CONFIG = """\
# mine
model = "gpt-5" # the large one
notify = ["say", "done"]

[mcp_servers.github] # not ours
command = "gh-mcp"
env = { TOKEN = "ghp_secret" }

[projects."/home/me/app"]
trust_level = "trusted"
"""
SHAPES: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "without an end of line": lambda text: text.rstrip("\n"),
    "with Windows' ends of lines": lambda text: text.replace("\n", "\r\n"),
    "with empty lines at the end": lambda text: text + "\n\n",
    "with a mark at the beginning": lambda text: "\ufeff" + text,
    "empty": lambda _: "",
    "blank": lambda _: "\n",
}
EMPTY_BOXES = [
    "// nothing yet",
    "{}",
    "{ }\n",
    "{\n}\n",
    '{"hooks": {}, "mcpServers": {}, "mcp": {}}',
    '{"hooks": {"PreCompact": [ ]}}\n',
]

clients = pytest.mark.parametrize("name", sorted(CLIENTS))
scopes = pytest.mark.parametrize("scope", ["user", "project"])
PLACES = [
    pytest.param(name, place.path.name, id=f"{name} {place.path.name}")
    for name, client in CLIENTS.items()
    for place in client.entries({"HOME": "/nowhere"}, None)
    if not place.path.name.endswith(".ts")
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(project)
    return home


def files_in(*folders: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def fill(name: str, scope: str, home: Path) -> None:
    """Every file of the client's with something in it that is not ours."""
    for place in CLIENTS[name].entries({"HOME": str(home)}, Path.cwd() if scope == "project" else None):
        if not place.path.name.endswith(".ts"):
            write(place.path, CONFIG if place.path.suffix == ".toml" else SETTINGS)


def install(path: Path, name: str, program: str = PROGRAM) -> str:
    """Ours in one file of the client's; the file's text then."""
    (place,) = (place for place in CLIENTS[name].entries({"HOME": str(Path.home())}, None) if place.path == path)
    for change in plan_install([place], program):
        apply_change(change, Path.home())
    return path.read_bytes().decode()


def uninstall(path: Path, name: str) -> str | None:
    (place,) = (place for place in CLIENTS[name].entries({"HOME": str(Path.home())}, None) if place.path == path)
    for change in plan_uninstall([place]):
        apply_change(change, Path.home())
    return path.read_bytes().decode() if path.exists() else None


def path_of(name: str, file: str) -> Path:
    places = CLIENTS[name].entries({"HOME": str(Path.home())}, None)
    return next(place.path for place in places if place.path.name == file)
