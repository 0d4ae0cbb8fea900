"""Search over what left the context and what still stands in it, each hit with the mark of where it is."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cli_case import run
from hook_case import SESSION, archive, claude_line, codex_line, home, write  # noqa: F401 - fixtures
from hook_case import call as call_hook
from unabridged import Compactor
from unabridged.archive.protocol import Archive, Scope
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.recall import lookup
from unabridged.recall.tools import SEARCH_TOOL
from unabridged_cli.clients.client import SessionFile
from unabridged_cli.clients.current_session import ToolCaller
from unabridged_cli.clients.session_tools import SessionTools
from unabridged_cli.clients.threads import build_session_thread
from unabridged_cli.inspector.api import Api
from unabridged_testing.archive_contract.values import make_part, store_parts

FILLER = "nothing of interest in this log, all of it as it should be. " * 8


def talk(kind: str, turns: int = 60) -> list[Any]:
    """A conversation whose turn n has a word of its own, in this format."""
    said = [("user" if n % 2 == 0 else "assistant", f"Log {n} names valve{n}x. {FILLER}") for n in range(turns)]
    if kind == "gemini":
        return [{"role": "model" if who == "assistant" else who, "parts": [{"text": text}]} for who, text in said]
    return [{"role": who, "content": text} for who, text in said]


@pytest.mark.parametrize("resent", [False, True], ids=["the shorter list", "the whole list again"])
@pytest.mark.parametrize("kind", ["openai-chat", "anthropic", "openai-responses", "gemini"])
def test_what_stands_in_the_list_is_found_with_its_turn_and_marked(kind: str, resent: bool) -> None:
    whole = talk(kind)
    with Compactor(window=8_000, archive="memory:", format=kind) as compactor:
        shorter = compactor.fit(whole, thread="t").messages
        assert shorter is not whole
        given = whole if resent else shorter
        for n in range(len(whole)):
            (hit,) = compactor.search(f"valve{n}x", thread="t", messages=given)
            assert (hit.turn, hit.live, bool(hit.ref)) == (n, whole[n] in shorter, whole[n] not in shorter), n
            assert f"valve{n}x" in hit.text
            alone = compactor.search(f"valve{n}x", thread="t")
            assert [one.live for one in alone] == ([] if hit.live else [False])
        both = compactor.search("Log", thread="t", messages=given, limit=100)
        assert sorted(hit.turn for hit in both) == list(range(len(whole)))
        assert len(compactor.search("Log", thread="t", messages=given, limit=3)) == 3
        assert not compactor.search("summary", thread="t", messages=given), "what was put in is nobody's words"
        assert not compactor.search("Log", thread="other", messages=[])


def test_before_the_first_compaction_everything_is_in_the_context() -> None:
    with Compactor(window=200_000, archive="memory:") as compactor:
        hits = compactor.search("valve3x", thread="t", messages=talk("openai-chat"))
        assert [(hit.turn, hit.live, hit.ref) for hit in hits] == [(3, True, "")]


def test_what_redact_hides_is_not_found_in_the_context_either() -> None:
    with Compactor(window=200_000, archive="memory:", redact=lambda text: text.replace("valve3x", "…")) as compactor:
        assert not compactor.search("valve3x", thread="t", messages=talk("openai-chat"))


# -- the tools of coding agents' sessions ------------------------------------------------------------------------------


def summary_line(client: str, text: str) -> dict[str, Any]:
    if client == "codex":
        return {"type": "compacted", "payload": {"message": text}}
    return claude_line("user", text, isCompactSummary=True)


def tools_for(archive: Archive, client: str, path: Path) -> SessionTools:  # noqa: F811 - a fixture's value
    file = SessionFile(client, SESSION, path, 1, 1.0)
    return SessionTools(archive, lambda: ToolCaller([file], [build_session_thread(client, SESSION)]))


@pytest.mark.parametrize("archived_again", [False, True], ids=["not archived yet", "archived since"])
@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_the_session_tools_also_find_what_is_still_in_the_context(
    client: str,
    archived_again: bool,
    home: Path,  # noqa: F811
    archive: Archive,  # noqa: F811
) -> None:
    line = codex_line if client == "codex" else claude_line
    before = [line("user", "Look at the zirconium valve."), line("assistant", "The zirconium valve is open.")]
    path = write(home / "session.jsonl", before)
    call_hook(path, "PreCompact")
    after = [summary_line(client, "A zirconium valve was looked at."), line("user", "Is the zirconium valve shut now?")]
    write(path, [*before, *after])
    if archived_again:
        call_hook(path, "PreCompact")
    tools = tools_for(archive, client, path)
    told = tools.answer(SEARCH_TOOL, {"query": "zirconium"}).text
    assert "The zirconium valve is open" in told
    assert [line for line in told.splitlines()[1:] if "still in the context, " in line] == [
        "  [3] still in the context, the user wrote “Is the zirconium valve shut now?”"
    ]
    first = tools.answer(SEARCH_TOOL, {"query": "shut"}).text.splitlines()[2]
    assert first.startswith("[3] ref 3-" if archived_again else "[3] still in the context, the user")
    assert "still in the context, the user wrote:" in first
    nothing = tools.answer(SEARCH_TOOL, {"query": "nowhere"}).text
    assert "Nothing matches" in nothing
    assert "not searched" not in nothing


def test_a_session_that_was_never_archived_is_searched_in_its_file(home: Path, archive: Archive) -> None:  # noqa: F811
    path = write(home / "session.jsonl", [claude_line("user", "Look at the zirconium valve.")])
    told = tools_for(archive, "claude-code", path).answer(SEARCH_TOOL, {"query": "zirconium", "session": SESSION}).text
    assert "still in the context, " in told


def test_all_sessions_are_searched_at_once_and_the_one_that_asks_with_its_context(
    home: Path,  # noqa: F811
    archive: Archive,  # noqa: F811
) -> None:
    path = write(home / "session.jsonl", [claude_line("user", "The zirconium valve of this session.")])
    files = [SessionFile("claude-code", SESSION, path, 1, 1.0)]
    for number in range(12):
        files.append(SessionFile("claude-code", f"other-{number:02}", home / "none.jsonl", 1, 1.0))
        scope = Scope("default", build_session_thread("claude-code", f"other-{number:02}"))
        store_parts(archive, make_part(f"the zirconium valve {number}", 0), scope=scope)
    store_parts(
        archive, make_part("only put here", 0), scope=Scope("default", build_session_thread("claude-code", SESSION))
    )
    tools = SessionTools(archive, lambda: ToolCaller(files, [build_session_thread("claude-code", SESSION)]))
    told = tools.answer(SEARCH_TOOL, {"query": "zirconium", "all_sessions": True}).text
    assert "valve of this session" in told
    assert told.count("Session claude-code:") == 8
    assert all(f"other-{number:02}" in told for number in range(12)), "each session that holds it is named"
    assert "needs `query`" in tools.answer(SEARCH_TOOL, {"all_sessions": True}).text


# -- over all threads, as people see it --------------------------------------------------------------------------------


def filled(archive: Archive) -> list[str]:  # noqa: F811
    """Ten threads that hold a word once, and a newer one that holds it more often than any search reads."""
    for number in range(10):
        texts = [FILLER, f"the zirconium valve {number} is open"]
        parts = [make_part(text, turn) for turn, text in enumerate(texts)]
        store_parts(archive, *parts, scope=Scope("n", f"small {number}"), created=1.0)
    parts = [make_part(f"log {turn}: the zirconium valve is shut", turn) for turn in range(250)]
    store_parts(archive, *parts, scope=Scope("n", "large"), created=2.0)
    return sorted([*(f"small {number}" for number in range(10)), "large"])


def test_a_search_over_all_threads_gives_each_of_them_and_says_how_many(tmp_path: Path) -> None:
    from unabridged.archive import open_archive

    url = f"sqlite:///{tmp_path / 'a.db'}"
    opened = open_archive(url)
    names = filled(opened)
    opened.close()
    for limit in ("1", "20"):
        found = run("search", "zirconium", "--archive", url, "--limit", limit, "--json").json
        assert (found["threads"], found["threads_exact"], found["threads_shown"]) == (11, True, 11)
        assert sorted({row["thread"] for row in found["results"]}) == names
        said = run("search", "zirconium", "--archive", url, "--limit", limit).out
        assert "of at least " in said
        assert "in 11 threads." in said
    fewer = run("search", "zirconium", "--archive", url, "--threads", "3").out
    assert "11 threads hold it: --threads 11 shows all." in " ".join(fewer.split())
    alone = run("search", "zirconium", "--archive", url, "--thread", "small 3").out
    assert "1 passage of 1 message that match, in 1 thread." in " ".join(alone.split())


def test_the_inspector_gives_each_thread_page_by_page_and_looks_for_them_once() -> None:
    store = MemoryArchive()
    names = filled(store)
    asked: list[str] = []
    plain = store.threads_with

    def note(namespace: str, query: str) -> Any:
        asked.append(query)
        return plain(namespace, query)

    store.threads_with = note  # type: ignore[method-assign]
    api, seen = Api(store, write=False), list[str]()
    first: int | None = 0
    while first is not None:
        answer = api.get("search", {"query": "zirconium", "first": str(first)})
        assert (answer["total"], answer["exact"]) == (11, True)
        seen += [row["name"] for row in answer["found"]]
        first = answer["next"]
    assert sorted(set(seen)) == names
    assert asked == ["zirconium"]
    assert json.dumps(answer)


def test_a_page_of_threads_is_one_search_and_each_passage_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryArchive()
    names = filled(store)
    asked: Counter[str] = Counter()
    for name in ("search", "search_each", "search_namespace", "threads_with", "parts"):
        plain = getattr(store, name)

        def count(*given: Any, name: str = name, plain: Any = plain, **more: Any) -> Any:
            asked[name] += 1
            return plain(*given, **more)

        monkeypatch.setattr(store, name, count)
    found = lookup.search_each_thread(store, [Scope("n", name) for name in names], "zirconium", 3)
    assert len(found) == len(names)
    assert set(asked) == {"search_each", "parts"}
    assert asked["search_each"] == 1
    assert asked["parts"] <= 10 + 3, "one a passage: ten threads have one, the large one three"


@pytest.mark.parametrize("query", ['"zirconium valve"', '"valve zirconium"', "zirconium nowhere"])
def test_the_best_thread_comes_first_and_words_in_quotes_are_looked_for_by_themselves_where_nothing_has_them(
    query: str,
) -> None:
    store = MemoryArchive()
    names = filled(store)
    store_parts(store, make_part("zirconium zirconium, valve zirconium? nowhere", 0), scope=Scope("n", "best"))
    held = lookup.find_threads(store, ["n"], query)
    assert held.scopes[0].thread == ("best" if query != '"zirconium valve"' else held.scopes[0].thread)
    wanted = {'"valve zirconium"': ["best"], '"zirconium valve"': names}.get(query, sorted([*names, "best"]))
    assert sorted(scope.thread for scope in held.scopes) == wanted
    nothing = lookup.find_threads(store, ["n"], '"nowhere zirconium"')
    assert len(nothing.scopes) == 12, "the words of it, since nothing has what stands in quotes"
