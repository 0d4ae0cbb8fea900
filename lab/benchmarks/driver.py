"""The project's side of a measurement: find the peers, make their environments, and run a process for each."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.environments import python_of

ROOT = Path(__file__).parents[2]
PATHS = (ROOT / "lab", *sorted(ROOT.glob("packages/*/src")))
"""What is measured is the code beside this file."""
PEERS = Path(__file__).parent / "peers"
PATIENCE = 120.0
"""Seconds a peer may take for one command before it is ended."""
_REQUIREMENTS = re.compile(r"^# requirements: (.+)$", re.MULTILINE)


class PeerEndedError(Exception):
    """Raised when the peer's process ended, or was killed for taking too long."""


@dataclass(frozen=True)
class Peer:
    """One file in `lab/benchmarks/peers`: its module's name, and the packages it needs (none: the project's own)."""

    name: str
    packages: tuple[str, ...]

    @property
    def python(self) -> str:
        """Return the interpreter it runs in, after making its environment the first time."""
        return (
            python_of(re.sub(r"\W+", "_", self.packages[0]), list(self.packages)) if self.packages else sys.executable
        )


def peers(folder: Path = PEERS) -> list[Peer]:
    """Return every peer in the folder."""
    found = []
    for path in sorted(folder.glob("[!_]*.py")):
        line = _REQUIREMENTS.search(path.read_text(encoding="utf-8"))
        found.append(Peer(path.stem, tuple(line[1].split()) if line else ()))
    return found


class Process:
    """A running peer, which answers one command after the other."""

    def __init__(self, peer: Peer, *, patience: float = PATIENCE) -> None:
        self.peer, self.patience = peer, patience
        paths = os.pathsep.join(map(str, PATHS))
        quiet = {"PYTHONWARNINGS": "ignore", "PYTHONPATH": paths, "OTEL_SDK_DISABLED": "true"}
        self._errors = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed below
        self._child = subprocess.Popen(
            [peer.python, "-m", f"benchmarks.peers.{peer.name}"],
            cwd=PATHS[0],
            env={**os.environ, **quiet},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()
        self._errors.close()

    def ask(self, do: str, **command: Any) -> dict[str, Any]:
        """Send one command and return the answer; raise `PeerEndedError` when the process has ended."""
        child = self._child
        if child.stdin is None or child.stdout is None:
            raise PeerEndedError(f"{self.peer.name} was never started")
        watch = threading.Timer(self.patience, child.kill)
        watch.start()
        try:
            child.stdin.write(json.dumps({"do": do, **command}) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        if not line:
            self._errors.seek(0)
            said = self._errors.read().strip().splitlines()[-1:] or [f"no answer within {self.patience:.0f} s"]
            raise PeerEndedError(f"{self.peer.name} did not answer {do!r}: {said[0]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def hello(self) -> dict[str, Any]:
        """Return its arms and the versions of its packages."""
        return self.ask("hello", packages=self.peer.packages)


def every_arm(found: Sequence[Peer], said: Callable[[str], object] = print) -> dict[str, dict[str, Any]]:
    """Return all arms by name: the peer that has each, whether it asks a model, its grid, its versions.

    A peer that cannot be installed or started is reported and left out: the rest can still be measured.
    """

    def look(peer: Peer) -> tuple[Peer, dict[str, Any] | str]:
        try:
            with Process(peer) as process:
                return peer, process.hello()
        except (PeerEndedError, subprocess.CalledProcessError, OSError) as error:
            return peer, str(error)

    arms: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(2) as pool:
        for peer, answer in pool.map(look, found):
            if isinstance(answer, str):
                said(f"left out: {peer.name} ({answer})")
                continue
            versions = answer["versions"]
            arms |= {name: {**arm, "peer": peer, "versions": versions} for name, arm in answer["arms"].items()}
    return arms
