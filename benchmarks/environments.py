"""Environments for the peers, made once under `.bench/` with the newest releases: the project's own stays clean."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent / ".bench"


def python_of(name: str, packages: list[str]) -> str:
    """The interpreter of the environment with these packages; installed the first time."""
    home = ROOT / name
    python, ready = home / "bin" / "python", home / ".installed"
    if not ready.exists():
        print(f"installing {', '.join(packages)} into {home.relative_to(ROOT.parent)} ...", file=sys.stderr)
        if uv := shutil.which("uv"):
            subprocess.run([uv, "venv", "-q", "--allow-existing", str(home)], check=True)
            subprocess.run([uv, "pip", "install", "-q", "--python", str(python), *packages], check=True)
        else:
            venv.create(home, with_pip=True)
            subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
        ready.touch()
    return str(python)


def version_of(name: str, package: str) -> str:
    """Which release of a package an environment holds."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    python = ROOT / name / "bin" / "python"
    return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.strip()
