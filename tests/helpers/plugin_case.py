"""A machine with the program `unabridged` on it, and the plugin as each client stores it after an install."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from patience import PATIENCE
from places import ROOT

PLUGIN = ROOT / "plugins" / "unabridged"
CODE = os.pathsep.join(map(str, sorted(ROOT.glob("packages/*/src"))))
RUN = f'exec "{sys.executable}" -m unabridged "$@"'
"""What a program does that runs the code of this repository."""


def write_program(folder: Path, script: str = RUN) -> Path:
    """Write a program `unabridged` into a folder; by default one that runs the code of this repository."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "unabridged"
    path.write_text(f"#!/bin/sh\nexport PYTHONPATH='{CODE}'\n{script}\n")
    path.chmod(0o755)
    return path


def install_plugin(client: str, home: Path) -> Path:
    """Write what the client writes when it installs the plugin; return the folder in which it keeps the plugin."""
    folder = home / (".claude" if client == "claude-code" else ".codex")
    root = folder / "plugins" / "cache" / "unabridged" / "unabridged" / "0.1.0"
    for source in filter(Path.is_file, PLUGIN.rglob("*")):
        path = root / source.relative_to(PLUGIN)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.read_bytes())
    if client == "claude-code":
        installed = {"unabridged@unabridged": [{"scope": "user", "installPath": str(root), "version": "0.1.0"}]}
        (folder / "plugins" / "installed_plugins.json").write_text(json.dumps({"version": 2, "plugins": installed}))
        change_json(folder / "settings.json", enabledPlugins={"unabridged@unabridged": True})
    else:
        with (folder / "config.toml").open("a") as stream:
            stream.write('\n[plugins."unabridged@unabridged"]\nenabled = true\n')
    return root


def change_json(path: Path, **values: object) -> None:
    """Set top-level values in a JSON file, which need not exist."""
    before = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**before, **values}))


def run_hook(command: str, event: bytes, environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run a hook's command as a client does: by a shell, with the event on standard input."""
    shell = ["/bin/sh", "-c", command]
    return subprocess.run(shell, input=event, env=environment, capture_output=True, timeout=PATIENCE, check=False)
