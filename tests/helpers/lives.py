"""Conversations with several holders, lived step by step: forks, edits, rewinds, undo, lists sent again.

`make soak` lives thousands of them on SQLite; the suite a few on every store.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import toktok  # type: ignore[import-untyped]
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from archive_support import Store
from status_rounds import ROUNDS, Messages
from unabridged import ArchiveError, Compactor, Settings, check
from unabridged.adapters.langchain.format import LangChain
from unabridged.formats import FORMATS, Format
from unabridged.settings import Clear, Prices


def langchain_round(number: int, call_id: str, answer: str) -> Messages:
    call = {"name": "check_status", "args": {"job": number % 2}, "id": call_id, "type": "tool_call"}
    return [AIMessage(content="", tool_calls=[call]), ToolMessage(content=answer, tool_call_id=call_id)]


EVERY = {**ROUNDS, "langchain": langchain_round}
_CLASSES = {"user": HumanMessage, "assistant": AIMessage, "system": SystemMessage}

ANSWERS = (
    "percent done, all is well so far ",
    "ກະລຸນາກວດສອບການຕັ້ງຄ່າໃນໄຟລ໌ນີ້ ",
    "Gwiriwch ffurfweddiad y ffeil hon os gwelwch ",
    "ACGTTGCAAGCTTAGGCTAACGT ",
    "[[3, 1, 4, 1, 5, 9, 2, 6], [5, 3, 5, 8, 9, 7]] ",
    "好的现在请检查一下日志文件里的错误。",
    "/srv/app/src/module_%d/handlers.py:12: warning ",
    "█████████▌  | 47/100 [00:03<00:04, 12.31it/s] ",
)
"""What tools print: every script and pattern is counted, and what is put in for it fits."""


def said_by(format_: str, role: str, text: str) -> Any:
    """A plain message of the format."""
    return _CLASSES[role](content=text) if format_ == "langchain" else {"role": role, "content": text}


def as_plain(messages: Messages) -> Messages:
    """The list as data, LangChain's objects too."""
    return [m.model_dump() if isinstance(m, BaseMessage) else m for m in messages]


def with_text(message: Any, text: str) -> Any:
    """The message with another text."""
    return (
        message.model_copy(update={"content": text})
        if isinstance(message, BaseMessage)
        else {**message, "content": text}
    )


def tokens_of(messages: Messages) -> int:
    """What a request takes by a real tokenizer: every text in it, and eight tokens for the frame of each message."""
    sent = [m.model_dump(include={"content", "tool_calls"}) if isinstance(m, BaseMessage) else m for m in messages]
    texts = [text for message in sent for text in texts_in(message)]
    return int(sum(toktok.batch_count(texts, "o200k_base", threads=1))) + 8 * len(sent)


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a message but its keys, ids and kinds: a provider counts what it reads, not how JSON spells it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in {"id", "tool_call_id", "tool_use_id", "call_id", "type", "role", "status"}:
                yield from texts_in(item)


def without_ids(messages: Messages) -> Messages:
    """The list with its calls numbered: records are found by meaning, and two branches may differ in ids alone."""
    names: dict[str, str] = {}
    plain = json.dumps(as_plain(messages))
    text = re.sub(r'"(d?c\d+)"', lambda m: f'"{names.setdefault(m[1], str(len(names)))}"', plain)
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
            [
                Settings(),
                Settings(clear=Clear(prices=Prices())),
                Settings(form="pair"),
                Settings(form="alternate"),
                Settings(clear=None),
            ]
        )
        self.alike = bool(seed % 2)
        self.window = self.chance.choice([4_000, 9_000])
        self.engine = self.new_engine()
        self.branches = [Branch([said_by(format_, "user", "Watch job 7.")], [])]
        self.branches[0].kept = list(self.branches[0].said)

    def new_engine(self) -> Compactor:
        format_: Format = LangChain() if self.format == "langchain" else FORMATS[self.format]
        named = format_ if self.format == "langchain" else self.chance.choice([None, format_])
        return Compactor(
            agent=None if self.format == "anthropic" else "gpt-5",
            window=self.window, archive=self.store.archive, namespace="n", settings=self.settings, format=named,
        )  # fmt: skip

    def new(self) -> Messages:
        make, chance = EVERY[self.format], self.chance
        answer = f"{chance.randrange(3)} {chance.choice(ANSWERS)}" * chance.choice([4, 20, 40])
        first = chance.randrange(10**9)
        rounds = [make(i, f"c{first + i}", self.marked(answer, first)) for i in range(chance.randrange(1, 12))]
        talk = [said_by(self.format, "assistant", "It goes on."), said_by(self.format, "user", "Go on.")]
        system = [said_by(self.format, "system", "Note: be brief.")] * (self.format == "openai-chat")
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

    def fit(self, messages: Messages) -> Messages:
        """What comes back from `fit`: legal, and within the budget by a real tokenizer."""
        fitted = self.engine.fit(messages, thread=self.thread)
        self.assert_legal(fitted.messages)
        if fitted.changed:
            assert tokens_of(fitted.messages) <= self.engine.limits.window, "over"
        return fitted.messages

    def assert_legal(self, messages: Messages) -> None:
        assert check(messages, format=LangChain() if self.format == "langchain" else self.format) == [], "illegal"

    def do_fit(self, branch: Branch) -> None:
        branch.kept = self.fit(branch.kept)

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
        said[0] = with_text(said[0], f"Watch job {self.chance.randrange(9)}, please.")
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
        given: Messages
        for given in (copy.deepcopy(branch.said), self.renamed(branch.said), copy.deepcopy(branch.said)):
            shorter = self.fit(given)
            back = self.replays(shorter)
            self.assert_legal(back)
            assert without_ids(back) == without_ids(branch.said), "lost"

    def renamed(self, messages: Messages) -> Messages:
        """The same list with other ids for its calls."""
        if self.format == "langchain":
            return copy.deepcopy(messages)
        return list(json.loads(re.sub(r'"(c\d+)"', r'"d\1"', json.dumps(messages))))

    def do_reopen(self, branch: Branch) -> None:
        self.store.reopen()
        self.engine = self.new_engine()
        self.do_fit(branch)

    def holds(self) -> None:
        """Every holder's list replays to what was said there."""
        for branch in self.branches:
            back = self.replays(branch.kept)
            assert without_ids(back) == without_ids(branch.said), "lost"
            assert self.alike or as_plain(back) == as_plain(branch.said), "with ids that say whose it is, to the letter"
