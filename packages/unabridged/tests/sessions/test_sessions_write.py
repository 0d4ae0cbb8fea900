"""Writing conversations back: the layout that was read, lines that stay byte for byte, and a file that is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from places import HELPERS
from rows import rows
from unabridged import Compactor
from unabridged.formats import get_format
from unabridged.legality import check, repair
from unabridged.sessions import LoadedFile, load, save
from unabridged.sessions.base import LineFile

FILES = HELPERS / "session_files"
SESSIONS = sorted(path.name for path in FILES.iterdir())
LINKS = {"claude-code": ("uuid", "parentUuid"), "pi": ("id", "parentId")}
SUMMARY = "Summary of what was said before."


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def halved(loaded: LoadedFile, *between: int) -> list[Any]:
    """A summary turn, the messages named, and the second half of the conversation."""
    format_ = get_format(loaded.format)
    tail = loaded.messages[len(loaded.messages) // 2 :]
    return [format_.text("user", SUMMARY), *(loaded.messages[i] for i in between), *tail]


def said(loaded: LoadedFile, messages: list[Any] | None = None) -> list[Any]:
    """What the messages say, whatever form a text has."""
    return [get_format(loaded.format).read(message) for message in messages or loaded.messages]


def unnamed(entry: dict[str, Any]) -> dict[str, Any]:
    """The line without its own name, its parent's and its reply's."""
    bare = {key: value for key, value in entry.items() if key not in {"uuid", "parentUuid", "id", "parentId"}}
    return bare | {"message": {**bare.get("message", {}), "id": ""}}


def chain(path: Path, kind: str) -> list[dict[str, Any]]:
    """The lines a client finds from the newest one back, oldest first; fails where a parent is not in the file."""
    own, parent = LINKS[kind]
    known = {entry[own]: entry for entry in entries(path) if own in entry and entry["type"] != "session"}
    turns = [entry for entry in known.values() if not entry.get("isSidechain") and not entry.get("isApiErrorMessage")]
    found = [turns[-1]]
    while found[-1][parent] is not None:
        found.append(known[found[-1][parent]])
    return found[::-1]


@rows("name", SESSIONS)
def test_a_session_that_did_not_change_is_written_byte_for_byte(name: str, tmp_path: Path) -> None:
    loaded = load(FILES / name)
    save(loaded, loaded.messages, tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes() == (FILES / name).read_bytes()


@rows("name", SESSIONS)
def test_a_compacted_session_reads_as_summary_and_tail(name: str, tmp_path: Path) -> None:
    before = (FILES / name).read_bytes()
    loaded = load(FILES / name)
    wanted = halved(loaded)
    save(loaded, wanted, tmp_path / "out.jsonl", tokens_before=12_345)
    again = load(tmp_path / "out.jsonl")
    assert (again.kind, again.format, again.model, again.system) == (
        loaded.kind,
        loaded.format,
        loaded.model,
        loaded.system,
    )
    assert said(again) == said(loaded, wanted)
    assert (FILES / name).read_bytes() == before


@rows("name", SESSIONS)
def test_every_line_that_was_read_is_there_and_what_is_new_stands_behind_them(name: str, tmp_path: Path) -> None:
    loaded = load(FILES / name)
    save(loaded, halved(loaded), tmp_path / "out.jsonl")
    old, new = (FILES / name).read_bytes(), (tmp_path / "out.jsonl").read_bytes()
    assert new.startswith(old)
    assert len(new) > len(old)


@rows("name", [name for name in SESSIONS if not name.startswith("codex")])
def test_a_message_that_stays_is_told_in_the_words_of_its_own_lines(name: str, tmp_path: Path) -> None:
    loaded = load(FILES / name)
    wanted = halved(loaded)
    save(loaded, wanted, tmp_path / "out.jsonl")
    again = load(tmp_path / "out.jsonl")
    assert [loaded.origin_of()(message) for message in wanted[1:]] == [
        again.origin_of()(message) for message in again.messages[1:]
    ]
    old, new = loaded.source, again.source
    assert isinstance(old, LineFile)
    assert isinstance(new, LineFile)
    for was, now in zip(old.session.entries[-3:], new.session.entries[-3:], strict=True):
        assert [unnamed(entry) for entry in was] == [unnamed(entry) for entry in now]


@pytest.mark.parametrize("name", [name for name in SESSIONS if name.startswith("claude_code")])
def test_claude_code_can_resume_from_what_is_written(name: str, tmp_path: Path) -> None:
    loaded = load(FILES / name)
    save(loaded, halved(loaded), tmp_path / "out.jsonl", tokens_before=98_765)
    *old, boundary, summary = entries(tmp_path / "out.jsonl")
    assert old == entries(FILES / name), "what stays is not written again"
    assert (boundary["type"], boundary["subtype"], boundary["parentUuid"]) == ("system", "compact_boundary", None)
    assert boundary["compactMetadata"]["preTokens"] == 98_765
    assert (summary["parentUuid"], summary["isCompactSummary"]) == (boundary["uuid"], True)
    assert summary["message"] == {"role": "user", "content": SUMMARY}
    for line in (boundary, summary):
        assert [line[key] for key in ("sessionId", "cwd", "version")] == [
            old[-1][key] for key in ("sessionId", "cwd", "version")
        ]
    assert isinstance(loaded.source, LineFile)
    tail = loaded.source.session.entries[len(loaded.messages) // 2 :]
    names = [entry["uuid"] for message in tail for entry in message]
    assert boundary["compactMetadata"]["preservedMessages"] == {"anchorUuid": summary["uuid"], "uuids": names}
    assert boundary["logicalParentUuid"] == names[-1]


@pytest.mark.parametrize("name", [name for name in SESSIONS if name.startswith("claude_code")])
def test_a_changed_message_of_claude_code_has_names_of_its_own(name: str, tmp_path: Path) -> None:
    loaded = load(FILES / name)
    bare = [get_format("anthropic").text(message["role"], "Said anew.") for message in loaded.messages]
    save(loaded, bare, tmp_path / "out.jsonl")
    whole = entries(tmp_path / "out.jsonl")
    old, (boundary, *new) = whole[: len(entries(FILES / name))], whole[len(entries(FILES / name)) :]
    assert [line["parentUuid"] for line in new] == [boundary["uuid"], *(line["uuid"] for line in new[:-1])]
    names = [entry["uuid"] for entry in whole if "uuid" in entry]
    assert len(set(names)) == len(names)
    replies = [{e["message"].get("id") for e in part if e["type"] == "assistant"} for part in (old, new)]
    assert not replies[0] & replies[1], "the client joins lines of one reply wherever they stand"


@given(data=st.data(), name=st.sampled_from(SESSIONS), summary=st.booleans(), acknowledged=st.booleans())
def test_any_tail_with_any_earlier_requests_reads_back_in_order(
    data: st.DataObject, name: str, *, summary: bool, acknowledged: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    loaded = load(FILES / name)
    format_, views = get_format(loaded.format), said(loaded)
    cut = data.draw(st.sampled_from([i for i, view in enumerate(views) if not view.answers]))
    spoken = [i for i in range(cut) if views[i].role == "user" and views[i].text]
    kept = sorted(data.draw(st.sets(st.sampled_from(spoken)))) if spoken else []
    lead = [format_.text("user", SUMMARY)] if summary and cut else []
    lead += [format_.text("assistant", "Understood.")] if acknowledged and lead else []
    wanted = [*lead, *(loaded.messages[i] for i in kept), *loaded.messages[cut:]]
    out = tmp_path_factory.mktemp("out") / "out.jsonl"
    save(loaded, wanted, out)
    assert said(load(out)) == said(loaded, wanted)
    if loaded.kind == "pi" and wanted != loaded.messages:
        own, parent = LINKS["pi"]
        fresh = entries(out)[len(entries(FILES / name)) :]
        assert [entry[parent] for entry in fresh[1:]] == [entry[own] for entry in fresh[:-1]]


@rows("name", SESSIONS)
def test_three_compactions_in_a_row_each_leave_one_summary(name: str, tmp_path: Path) -> None:
    path = FILES / name
    for turn in range(3):
        loaded = load(path)
        tail = loaded.messages[max(1, len(loaded.messages) // 3) :]
        wanted = [get_format(loaded.format).text("user", f"Summary {turn}"), *tail]
        path = tmp_path / f"{turn}.jsonl"
        save(loaded, wanted, path)
        assert said(load(path)) == said(loaded, wanted)
    assert [view.text for view in said(load(path))].count("Summary 2") == 1


@rows("name", SESSIONS)
def test_a_cleared_result_is_read_back_cleared(name: str, tmp_path: Path) -> None:
    loaded = load(FILES / name)
    format_ = get_format(loaded.format)
    index = max(i for i, view in enumerate(said(loaded)) if view.answers or view.calls or i == 0)
    edited = format_.edit(loaded.messages[index], lambda slot, text: "[cleared]" if slot.kind != "call" else text)
    if edited is loaded.messages[index]:
        edited = {**loaded.messages[index], "content": "[cleared]"}
    wanted = [*loaded.messages[:index], edited, *loaded.messages[index + 1 :]]
    save(loaded, wanted, tmp_path / "out.jsonl")
    again = load(tmp_path / "out.jsonl")
    assert said(again) == said(loaded, wanted)
    assert "[cleared]" in (tmp_path / "out.jsonl").read_text()


def test_the_raw_result_that_claude_code_keeps_beside_a_block_goes_with_it(tmp_path: Path) -> None:
    loaded = load(FILES / "claude_code.jsonl")
    format_ = get_format("anthropic")
    edited = format_.edit(loaded.messages[3], lambda slot, text: "[cleared]" if slot.id == "toolu_01A" else text)
    save(loaded, [*loaded.messages[:3], edited, *loaded.messages[4:]], tmp_path / "out.jsonl")
    fresh = entries(tmp_path / "out.jsonl")[len(entries(FILES / "claude_code.jsonl")) :]
    (cleared,) = [entry for entry in fresh if "[cleared]" in json.dumps(entry)]
    assert "toolUseResult" not in cleared


def test_thinking_that_had_to_go_is_gone_and_the_chain_holds(tmp_path: Path) -> None:
    loaded = load(FILES / "claude_code.jsonl")
    bare = [get_format("anthropic").without_reasoning(message) for message in loaded.messages]
    save(loaded, bare, tmp_path / "out.jsonl")
    again = load(tmp_path / "out.jsonl")
    assert again.messages == bare
    assert len(chain(tmp_path / "out.jsonl", "claude-code")) > 10


@rows("name", SESSIONS)
def test_a_repaired_session_reads_back_legal(name: str, tmp_path: Path) -> None:
    loaded = load(FILES / name)
    mended = repair(loaded.messages, format=loaded.format).messages
    save(loaded, mended, tmp_path / "out.jsonl")
    again = load(tmp_path / "out.jsonl")
    assert said(again) == said(loaded, mended)
    assert check(again.messages, format=loaded.format) == []


@rows("name", SESSIONS)
def test_messages_may_be_dropped_without_a_summary(name: str, tmp_path: Path) -> None:
    loaded = load(FILES / name)
    wanted = [*loaded.messages[:1], *loaded.messages[len(loaded.messages) // 2 :]]
    save(loaded, wanted, tmp_path / "out.jsonl")
    assert said(load(tmp_path / "out.jsonl")) == said(loaded, wanted)


@rows("name", SESSIONS)
def test_a_cut_off_last_line_is_not_written_again(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes((FILES / name).read_bytes() + b'{"type":"assis')
    loaded = load(path)
    save(loaded, halved(loaded), tmp_path / "out.jsonl")
    assert not load(tmp_path / "out.jsonl").warnings


def test_an_older_compaction_among_what_a_newer_one_kept_does_not_come_back(tmp_path: Path) -> None:
    text = (FILES / "pi_compacted.jsonl").read_text()
    newer: dict[str, Any] = {
        "type": "compaction",
        "id": "00aa0027",
        "parentId": "00aa0026",
        "timestamp": "2025-12-29T11:00:00.000Z",
    }
    newer |= {"summary": "## Goal\nBoth.", "firstKeptEntryId": "00aa0021", "tokensBefore": 70000}
    said_after = {"role": "user", "content": "And now?", "timestamp": 1767000900000}
    last = {"type": "message", "id": "00aa0028", "parentId": "00aa0027", "timestamp": "", "message": said_after}
    path = tmp_path / "in.jsonl"
    path.write_text(f"{text}{json.dumps(newer)}\n{json.dumps(last)}\n")
    loaded = load(path)
    assert [view.text[:14] for view in said(loaded)][:3] == ["## Goal\nBoth.", "kiln/logger.py", "Add a test for"]
    wanted = [{"role": "user", "content": SUMMARY}, *loaded.messages[1:]]
    save(loaded, wanted, tmp_path / "out.jsonl")
    assert said(load(tmp_path / "out.jsonl")) == said(loaded, wanted)


def test_a_message_that_is_wanted_twice_is_written_twice_under_two_names(tmp_path: Path) -> None:
    loaded = load(FILES / "claude_code_rewound.jsonl")
    wanted = [*loaded.messages, loaded.messages[1], loaded.messages[4]]
    save(loaded, wanted, tmp_path / "out.jsonl")
    assert said(load(tmp_path / "out.jsonl")) == said(loaded, wanted)
    names = [entry["uuid"] for entry in entries(tmp_path / "out.jsonl")]
    assert len(set(names)) == len(names)


def test_the_compaction_of_pi_names_the_first_entry_that_it_kept(tmp_path: Path) -> None:
    loaded = load(FILES / "pi.jsonl")
    save(loaded, [{"role": "user", "content": SUMMARY}, *loaded.messages[8:]], tmp_path / "out.jsonl", tokens_before=7)
    *old, made = entries(tmp_path / "out.jsonl")
    assert old == entries(FILES / "pi.jsonl"), "what stays is not written again"
    assert (made["type"], made["summary"], made["tokensBefore"]) == ("compaction", SUMMARY, 7)
    assert isinstance(loaded.source, LineFile)
    assert made["firstKeptEntryId"] == loaded.source.session.entries[8][0]["id"]


def test_the_compaction_of_pi_stands_before_copies_of_what_it_kept_where_that_is_not_the_end(tmp_path: Path) -> None:
    loaded = load(FILES / "pi.jsonl")
    wanted = [{"role": "user", "content": SUMMARY}, loaded.messages[0], *loaded.messages[8:]]
    save(loaded, wanted, tmp_path / "out.jsonl", tokens_before=7)
    whole = entries(tmp_path / "out.jsonl")
    made = whole[len(entries(FILES / "pi.jsonl"))]
    assert (made["type"], made["summary"], made["tokensBefore"]) == ("compaction", SUMMARY, 7)
    assert made["firstKeptEntryId"] not in {entry["id"] for entry in whole}


@rows("name", SESSIONS)
def test_what_the_engine_makes_of_a_session_reads_back_legal(name: str, tmp_path: Path) -> None:
    loaded = load(FILES / name)
    with Compactor(window=2000, archive="memory:", format=loaded.format, origin=loaded.origin_of()) as compactor:
        done = compactor.compact(loaded.messages, system=loaded.system)
    if done is not None:
        save(loaded, done.messages, tmp_path / "out.jsonl", tokens_before=done.tokens_before)
        again = load(tmp_path / "out.jsonl")
        assert said(again) == said(loaded, done.messages)
        assert check(again.messages, format=loaded.format) == []
    assert done is not None or name not in {"claude_code.jsonl", "codex.jsonl", "pi.jsonl"}
