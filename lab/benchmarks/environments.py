"""Environments for the peers, made once under `.bench/` with the newest releases: the project's own stays clean."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2] / ".bench"


def python_of(name: str, packages: list[str]) -> str:
    """Return the interpreter of the environment with these packages, which are installed the first time."""
    home = ROOT / name
    python, ready = home / "bin" / "python", home / ".installed"
    if not ready.exists():
        print(f"installing {', '.join(packages)} into {home.relative_to(ROOT.parent)} ...", file=sys.stderr)
        if uv := shutil.which("uv"):
            subprocess.run([uv, "venv", "-q", "--allow-existing", str(home)], check=True)
            subprocess.run([uv, "pip", "install", "-q", "--python", str(python), *packages], check=True)
        else:
            venv.create(home)  # without a pip of its own: this one's installs into it, which saves a while
            pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*pip, *packages], check=True)
        ready.touch()
    return str(python)
