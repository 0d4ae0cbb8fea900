"""Record what the real clients give to hook commands: `make clients WHAT=record`.

It writes `tests/helpers/fixtures/hooks/`, a file a client: its hook inputs in the order they came, each with how many
lines the transcript had then, and that transcript. Paths are those of a made-up user, and the providers' own prompts
are left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from real_clients.clients import DRIVERS, LIMIT, Driver, Place
from real_clients.loopback import Loopback, Request, serving
from real_clients.streams import Answer, Call

FIXTURES = Path(__file__).resolve().parents[3] / "tests" / "helpers" / "fixtures" / "hooks"
EVENTS = ("PreCompact", "PostCompact", "SessionStart")
PROMPT = "List the tide stations in stations.txt. Never edit anything under vendor/."
USER = "/home/ada"
SUMMARY = (
    "<summary>\nThe user asked for the tide stations. Brest, Cuxhaven and Dover were read; Oban is next.\n</summary>"
)
_PROMPTS = frozenset({"attachment", "rendered", "base_instructions", "state", "thread_settings"})
RECORDER = """import json, sys
given = json.loads(sys.stdin.read())
try:
    lines = len(open(given["transcript_path"], "rb").readlines())
except OSError:
    lines = 0
with open({log!r}, "a") as log:
    log.write(json.dumps({{"input": given, "transcript_lines": lines}}) + "\\n")
"""


def record(driver: Driver, place: Place) -> None:
    """Run a client over its limit, and write what its hooks were given."""
    log = place.home / "hooks.jsonl"
    recorder = place.write("recorder.py", RECORDER.format(log=str(log)))
    hook = [{"hooks": [{"type": "command", "command": f"{sys.executable} {recorder}"}]}]
    settings = {"claude-code": ".claude/settings.json", "codex": ".codex/hooks.json"}[driver.name]
    stations = ("Brest", "Cuxhaven", "Dover", "Oban", "Riga")

    def say(number: int, _request: Request) -> Answer:
        if number >= len(stations):
            return Answer("Every station is listed.")
        return Answer(f"Reading {stations[number]}.", Call(driver.shell, {driver.argument: f"echo {stations[number]}"}))

    def count(request: Request) -> int:
        return LIMIT // 5 * sum("echo" in text for text in map(str, request.turns()))

    with serving(Loopback(SUMMARY, say, count)) as upstream:
        driver.prepare(place, upstream)
        place.write(settings, json.dumps({"hooks": dict.fromkeys(EVENTS, hook)}))
        driver.start(place, PROMPT)
        inputs = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        if driver.name == "claude-code":
            driver.start(place, "/compact keep the names", inputs[0]["input"]["session_id"])
            inputs = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    transcript = Path(inputs[-1]["input"]["transcript_path"]).read_text(encoding="utf-8")
    FIXTURES.mkdir(parents=True, exist_ok=True)
    name = driver.name.replace("-", "_")
    (FIXTURES / f"{name}.jsonl").write_text("".join(_scrub(inputs, place)), encoding="utf-8")
    lines = [json.loads(line) for line in transcript.splitlines()]
    (FIXTURES / f"{name}_transcript.jsonl").write_text("".join(_scrub(lines, place)), encoding="utf-8")


def _scrub(lines: list[Any], place: Place) -> Iterator[str]:
    """Yield the lines with another home folder, and without the providers' own prompts."""
    dashed = str(place.home).replace("/", "-").replace("_", "-")
    for line in lines:
        text = json.dumps(_without_prompts(line), ensure_ascii=False)
        text = text.replace(sys.executable, "python3")
        yield text.replace(str(place.home), USER).replace(dashed, USER.replace("/", "-")) + "\n"


def _without_prompts(value: Any) -> Any:
    """Return the value without the clients' own prompts: their fields are emptied, and long texts shortened."""
    if isinstance(value, list):
        return [_without_prompts(part) for part in value]
    if isinstance(value, dict):
        if str(value.get("type")).startswith("api-request"):
            return {key: part for key, part in value.items() if isinstance(part, str)}
        return {key: {} if key in _PROMPTS else _without_prompts(part) for key, part in value.items()}
    return f"{value[:60]} …" if isinstance(value, str) and len(value) > 1600 else value


def recordable() -> list[Driver]:
    """Return the clients that call hook commands."""
    return [driver for driver in DRIVERS.values() if driver.hooks]
