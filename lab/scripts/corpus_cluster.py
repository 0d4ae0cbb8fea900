"""A corpus on a real Ray cluster of two nodes on this machine, killed and resumed, and what it costs: `make ray`.

    SCALE=0.35 python lab/scripts/corpus_cluster.py --sessions 10000

It makes sessions of real shapes, compacts them in two processes of this machine, and then on the cluster. There the
worker node is killed in the middle, later the driver; both come back, and the driver is run again. In the end the
digests of all results must be those of the one machine. Then it measures: one process beside two, one node beside two,
the memory of the workers, and CPU seconds per million tokens beside a plain loop over LangChain's summariser with a
model that answers at once. Speed is counted in CPU seconds, too, since other programs may run here. Exits with 1 when a
check fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Self

import psutil

from unabridged.sessions.text import dump_line
from unabridged_corpus import Compact, run
from unabridged_testing import Shape, make_conversation

os.environ["RAY_AUTH_MODE"] = "disabled"  # all is on loopback; else Ray leaves a token in the home folder
RAY = Path(sys.executable).with_name("ray")
SHAPES: tuple[tuple[int, Any, int, int, int, int], ...] = (
    (900, "agent", 7, 3, 1, 500),  # a service desk: 24 messages, 16 kB
    (90, "chat", 40, 0, 1, 350),  # people who talk
    (6, "marathon", 1, 75, 1, 1_600),  # coding with tools: 161 messages, 177 kB
    (4, "protocol", 1, 65, 1, 2_400),  # coding in a text protocol: 141 messages, 233 kB
)
"""How often of a thousand; kind, turns, rounds, calls a round, characters a result: recorded ones at their medians."""
WIRES = ("openai-chat", "openai-chat", "anthropic", "openai-responses")
SCALE = float(os.environ.get("SCALE", "1"))
"""How large the sessions are, beside recorded ones; the window follows."""
WINDOW = round(4_000 * SCALE)
SHARD = f"{round(400 * SCALE)}k"
A_FILE = 50
"""Sessions in a file of lines; every tenth file has one session instead."""


# -- the sessions ------------------------------------------------------------------------------------------------------


def make(number: int, wire: str | None = None) -> dict[str, Any]:
    """Generate the session of this number, which is always the same."""
    rng = Random(number)  # noqa: S311 - repeatable on purpose
    weights = [shape[0] for shape in SHAPES]
    _, kind, turns, rounds, width, bulk = rng.choices(SHAPES, weights)[0]
    size = rng.uniform(0.5, 1.5) * SCALE
    turns, rounds = max(1, round(turns * size)), max(1, round(rounds * size))
    shape = Shape(wire or rng.choice(WIRES), number, kind, turns, rounds, width, bulk, "answered")
    return {"id": f"s{number}", "format": shape.format, "messages": make_conversation(shape).messages}


def make_corpus(folder: Path, sessions: int, wire: str | None = None) -> int:
    """Write files of lines, files of one session, and a broken one; return their bytes."""
    folder.mkdir()
    number = 0
    for file in range(sessions):
        count = min(sessions - number, 1 if file % 10 == 9 else A_FILE)
        if count <= 0:
            break
        lines = [dump_line(make(one, wire)) for one in range(number, number + count)]
        name = f"{file:05}.json" if count == 1 else f"{file:05}.jsonl"
        (folder / name).write_bytes(b"".join(lines))
        number += count
    (folder / "bad.json").write_text("[{")
    return sum(file.stat().st_size for file in folder.iterdir())


def digests(out: Path) -> set[str]:
    """Return the digest of every row of a result."""
    parts = [part.read_bytes().splitlines() for part in out.glob("part-*.jsonl")]
    return {hashlib.sha256(row).hexdigest() for rows in parts for row in rows}


# -- processes ---------------------------------------------------------------------------------------------------------


def end(process: subprocess.Popen[Any]) -> None:
    """Kill the process and all that it started, at once, as a power cut does."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()
    process.wait()


@dataclass
class Cluster:
    """Nodes of one core each, on this machine."""

    folder: Path
    port: int = 0
    nodes: list[subprocess.Popen[Any]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Return the address of the head node."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start one more node; the first is the head."""
        common = [
            "--num-cpus=1",
            "--node-ip-address=127.0.0.1",
            "--block",
            "--disable-usage-stats",
            f"--object-store-memory={200_000_000}",
        ]
        if not self.nodes:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
            where = ["--head", f"--port={self.port}", "--include-dashboard=false", f"--temp-dir={self.folder}"]
        else:
            where = [f"--address={self.address}"]
        environment = {**os.environ, "RAY_DISABLE_MEMORY_MONITOR": "1", "RAY_health_check_failure_threshold": "3"}
        log = (self.folder.parent / f"node-{len(self.nodes)}-{time.monotonic_ns()}.log").open("wb")
        self.nodes.append(subprocess.Popen([RAY, "start", *where, *common], stdout=log, stderr=log, env=environment))
        self._wait()

    def _wait(self) -> None:
        """Wait until the cluster has all its nodes."""
        code = (
            "import ray, time, sys\n"
            f"ray.init(address={self.address!r}, log_to_driver=False, logging_level='ERROR')\n"
            f"while sum(node['Alive'] for node in ray.nodes()) < {len(self.nodes)}: time.sleep(0.3)\n"
        )
        for _ in range(60):
            ran = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, check=False)
            if ran.returncode == 0:
                return
            time.sleep(1)
        raise SystemExit(f"the cluster does not come up: {ran.stderr.decode()[-500:]}")

    def lose(self) -> None:
        """Kill the newest node."""
        end(self.nodes.pop())

    def stop(self) -> None:
        """Kill all nodes."""
        while self.nodes:
            self.lose()


@contextmanager
def cluster(nodes: int) -> Iterator[Cluster]:
    """Run a cluster of `nodes` nodes until the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))  # Ray's sockets need a short path
    made = Cluster(folder / "r")
    try:
        for _ in range(nodes):
            made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


class WorkerMonitor:
    """A monitor of the largest worker's memory over time, and of the workers' CPU time."""

    def __init__(self, roots: Callable[[], list[int]]) -> None:
        self._roots = roots
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.largest: list[float] = []
        """Megabytes of the largest worker, at each look."""
        self.cpu: dict[int, float] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.5):
            sizes = [0.0]
            for root in self._roots():
                with suppress(psutil.Error):
                    for one in psutil.Process(root).children(recursive=True):
                        with suppress(psutil.Error):
                            name = " ".join(one.cmdline())
                            if "ray::" in name or "forkserver" in name:
                                sizes.append(one.memory_info().rss / 1e6)
                                times = one.cpu_times()
                                self.cpu[one.pid] = times.user + times.system
            self.largest.append(max(sizes))

    def describe_growth(self) -> str:
        """Return the largest worker in the second and the last quarter of the time; equal means no growth."""
        quarter = max(1, len(self.largest) // 4)
        second, last = max(self.largest[quarter : 2 * quarter]), max(self.largest[-quarter:])
        return f"largest worker {second:,.0f} MB in the second quarter, {last:,.0f} MB in the last"


def command(source: Path, out: Path, *how: str) -> list[str]:
    """Return the command line that compacts a corpus."""
    return [
        sys.executable,
        "-m",
        "unabridged",
        "corpus",
        "compact",
        str(source),
        str(out),
        "--window",
        str(WINDOW),
        "--shard",
        SHARD,
        *how,
    ]


# -- what is shown -----------------------------------------------------------------------------------------------------


def killed_and_resumed(source: Path, work: Path, sessions: int) -> bool:
    """Return whether a cluster that lost a node and a driver gave the same results as one machine."""
    begun = time.monotonic()
    local = command(source, work / "local", "--jobs", "2", "--json")
    with subprocess.Popen(local, stdout=subprocess.PIPE) as driver, WorkerMonitor(lambda: [driver.pid]) as watched:
        said = driver.communicate()[0]
    alone = json.loads(said)
    print(
        f"one machine, 2 processes: {alone['sessions']:,} sessions in {alone['parts']} parts, "
        f"{len(alone['failures'])} failed, {time.monotonic() - begun:.0f} s; {watched.describe_growth()}",
        flush=True,
    )
    begun, out = time.monotonic(), work / "cluster"
    with cluster(2) as nodes:
        roots = lambda: [node.pid for node in nodes.nodes]  # noqa: E731 - a list that changes
        on_ray = command(source, out, "--ray", nodes.address, "--json")
        with WorkerMonitor(roots) as watched:
            driver = subprocess.Popen(on_ray, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            _until(driver, out, alone["parts"] * 3 // 10)
            nodes.lose()
            print(f"the worker node was killed at {_parts(out)} of {alone['parts']} parts", flush=True)
            _until(driver, out, alone["parts"] * 5 // 10)
            end(driver)
            killed = _parts(out)
            print(f"the driver was killed at {killed} parts", flush=True)
            nodes.start()
            done = subprocess.run(on_ray, capture_output=True, check=False)
    if not done.stdout:
        errors = done.stderr.decode(errors="replace")[-2_000:]
        print(f"resumed: exit {done.returncode}, and nothing was said but {errors}")
        return False
    report = json.loads(done.stdout)
    here, there = digests(work / "local"), digests(out)
    same = here == there and (work / "local" / "manifest.json").read_bytes() == (out / "manifest.json").read_bytes()
    print(
        f"resumed: {report['fresh']:,} sessions done now, {report['sessions']:,} in all, {len(report['failures'])} bad"
        f", exit {done.returncode}, {time.monotonic() - begun:.0f} s in all; {watched.describe_growth()}"
    )
    print(f"digests: {len(here):,} here, {len(there):,} there, {'the same' if same else 'NOT the same'}; manifests too")
    return same and len(there) == sessions and 0 < report["fresh"] < sessions and done.returncode == 1


def _parts(out: Path) -> int:
    return len(list(out.glob("part-*")))


def _until(driver: subprocess.Popen[Any], out: Path, parts: int) -> None:
    """Wait until so many parts are there."""
    while _parts(out) < parts:
        if driver.poll() is not None:
            raise SystemExit("the driver ended before it was killed")
        time.sleep(0.05)


def speed(source: Path, work: Path) -> dict[str, float]:
    """Measure one worker and two; print how much faster two are, by the clock and by the CPU time of the busiest."""
    found: dict[str, float] = {}
    for jobs in (1, 2):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        local = command(source, work / f"jobs-{jobs}", "--jobs", str(jobs), "--json")
        with (
            subprocess.Popen(local, stdout=subprocess.DEVNULL) as driver,
            WorkerMonitor(lambda: [driver.pid]) as watched,
        ):
            driver.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found[f"pool wall {jobs}"] = time.monotonic() - begun
        found[f"pool cpu {jobs}"] = own if jobs == 1 else max(watched.cpu.values())
        found[f"pool total cpu {jobs}"] = own + sum(watched.cpu.values())
    for jobs in (1, 2):
        with cluster(jobs) as nodes:
            roots = lambda: [node.pid for node in nodes.nodes]  # noqa: E731 - used inside the loop only
            begun = time.monotonic()
            on_ray = command(source, work / f"nodes-{jobs}", "--ray", nodes.address, "--json")
            with WorkerMonitor(roots) as watched:
                subprocess.run(on_ray, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            found[f"ray wall {jobs}"] = time.monotonic() - begun
            found[f"ray cpu {jobs}"] = max(watched.cpu.values())
    for how in ("pool", "ray"):
        wall, cpu = (found[f"{how} {what} 1"] / found[f"{how} {what} 2"] for what in ("wall", "cpu"))
        print(
            f"{how}: two instead of one: {wall:.2f} by the clock "
            f"({found[f'{how} wall 1']:.1f} s and {found[f'{how} wall 2']:.1f} s), {cpu:.2f} by the busier one's CPU"
        )
    return found


def beside_langchain(source: Path, work: Path) -> None:
    """Print CPU seconds per million tokens: ours, and a plain loop over LangChain's summariser with a fake model."""
    begun = time.process_time()
    report = run(Compact(window=WINDOW), source, work / "ours")
    ours = time.process_time() - begun
    millions = report.counts["tokens_before"] / 1e6
    from langchain.agents.middleware import SummarizationMiddleware  # noqa: PLC0415 - only here
    from langchain_core.language_models.fake_chat_models import FakeListChatModel  # noqa: PLC0415 - likewise
    from langchain_core.messages import convert_to_messages, convert_to_openai_messages  # noqa: PLC0415 - likewise

    made: Any = SummarizationMiddleware
    middleware = made(FakeListChatModel(responses=["A summary. " * 60]), trigger=("tokens", int(WINDOW * 0.85)))
    begun, count = time.process_time(), 0
    with (work / "langchain.jsonl").open("wb") as out:
        for file in sorted(source.glob("*.jsonl")) + sorted(source.glob("0*.json")):
            for line in file.read_bytes().splitlines():
                session = json.loads(line)
                messages = convert_to_messages(
                    [{**one, "content": one.get("content") or ""} for one in session["messages"]]
                )
                for number, message in enumerate(messages):
                    message.id = f"m{number}"
                update = middleware.before_model({"messages": messages}, None)
                left = update["messages"][1:] if update else messages
                count += bool(update)
                out.write(dump_line({**session, "messages": convert_to_openai_messages(left)}))
    theirs = time.process_time() - begun
    print(
        f"{report.sessions:,} sessions, {millions:.1f} million tokens, CPU seconds per million: "
        f"{ours / millions:.2f} for ours ({report.counts['changed']:,} shortened; ledger, checks, digests, parts), "
        f"{theirs / millions:.2f} for LangChain's summariser with a fake model ({count:,} shortened)"
    )


def main() -> None:
    """Make a corpus, kill and resume its compaction, compare the results, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--measured", type=int, default=6_000, help="sessions to measure the speed on")
    parser.add_argument("--only", choices=("kill", "speed", "langchain"))
    given = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory(prefix="corpus") as folder:
        work = Path(folder)
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the beginning")
        if given.only in (None, "kill"):
            size = make_corpus(work / "in", given.sessions)
            print(f"{given.sessions:,} sessions, {size / 1e6:,.0f} MB", flush=True)
            good = killed_and_resumed(work / "in", work, given.sessions)
        if given.only in (None, "speed"):
            make_corpus(work / "some", given.measured)
            speed(work / "some", work)
        if given.only in (None, "langchain"):
            make_corpus(work / "chats", min(500, given.measured), "openai-chat")
            beside_langchain(work / "chats", work)
        print(f"load {os.getloadavg()[0]:.1f} at the end")
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
