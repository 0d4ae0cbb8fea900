"""Session files with anything anywhere: read as far as they can be, or refused, and never a line lost."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from places import HELPERS
from unabridged import UnabridgedError
from unabridged.formats import get_format
from unabridged.sessions import LoadedFile, load
from unabridged.sessions.files import SESSION_FORMATS, render_file
from unabridged_cli.clients.client import SessionFile
from unabridged_cli.clients.file_undo import undo_compactions_in_file
from unabridged_cli.clients.session_lookup import find_project_folder, read_overview

FILES = sorted((HELPERS / "session_files").iterdir())
ODD: tuple[Any, ...] = (None, 7, True, -1.5, "", "x", "\ud800", [], {}, [None], [{}], [[]], {"type": None}, {"a": [1]})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place inside a line, by its keys and indices."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*path, key)
        yield from places(inner, (*path, key))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A session of any client with lines that are gone, repeated, moved, or say something odd somewhere."""
    lines = [json.loads(line) for line in draw(st.sampled_from(FILES)).read_text(encoding="utf-8").splitlines()]
    for _ in range(draw(st.integers(1, 5))):
        number = draw(st.integers(0, len(lines) - 1))
        what = draw(st.sampled_from(["odd", "odd", "odd", "gone", "twice", "moved", "other"]))
        if what == "odd" and (found := list(places(lines[number]))):
            *path, last = draw(st.sampled_from(found))
            at = lines[number]
            for key in path:
                at = at[key]
            at[last] = copy.deepcopy(draw(st.sampled_from(ODD)))
        elif what == "gone" and len(lines) > 1:
            del lines[number]
        elif what == "twice":
            lines.insert(number, json.loads(json.dumps(lines[number])))
        elif what == "moved":
            lines.append(lines.pop(number))
        elif what == "other":
            lines[number] = copy.deepcopy(draw(st.sampled_from(ODD)))
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def read(path: Path) -> LoadedFile | None:
    """The conversation; None where that was refused."""
    try:
        loaded = load(path)
        for message in loaded.messages:
            get_format(loaded.format).read(message).whole_text()
    except UnabridgedError:
        return None
    return loaded


@given(damaged())
def test_a_damaged_session_is_read_and_written_without_losing_a_line(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "session.jsonl", Path(folder) / "out.jsonl"
        path.write_bytes(data)
        for client in SESSION_FORMATS:
            file = SessionFile(client, "s", path, len(data), 0.0)
            assert isinstance(read_overview(file).project + find_project_folder(file), str)
        loaded = read(path)
        if loaded is None or loaded.kind not in SESSION_FORMATS or not loaded.messages:
            return
        undo_compactions_in_file(loaded, every=True)
        summary = get_format(loaded.format).text("user", "[unabridged summary] of it all")
        out.write_bytes(b"".join(render_file(loaded, [summary, *loaded.messages[1:]])))
        assert out.read_bytes().startswith(data)
        assert read(out) is not None
        taken = undo_compactions_in_file(load(out))
        assert taken is None or b"".join(taken.lines) == data


@pytest.mark.parametrize(
    ("client", "line"),
    [
        ("claude_code", {"type": "user", "sessionId": "s", "uuid": "u", "message": {"role": "user", "content": [7]}}),
        ("codex", {"type": "response_item", "payload": {"type": ["message"], "role": "user", "content": []}}),
        ("pi", {"type": "message", "id": "m", "message": {"role": "assistant", "content": [{"type": "toolCall"}]}}),
    ],
)
def test_a_line_that_no_client_would_write_is_left_alone_with_a_warning(
    client: str, line: dict[str, Any], tmp_path: Path
) -> None:
    source = next(path for path in FILES if path.name == f"{client}.jsonl")
    path = tmp_path / "session.jsonl"
    lines = source.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], json.dumps(line).encode() + b"\n", *lines[3:]]))
    loaded, whole = load(path), load(source)
    assert loaded.messages == whole.messages
    assert [warning for warning in loaded.warnings if "line 4 is not as its client writes it" in warning]
