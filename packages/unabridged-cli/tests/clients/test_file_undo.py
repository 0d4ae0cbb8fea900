"""A compaction taken out of a session: what is left is the file as it was, and what came since."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from places import HELPERS
from rows import rows
from unabridged.formats import get_format
from unabridged.sessions import LoadedFile, load, save
from unabridged.sessions.files import SESSION_FORMATS
from unabridged_cli.clients.file_undo import undo_compactions_in_file

FILES = HELPERS / "session_files"
SESSIONS = sorted(path.name for path in FILES.iterdir())
LINKS = {"claude-code": ("uuid", "parentUuid"), "pi": ("id", "parentId")}
MODERN = [name for name in SESSIONS if name != "pi_first_version.jsonl"]
"""Those whose entries have names: in the others nothing can be linked."""


def shortened(loaded: LoadedFile, cut: int, *, summary: bool = True, edited: bool = False) -> list[Any]:
    """A summary turn and the messages behind the cut; edited, the first of them says something else."""
    format_ = get_format(loaded.format)
    tail = list(loaded.messages[cut:])
    if edited:
        texts = [place for place, message in enumerate(tail) if format_.read(message).text]
        if texts:
            role = format_.read(tail[texts[0]]).role
            tail[texts[0]] = format_.text("assistant" if role == "assistant" else "user", "[shortened]")
    return [*([format_.text("user", f"Summary of {loaded.path.stem}.")] if summary else []), *tail]


def said(loaded: LoadedFile, messages: list[Any]) -> list[Any]:
    return [get_format(loaded.format).read(message) for message in messages]


def go_on(path: Path, kind: str) -> bytes:
    """Two more lines, as the client writes them behind what it sends now."""
    loaded, lines = load(path), list[dict[str, Any]]()
    if kind == "codex":
        part = {"type": "input_text", "text": "And now the chart."}
        payload = {"type": "message", "role": "user", "content": [part]}
        lines = [{"timestamp": "2026-03-03T09:00:00.000Z", "type": "response_item", "payload": payload}]
    else:
        own, parent = LINKS[kind]
        session = loaded.source.session  # type: ignore[union-attr] # a session has lines
        leaf = session.facts.get("leaf") or session.entries[-1][-1][own]
        ask: dict[str, Any] = {"type": "user" if kind == "claude-code" else "message", own: "n1", parent: leaf}
        reply: dict[str, Any] = {"type": "assistant" if kind == "claude-code" else "message", own: "n2", parent: "n1"}
        ask["message"] = {"role": "user", "content": "And now the chart."}
        reply["message"] = {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "id": "msg_n"}
        lines = [ask, reply]
    added = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    with path.open("ab") as stream:
        stream.write(added)
    return added


@rows("name", MODERN)
@rows(("summary", "edited"), [(True, False), (True, True), (False, True)])
def test_without_the_compaction_it_is_the_file_that_it_was(
    name: str, tmp_path: Path, *, summary: bool, edited: bool
) -> None:
    loaded = load(FILES / name)
    save(loaded, shortened(loaded, 1, summary=summary, edited=edited), tmp_path / "out.jsonl")
    taken = undo_compactions_in_file(load(tmp_path / "out.jsonl"))
    assert taken is not None
    assert b"".join(taken.lines) == (FILES / name).read_bytes()
    assert taken.messages == loaded.messages


@rows("name", SESSIONS)
def test_lines_that_were_kept_are_not_read_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = undo_compactions_in_file(load(FILES / name), every=True)
    monkeypatch.delattr("unabridged_cli.clients.file_undo.read_lines")
    assert undo_compactions_in_file(load(FILES / name, keep_lines=True), every=True) == taken


@rows("name", MODERN)
@rows("edited", [False, True])
def test_what_came_since_follows_on_what_was_there(name: str, tmp_path: Path, *, edited: bool) -> None:
    loaded, out = load(FILES / name), tmp_path / "out.jsonl"
    save(loaded, shortened(loaded, len(loaded.messages) // 2, edited=edited), out)
    added = go_on(out, loaded.kind)
    now = load(out)
    count = 1 if loaded.kind == "codex" else 2
    assert said(now, now.messages[:-count]) == said(loaded, shortened(loaded, len(loaded.messages) // 2, edited=edited))
    taken = undo_compactions_in_file(now)
    assert taken is not None
    assert taken.messages[:-count] == loaded.messages
    assert taken.messages[-count:] == now.messages[-count:]
    whole = b"".join(taken.lines)
    assert whole.startswith((FILES / name).read_bytes())
    if not edited and loaded.kind == "claude-code":
        assert whole.endswith(added), "what stays is named by its own name, so nothing has to be linked anew"


@pytest.mark.parametrize(
    "name", ["claude_code_compacted.jsonl", "claude_code_preserved.jsonl", "codex_compacted.jsonl"]
)
def test_a_compaction_of_the_client_is_taken_back_too(name: str) -> None:
    loaded = load(FILES / name)
    taken = undo_compactions_in_file(loaded)
    assert taken is not None
    assert len(taken.messages) > len(loaded.messages)
    kept = set((FILES / name).read_bytes().splitlines(keepends=True))
    assert len([line for line in taken.lines if line not in kept]) <= 1, "one line is linked anew at most"


RECORDED = HELPERS / "fixtures" / "hooks"


@pytest.mark.parametrize("name", ["claude_code", "codex"])
def test_of_compactions_that_a_real_client_made_nothing_is_left(name: str) -> None:
    taken = undo_compactions_in_file(load(RECORDED / f"{name}_transcript.jsonl"), every=True)
    assert taken is not None
    assert taken.compactions == (2 if name == "claude_code" else 1)
    whole = b"".join(taken.lines)
    assert b"compact_boundary" not in whole
    assert b"isCompactSummary" not in whole
    assert b"Cuxhaven and Dover were read; Oban is next" not in b"".join(
        line for line in taken.lines if b'"response_item"' in line or b'"user"' in line
    )
    assert "Never edit anything under vendor/." in json.dumps(taken.messages)


@pytest.mark.parametrize(("told", "goes"), [(["[unabridged] Rules."], True), (["[unabridged] R.", "Mine."], False)])
def test_what_our_hook_told_after_a_compaction_goes_with_it(told: list[str], *, goes: bool) -> None:
    def line(own: str, parent: str | None, kind: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "uuid": own, "parentUuid": parent, "sessionId": "s", **more}

    entries = [
        line("a", None, "user", message={"role": "user", "content": "Use CSV."}),
        line("b", None, "system", subtype="compact_boundary", logicalParentUuid="a"),
        line("c", "b", "attachment", attachment={"type": "date"}),
        line("d", "c", "user", isCompactSummary=True, message={"role": "user", "content": "CSV is used."}),
        line("e", "d", "attachment", attachment={"type": "hook_additional_context", "content": told}),
        line("f", "e", "assistant", message={"role": "assistant", "content": "Done."}),
    ]
    found = SESSION_FORMATS["claude-code"].newest_compaction(entries)
    assert found is not None
    assert found.lines == ({1, 3, 4} if goes else {1, 3})
    assert found.replacements == {"b": "a", "d": "c"} | ({"e": "c"} if goes else {})


def test_what_our_hook_told_codex_goes_with_the_compaction() -> None:
    def item(role: str, text: str) -> dict[str, Any]:
        content = [{"type": "output_text" if role == "assistant" else "input_text", "text": text}]
        return {"type": "response_item", "payload": {"type": "message", "role": role, "content": content}}

    entries = [item("user", "Use CSV."), {"type": "compacted", "payload": {"message": "CSV is used."}}]
    entries += [item("developer", "Permissions."), item("developer", "[unabridged] Rules."), item("user", "Go on.")]
    entries += [item("developer", "[unabridged] of another time")]
    found = SESSION_FORMATS["codex"].newest_compaction(entries)
    assert found is not None
    assert found.lines == {1, 3}


HEAD = "Another language model started to solve this problem and produced a summary of its thinking process."


@rows(
    ("reply", "summary", "goes"),
    [
        ("Prices come from CSV.", f"{HEAD}\nPrices come from CSV.", True),
        ("Prices come from CSV.\n\nDone.\n", f"{HEAD}\nPrices come from CSV.\n\nDone.", True),
        ("Prices come from CSV.", "Prices come from CSV.", True),
        ("Done.", f"{HEAD}\nPrices come from CSV.\n\nDone.", False),
        ("Done.", "Prices come from CSV. Done.", False),
        ("The CLI is unchanged.", f"{HEAD}\nPrices come from CSV.", False),
        ("", HEAD, False),
    ],
)
def test_the_reply_that_codex_keeps_as_a_message_goes_with_the_summary_made_of_it(
    reply: str, summary: str, *, goes: bool
) -> None:
    person = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Use CSV."}]}
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": reply}]}
    entries: list[dict[str, Any]] = [{"type": "response_item", "payload": said} for said in (person, item)]
    entries += [{"type": "event_msg", "payload": {"type": "token_count", "info": None}}]
    entries += [{"type": "compacted", "payload": {"message": summary, "replacement_history": [person]}}]
    found = SESSION_FORMATS["codex"].newest_compaction(entries)
    assert found is not None
    assert found.lines == ({1, 3} if goes else {3})


@given(data=st.data(), name=st.sampled_from(MODERN))
def test_any_compactions_are_taken_back_one_by_one_or_all_at_once(
    data: st.DataObject, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, path, states = tmp_path_factory.mktemp("out"), FILES / name, []
    for turn in range(data.draw(st.integers(1, 3))):
        loaded = load(path)
        states.append(loaded)
        cut = data.draw(st.integers(1, max(1, len(loaded.messages) - 1)))
        wanted = shortened(loaded, cut, summary=turn == 0 or data.draw(st.booleans()), edited=data.draw(st.booleans()))
        assume(wanted)
        path = folder / f"{turn}.jsonl"
        save(loaded, wanted, path)
        assert said(loaded, load(path).messages) == said(loaded, wanted)
    for number, before in enumerate(reversed(states)):
        taken = undo_compactions_in_file(load(path))
        if taken is None:
            assert before.path.read_bytes() == path.read_bytes(), "nothing had changed"
            continue
        path = folder / f"back-{number}.jsonl"
        path.write_bytes(b"".join(taken.lines))
        assert path.read_bytes() == before.path.read_bytes()


@rows("name", MODERN)
def test_all_at_once_there_is_no_compaction_left(name: str, tmp_path: Path) -> None:
    path = FILES / name
    for turn in range(3):
        loaded = load(path)
        path = tmp_path / f"{turn}.jsonl"
        save(loaded, shortened(loaded, 1), path)
    taken = undo_compactions_in_file(load(path), every=True)
    assert taken is not None
    assert taken.compactions >= 3
    (tmp_path / "whole.jsonl").write_bytes(b"".join(taken.lines))
    assert undo_compactions_in_file(load(tmp_path / "whole.jsonl")) is None


def test_a_summary_whose_originals_are_not_in_the_file_stays() -> None:
    lines = (FILES / "claude_code_compacted.jsonl").read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if b"compact_boundary" in line)
    values = [json.loads(line) for line in lines[first:]]
    assert SESSION_FORMATS["claude-code"].newest_compaction(values) is None
    assert SESSION_FORMATS["codex"].newest_compaction([{"type": "compacted", "payload": {}}]) is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(data=st.data(), name=st.sampled_from(MODERN), odd=_JSON)
def test_whatever_stands_in_a_field_nothing_breaks(
    data: st.DataObject, name: str, odd: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    loaded, folder = load(FILES / name), tmp_path_factory.mktemp("odd")
    save(loaded, shortened(loaded, 1, edited=True), folder / "out.jsonl")
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_bytes().splitlines()]
    entry = data.draw(st.sampled_from([line for line in lines if isinstance(line, dict)]))
    links = (
        "compactMetadata",
        "logicalParentUuid",
        "parentUuid",
        "uuid",
        "id",
        "parentId",
        "data",
        "details",
        "payload",
    )
    key = data.draw(st.sampled_from([key for key in links if key in entry] or ["uuid"]))
    entry[key] = odd
    (folder / "odd.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    undo_compactions_in_file(load(folder / "odd.jsonl", format=loaded.kind))


def test_only_the_links_of_a_line_are_changed_not_what_it_quotes(tmp_path: Path) -> None:
    path, loaded = tmp_path / "out.jsonl", load(FILES / "claude_code.jsonl")
    save(loaded, shortened(loaded, 1), path)
    boundary = next(json.loads(line) for line in path.read_text().splitlines() if "compact_boundary" in line)["uuid"]
    quoted = {"parentUuid": boundary, "text": f'"parentUuid":"{boundary}"'}
    line = {"type": "user", "parentUuid": boundary, "message": {"role": "user", "content": [{"type": "x", **quoted}]}}
    with path.open("a") as stream:
        stream.write(json.dumps({"toolUseResult": quoted} | line | {"uuid": "n1"}) + "\n")
    taken = undo_compactions_in_file(load(path))
    assert taken is not None
    last = json.loads(taken.lines[-1])
    assert last["parentUuid"] not in {boundary, None}
    assert last["toolUseResult"] == quoted
    assert last["message"]["content"] == [{"type": "x", **quoted}]
