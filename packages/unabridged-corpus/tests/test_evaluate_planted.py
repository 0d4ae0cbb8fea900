"""Fifty facts in a long run: after many compactions each is in the context, or fetched by a reference it lists."""

from __future__ import annotations

import re
from typing import Any

import pytest

from conversations import assistant, chat_round, user
from unabridged import Compactor
from unabridged.archive.protocol import Scope
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.formats import get_format
from unabridged.recall.tools import READ_TOOL, tools

PATHS = [f"services/unit_{i}/config/limits_{i * 37 % 91}.yaml" for i in range(13)]
IDS = [f"ord-{i * 7919 % 10007:05}-{chr(97 + i)}x" for i in range(13)]
NUMBERS = [f"{i * 131.25 + 4017.125:.3f}" for i in range(12)]
COMMANDS = [f"./tool{i} --shard {i} --since 2024-0{1 + i % 9}-11 | sort -k{i + 2} > /tmp/out{i}.tsv" for i in range(12)]
FACTS = [*PATHS, *IDS, *NUMBERS, *COMMANDS]


def long_run() -> list[dict[str, Any]]:
    """Every fact once: paths in arguments, ids in people's words, numbers in short results, commands in a shell."""
    messages = [user("Go through all units and note what you find.")]
    bulk = "\n".join(f"line {i} of a listing without anything to remember" for i in range(60))
    for i in range(13):
        messages += chat_round(f"read_file_{i}", bulk, path=PATHS[i], text="I look at the next unit.")
        if i < 12:
            messages += chat_round(f"measure_{i}", f"p95 = {NUMBERS[i]} ms", unit=i)
            messages += chat_round(f"bash_{i}", bulk, command=COMMANDS[i])
        messages += [assistant(f"Unit {i} is done."), user(f"Good. The order for unit {i} is {IDS[i]}. Go on.")]
    return messages


def listed(text: str) -> set[int]:
    """The turns that a text names in brackets, alone or as a span."""
    found: set[int] = set()
    for first, last in re.findall(r"\[(\d+)(?:-(\d+))?\]", text):
        found.update(range(int(first), int(last or first) + 1))
    return found | {int(turn) for turn in re.findall(r"message (\d+)", text)}


# R39
@pytest.mark.parametrize("window", [4_000, 6_000])
def test_fifty_planted_facts_are_in_context_or_behind_a_listed_reference(window: int) -> None:
    archive = MemoryArchive()
    messages: list[Any] = []
    rounds = 0
    with Compactor(window=window, archive=archive, namespace="n") as compactor:
        for message in long_run():
            fitted = compactor.fit([*messages, message], thread="t")
            messages, rounds = fitted.messages, rounds + fitted.changed
    assert len(FACTS) == len(set(FACTS)) == 50
    assert rounds > 1
    read = get_format("openai-chat").read
    context = "\n".join(read(message).whole_text() for message in messages)
    recall = tools(archive, Scope("n", "t"))
    pages = [recall.call(READ_TOOL, {"ref": str(turn)}) for turn in sorted(listed(context))]
    reached = context + "\n".join(pages)
    assert [fact for fact in FACTS if fact not in reached] == []
    assert max(listed(context)) < len(long_run())
    assert not re.search(r"message -\d|\[-\d", context)


def test_without_the_archive_some_of_them_would_be_gone() -> None:
    """The test above can fail: a plain tail of the same window does not hold them."""
    read = get_format("openai-chat").read
    tail = "\n".join(read(message).whole_text() for message in long_run()[-20:])
    assert sum(fact not in tail for fact in FACTS) > 20
