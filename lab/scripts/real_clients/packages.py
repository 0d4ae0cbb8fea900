"""Download the clients and the Node they need from npm into a folder outside the project."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

NODE = "node@22"
"""Under an older Node, npm takes older clients without a word."""
PACKAGES = {
    "claude-code": ("claude", "@anthropic-ai/claude-code@2.1.325"),
    "codex": ("codex", "@openai/codex@0.166.0"),
    "pi": ("pi", "@earendil-works/pi-coding-agent@0.87.1"),
}
"""The command and the package of each client, in the version that was tried."""


def install(folder: Path) -> dict[str, Path]:
    """Return the command of each client, after downloading what is missing in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in (NODE, *(package for _, package in PACKAGES.values())):
        download(folder, package)
    return {client: folder / "node_modules" / ".bin" / command for client, (command, _) in PACKAGES.items()}


def path_with_node(folder: Path) -> str:
    """Return a PATH on which our Node comes first."""
    return f"{folder / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}"


def _is_there(folder: Path, package: str) -> bool:
    name, _, version = package.rpartition("@")
    stamp = folder / "node_modules" / name / "package.json"
    return stamp.is_file() and f'"version": "{version}' in stamp.read_text(encoding="utf-8")


def download(folder: Path, package: str) -> None:
    """Download this package into the folder, unless it is there."""
    if _is_there(folder, package):
        return
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm is not on the PATH: install Node, then run this again")
    print(f"downloading {package}", flush=True)
    command = [npm, "install", "--loglevel=error", "--no-audit", "--no-fund", "--prefix", str(folder), package]
    done = subprocess.run(
        command, env=os.environ | {"PATH": path_with_node(folder)}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"npm could not install {package}:\n{done.stderr[-1500:]}")
