"""pi's extension, run with a fake of pi and a fake of our program.

It needs Node.js 22.18 or newer, which reads TypeScript; `make clients` has one.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from node_program import NODE
from patience import PATIENCE
from unabridged_cli.clients.pi import Pi

pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node.js 22.18 or newer")

DRIVER = """
const { default: extend } = await import(process.argv[2]);
const handlers = {}, tools = {}, sent = [];
extend({
  on: (event, handler) => (handlers[event] = handler),
  registerTool: (tool) => (tools[tool.name] = tool),
  sendMessage: (message) => sent.push(message),
});
const sessionManager = { getSessionFile: () => "/s.jsonl", getSessionId: () => "s1" };
const ctx = { cwd: "/home/ada", sessionManager };
const preparation = { firstKeptEntryId: "e7", tokensBefore: 90000 };
const before = await handlers.session_before_compact({ reason: "threshold", preparation }, ctx);
await handlers.session_compact({}, ctx);
const context = async (messages) => (await handlers.context({ messages }))?.messages ?? messages;
const first = await context([{ role: "user", content: "Go on." }]);
const second = await context([{ role: "user", content: "Go on." }, ...sent]);
const third = await context([{ role: "user", content: "And now?" }]);
const found = await tools.search_history.execute("1", { query: "depot" }, undefined, undefined, ctx);
console.log(JSON.stringify({ before, sent, first, second, third, found: found.content[0].text }));
"""
TOLD = "[unabridged] Never edit anything under vendor/."
CONTEXT = json.dumps({"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": TOLD}})
OURS = json.dumps({"compaction": {"summary": "[unabridged] Ours."}})
LEFT_TO_PI = f"""case "$(cat)" in *SessionStart*) echo '{CONTEXT}';; esac"""
PERSON = {"role": "user", "content": "Go on."}


def run(folder: Path, hook: str, others: str = "echo found it") -> dict[str, Any]:
    """What pi gets from the extension, with these shell scripts as `unabridged hook` and its other commands."""
    program = folder / "unabridged"
    program.write_text(f'#!/bin/sh\nif [ "$1" = hook ]; then {hook}; else {others}; fi\n')
    program.chmod(0o700)
    return _run(folder, program)


def _run(folder: Path, program: Path) -> dict[str, Any]:
    (place,) = Pi().entries({"HOME": str(folder)}, None)
    extension, driver = folder / "extension.ts", folder / "driver.mjs"
    extension.write_text(place.add("", str(program)))
    driver.write_text(DRIVER)
    command = [str(NODE), "--no-warnings", str(driver), str(extension)]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
    return dict(json.loads(done.stdout))


def test_our_summary_takes_the_place_of_pis_and_nothing_is_told_besides(tmp_path: Path) -> None:
    got = run(tmp_path, f"echo '{OURS}'")
    compaction = {"summary": "[unabridged] Ours.", "firstKeptEntryId": "e7", "tokensBefore": 90000}
    assert got["before"] == {"compaction": compaction}
    assert got["sent"] == []
    assert got["first"] == [PERSON]


def test_beside_pis_own_summary_the_next_request_has_what_it_loses_and_once(tmp_path: Path) -> None:
    got = run(tmp_path, LEFT_TO_PI)
    assert "before" not in got
    assert [message["content"] for message in got["sent"]] == [TOLD]
    assert [message["content"] for message in got["first"]] == ["Go on.", TOLD], "pi has not taken it in yet"
    assert [message["content"] for message in got["second"]] == ["Go on.", TOLD], "it stands in the session now"
    assert len(got["third"]) == 1, "so nothing has to be added any more"


def test_the_tools_give_what_the_program_prints_or_why_there_is_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, "true")["found"] == "found it"
    failed = run(tmp_path, "true", "echo the archive is locked >&2; exit 2")["found"]
    assert failed.startswith("Nothing was found")
    assert failed.endswith("the archive is locked")


def test_where_the_program_is_gone_pi_goes_on_and_ends_at_once(tmp_path: Path) -> None:
    began = time.monotonic()
    got = _run(tmp_path, tmp_path / "gone" / "unabridged")
    assert time.monotonic() - began < 60, "the time that the program would have had"
    assert "before" not in got
    assert got["first"] == [PERSON]
    assert "ENOENT" in got["found"]


def test_what_a_hook_says_that_is_no_json_is_nothing(tmp_path: Path) -> None:
    got = run(tmp_path, "echo oops")
    assert "before" not in got
    assert got["sent"] == []
