"""Writing conversations back: the layout that was read, lines that stay byte for byte, and a file that is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unabridged import Compactor
from unabridged.formats import format_named
from unabridged.legal import check, repair
from unabridged.sessions import Loaded, load, save
from unabridged.sessions.loaded import Lines

FILES = Path(__file__).parent / "session_files"
SESSIONS = sorted(path.name for path in FILES.iterdir())
LINKS = {"claude-code": ("uuid", "parentUuid"), "pi": ("id", "parentId")}
SUMMARY = "Summary of what was said before."


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def halved(loaded: Loaded, *between: int) -> list[Any]:
    """A summary turn, the messages named, and the second half of the conversation."""
    format_ = format_named(loaded.format)
    tail = loaded.messages[len(loaded.messages) // 2 :]
    return [format_.text("user", SUMMARY), *(loaded.messages[i] for i in between), *tail]


def said(loaded: Loaded, messages: list[Any] | None = None) -> list[Any]:
    """What the messages say, whatever form a text has."""
    return [format_named(loaded.format).read(message) for message in messages or loaded.messages]


def chain(path: Path, kind: str) -> list[dict[str, Any]]:
    """The lines a client finds from the newest one back, oldest first; fails where a parent is not in the file."""
    own, parent = LINKS[kind]
    known = {entry[own]: entry for entry in entries(path) if own in entry and entry["type"] != "session"}
    turns = [entry for entry in known.values() if not entry.get("isSidechain") and not entry.get("isApiErrorMessage")]
    found = [turns[-1]]
    while found[-1][parent] is not None:
        found.append(known[found[-1][parent]])
    return found[::-1]


def unlinked(path: Path, kind: str) -> list[str]:
    """The file's lines without the one field that a cut may change."""
    parent = LINKS.get(kind, ("", "none"))[1]
    return [json.dumps({k: v for k, v in entry.items() if k != parent}) for entry in entries(path)]


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_that_did_not_change_is_written_byte_for_byte(name: str, tmp_path: Path) -> None:
    loaded = load(FILES / name)
    save(loaded, loaded.messages, tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes() == (FILES / name).read_bytes()


@pytest.mark.parametrize("name", SESSIONS)
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
    assert len((tmp_path / "out.jsonl").read_bytes()) < len(before) + 1500


@pytest.mark.parametrize("name", SESSIONS)
def test_lines_that_stay_are_the_lines_that_were_read(name: str, tmp_path: Path) -> None:
    loaded = load(FILES / name)
    save(loaded, halved(loaded), tmp_path / "out.jsonl")
    old = (FILES / name).read_bytes().splitlines()
    new = set((tmp_path / "out.jsonl").read_bytes().splitlines())
    start = len(loaded.messages) // 2
    wanted = {n for where in loaded.lines[start:] for n in where}
    if loaded.kind == "codex":
        own = [where[0] for where in loaded.lines]
        wanted = {n for n in wanted if own.count(n) == 1}  # a past compaction holds several in one line
    changed = [n for n in wanted if old[n] not in new]
    cuts = 2 if name in {"claude_code_preserved.jsonl", "claude_code_rewound.jsonl", "pi_compacted.jsonl"} else 1
    assert len(changed) <= cuts, "only the first line after a cut, and after a joint that was open before"
    assert {unlinked(FILES / name, loaded.kind)[n] for n in wanted} <= set(
        unlinked(tmp_path / "out.jsonl", loaded.kind)
    )


@pytest.mark.parametrize("name", [name for name in SESSIONS if name.startswith("claude_code")])
def test_claude_code_can_resume_from_what_is_written(name: str, tmp_path: Path) -> None:
    loaded = load(FILES / name)
    save(loaded, halved(loaded), tmp_path / "out.jsonl", tokens_before=98_765)
    boundary, summary, *rest = chain(tmp_path / "out.jsonl", "claude-code")
    assert (boundary["type"], boundary["subtype"], boundary["parentUuid"]) == ("system", "compact_boundary", None)
    assert boundary["compactMetadata"]["preTokens"] == 98_765
    assert summary["isCompactSummary"]
    assert summary["message"] == {"role": "user", "content": SUMMARY}
    first = entries(FILES / name)[-1]
    for line in (boundary, summary):
        assert [line[key] for key in ("sessionId", "cwd", "version")] == [
            first[key] for key in ("sessionId", "cwd", "version")
        ]
    turns = [entry for entry in rest if entry["type"] in {"user", "assistant"} and not entry.get("isApiErrorMessage")]
    assert turns[-1]["uuid"] == entries(FILES / name)[-1]["uuid"]
    places = [entry["uuid"] for entry in entries(tmp_path / "out.jsonl") if "uuid" in entry]
    assert [places.index(entry["uuid"]) for entry in (boundary, summary, *rest)] == sorted(
        places.index(entry["uuid"]) for entry in (boundary, summary, *rest)
    )


@given(data=st.data(), name=st.sampled_from(SESSIONS), summary=st.booleans(), acknowledged=st.booleans())
def test_any_tail_with_any_earlier_requests_reads_back_in_order(
    data: st.DataObject, name: str, *, summary: bool, acknowledged: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    loaded = load(FILES / name)
    format_, views = format_named(loaded.format), said(loaded)
    cut = data.draw(st.sampled_from([i for i, view in enumerate(views) if not view.answers]))
    spoken = [i for i in range(cut) if views[i].role == "user" and views[i].text]
    kept = sorted(data.draw(st.sets(st.sampled_from(spoken)))) if spoken else []
    lead = [format_.text("user", SUMMARY)] if summary and cut else []
    lead += [format_.text("assistant", "Understood.")] if acknowledged and lead else []
    wanted = [*lead, *(loaded.messages[i] for i in kept), *loaded.messages[cut:]]
    out = tmp_path_factory.mktemp("out") / "out.jsonl"
    save(loaded, wanted, out)
    assert said(load(out)) == said(loaded, wanted)
    if lead and loaded.kind in LINKS and "first_version" not in name:
        own = LINKS[loaded.kind][0]
        names = [entry[own] for entry in chain(out, loaded.kind)]
        lines = entries(FILES / name)
        source = loaded.source
        assert isinstance(source, Lines)
        stayed = [i for i in kept if i not in source.summaries]
        assert [lines[loaded.lines[i][0]][own] in names for i in stayed] == [True for _ in stayed]


@pytest.mark.parametrize("name", SESSIONS)
def test_three_compactions_in_a_row_each_leave_one_summary(name: str, tmp_path: Path) -> None:
    path = FILES / name
    for turn in range(3):
        loaded = load(path)
        tail = loaded.messages[max(1, len(loaded.messages) // 3) :]
        wanted = [format_named(loaded.format).text("user", f"Summary {turn}"), *tail]
        path = tmp_path / f"{turn}.jsonl"
        save(loaded, wanted, path)
        assert said(load(path)) == said(loaded, wanted)
    text = path.read_text()
    assert "Summary 2" in text
    assert "Summary 1" not in text


@pytest.mark.parametrize("name", SESSIONS)
def test_a_cleared_result_is_written_in_its_own_line(name: str, tmp_path: Path) -> None:
    loaded = load(FILES / name)
    format_ = format_named(loaded.format)
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
    format_ = format_named("anthropic")
    edited = format_.edit(loaded.messages[3], lambda slot, text: "[cleared]" if slot.id == "toolu_01A" else text)
    save(loaded, [*loaded.messages[:3], edited, *loaded.messages[4:]], tmp_path / "out.jsonl")
    old, new = (FILES / "claude_code.jsonl").read_text().splitlines(), (tmp_path / "out.jsonl").read_text().splitlines()
    differing = [n for n, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]]
    assert differing == [9], "the other result of the same turn keeps its line"
    assert "toolUseResult" not in json.loads(new[9])


def test_thinking_that_had_to_go_is_gone_and_the_chain_holds(tmp_path: Path) -> None:
    loaded = load(FILES / "claude_code.jsonl")
    bare = [format_named("anthropic").without_reasoning(message) for message in loaded.messages]
    save(loaded, bare, tmp_path / "out.jsonl")
    again = load(tmp_path / "out.jsonl")
    assert again.messages == bare
    assert len(chain(tmp_path / "out.jsonl", "claude-code")) > 10


@pytest.mark.parametrize("name", SESSIONS)
def test_a_repaired_session_is_legal_and_nothing_else_changed(name: str, tmp_path: Path) -> None:
    loaded = load(FILES / name)
    mended = repair(loaded.messages, format=loaded.format).messages
    save(loaded, mended, tmp_path / "out.jsonl")
    again = load(tmp_path / "out.jsonl")
    assert said(again) == said(loaded, mended)
    assert check(again.messages, format=loaded.format) == []
    old = set((FILES / name).read_text().splitlines())
    fresh = [line for line in (tmp_path / "out.jsonl").read_text().splitlines() if line not in old]
    assert len(fresh) <= 6 * max(1, len(check(loaded.messages, format=loaded.format)))


@pytest.mark.parametrize("name", SESSIONS)
def test_messages_may_be_dropped_without_a_summary(name: str, tmp_path: Path) -> None:
    loaded = load(FILES / name)
    wanted = [*loaded.messages[:1], *loaded.messages[len(loaded.messages) // 2 :]]
    save(loaded, wanted, tmp_path / "out.jsonl")
    assert said(load(tmp_path / "out.jsonl")) == said(loaded, wanted)


@pytest.mark.parametrize("name", SESSIONS)
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
    (made,) = [entry for entry in entries(tmp_path / "out.jsonl") if entry["type"] == "compaction"]
    assert (made["summary"], made["firstKeptEntryId"], made["tokensBefore"]) == (SUMMARY, "00aa0017", 7)


def test_lines_of_unknown_types_and_settings_stay(tmp_path: Path) -> None:
    for name, marks in {
        "claude_code.jsonl": ("newer-than-we-know", "file-history-snapshot", "queue-operation", '"summary"'),
        "codex.jsonl": ("of_a_later_version", "session_meta", "gpt-5-codex", "gpt-5.1-codex"),
        "pi.jsonl": ("model_change", "thinking_level_change", "before the edit", "todo"),
    }.items():
        loaded = load(FILES / name)
        save(loaded, halved(loaded), tmp_path / name)
        assert [mark for mark in marks if mark not in (tmp_path / name).read_text()] == []


def test_side_chains_and_progress_of_what_went_are_gone(tmp_path: Path) -> None:
    loaded = load(FILES / "claude_code.jsonl")
    save(loaded, halved(loaded), tmp_path / "out.jsonl")
    text = (tmp_path / "out.jsonl").read_text()
    assert "fixed offset" not in text
    assert '"progress"' not in text


@pytest.mark.parametrize("name", SESSIONS)
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
