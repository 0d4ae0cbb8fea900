"""The Claude Agent SDK's own conformance suite for session stores, run on ours."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from real_clients.clients import SOURCE
from real_clients.grown import Check

PACKAGE = "claude-agent-sdk==0.2.182"
TEST = SOURCE.parent / "tests" / "test_claude_agent_sdk.py"


def conforms(folder: Path) -> Iterator[Check]:
    """Fetch the SDK into a folder of its own, and run the tests that need it."""
    where = folder / "sdk"
    if not (where / "claude_agent_sdk").is_dir():
        print(f"downloading {PACKAGE}", flush=True)
        command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--target", str(where), PACKAGE], check=True)
    paths = os.pathsep.join([str(SOURCE), str(where)])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", str(TEST)]
    done = subprocess.run(
        command,
        cwd=SOURCE.parent,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    skipped = "skipped" in done.stdout
    yield Check("its conformance suite passes", done.returncode == 0 and not skipped, done.stdout[-500:])
