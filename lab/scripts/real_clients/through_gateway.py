"""A client whose whole conversation goes through the gateway: a task several times as long as the window."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from provider_app import ProviderApp
from provider_compaction import list_compactions
from real_clients.clients import DRIVERS, SOURCE, Driver, Place
from real_clients.grown import Check, kept_in
from real_clients.loopback import Loopback, kind_of
from serving import serve_in_thread
from unabridged.archive.protocol import DEFAULT_NAMESPACE
from unabridged_testing.loopback import LoopbackReply, count_tokens
from unabridged_testing.loopback_wires import ServedAnswer

WINDOW = 60_000
"""Of the model, as the provider enforces it. Clients are given a larger one, so that they leave it to the gateway."""
WINDOWS = {"mini-swe-agent": 30_000, "gemini-cli": 40_000}
"""Of the models of clients that shorten long results, or old ones, so that their conversations grow less."""
LAST_COMMANDS = {"mini-swe-agent": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}
"""How a task ends for who takes no words for that."""
STATIONS = 36
GAUGES = 120
"""Of each station, with a sentence on each by the model: words are not cleared as results are, and need summaries."""
RULE = "Never edit anything under vendor/, not even to fix a typo."
REQUEST = f"Read all {STATIONS} tide stations with read.sh, one by one; it writes report.txt. {RULE}"
DONE = "All stations are in report.txt."
READ = 'seq -f "station $1 level %g cm" 1200; echo "station $1 read" >> report.txt\n'
_NO_WEBSOCKET = 426
_LISTENING = re.compile(r"listening on (http://\S+)")
_COMPACTIONS = re.compile(r'^unabridged_gateway_compactions_total\{kind="(\w+)"\} (\d+)', re.MULTILINE)


class Model(ProviderApp):
    """The provider: it has the client read one station after the other, and keeps the rules of the real ones."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(self._say, window=WINDOWS.get(driver.name, WINDOW))
        self._driver = driver
        self._offers = False
        self.turns: list[dict[str, Any]] = []
        """The requests of the conversation itself."""
        self.largest = 0
        """Tokens of the longest request."""
        self.summaries = 0
        """How many the gateway had it write."""
        self.asked_to_compact = 0
        """How often the client wanted a summary of the model, by itself."""

    def answer(self, path: str, body: dict[str, Any]) -> ServedAnswer:
        """Return the provider's response to this body."""
        wire = self.wire_at(path)
        self.largest = max(self.largest, count_tokens(wire.collect_model_input(body)) if wire else 0)
        kind = kind_of(path, body)
        self.asked_to_compact += kind == "compaction"
        self._offers = kind == "turn"
        served = super().answer(path, body)
        if self._offers and served.status == 200:
            self.turns.append(body)
        return served

    def _say(self, _messages: Sequence[Any]) -> LoopbackReply:
        if not self._offers:
            self.summaries += 1
            return LoopbackReply("The user wants all tide stations to be read; some were, the next ones follow.")
        number = len(self.turns)
        if number >= STATIONS:
            last = LAST_COMMANDS.get(self._driver.name)
            return LoopbackReply(DONE, [self._call(last)] if last else [])
        call = self._call(f"sh read.sh {number}")
        words = " ".join(f"Gauge {number}.{gauge} was steady, and needs no visit." for gauge in range(GAUGES))
        return LoopbackReply(f"Reading station {number}. {words}", [call], f"Station {number} comes next.")

    def _call(self, command: str) -> tuple[str, dict[str, str]]:
        return self._driver.shell, {self._driver.argument: command}


@dataclass(slots=True)
class Gateway:
    """The gateway as a process of its own."""

    url: str
    log: Path
    archive: Path

    def lines(self) -> list[dict[str, Any]]:
        """Return the requests that it logged, one for each line."""
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]

    def compactions(self) -> dict[str, int]:
        """Return how many compactions it made of each kind."""
        page = httpx.get(f"{self.url}/metrics", timeout=10).text
        return {kind: int(number) for kind, number in _COMPACTIONS.findall(page)}


@contextmanager
def gateway_before(upstream: str, window: int, home: Path, *more: str) -> Iterator[Gateway]:
    """Run `unabridged gateway` before this provider until the block ends."""
    home.mkdir(parents=True, exist_ok=True)
    log, archive = home / "gateway.log", home / "gateway.db"
    flags = ["--upstream", upstream, "--port", "0", "--window", str(window), "--archive", f"sqlite:///{archive}"]
    command = [sys.executable, "-m", "unabridged", "gateway", *flags, "--log", "json", *more]
    with (
        log.open("w") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=_environ(home)) as process,
    ):
        try:
            yield Gateway(_wait_for(log, process), log, archive)
        finally:
            process.terminate()


def _environ(home: Path) -> dict[str, str]:
    return {"PYTHONPATH": SOURCE, "HOME": str(home), "LANG": "C.UTF-8"}


def _wait_for(log: Path, process: subprocess.Popen[bytes], seconds: float = 60) -> str:
    """Wait until the gateway listens, and return its address."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        if found := _LISTENING.search(log.read_text(encoding="utf-8")):
            return found[1]
        time.sleep(0.1)
    raise SystemExit(f"the gateway did not start: {log.read_text(encoding='utf-8')[-500:]}")


def go_through(driver: Driver, place: Place, *, native: bool = False) -> Iterator[Check]:
    """Run the client through a gateway, which has the provider compact if `native`, and yield the checks."""
    model = Model(driver)
    place.write("project/read.sh", READ)
    home, more = place.home / "gateway", ("--summariser", "native") if native else ()
    with serve_in_thread(model) as upstream, gateway_before(upstream, model.window, home, *more) as gateway:
        driver.prepare(place, Loopback("", url=gateway.url))
        done = place.run(*driver.ask(place, REQUEST, None), seconds=600)
        made = gateway.compactions()
        lines = gateway.lines()
    before = max((line.get("tokens_before", 0) for line in lines), default=0)
    kinds = ", ".join(f"{number} by {kind}" for kind, number in made.items())
    numbers = (
        f"{len(model.turns)} turns; compactions: {kinds}; tokens at most: {before:,} came, {model.largest:,} went on"
    )
    yield Check(numbers, holds=True)
    report = place.project / "report.txt"
    station_lines = report.read_text(encoding="utf-8").splitlines() if report.is_file() else []
    ended = done.returncode == 0 and DONE in done.stdout
    yield Check("the client ends well, and says so", ended, (done.stderr or done.stdout)[-600:])
    yield Check(
        "its task is done",
        station_lines == [f"station {n} read" for n in range(STATIONS)],
        f"{len(station_lines)} stations",
    )
    refused = [*model.refused, *model.malformed, *map(str, model.too_long)]
    yield Check("the provider refused nothing", not refused, "; ".join(refused)[:600])
    failed = [line for line in lines if line["level"] != "info" or line.get("status", 200) not in (200, _NO_WEBSOCKET)]
    yield Check("the gateway has nothing to complain of", not failed, str(failed[:3]))
    yield Check("it compacted several times", sum(made.values()) >= 3, kinds)
    if native:
        yield from _compacted_by_the_provider(model, made)
    else:
        wrote = made.get("summary", 0) >= 3 and model.summaries >= 3
        yield Check("the client's own model wrote summaries", wrote, kinds)
    if driver.name == BUILT_IN:
        yield from _compacted_for_it(lines)
    else:
        yield Check("the conversation was several times the window", before > 3 * model.window, f"{before:,} tokens")
    yield Check("the client never asked the model for a summary", not model.asked_to_compact)
    yield from _nothing_is_lost(model, kept_in(gateway.archive, DEFAULT_NAMESPACE))


def _compacted_by_the_provider(model: Model, made: Mapping[str, int]) -> Iterator[Check]:
    """Check that the provider wrote every summary, and that the last one went back to it as it came."""
    blocks = model.compactions.made
    yield Check("the provider compacted, several times", len(blocks) >= 3, f"{len(blocks)} times")
    counted = made.get("summary", 0)
    yield Check(
        "and wrote all summaries", counted == len(blocks), f"{counted} summaries, {len(blocks)} of the provider"
    )
    last = model.turns[-1] if model.turns else {}
    sent = list_compactions(last.get("messages") or last.get("input") or [])
    yield Check("one goes back as it came, and no other", len(sent) == 1 and sent[0] in blocks, f"{len(sent)} blocks")


def _nothing_is_lost(model: Model, kept: str) -> Iterator[Check]:
    """Check what every turn must have shown the model, and that the archive has the rest."""
    sent = [json.dumps(body, ensure_ascii=False) for body in model.turns]
    yield Check("the task and its rule stand in every request", all(RULE in text for text in sent))
    last = sent[-1] if sent else ""
    lost = [n for n in range(STATIONS) if not any(f"station {n} level 1200 cm" in text for text in (last, kept))]
    yield Check("what left the context is in the archive", not lost, f"stations {lost}")


def _compacted_for_it(lines: Sequence[dict[str, Any]]) -> Iterator[Check]:
    """Check that Codex' built-in provider continues without a WebSocket and that the gateway ran its compactions."""
    upgrades = sum(line.get("status") == _NO_WEBSOCKET for line in lines)
    yield Check("it tried a WebSocket once, and went on without", upgrades == 1, str(upgrades))
    asked = sum("record" in line and line["way"] == "parsed" for line in lines)
    yield Check("it had the gateway compact, several times", asked >= 3, str(asked))


BUILT_IN = "codex, built-in provider"


def _prepare_built_in(place: Place, gateway: Loopback) -> None:
    """Configure Codex with OpenAI's own provider at our address, to request compaction long before it is full."""
    place.environment.update(CODEX_API_KEY="sk-fake")
    place.write(
        ".codex/config.toml",
        f"""model = "gpt-5.5"
openai_base_url = "{gateway.url}/v1"
model_context_window = {WINDOW}
model_auto_compact_token_limit = {WINDOW // 2}
""",
    )


def _ask_codex(place: Place, prompt: str, session: str | None) -> list[str]:
    """Return Codex' command with a limit so high that it leaves compaction to the gateway."""
    command, verb, *rest = DRIVERS["codex"].ask(place, prompt, session)
    limits = [f"{name}={20 * WINDOW}" for name in ("model_context_window", "model_auto_compact_token_limit")]
    return [command, verb, *(part for limit in limits for part in ("-c", limit)), *rest]


def _ask_built_in(place: Place, prompt: str, session: str | None) -> list[str]:
    options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json"]
    return [str(place.command), "exec", *options, *(["resume", session] if session else []), prompt]


def _prepare_pi(place: Place, gateway: Loopback) -> None:
    """Choose a model whose thinking is signed; that rule goes by the model's name."""
    place.environment.update(LOOPBACK_MODEL="claude-loopback")
    DRIVERS["pi"].prepare(place, gateway)


def _prepare_pi_for_chat(place: Place, gateway: Loopback) -> None:
    place.environment.update(LOOPBACK_API="openai-completions")
    DRIVERS["pi"].prepare(place, Loopback("", url=f"{gateway.url}/v1"))


_CLAUDE_CODE, _CODEX, _PI = (DRIVERS[name] for name in ("claude-code", "codex", "pi"))
ROUTES = [
    (_CLAUDE_CODE, _CLAUDE_CODE),
    (_CODEX, replace(_CODEX, ask=_ask_codex)),
    (_CODEX, replace(_CODEX, name=BUILT_IN, prepare=_prepare_built_in, ask=_ask_built_in)),
    (_PI, replace(_PI, prepare=_prepare_pi)),
    (_PI, replace(_PI, name="pi, Chat Completions", prepare=_prepare_pi_for_chat)),
]
"""Each client, and how it is driven through the gateway."""
NATIVE_ROUTES = [(client, driven) for client, driven in ROUTES if driven.name in {"claude-code", "codex", "pi"}]
"""Those whose provider compacts in its own way, and that leave all of it to the gateway."""
