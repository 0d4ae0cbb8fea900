"""Whatever stands in a list leads to exactly one record: in straight runs, branches, forks, rewinds, after an undo."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from test_history import Store
from unabridged import ArchiveError, Compactor, Settings, WontFit, check
from unabridged.clear import Prices
from unabridged.settings import Clear

Messages = list[Any]


def chat_round(number: int, call_id: str, answer: str) -> Messages:
    function = {"name": "check_status", "arguments": json.dumps({"job": number % 2})}
    call = {"id": call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": answer},
    ]


def anthropic_round(number: int, call_id: str, answer: str) -> Messages:
    call = {"type": "tool_use", "id": call_id, "name": "check_status", "input": {"job": number % 2}}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": answer}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def responses_round(number: int, call_id: str, answer: str) -> Messages:
    arguments = json.dumps({"job": number % 2})
    return [
        {"type": "function_call", "call_id": call_id, "name": "check_status", "arguments": arguments},
        {"type": "function_call_output", "call_id": call_id, "output": answer},
    ]


ROUNDS = {"openai-chat": chat_round, "anthropic": anthropic_round, "openai-responses": responses_round}


def without_ids(messages: Messages) -> Messages:
    """The list with its calls numbered: records are found by meaning, and two branches may differ in ids alone."""
    names: dict[str, str] = {}
    text = re.sub(r'"(d?c\d+)"', lambda m: f'"{names.setdefault(m[1], str(len(names)))}"', json.dumps(messages))
    return list(json.loads(text))


class Branch:
    """What was said in one branch, and the list that its holder carries."""

    def __init__(self, said: Messages, kept: Messages) -> None:
        self.said, self.kept = said, kept

    def say(self, new: Messages) -> None:
        self.said, self.kept = [*self.said, *new], [*self.kept, *new]

    def copy(self) -> Branch:
        return Branch(list(self.said), list(self.kept))


class Life:
    """One thread with several holders, whose tools answer alike: as long, and with few different words."""

    def __init__(self, store: Store, format_: str, seed: int, thread: str | None) -> None:
        self.store, self.format, self.thread = store, format_, thread
        self.chance = random.Random(seed)  # noqa: S311 - examples, not secrets
        self.settings = self.chance.choice(
            [Settings(), Settings(clear=Clear(prices=Prices())), Settings(form="pair"), Settings(clear=None)]
        )
        self.alike = bool(seed % 2)
        self.window = self.chance.choice([4_000, 9_000])
        self.engine = self.new_engine()
        self.branches = [Branch([{"role": "user", "content": "Watch job 7."}], [])]
        self.branches[0].kept = list(self.branches[0].said)

    def new_engine(self) -> Compactor:
        named = self.chance.choice([None, self.format])
        return Compactor(
            window=self.window, archive=self.store.archive, namespace="n", settings=self.settings, format=named
        )

    def new(self) -> Messages:
        make, chance = ROUNDS[self.format], self.chance
        answer = f"{chance.randrange(3)} percent " * chance.choice([8, 60, 120])
        first = chance.randrange(10**9)
        rounds = [make(i, f"c{first + i}", self.marked(answer, first)) for i in range(chance.randrange(1, 12))]
        talk = [{"role": "assistant", "content": "It goes on."}, {"role": "user", "content": "Go on."}]
        system = [{"role": "system", "content": "Note: be brief."}] * (self.format == "openai-chat")
        return [m for one in rounds for m in one] + chance.choice([[], [], talk, [*talk[:1], *system, *talk[1:]]])

    def marked(self, answer: str, number: int) -> str:
        """In half of the lives an answer says whose branch it is: then everything must come back to the letter."""
        return answer if self.alike else f"{answer[:-10]}{number:010d}"

    def replays(self, messages: Messages) -> Messages:
        return self.engine.replay(messages, thread=self.thread)

    def step(self) -> str:
        branch = self.chance.choice(self.branches)
        branch.say(self.new())
        step = self.chance.choice(
            ["fit", "fit", "fit", "compact", "undo", "fork", "edit", "rewind", "resend", "reopen"]
        )
        getattr(self, f"do_{step}")(branch)
        return step

    def do_fit(self, branch: Branch) -> None:
        branch.kept = self.engine.fit(branch.kept, thread=self.thread).messages

    def do_compact(self, branch: Branch) -> None:
        done = self.engine.compact(branch.kept, thread=self.thread)
        branch.kept = branch.kept if done is None else done.messages

    def do_undo(self, branch: Branch) -> None:
        branch.kept = self.engine.undo(branch.kept, thread=self.thread)

    def do_fork(self, branch: Branch) -> None:
        self.branches.append(branch.copy())
        self.do_fit(branch)

    def do_edit(self, branch: Branch) -> None:
        """The person edits an early message and runs again: nothing else differs, and every stub reads alike."""
        said = copy.deepcopy(branch.said)
        said[0]["content"] = f"Watch job {self.chance.randrange(9)}, please."
        self.branches.append(Branch(said, list(said)))
        self.do_fit(self.branches[-1])

    def do_rewind(self, branch: Branch) -> None:
        """Back to an earlier point of the carried list: what it gives back is the beginning of what was said."""
        stop = self.chance.randrange(1, len(branch.kept) + 1)
        try:
            back = self.replays(branch.kept[:stop])
        except ArchiveError:
            return
        assert without_ids(back) == without_ids(branch.said[: len(back)])

    def do_resend(self, branch: Branch) -> None:
        """A host that builds its list anew each time, at times with new ids: those of what left are as they were."""
        names: dict[str, str] = {}
        text = re.sub(r'"(c\d+)"', lambda m: f'"{names.setdefault(m[1], "d" + m[1])}"', json.dumps(branch.said))
        for given in (copy.deepcopy(branch.said), json.loads(text), copy.deepcopy(branch.said)):
            fitted = self.engine.fit(given, thread=self.thread)
            assert check(fitted.messages, self.format) == []
            back = self.replays(fitted.messages)
            assert check(back, self.format) == []
            assert without_ids(back) == without_ids(branch.said)

    def do_reopen(self, branch: Branch) -> None:
        self.store.reopen()
        self.engine = self.new_engine()
        self.do_fit(branch)


@pytest.mark.parametrize(("kind", "lives"), [("memory", 24), ("sqlite", 8), ("directory", 4), ("postgres", 4)])
@pytest.mark.parametrize("format_", ROUNDS)
def test_whatever_is_done_each_holders_list_replays_to_what_was_said(
    kind: str, lives: int, format_: str, tmp_path: Path
) -> None:
    # R40
    store = Store(kind, tmp_path)
    for seed in range(lives):
        life = Life(store, format_, seed, None if seed % 4 == 3 else f"thread {seed}")
        steps: list[str] = []
        try:
            for _ in range(14):
                steps.append(life.step())
                for branch in life.branches:
                    back = life.replays(branch.kept)
                    assert without_ids(back) == without_ids(branch.said), (seed, steps)
                    assert back == branch.said or seed % 2, "with ids that say whose branch it is, to the letter"
        except WontFit:
            continue
    store.archive.close()


# --- what the archive does not know -----------------------------------------------------------------------------------

TALK = [
    message
    for i in range(40)
    for message in (
        {"role": "user", "content": f"Question {i}? " + "word " * 30},
        {"role": "assistant", "content": f"Answer {i}. " + "word " * 30},
    )
] + [{"role": "user", "content": "Go on."}]


def compacted(archive: Any, **options: Any) -> Messages:
    with_name: dict[str, Any] = {"thread": "t", **options}
    return Compactor(window=3_000, archive=archive).fit(TALK, **with_name).messages


@pytest.mark.parametrize("take_back", ["replay", "undo"])
@pytest.mark.parametrize(
    ("where", "spoil"),
    [
        ({"thread": "another"}, None),
        ({"thread": "t", "namespace": "another"}, None),
        ({"namespace": "another"}, None),
        ({"thread": "t"}, lambda compactor: compactor.forget("t")),
        ({}, lambda compactor: compactor.forget("t")),
    ],
)
def test_a_summary_turn_that_the_archive_does_not_know_is_an_error_that_names_it(
    take_back: str, where: dict[str, Any], spoil: Callable[[Compactor], Any] | None, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    shorter = compacted(url)
    with Compactor(window=3_000, archive=url) as compactor:
        if spoil is not None:
            spoil(compactor)
        named = re.search(r"summary ([0-9a-f]{12})", shorter[0]["content"])
        assert named is not None
        with pytest.raises(ArchiveError) as raised:
            getattr(compactor, take_back)(shorter, **where)
        for word in (named[1], repr(where.get("namespace", "default")), "agent.db", 'unknown="keep"'):
            assert word in str(raised.value)
        assert getattr(compactor, take_back)(shorter, unknown="keep", **where) == shorter


def test_another_archive_is_an_error_and_the_same_archive_is_the_same_conversation(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    shorter = compacted(url)
    with pytest.raises(ArchiveError, match="memory:"):
        Compactor(window=3_000, archive="memory:").replay(shorter, thread="t")
    with Compactor(window=3_000, archive=url) as later:
        assert later.replay(shorter, thread="t") == TALK
        assert later.replay(shorter) == TALK  # the record says which thread it is


@pytest.mark.parametrize("format_", ROUNDS)
def test_a_mark_in_a_tools_output_or_beside_other_words_is_text(format_: str) -> None:
    compactor = Compactor(window=3_000, archive="memory:")
    frame = "[unabridged summary 0123456789ab] x\n\ny\n\n[end of summary 0123456789ab]"
    around = [{"role": "user", "content": f"Look: {frame}"}, {"role": "assistant", "content": "I see."}]
    quoted = [{"role": "user", "content": f"{frame} What is that?"}]
    stub = "[Tool result cleared: read; 1 line, 9 characters; record 0123456789ab/3]"
    said = [*around, *quoted, *ROUNDS[format_](1, "c1", frame), *ROUNDS[format_](2, "c2", stub)]
    assert compactor.replay(said, thread="t") == said
    assert compactor.undo(said, thread="t") == said


def test_a_list_that_was_changed_within_a_compaction_is_an_error_not_a_guess() -> None:
    compactor = Compactor(window=3_000, archive="memory:")
    shorter = compactor.fit(TALK, thread="t").messages
    changed = [shorter[0], *shorter[2:]]
    with pytest.raises(ArchiveError, match="only in part"):
        compactor.replay([*changed[:1], *copy.deepcopy(shorter), *changed[1:]][:1], thread="t")


def test_an_archive_deleted_while_running_is_an_error(tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "record"
    with Compactor(window=3_000, archive=f"dir:///{folder}") as compactor:
        shorter = compactor.fit(TALK, thread="t").messages
        shutil.rmtree(folder)
        with pytest.raises(ArchiveError):
            compactor.replay(shorter, thread="t")


# --- conversations that nobody named ----------------------------------------------------------------------------------


def user_of(name: str, rounds: int) -> Messages:
    hello = [{"role": "user", "content": "Hello, please help me."}, {"role": "assistant", "content": "Gladly."}]
    return (
        hello
        + [
            message
            for i in range(rounds)
            for message in (
                {"role": "user", "content": f"{name} asks {i}: " + "word " * 30},
                {"role": "assistant", "content": f"{name} is told {i}: " + "word " * 30},
            )
        ]
        + [{"role": "user", "content": "Go on."}]
    )


@pytest.mark.parametrize("form", ["user", "pair"])
def test_two_conversations_that_begin_alike_and_have_no_name_share_nothing(form: Any) -> None:
    compactor = Compactor(window=3_000, archive="memory:", settings=Settings(form=form))
    fitted = {name: compactor.fit(user_of(name, 60)) for name in ("alice", "bob")}
    assert fitted["alice"].thread != fitted["bob"].thread
    for name, other in (("alice", "bob"), ("bob", "alice")):
        assert compactor.replay(fitted[name].messages) == user_of(name, 60)
        assert not [hit for hit in compactor.search(f"{other} asks", thread=fitted[name].thread) if other in hit.text]
    compactor.forget(fitted["alice"].thread)
    assert compactor.replay(fitted["bob"].messages) == user_of("bob", 60)


def test_conversations_that_were_the_same_until_the_first_compaction_part_at_the_next() -> None:
    compactor = Compactor(window=3_000, archive="memory:")
    first = compactor.fit(TALK)
    later = {name: [*first.messages, *user_of(name, 60)] for name in ("alice", "bob")}
    fitted = {name: compactor.fit(messages) for name, messages in later.items()}
    assert fitted["alice"].thread == first.thread != fitted["bob"].thread
    for name, other in (("alice", "bob"), ("bob", "alice")):
        assert compactor.replay(fitted[name].messages) == [*TALK, *user_of(name, 60)]
        found = compactor.search("asks", thread=fitted[name].thread, limit=50)
        assert found
        assert not [hit for hit in found if other in hit.text]
        assert compactor.search("Question 3", thread=fitted[name].thread), "what was common goes along"


def test_a_list_resent_without_a_name_is_found_again_by_another_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    with Compactor(window=3_000, archive=url) as one:
        first = one.fit(copy.deepcopy(TALK))
    with Compactor(window=3_000, archive=url) as other:
        again = other.fit(copy.deepcopy(TALK))
        assert again.messages == first.messages
        assert again.thread == first.thread
        assert len(other.threads()) == 1
