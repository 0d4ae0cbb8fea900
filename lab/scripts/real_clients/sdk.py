"""The Claude Agent SDK: its conformance suite for session stores, and our example, grown over its limit for real."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import workspace
from real_clients.clients import DRIVERS, SOURCE, Place
from real_clients.grown import FACT, REQUEST, RULE, SUMMARY, Check, Model, after_growing, kept_in, write_depot
from real_clients.loopback import Loopback, serving
from real_clients.recorded import flat
from unabridged.adapters.claude_agent_sdk import NAMESPACE

PACKAGE = "claude-agent-sdk==0.2.182"
"""In the version that was tried; it brings Claude Code along."""
ROOT = workspace.ROOT
TEST = ROOT / "packages" / "unabridged" / "tests" / "adapters" / "test_claude_agent_sdk.py"
EXAMPLE = ROOT / "examples" / "claude_sdk_agent.py"
AGAIN = "And the one for May?"


def conforms(folder: Path, home: Path) -> Iterator[Check]:
    """Fetch the SDK into a folder of its own, run the tests that need it, and the example."""
    where = folder / "sdk"
    if not (where / "claude_agent_sdk").is_dir():
        print(f"downloading {PACKAGE}", flush=True)
        command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--target", str(where), PACKAGE], check=True)
    yield _conformance(where)
    yield _types(where)
    yield from _example(Place(home / "sdk", folder, EXAMPLE, {"PYTHONPATH": _paths(where)}))


def _paths(where: Path) -> str:
    return os.pathsep.join([SOURCE, str(where)])


def _conformance(where: Path) -> Check:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", str(TEST)]
    environ = os.environ | {"PYTHONPATH": _paths(where)}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    skipped = "skipped" in done.stdout
    return Check("its conformance suite passes", done.returncode == 0 and not skipped, done.stdout[-500:])


def _types(where: Path) -> Check:
    """Check that the example's arguments have the types that the SDK declares."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, "--cache-dir", os.devnull]
    environ = os.environ | {"MYPYPATH": _paths(where)}
    command += ["--follow-imports", "silent", str(EXAMPLE)]
    done = subprocess.run(command, cwd=where, env=environ, capture_output=True, text=True, check=False)
    return Check("our types are the SDK's", done.returncode == 0, done.stdout[-500:])


class _Run(NamedTuple):
    """The example's answer, and the session in which it continues."""

    code: int
    answer: str
    session: str
    trouble: str


def _example(place: Place) -> Iterator[Check]:
    """Run the example over the client's limit, then let it go on without the client's own files."""
    driver = DRIVERS["claude-code"]
    model = Model(driver)
    with serving(Loopback(SUMMARY, model)) as upstream:
        model.upstream = upstream
        driver.prepare(place, upstream)
        write_depot(place)
        first = _run(place, REQUEST)
        after = upstream.after_compaction()
        yield Check("the example ends well", first.code == 0, first.trouble)
        yield Check("it compacted by itself", after is not None, f"{len(upstream.requests)} requests")
        yield from after_growing(upstream, after, place) if after is not None else ()
    yield Check("the store has the fact, too", FACT in kept_in(place.archive, NAMESPACE))
    with serving(Loopback(SUMMARY)) as upstream:
        driver.prepare(place, upstream)
        (place.home / ".claude").rename(place.home / "elsewhere")
        again = _run(place, AGAIN, first.session)
        yield Check("it goes on from the archive alone", again.code == 0, again.trouble)
        sent = flat(upstream.requests[-1].text()) if upstream.requests else ""
        yield Check("with what was said before", RULE in sent and AGAIN in sent, sent[-300:])


def _run(place: Place, *arguments: str) -> _Run:
    done = place.run(sys.executable, str(EXAMPLE), *arguments)
    session = done.stderr.rpartition("to go on: ")[2].strip()
    return _Run(done.returncode, done.stdout.strip(), session, (done.stderr or done.stdout)[-300:])
