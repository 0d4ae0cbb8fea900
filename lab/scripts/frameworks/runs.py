"""The three runs of a program: before a model that takes everything, and twice before one that takes 8,000 tokens."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import workspace
from frameworks import inside
from unabridged_testing.loopback import Loopback, LoopbackReply, count_tokens
from unabridged_testing.loopback_wires import LoopbackChat

REPORTS = 60
EVERYTHING = 10**9
LONGEST = 900
"""Seconds that a run may take."""
QUIET = {
    "AGNO_TELEMETRY": "false",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OTEL_SDK_DISABLED": "true",
}
"""Keeps the frameworks from asking other hosts than the one on loopback."""


class ReportsProvider(Loopback):
    """A model that reads the reports one by one and then answers; asked without the tool, it writes a summary."""

    def __init__(self, window: int) -> None:
        self.read = 0
        self.has_answered = False
        super().__init__(self._answer, window=window)

    def _answer(self, messages: Sequence[Any]) -> LoopbackReply:
        del messages
        offered = {tool["function"]["name"] for tool in self.requests[-1].get("tools") or ()}
        if "read_report" not in offered:
            return LoopbackReply("Reports were read, and no pump leaked.")
        if self.read < REPORTS:
            self.read += 1
            return LoopbackReply("", [("read_report", {"number": self.read})])
        self.has_answered = True
        if "final_answer" in offered:
            return LoopbackReply("", [("final_answer", {"answer": "Pump 37 leaks."})])
        return LoopbackReply("Pump 37 leaks.")

    def largest(self) -> int:
        """Return the tokens of the largest request that was taken."""
        wire = LoopbackChat()
        return max((count_tokens(wire.collect_model_input(body)) for body in self.requests), default=0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run: what the provider saw of it, and what the framework kept."""

    finished: bool
    requests: int
    refused: int
    largest: int
    read: int
    kept: int
    compactions: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A framework's runs with its defaults and with ours, and the messages that came back from the archive."""

    title: str
    versions: dict[str, str]
    defaults: Outcome
    ours: Outcome
    messages: int
    same: int

    @property
    def holds(self) -> bool:
        """Return whether ours finished, was never refused, and gave everything back."""
        exact = self.messages == self.same > REPORTS
        return self.ours.finished and not self.ours.refused and self.ours.compactions > 0 and exact


@dataclass(frozen=True, slots=True)
class Program:
    """An example, the interpreter that runs it, and the packages whose versions are shown."""

    path: Path
    python: Path | str
    packages: Sequence[str]

    def compare(self, title: str) -> Comparison:
        """Run it three times, and compare."""
        with ReportsProvider(EVERYTHING) as reference:
            self.run("defaults", reference, reference)
            whole = reference.requests[-1]["messages"]
            with ReportsProvider(inside.WINDOW) as provider:
                defaults, versions = self.run("defaults", provider, reference)
            with ReportsProvider(inside.WINDOW) as provider:
                ours, _ = self.run("ours", provider, reference)
            replayed = reference.requests[-1]["messages"]
        pairs = zip(whole, replayed, strict=True) if len(whole) == len(replayed) else ()
        return Comparison(title, versions, defaults, ours, len(whole), sum(one == other for one, other in pairs))

    def run(self, mode: str, provider: ReportsProvider, reference: ReportsProvider) -> tuple[Outcome, dict[str, str]]:
        """Return what came of one run, and the versions of the packages."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            out = Path(folder) / "outcome.json"
            command = [self.python, "-P", inside.__file__, self.path, mode, reference.url, out, *self.packages]
            done = subprocess.run(
                command, cwd=folder, env=_environment(folder, provider.url), text=True, errors="replace",
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=LONGEST,
            )  # fmt: skip
            if done.returncode or not out.is_file():
                raise RuntimeError(f"{self.path.name}, {mode}: ended with {done.returncode}\n{done.stdout[-3_000:]}")
            found = json.loads(out.read_text(encoding="utf-8"))
        outcome = Outcome(
            finished=provider.has_answered and not found["error"],
            requests=len(provider.requests),
            refused=len(provider.too_long) + len(provider.refused),
            largest=provider.largest(),
            read=provider.read,
            kept=found["kept"],
            compactions=found["compactions"],
            error=found["error"],
        )
        return outcome, found["versions"]


def _environment(folder: str, url: str) -> dict[str, str]:
    """Return variables under which a program keeps everything in this folder and asks this provider."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONHOME", "VIRTUAL_ENV"}}
    homes = {f"XDG_{kind}_HOME": folder for kind in ("CACHE", "CONFIG", "DATA", "STATE")}
    key = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": url}
    return {**kept, **homes, **key, **QUIET, "HOME": folder, "PYTHONPATH": workspace.python_path()}
