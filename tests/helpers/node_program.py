"""A Node.js that reads TypeScript, where the machine has one."""

from __future__ import annotations

import shutil
import subprocess


def node() -> str | None:
    """A Node.js that reads TypeScript."""
    program = shutil.which("node")
    asked = [program, "-p", "Boolean(process.features.typescript)"] if program else ["false"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    return program if said.strip() == "true" else None


NODE = node()
