"""The packages of this repository: their folders, their code, and how they are installed together."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = tuple(sorted((ROOT / "packages").iterdir()))
SOURCES = tuple(package / "src" for package in PACKAGES)
REQUIREMENTS = ROOT / "lab" / "requirements.txt"
"""What `make test` installs beside the packages."""


def project(name: str = "unabridged", root: Path = ROOT) -> dict[str, Any]:
    """Return the table `project` of a distribution's pyproject.toml."""
    text = (root / "packages" / name / "pyproject.toml").read_text(encoding="utf-8")
    table: dict[str, Any] = tomllib.loads(text)["project"]
    return table


def python_path(*more: Path | str, root: Path = ROOT) -> str:
    """Return a PYTHONPATH with the code of every package, behind these folders."""
    sources = [root / source.relative_to(ROOT) for source in SOURCES]
    return os.pathsep.join(str(folder) for folder in (*more, *sources))


def cache_folder(name: str) -> Path:
    """Return the folder for what is downloaded once, below the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unabridged" / name


def editable(names: Iterable[str] = (), extras: str = "") -> list[str]:
    """Return pip's arguments that install these packages (all by default) from here, the library with these extras."""
    wanted = [ROOT / "packages" / name for name in names] or PACKAGES
    return [
        part
        for package in wanted
        for part in ("-e", f"{package}[{extras}]" if extras and package.name == "unabridged" else str(package))
    ]
