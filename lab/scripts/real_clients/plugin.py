"""The plugin, installed from this repository into a clean home folder, alone and beside an install."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from real_clients.clients import Driver, Place, program, unabridged
from real_clients.grown import REQUEST, SEARCH, SUMMARY, Check, Model, after_growing, kept_in, tools_in, write_depot
from real_clients.loopback import Loopback, Request, serving
from real_clients.packages import path_with_node
from real_clients.streams import Answer
from unabridged_cli.clients.hook.log import log_file_path
from workspace import ROOT

COMMANDS = {
    "claude-code": [
        ["plugin", "validate", str(ROOT)],
        ["plugin", "install", "unabridged", "--marketplace", str(ROOT), "--json"],
    ],
    "codex": [
        ["plugin", "marketplace", "add", str(ROOT), "--json"],
        ["plugin", "add", "unabridged@unabridged", "--json"],
    ],
}
"""How each client installs it, where nobody is asked."""
_BYPASS = "--dangerously-bypass-hook-trust"
_SEARCH_NAME = re.compile(rf"\bmcp__\w+__{SEARCH}\b")


def plug_in(driver: Driver, new_place: Callable[[], Place]) -> Iterator[Check]:
    """Grow a session over its limit with the plugin alone, and with an install; then with no program to be found."""
    for with_install in (False, True):
        yield from _grow(driver, new_place(), "plugin and install" if with_install else "plugin", with_install)
    yield from _go_without(driver, new_place())


def _grow(driver: Driver, place: Place, name: str, with_install: bool) -> Iterator[Check]:
    place.environment["PATH"] = f"{program(place).parent}:{path_with_node(place.folder)}"
    model = Model(driver)
    with serving(Loopback(SUMMARY, model)) as upstream:
        model.upstream = upstream
        driver.prepare(place, upstream)
        if with_install:
            done = unabridged(place, "install", driver.name)
            yield Check(f"{name}: install says it is done", done.returncode == 0, done.stderr[-300:])
        yield _install(driver, place, name)
        yield from _trust(driver, place, name)
        write_depot(place)
        done = place.run(*(word for word in driver.ask(place, REQUEST, None) if word != _BYPASS))
        after = upstream.after_compaction()
    yield Check(f"{name}: the client ends well", done.returncode == 0, (done.stderr or done.stdout)[-300:])
    yield Check(f"{name}: it compacted by itself", after is not None, f"{len(upstream.requests)} requests")
    if after is not None:
        for check in after_growing(upstream, after, place):
            yield Check(f"{name}: {check.what}", check.holds, check.detail)
        yield from _happened_once(place, name, upstream.requests, after, with_install)
    done = unabridged(place, "doctor", driver.name)
    yield Check(
        f"{name}: the doctor finds nothing wrong", done.returncode == 0, done.stdout[-600:] + done.stderr[-300:]
    )


def _install(driver: Driver, place: Place, name: str) -> Check:
    done = [place.run(str(place.command), *words) for words in COMMANDS[driver.name]]
    wrong = [(one.stdout + one.stderr)[-300:] for one in done if one.returncode]
    return Check(f"{name}: the client installs the plugin", not wrong, "; ".join(wrong))


def _happened_once(
    place: Place, name: str, requests: list[Request], after: Request, with_install: bool
) -> Iterator[Check]:
    told = after.text().count("[unabridged] Messages ")
    yield Check(f"{name}: the context is told once what the summary lost", told == 1, f"{told} times")
    log = log_file_path(place.environ()).read_text(encoding="utf-8")
    counts = [log.count(f"({event}") for event in ("PreCompact auto", "SessionStart compact", "PostCompact auto")]
    yield Check(f"{name}: each event around the compaction is answered once", counts == [1, 1, 1], str(counts))
    left = len(re.findall("(PreCompact|SessionStart|PostCompact|SessionEnd) is answered by the other hook", log))
    yield Check(
        f"{name}: of two hooks one leaves each event to the other", left == (5 if with_install else 0), str(left)
    )
    names = {tool.name for tool in tools_in(requests[-1]) if tool.name.endswith(SEARCH)}
    names |= set(_SEARCH_NAME.findall(json.dumps(after.body)))  # before the model names any
    yield Check(f"{name}: one search is offered", len(names) == 1, str(names))
    yield Check(f"{name}: the skill is offered", "unabridged:recall" in json.dumps(after.body))


def _trust(driver: Driver, place: Place, name: str) -> Iterator[Check]:
    """Have Codex trust the hooks as a person does by /hooks; the doctor knows before and after."""
    if driver.name != "codex":
        return
    before = unabridged(place, "doctor", "codex")
    yield Check(f"{name}: the doctor misses trust", "trust: 0 of" in before.stdout, before.stdout[-600:])
    with subprocess.Popen(
        [str(place.command), "app-server"], env=place.environ(), cwd=place.project, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        _ask(server, "initialize", {"clientInfo": {"name": "lab", "title": "lab", "version": "1"}})
        (found,) = _ask(server, "hooks/list", {"cwds": [str(place.project)]})["data"]
        trusted = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in found["hooks"]}
        edit = {"keyPath": "hooks.state", "value": trusted, "mergeStrategy": "upsert"}
        _ask(server, "config/batchWrite", {"edits": [edit]})
        server.kill()
    after = unabridged(place, "doctor", "codex")
    known = f"trust: {len(trusted)} of {len(trusted)} hooks" in after.stdout
    yield Check(f"{name}: the doctor sees trust", known and after.returncode == 0, after.stdout[-600:])


def _ask(server: subprocess.Popen[str], method: str, params: dict[str, Any]) -> Any:
    """Return what Codex's own server answers."""
    assert server.stdin is not None and server.stdout is not None  # noqa: S101, PT018 - they are pipes
    server.stdin.write(json.dumps({"id": method, "method": method, "params": params}) + "\n")
    server.stdin.flush()
    answers = (json.loads(line) for line in server.stdout)
    return next(answer["result"] for answer in answers if answer.get("id") == method)


def _go_without(driver: Driver, place: Place) -> Iterator[Check]:
    """Run the client with the plugin, and no program on the PATH."""
    place.environment["PATH"] = f"{path_with_node(place.folder).partition(':')[0]}:/usr/bin:/bin"
    with serving(Loopback("", lambda _number, _request: Answer("Hello."))) as upstream:
        driver.prepare(place, upstream)
        yield _install(driver, place, "no program")
        done = driver.start(place, "Say hello.")
    well = done.returncode == 0 and "Hello." in done.stdout
    yield Check("no program: the client ends well", well, (done.stderr or done.stdout)[-300:])
    yield Check("no program: nothing is archived", not kept_in(place.archive))
    found = unabridged(place, "doctor", driver.name)
    right = found.returncode == 1 and "is not on the PATH" in found.stdout
    yield Check("no program: the doctor says so", right, found.stdout[-600:])
