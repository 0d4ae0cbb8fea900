"""A small corpus of every kind of file, and models that end a process: for the tests of `unabridged_corpus`."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cli_case import SESSION_FILES
from unabridged_testing import Shape, make_conversation

FORMATS = ("openai-chat", "anthropic", "openai-responses", "gemini")
KINDS: Any = ("agent", "marathon", "chat", "protocol")
DEADLY = "the zebra of doom"
SUMMARY = "The user has the parts looked at, one by one. Those so far were fine, and nothing had to be changed."


def session(number: int, **more: Any) -> dict[str, Any]:
    """A session, always the same one of this number; most are too long for a window of 4,000."""
    wire, kind = FORMATS[number % 4], KINDS[number // 4 % 4]
    shape = Shape(wire, number, kind, 3, 3 + 9 * (kind == "marathon"), 2, 300, "answered")
    return {"id": f"s{number}", "format": wire, "messages": make_conversation(shape).messages, **more}


def corpus(folder: Path) -> Path:
    """Forty sessions in files of their own, in lines and as clients write them; and three that are none."""
    (folder / "a" / "b").mkdir(parents=True)
    for number in range(16):
        (folder / "a" / f"{number}.json").write_text(json.dumps(session(number)), encoding="utf-8")
    lines = [json.dumps(session(number)) for number in range(16, 34)]
    lines[3] = lines[3][:200]
    lines[5] = '{"id": "no session", "messages": "none"}'
    (folder / "a" / "b" / "lines.jsonl").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    (folder / "bad.json").write_text("[{", encoding="utf-8")
    for file in SESSION_FILES:
        shutil.copy(file, folder / file.name)
    return folder


def results(out: Path) -> dict[str, bytes]:
    """Every file of a result, but for the lock."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and path.stat().st_size
    }


def rows(out: Path) -> Iterator[dict[str, Any]]:
    """Every row, in the order of the input."""
    found = [json.loads(line) for part in out.glob("part-*.jsonl") for line in part.read_bytes().splitlines()]
    yield from sorted(found, key=lambda row: (row["file"], row["line"]))


def summarise(prompt: str) -> str:
    """A model that always says the same."""
    return SUMMARY if prompt else ""


def end_the_worker(prompt: str) -> str:
    """A model that ends its process over one session."""
    if DEADLY in prompt:
        os._exit(3)
    return SUMMARY


def end_the_driver(prompt: str) -> str:
    """A model that kills who began its process, once some parts are there; the second time it does nothing."""
    out = Path(os.environ["CORPUS_OUT"])
    parent = multiprocessing.parent_process()
    first = not (out.parent / "killed").exists()
    if first and parent is not None and parent.pid and len(list(out.glob("part-*"))) >= 3:
        (out.parent / "killed").touch()
        os.kill(parent.pid, signal.SIGKILL)
    return SUMMARY if prompt else ""


def write_once(prompt: str) -> str:
    """A model while which somebody writes to the session that it reads about, once."""
    return _write(prompt, once=True)


def write_always(prompt: str) -> str:
    """A model while which somebody writes to the session that it reads about, each time."""
    return _write(prompt, once=False)


def _write(prompt: str, *, once: bool) -> str:
    file = Path(os.environ["CORPUS_FILE"])
    if DEADLY in prompt and not (once and file.read_text().endswith("\n")):
        with file.open("a") as stream:
            stream.write("\n")
    return SUMMARY
