"""opencode's plugin, run with a session that a fake of opencode's client hands out.

It needs Node.js 22.18 or newer, which reads TypeScript; `make clients` has one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from node_program import NODE
from patience import PATIENCE
from unabridged.archive import open_archive
from unabridged.archive.protocol import Scope
from unabridged_cli.clients.opencode import OpenCode
from unabridged_cli.clients.threads import list_open_sessions

RULE = "Never edit anything under vendor/."
SUMMARY = "## Goal\nThe tide table."
DRIVER = """
import { readFileSync } from "node:fs";
const { messages, summary, plugin } = JSON.parse(readFileSync(0, "utf8"));
const { Unabridged } = await import(plugin);
const client = {
  session: {
    get: async ({ path }) => ({ data: path.id === "ses_child" ? { parentID: "ses_1" } : {} }),
    messages: async () => ({ data: messages }),
    message: async ({ path }) => ({ data: { info: { summary: path.messageID === "msg_summary" } } }),
  },
};
const hooks = await Unabridged({ client, directory: "/home/ada" });
const sessionID = "ses_1";
const about = { sessionID, partID: "prt_1" };
await hooks["chat.message"]({ sessionID });
await hooks["chat.message"]({ sessionID: "ses_child" });
await hooks["experimental.session.compacting"]({ sessionID }, { context: [] });
const output = { text: summary };
await hooks["experimental.text.complete"]({ ...about, messageID: "msg_summary" }, output);
const later = { text: "Something else." };
await hooks["experimental.text.complete"]({ ...about, messageID: "msg_later" }, later);
console.log(JSON.stringify([output.text, later.text]));
"""


pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node.js 22.18 or newer")


def person(text: str, number: int = 1, **more: Any) -> dict[str, Any]:
    part = {"type": "text", "id": f"prt_{number}", "text": text, **more}
    return {"info": {"id": f"msg_{number}", "role": "user"}, "parts": [part]}


def assistant(*parts: dict[str, Any], number: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "info": {"id": f"msg_{number}", "role": "assistant", "time": {"completed": 1}, **more},
        "parts": list(parts),
    }


def tool(**state: Any) -> dict[str, Any]:
    return {"type": "tool", "callID": "call_1", "tool": "bash", "state": {"input": {"command": "ls"}, **state}}


SESSION = [
    person(f"Fix the tide table. {RULE}"),
    person("Never use any tool but grep.", 2, synthetic=True),
    assistant(
        {"type": "step-start"},
        {"type": "reasoning", "text": "I look first."},
        {"type": "text", "text": "I look."},
        tool(status="completed", output="Brest Cuxhaven"),
        number=3,
    ),
    assistant(tool(status="error", error="no such file"), number=4),
    assistant({"type": "text", "text": "An older summary."}, number=5, summary=True),
    {"info": {"id": "msg_6", "role": "user"}, "parts": [{"type": "compaction", "auto": True}]},
    {"info": {"id": "msg_summary", "role": "assistant", "time": {}, "summary": True}, "parts": []},
]


def compact(home: Path, messages: list[dict[str, Any]], *, called: str = "") -> list[str]:
    """The summary after the plugin saw it, and a later text of the session."""
    program = home / "unabridged"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m unabridged "$@"\n')
    program.chmod(0o700)
    (place,) = [place for place in OpenCode().entries({"HOME": str(home)}, None) if place.what == "plugin"]
    plugin, driver = home / "plugin.ts", home / "driver.mjs"
    plugin.write_text(place.add("", str(program) + called))
    driver.write_text(DRIVER)
    (home / "tmp").mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    archive = f"sqlite:///{home / 'archive.db'}"
    done = subprocess.run(
        [str(NODE), "--no-warnings", str(driver)],
        input=json.dumps({"messages": messages, "summary": SUMMARY, "plugin": str(plugin)}).encode(),
        env={**kept, "HOME": str(home), "TMPDIR": str(home / "tmp"), "UNABRIDGED_ARCHIVE": archive},
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    assert list((home / "tmp").iterdir()) == [], "no copy of the session is left"
    return list(json.loads(done.stdout))


def archived(home: Path) -> list[tuple[str, str]]:
    archive = open_archive(f"sqlite:///{home / 'archive.db'}")
    try:
        assert archive.verify() == []
        return [(part.origin, part.text) for part in archive.parts(Scope("default", "opencode:ses_1"))]
    finally:
        archive.close()


def test_the_summary_gets_what_it_loses_and_nothing_else_changes(tmp_path: Path) -> None:
    summary, later = compact(tmp_path, SESSION)
    assert summary.startswith(f"{SUMMARY}\n\n[unabridged] ")
    assert RULE in summary
    assert "grep" not in summary
    assert later == "Something else."


def test_every_message_is_archived_with_whose_words_it_is(tmp_path: Path) -> None:
    compact(tmp_path, SESSION)
    assert archived(tmp_path) == [
        ("person", f"Fix the tide table. {RULE}"),
        ("host", "Never use any tool but grep."),
        ("model", 'I look.\nbash {"command":"ls"}'),
        ("tool", "Brest Cuxhaven"),
        ("model", 'bash {"command":"ls"}'),
        ("tool", "no such file"),
        ("summary", "An older summary."),
    ]


def test_the_session_that_a_person_speaks_in_is_noted_and_no_sub_agents(tmp_path: Path) -> None:
    compact(tmp_path, SESSION)
    noted = list_open_sessions({"HOME": str(tmp_path)})
    assert [(one.thread, one.project) for one in noted] == [("opencode:ses_1", "/home/ada")]


def test_the_next_compaction_archives_only_what_is_new(tmp_path: Path) -> None:
    compact(tmp_path, SESSION)
    compact(tmp_path, [*SESSION, person("And the tests.", 7)])
    assert [text for _, text in archived(tmp_path)][6:] == ["An older summary.", "And the tests."]


@pytest.mark.parametrize("called", [".gone", "/below/a/file"])
def test_without_the_program_opencode_compacts_as_ever_and_ends_at_once(called: str, tmp_path: Path) -> None:
    started = time.monotonic()
    assert compact(tmp_path, SESSION, called=called) == [SUMMARY, "Something else."]
    assert time.monotonic() - started < 60, "nothing waits for the time that the program would have had"
