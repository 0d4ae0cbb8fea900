"""`unabridged gateway` as a process of its own: a signal ends it soon, and what was recorded is there."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_case import KEY, PATHS, body_of
from patience import PATIENCE
from provider_app import ProviderApp, ReceivedRequest
from provider_faults import Fault
from serving import serve_in_thread
from unabridged.archive import Scope, open_archive
from unabridged_testing.loopback import LoopbackReply


def answer(messages: Any) -> LoopbackReply:
    """What a model says that also writes summaries."""
    if len(messages) > 1:
        return LoopbackReply("Noted.")
    return LoopbackReply(
        "The user has the parts looked at, one by one. Those so far were fine, and nothing had to be changed."
    )


class Holding(ProviderApp):
    """A provider that answers nothing while it holds."""

    def __init__(self) -> None:
        super().__init__(answer, window=8_000)
        self.holds = False

    async def _reply(self, request: ReceivedRequest, fault: Fault, send: Any) -> None:
        while self.holds:  # noqa: ASYNC110 - set from another thread
            await asyncio.sleep(0.02)
        await super()._reply(request, fault, send)

    def wait_for(self, requests: int) -> None:
        until = time.monotonic() + PATIENCE
        while len(self.raw) < requests and time.monotonic() < until:
            time.sleep(0.01)
        assert len(self.raw) >= requests


@contextmanager
def gateway(upstream: str, archive: str) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """The process, which has ended behind the block, and a client of it."""
    command = [sys.executable, "-m", "unabridged", "gateway", "--upstream", upstream, "--port", "0", "--window", "8k"]
    process = subprocess.Popen(
        [*command, "--archive", archive, "--log", "json"], stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    assert process.stderr is not None
    try:
        told = process.stderr.readline()
        found = re.search(r"http://[\d.:]+", told)
        assert found, told + process.stderr.read()
        with httpx.Client(base_url=found[0], headers={"x-api-key": KEY}, timeout=PATIENCE) as client:
            yield process, client
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def ended(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What the process logged until it ended, which it does within 10 seconds of the signal."""
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) in {0, -signal.SIGTERM}
    assert process.stderr is not None
    return [json.loads(line) for line in process.stderr]


def test_who_follows_the_events_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    with (
        serve_in_thread(ProviderApp(answer, window=8_000)) as upstream,
        gateway(upstream, f"sqlite:///{tmp_path / 'gateway.db'}") as (process, client),
        client.stream("GET", "/events") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines) == ""
        client.post(PATHS["chat"], json=body_of("chat", 1))
        assert json.loads(next(lines))["event"] == "fitted"
        process.send_signal(signal.SIGTERM)
        assert list(lines) == []
        ended(process)


@pytest.mark.parametrize("answers", [True, False], ids=["the provider answers", "the provider hangs"])
def test_a_signal_ends_it_within_ten_seconds_and_no_record_is_lost(tmp_path: Path, answers: bool) -> None:
    provider = Holding()
    archive = f"sqlite:///{tmp_path / 'gateway.db'}"
    long, near = body_of("chat", 100), body_of("messages", 38)
    near["messages"][0]["content"] = "Another task: look at the parts from the other end."
    with serve_in_thread(provider) as upstream, ThreadPoolExecutor(1) as beside:
        with gateway(upstream, archive) as (process, client):
            first = client.post(PATHS["chat"], json=long)
            provider.holds = True
            before = len(provider.raw)
            waiting = beside.submit(client.post, PATHS["messages"], json=near)
            provider.wait_for(before + 2)  # the request, and a summary in the background
            process.send_signal(signal.SIGTERM)
            if answers:
                time.sleep(0.2)
                provider.holds = False
                assert waiting.result().status_code == 200
            lines = ended(process)
            if not answers:
                with pytest.raises(httpx.HTTPError):
                    waiting.result().raise_for_status()
            provider.holds = False
        record = first.headers["x-unabridged-record"]
        assert record
        assert next(line["status"] for line in lines if "status" in line) == 200
        assert KEY not in str(lines)
        with closing(open_archive(archive)) as store:
            assert not list(store.verify())
            kept = [one.id for one in store.records(Scope("default", first.headers["x-unabridged-thread"]))]
            early = [thread for thread in store.threads("default") if thread != first.headers["x-unabridged-thread"]]
        assert record in kept
        assert len(early) <= answers, "a summary that nobody wrote is not recorded"
        ours = [line for line in lines if line["logger"].startswith("unabridged") and "status" not in line]
        assert ours == [], "what is dropped is no failure"
        with closing(sqlite3.connect(tmp_path / "gateway.db")) as database:
            left = database.execute("SELECT count(*) FROM leases").fetchone()
        assert left == (0,), "so that another replica can begin with it at once"
        if not answers:
            return
        with gateway(upstream, archive) as (process, client):
            again = client.post(PATHS["chat"], json=long)
            assert again.headers["x-unabridged-record"] == record
            assert provider.raw[-1].body == provider.raw[before - 1].body, "the same prefix goes on being sent"
            ended(process)


@pytest.mark.posix
def test_a_full_disk_costs_no_request_is_told_once_and_heals(tmp_path: Path) -> None:
    provider = Holding()
    archive = f"sqlite:///{tmp_path / 'gateway.db'}"
    with serve_in_thread(provider) as upstream, gateway(upstream, archive) as (process, client):

        def ask(task: str) -> httpx.Response:
            asked = body_of("chat", 100)
            asked["messages"][0]["content"] = task
            answer = client.post(PATHS["chat"], json=asked)
            assert answer.status_code == 200, answer.text
            return answer

        def ready(status: int) -> bool:
            until = time.monotonic() + PATIENCE
            while (found := client.get("/readyz").status_code) != status and time.monotonic() < until:
                time.sleep(0.1)
            return found == status

        assert ask("One task.").headers["x-unabridged-record"]
        unlimited = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, unlimited[1]))
        for task in ("Another task.", "A third task.", "Another task."):
            answer = ask(task)
            assert "without a record" in answer.headers["x-unabridged-note"]
            assert "x-unabridged-record" not in answer.headers
        assert ready(503)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, unlimited)
        assert ready(200)
        healed = ask("Another task.")
        assert "x-unabridged-note" not in healed.headers
        said = [line["message"] for line in ended(process) if "message" in line]
        assert [line.partition(":")[0] for line in said] == ["the archive fails", "the archive is well again"]
        assert "nothing was written" in said[0], "with the remedy"
        with closing(open_archive(archive)) as store:
            assert store.locate("default", healed.headers["x-unabridged-record"])
    assert provider.too_long == []
