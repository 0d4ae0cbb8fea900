"""The file of events that `unabridged.live` writes: sizes at every call, no word of a conversation."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from conversations import long_chat, user
from engine_case import compactor
from unabridged import events
from unabridged.errors import SettingsError
from unabridged.events import Compacted, Event, Receipt, combine_listeners, describe_sizes
from unabridged.live import live

SECRET = "hush-hush"  # noqa: S105 - what a conversation says
NAMES = {"agent", "id", "kind", "record", "stage", "summariser", "thread", "namespace"}
"""The fields that hold a name."""


def read(path: Path) -> list[dict[str, Any]]:
    """The events of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def fill(hint: str) -> Any:
    """A value of this type with the secret wherever a text can be."""
    if hint in {"int", "float", "bool"}:
        return 7
    if hint == "BaseException":
        return ValueError(SECRET)
    if hint == "Receipt":
        return Receipt(**{field.name: fill(str(field.type)) for field in fields(Receipt)})
    if hint.startswith(("Mapping[str, float]", "dict[str, float]")):
        return {"calls": 1}
    return SECRET if hint in {"str", "Kind"} else [SECRET]


KINDS = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_text_of_an_event_is_written_but_names(kind: type[Event]) -> None:
    event = kind(**{field.name: fill(str(field.type)) for field in fields(kind)})
    data = describe_sizes(event)
    assert {name for name, value in data.items() if SECRET in json.dumps(value)} <= NAMES
    subject = Receipt if kind is Compacted else kind
    numbers = {name for name, hint in get_type_hints(subject).items() if hint in {int, float, bool}}
    assert numbers <= set(data)


def test_a_program_that_runs_writes_every_size_and_compaction(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    engine = compactor(on_event=live(path), namespace="shop")
    messages = [user(f"the word is {SECRET}")]
    sizes = []
    for message in long_chat(40):
        fitted = engine.fit([*messages, message], thread="t")
        messages = fitted.messages
        sizes.append((fitted.tokens_before, fitted.tokens_after, len(messages)))
    written = read(path)
    calls = [event for event in written if event["event"] == "fitted"]
    assert [(call["tokens_before"], call["tokens_after"], call["messages"]) for call in calls] == sizes
    assert {call["window"] for call in calls} == {engine.limits.window}
    compacted = [event for event in written if event["event"] == "compacted"]
    assert [event["id"] for event in compacted] == [record.id for record in engine.compactions(thread="t")]
    assert {(event["namespace"], event["thread"]) for event in written} == {("shop", "t")}
    assert SECRET not in path.read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o777 == 0o600


def test_below_the_trigger_nothing_is_emitted_unless_it_is_asked_for() -> None:
    seen: list[Event] = []
    both: list[Event] = []

    class Watching:
        every_call = True

        def __call__(self, event: Event) -> None:
            both.append(event)

    engine = compactor(on_event=combine_listeners(seen.append, Watching()))
    engine.fit([user("hello")], thread="t")
    assert (seen, [type(event).__name__ for event in both]) == ([], ["Fitted"])


def test_a_disk_that_is_full_does_not_end_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "run.jsonl"
    engine = compactor(on_event=live(path))
    path.unlink()
    path.symlink_to("/dev/full")
    with caplog.at_level(logging.WARNING, "unabridged"):
        for _ in range(3):
            engine.fit([user("hello")], thread="t")
    assert [record.getMessage() for record in caplog.records] == [
        f"can't write to {path}: No space left on device; said once until it works again"
    ]


def test_a_folder_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"No such file or directory\. Name a file in a folder that is there"):
        live(tmp_path / "none" / "run.jsonl")


def test_many_writers_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    listeners = [live(path) for _ in range(4)]
    event = events.Undone("t", "r" * 500)
    threads = [
        threading.Thread(target=lambda tell=tell, at=at: [tell(replace(event, thread=f"t{at}")) for _ in range(100)])
        for at, tell in enumerate(listeners)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read(path)) == 400
