"""Clients that are only run through the gateway: opencode and mini-swe-agent over Chat Completions, gemini-cli."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from real_clients.clients import Driver, Place
from real_clients.loopback import Loopback
from real_clients.packages import download
from real_clients.seeds import Recorded

PACKAGES = {
    "opencode": ("opencode", "opencode-ai@1.18.18"),
    "gemini-cli": ("gemini", "@google/gemini-cli@0.61.0"),
}
MINI = "mini-swe-agent==2.4.6"
_FAR = 2_000_000
"""A window that opencode never fills, so that it does not compact by itself."""


def place_for(driver: Driver, home: Path, folder: Path) -> Place:
    """Return where this client runs, after downloading what is missing in the folder."""
    if driver.name == "mini-swe-agent":
        return Place(home, folder, _mini(folder))
    command, package = PACKAGES[driver.name]
    download(folder, package)
    return Place(home, folder, folder / "node_modules" / ".bin" / command)


def _mini(folder: Path) -> Path:
    """Install mini-swe-agent in an environment of its own, since it depends on LiteLLM."""
    where = folder / "mini"
    if not (where / "bin" / "mini").is_file():
        print(f"downloading {MINI}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(where)], check=True)
        subprocess.run([str(where / "bin" / "python"), "-m", "pip", "install", "-q", MINI, "mcp"], check=True)
    return where / "bin" / "mini"


def _prepare_opencode(place: Place, gateway: Loopback) -> None:
    model = {"name": "loopback", "tool_call": True, "limit": {"context": _FAR, "output": 8_000}}
    options = {"baseURL": f"{gateway.url}/v1", "apiKey": "fake"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"loopback-model": model}}
    names = dict.fromkeys(("model", "small_model"), "loopback/loopback-model")
    chosen = {"provider": {"loopback": provider}, "permission": "allow", "autoupdate": False, "share": "disabled"}
    place.write("project/opencode.json", json.dumps(chosen | names))
    place.environment.update(OPENCODE_DISABLE_MODELS_FETCH="1", OPENCODE_DISABLE_AUTOUPDATE="1")


def _ask_opencode(place: Place, prompt: str, _session: str | None) -> list[str]:
    return [str(place.command), "run", prompt]


def _prepare_mini(place: Place, gateway: Loopback) -> None:
    place.environment.update(MSWEA_CONFIGURED="true", MSWEA_COST_TRACKING="ignore_errors", OPENAI_API_KEY="fake")
    place.environment.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LOOPBACK_URL=f"{gateway.url}/v1")


def _ask_mini(place: Place, prompt: str, _session: str | None) -> list[str]:
    settings = ["mini.yaml", f"model.model_kwargs.api_base={place.environment['LOOPBACK_URL']}", "agent.step_limit=60"]
    options = ["-y", "--exit-immediately", "-l", "0", *(part for setting in settings for part in ("-c", setting))]
    return [str(place.command), "-m", "openai/loopback-model", "-t", prompt, *options]


def _prepare_gemini(place: Place, gateway: Loopback) -> None:
    """Turn off its guard against loops, which makes model calls of its own."""
    place.environment.update(GOOGLE_GEMINI_BASE_URL=gateway.url, GEMINI_API_KEY="fake")
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "model": {"disableLoopDetection": True}}
    settings |= {"privacy": {"usageStatisticsEnabled": False}}
    place.write(".gemini/settings.json", json.dumps(settings))


def _ask_gemini(place: Place, prompt: str, _session: str | None) -> list[str]:
    return [str(place.command), "--skip-trust", "--yolo", "-m", "gemini-2.5-pro", "-o", "json", "-p", prompt]


def _no_seed(_home: Path, _project: Path, _id: str, _recorded: Recorded) -> Path:
    raise NotImplementedError("sessions of this client are not written here")


DRIVERS = {
    "opencode": Driver("opencode", _prepare_opencode, _no_seed, _ask_opencode, "bash", "command"),
    "mini-swe-agent": Driver("mini-swe-agent", _prepare_mini, _no_seed, _ask_mini, "bash", "command"),
    "gemini-cli": Driver("gemini-cli", _prepare_gemini, _no_seed, _ask_gemini, "run_shell_command", "command"),
}
