"""Writing plain conversations: bytes that stay, and a file that is whole or not there."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from places import HELPERS
from unabridged.sessions import SessionFileError, load, save, write_file_atomically

FILES = HELPERS / "session_files"

TEXTS = st.text(max_size=30)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant"]), "content": TEXTS}, optional={"n": st.integers()}
    ),
    max_size=8,
)


@given(
    messages=MESSAGES,
    keep=st.sets(st.integers(0, 7)),
    indent=st.sampled_from([None, 1, 2, 4]),
    wrap=st.sampled_from(["list", "object", "line"]),
    ascii_only=st.booleans(),
    system=TEXTS,
)
def test_everything_outside_the_list_and_every_message_that_stays_keeps_its_text(
    messages: list[Any],
    keep: set[int],
    *,
    indent: int | None,
    wrap: str,
    ascii_only: bool,
    system: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("plain")
    value = messages if wrap == "list" else {"system": system, "messages": messages, "z": {"messages": [1]}}
    text = json.dumps(value, indent=None if wrap == "line" else indent, ensure_ascii=ascii_only)
    other = json.dumps({"messages": [{"role": "user", "content": "another"}]})
    path = folder / "in.json"
    path.write_bytes((f"{other}\n{text}\n{other}\n" if wrap == "line" else text).encode("utf-8", "surrogatepass"))
    loaded = load(path, which=1 if wrap == "line" else None, format="openai-chat")
    wanted = [{"role": "user", "content": "nyttår ☃"}, *(m for i, m in enumerate(loaded.messages) if i in keep)]
    save(loaded, wanted, folder / "out.json")
    again = load(folder / "out.json", which=1 if wrap == "line" else None, format="openai-chat")
    assert again.messages == wanted
    assert (again.system, again.kind) == (loaded.system, loaded.kind)
    if wrap == "line":
        assert (folder / "out.json").read_bytes().split(b"\n")[::2] == [other.encode(), other.encode()]


def test_an_indented_document_stays_as_it_is_around_the_messages(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text(
        '{\n  "model": "m",\n  "messages": [\n    {"role": "user",   "content": "a\\u00e9"},\n'
        '    {"role": "user", "content": "b"}\n  ],\n  "x": 1.50\n}\n'
    )
    loaded = load(path)
    save(loaded, [{"role": "user", "content": "s"}, loaded.messages[0]], tmp_path / "out.json")
    assert (tmp_path / "out.json").read_text() == (
        '{\n  "model": "m",\n  "messages": [\n    {\n      "role": "user",\n      "content": "s"\n    },\n'
        '    {"role": "user",   "content": "a\\u00e9"}\n  ],\n  "x": 1.50\n}\n'
    )


def test_a_lone_surrogate_survives(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text('[{"role": "user", "content": "\\ud83d é"}, {"role": "user", "content": "b"}]')
    loaded = load(path)
    copy = {**loaded.messages[0], "name": "edited"}
    save(loaded, [copy, loaded.messages[1]], tmp_path / "out.json")
    assert load(tmp_path / "out.json").messages == [copy, loaded.messages[1]]


def test_lines_of_plain_messages_that_stay_keep_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(
        '{"role": "user",  "content": "a"}\n\n{"role":"assistant","content":"b"}\n{"role":"user","content":"c"}'
    )
    loaded = load(path)
    save(loaded, [{"role": "user", "content": "s"}, *loaded.messages[1:]], tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_text() == (
        '{"role":"user","content":"s"}\n{"role":"assistant","content":"b"}\n{"role":"user","content":"c"}\n'
    )


def test_the_file_that_was_read_is_never_written(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes((FILES / "pi.jsonl").read_bytes())
    (tmp_path / "link.jsonl").symlink_to(path)
    loaded = load(path)
    for out in (path, tmp_path / "link.jsonl"):
        with pytest.raises(SessionFileError, match="is the file that was read, which is never changed"):
            save(loaded, loaded.messages, out)
    assert path.read_bytes() == (FILES / "pi.jsonl").read_bytes()


def test_a_file_that_grew_meanwhile_is_not_written_from(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes((FILES / "pi.jsonl").read_bytes())
    loaded = load(path)
    with path.open("ab") as stream:
        stream.write(b'{"type":"custom"}\n')
    with pytest.raises(SessionFileError, match="changed while it was worked on: close the client"):
        save(loaded, loaded.messages, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_the_permissions_of_the_source_are_kept(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes((FILES / "pi.jsonl").read_bytes())
    path.chmod(mode)
    loaded = load(path)
    save(loaded, loaded.messages[3:], tmp_path / "out.jsonl")
    assert stat.S_IMODE((tmp_path / "out.jsonl").stat().st_mode) == mode


class Interrupted(BaseException):
    pass


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), Interrupted()])
def test_an_interrupted_write_leaves_what_was_there_and_no_half_file(error: BaseException, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("as it was\n")

    def pieces() -> Iterator[bytes]:
        yield b"x" * 100_000
        raise error

    with pytest.raises((SessionFileError, Interrupted)) as caught:
        write_file_atomically(out, pieces())
    if isinstance(error, OSError):
        assert "no space left on device; nothing was written" in str(caught.value)
    assert list(tmp_path.iterdir()) == [out]
    assert out.read_text() == "as it was\n"


def test_a_disk_that_fills_up_is_one_clear_line(tmp_path: Path) -> None:
    child = f"""
import resource, signal
from unabridged.sessions import SessionFileError, load, save
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
loaded = load({str(FILES / "claude_code.jsonl")!r})
try:
    save(loaded, loaded.messages, {str(tmp_path / "out.jsonl")!r})
except SessionFileError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-B", "-c", child], capture_output=True, text=True, check=True)
    assert run.stdout == f"can't write {tmp_path / 'out.jsonl'}: file too large; nothing was written\n"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    loaded = load(FILES / "pi.jsonl")
    with pytest.raises(SessionFileError, match=r"can't write .*: no such file or directory"):
        save(loaded, loaded.messages, tmp_path / "none" / "out.jsonl")
