"""Run an example in the environment of its framework: `inside.py PROGRAM defaults|ours REFERENCE OUT PACKAGE…`.

With `ours` the program runs as it stands, but `unabridged.wrap` is given the small window of the provider on loopback.
With `defaults`, `wrap` returns the client as it is. What the archive then holds of the conversation is posted to the
provider REFERENCE, in the form that the SDK sends; everything else is written to OUT as JSON.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import unabridged
from unabridged.adapters.sdk import history_of

WINDOW = 8_000
THREAD = "reports"
HISTORIES: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "ag2": lambda names: list(asyncio.run(names["reply"].history.get_events())),
    "agent_framework": lambda names: names["session"].to_dict(),
    "agno": lambda names: names["answer"].messages,
    "autogen": lambda names: asyncio.run(names["agent"].model_context.get_messages()),
    "crewai": lambda names: names["reader"].agent_executor.messages,
    "haystack": lambda names: names["answer"]["messages"],
    "litellm": lambda names: names["messages"],
    "llama_index": lambda names: names["memory"].get_all(),
    "smolagents": lambda names: names["agent"].memory.steps,
}
"""The framework's own history after a run, by the names of its program."""
OUR_SETTINGS = {"crewai": ("respect_context_window=False", "respect_context_window=True")}
"""A setting of a program that is there because of ours, and the framework's default."""


def run_program(path: Path, *, ours: bool) -> tuple[dict[str, Any], list[Any], str]:
    """Return the names that the program defined, the clients that it wrapped, and the error it ended with, or ""."""
    source = path.read_text(encoding="utf-8")
    wrapped: list[Any] = []
    wrap = unabridged.wrap

    def wrap_small(client: Any, **keywords: Any) -> Any:
        wrapped.append(wrap(client, window=WINDOW, **keywords))
        return wrapped[-1]

    unabridged.wrap = wrap_small if ours else lambda client, **_: client
    if not ours:
        source = source.replace(*OUR_SETTINGS.get(_name_of(path), ("", "")))
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(compile(source, path, "exec"), names)  # noqa: S102 - running the example is the purpose
    except Exception as error:  # noqa: BLE001 - whatever a framework raises is its outcome
        traceback.print_exc()
        return names, wrapped, type(error).__name__
    finally:
        unabridged.wrap = wrap
    return names, wrapped, ""


def count_reports(path: Path, names: Mapping[str, Any]) -> int:
    """Return how many of the reports the framework's own history holds; none where the run left no history."""
    try:
        kept = HISTORIES[_name_of(path)](names)
    except KeyError:
        return 0
    return len(set(re.findall(r"Report (\d+):", repr(kept))))


def post_replay(client: Any, reference: str) -> int:
    """Post what the archive gives back to the reference, and return the number of compactions.

    A second client, which has nothing but the archive, rebuilds the conversation from the request that was sent last.
    """
    from openai import OpenAI  # noqa: PLC0415 - in the framework's environment alone

    history = history_of(client)
    sent = history.last()
    assert sent is not None  # noqa: S101 - the run has sent requests
    with unabridged.wrap(OpenAI(base_url=reference), thread=THREAD, window=WINDOW) as fresh:
        messages: Any = history_of(fresh).replay(sent.messages)
    with OpenAI(base_url=reference) as plain:
        plain.chat.completions.create(model="gpt-5-mini", messages=messages)
    return len(history.compactor().compactions(thread=THREAD))


def _name_of(path: Path) -> str:
    return path.stem.removesuffix("_agent")


def main(program: str, mode: str, reference: str, out: str, *packages: str) -> None:
    """Run the program, and write what came of it."""
    path = Path(program)
    names, wrapped, error = run_program(path, ours=mode == "ours")
    found = {
        "error": error,
        "kept": count_reports(path, names),
        "compactions": post_replay(wrapped[0], reference) if wrapped else 0,
        "versions": {package: version(package) for package in packages},
    }
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
