"""Configure each client for the loopback provider and run it, in a home folder of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import workspace
from real_clients.loopback import Loopback
from real_clients.packages import path_with_node
from real_clients.seeds import Recorded, seed_claude_code, seed_codex, seed_pi

SOURCE = workspace.python_path()
LIMIT = 100_000
"""The window that every client is told to have."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one client runs: a home folder with a project in it, and the folder of the clients."""

    home: Path
    folder: Path
    command: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        """Return the project's folder."""
        path = self.home / "project"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def environ(self) -> dict[str, str]:
        """Return the environment of the client and its hooks: nothing of the user's, and this tree's code first."""
        base = {
            "UNABRIDGED_ARCHIVE": f"sqlite:///{self.archive}",
            "PATH": path_with_node(self.folder),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
        }
        return base | {"PYTHONPATH": SOURCE} | self.environment

    @property
    def archive(self) -> Path:
        """Return the path of the archive that our hooks write."""
        default = f"sqlite:///{self.home / 'archive.db'}"
        return Path(self.environment.setdefault("UNABRIDGED_ARCHIVE", default).removeprefix("sqlite:///"))

    def run(self, *arguments: str, seconds: float = 180) -> subprocess.CompletedProcess[str]:
        """Run a command there to its end."""
        return subprocess.run(
            arguments,
            env=self.environ(),
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def write(self, name: str, text: str) -> Path:
        """Write a file of the home folder."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


@dataclass(frozen=True, slots=True)
class Driver:
    """One client: how it is configured, seeded with a conversation, and asked."""

    name: str
    prepare: Callable[[Place, Loopback], None]
    seed: Callable[[Path, Path, str, Recorded], Path]
    ask: Callable[[Place, str, str | None], Sequence[str]]
    """The command line for a prompt; with an id, in the session that has it."""
    shell: str
    """Its tool that runs a command, and the name of that tool's argument."""
    argument: str
    find_tool: str = ""
    """Its tool that finds tools which it keeps back."""
    hooks: bool = True
    """Whether it calls commands with JSON; pi has extensions instead."""

    def start(self, place: Place, prompt: str, session: str | None = None) -> subprocess.CompletedProcess[str]:
        """Ask the client, and wait until it is done."""
        return place.run(*self.ask(place, prompt, session))


def _prepare_claude_code(place: Place, upstream: Loopback) -> None:
    place.environment.update(
        IS_SANDBOX="1",
        ANTHROPIC_BASE_URL=upstream.url,
        ANTHROPIC_API_KEY="sk-fake",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        CLAUDE_CODE_AUTO_COMPACT_WINDOW=str(LIMIT),
    )


def _ask_claude_code(place: Place, prompt: str, session: str | None) -> list[str]:
    named = ["--resume", session] if session else []
    options = ["--dangerously-skip-permissions", "--output-format", "json"]
    return [str(place.command), *named, *options, "-p", prompt]


def _prepare_codex(place: Place, upstream: Loopback) -> None:
    place.environment.update(LOOPBACK_KEY="fake", LOOPBACK_URL=f"{upstream.url}/v1")
    if not (place.home / ".codex" / "config.toml").is_file():
        place.write(
            ".codex/config.toml",
            f"""model = "gpt-5.5"
model_provider = "loopback"
model_context_window = {LIMIT}
model_auto_compact_token_limit = {LIMIT * 6 // 10}

[model_providers.loopback]
name = "loopback"
base_url = "{upstream.url}/v1"
env_key = "LOOPBACK_KEY"
wire_api = "responses"
""",
        )


def _ask_codex(place: Place, prompt: str, session: str | None) -> list[str]:
    options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json"]
    url = place.environment["LOOPBACK_URL"]  # two that run at once in one home have one each
    options += ["--dangerously-bypass-hook-trust", "-c", f'model_providers.loopback.base_url="{url}"']
    return [str(place.command), "exec", *options, *(["resume", session] if session else []), prompt]


def _prepare_pi(place: Place, upstream: Loopback) -> None:
    place.environment.update(PI_OFFLINE="1", LOOPBACK_KEY="fake")
    model = {"id": _model(place), "name": "loopback", "reasoning": False, "input": ["text"], "maxTokens": 8000}
    model |= {"contextWindow": LIMIT, "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)}
    api = place.environment.get("LOOPBACK_API", "anthropic-messages")
    provider = {"baseUrl": upstream.url, "api": api, "apiKey": "LOOPBACK_KEY", "models": [model]}
    path = place.home / ".pi" / "agent" / "models.json"
    others = json.loads(path.read_text(encoding="utf-8"))["providers"] if path.is_file() else {}
    place.write(".pi/agent/models.json", json.dumps({"providers": others | {_provider(place): provider}}))


def _provider(place: Place) -> str:
    """Return the name of its provider: that of the seeded sessions, unless another client runs in the same home."""
    return place.environment.get("LOOPBACK_PROVIDER", "loopback")


def _model(place: Place) -> str:
    """Return the name of its model: that of the seeded sessions, unless another client runs in the same home."""
    return place.environment.get("LOOPBACK_MODEL", "loopback-model")


def _ask_pi(place: Place, prompt: str, session: str | None) -> list[str]:
    named = ["--session", session] if session else []
    return [str(place.command), "--provider", _provider(place), "--model", _model(place), *named, "-p", prompt]


DRIVERS = {
    driver.name: driver
    for driver in (
        Driver(
            "claude-code", _prepare_claude_code, seed_claude_code, _ask_claude_code, "Bash", "command", "ToolSearch"
        ),
        Driver("codex", _prepare_codex, seed_codex, _ask_codex, "exec_command", "cmd", "tool_search"),
        Driver("pi", _prepare_pi, seed_pi, _ask_pi, "bash", "command", hooks=False),
    )
}


def new_id() -> str:
    """Return the id of a new session."""
    return str(uuid.uuid4())


def program(place: Place) -> Path:
    """Return our command line as a program of that home folder, which runs this tree's code in any environment."""
    path = place.home / "bin" / "unabridged"
    if not path.is_file():
        write_program(place, f'exec "{sys.executable}" -m unabridged "$@"')
    return path


def write_program(place: Place, script: str) -> None:
    """Replace our command line there by this shell script."""
    path = place.write("bin/unabridged", f"#!/bin/sh\nexport PYTHONPATH='{SOURCE}'\n{script}\n")
    path.chmod(0o755)


def unabridged(place: Place, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run our own command line as the user of that home folder would."""
    named = (
        f"import runpy, sys; sys.argv[0] = {str(program(place))!r}; runpy.run_module('unabridged', None, '__main__')"
    )
    return place.run(sys.executable, "-c", named, *arguments)
