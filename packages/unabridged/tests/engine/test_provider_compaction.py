"""A provider's own compaction in the middle of a list: its server drops what stands before, so nothing of ours may."""

from __future__ import annotations

from typing import Any

import pytest

from unabridged import Compactor, check
from unabridged.formats import FORMATS
from unabridged.tokens.meter import Meter

WORDS = "The migration of the billing service goes on, file by file. " * 6


def rounds(first: int, count: int) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for i in range(first, first + count):
        call = {"type": "tool_use", "id": f"t{i}", "name": "read", "input": {"path": f"part_{i}.py"}}
        made.append({"role": "assistant", "content": [call]})
        result = {"type": "tool_result", "tool_use_id": f"t{i}", "content": f"{i}: {WORDS}"}
        made.append({"role": "user", "content": [result]})
    return made


def compacted(text: str | None, number: int = 0) -> list[dict[str, Any]]:
    block = {"type": "compaction", "content": text}
    said = {"type": "text", "text": f"Going on after {number}."}
    return [
        {"role": "assistant", "content": [block, said]},
        {"role": "user", "content": f"Now the second half of part {number}, please."},
    ]


def conversation(before: int, after: int, *, times: int = 1) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": "Migrate the billing service."}]
    for number in range(times):
        messages += rounds(1_000 * number, before) + compacted(f"So far {number}: half of it is done.", number)
    return messages + rounds(9_000, after)


def is_compaction(message: Any) -> bool:
    content = message["content"]
    return isinstance(content, list) and any(b["type"] == "compaction" and b.get("content") for b in content)


def seen(messages: list[Any]) -> list[Any]:
    """What Anthropic's server reads of a list: the last compaction, and what follows."""
    last = max((i for i, message in enumerate(messages) if is_compaction(message)), default=0)
    return messages[last:]


@pytest.mark.parametrize(("before", "after", "times"), [(10, 40, 1), (0, 40, 1), (40, 40, 1), (8, 60, 3), (5, 90, 2)])
def test_what_we_say_stands_behind_the_last_compaction_of_the_provider(before: int, after: int, times: int) -> None:
    messages = conversation(before, after, times=times)
    with Compactor(window=4_000, archive="memory:", format="anthropic") as engine:
        fitted = engine.fit(messages, thread="t")
        shown = seen(fitted.messages)
        assert shown[0] is next(message for message in reversed(messages) if is_compaction(message))
        assert "[unabridged summary" in str(shown[1:])
        assert "[unabridged summary" not in str(fitted.messages[: -len(shown)])
        assert not check(fitted.messages, format="anthropic")
        assert not check(shown, format="anthropic")
        assert engine.replay(fitted.messages, thread="t") == messages
        again = engine.fit([*fitted.messages, *rounds(20_000, 40)], thread="t")
        assert str(seen(again.messages)).count("[unabridged summary") == 1


def test_what_stands_before_it_counts_as_nothing() -> None:
    messages = conversation(200, 3)
    meter = Meter(family=FORMATS["anthropic"].family)
    read = FORMATS["anthropic"].read
    with Compactor(window=8_000, archive="memory:", format="anthropic") as engine:
        fitted = engine.fit(messages, thread="t")
        assert not fitted.changed
        assert fitted.tokens_before == sum(meter.message(read(message)) for message in seen(messages))
        longer = [*messages, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "Thanks."}]
        assert not engine.fit(longer, thread="t").changed
        edited = conversation(200, 3)
        edited[-8] = {"role": "assistant", "content": "No compaction here."}
        assert not any(map(is_compaction, edited))
        assert engine.fit(edited, thread="t").tokens_before > 20_000, "a list that takes it back counts in full again"


def test_a_compaction_that_failed_drops_nothing() -> None:
    messages = [{"role": "user", "content": "Migrate it."}, *rounds(0, 40), *compacted(None), *rounds(50, 40)]
    fitted = Compactor(window=4_000, archive="memory:", format="anthropic").fit(messages, thread="t")
    assert fitted.tokens_before > 10_000
    assert not check(fitted.messages, format="anthropic")


def test_it_is_the_same_through_langchain() -> None:
    from langchain_core.messages import AIMessage, HumanMessage

    from unabridged.adapters.langchain.format import FORMAT as LANGCHAIN

    block = {"type": "compaction", "content": "So far: half of it is done."}
    talk: list[Any] = []
    for i in range(60):
        talk += [HumanMessage(f"Part {i}? {WORDS}"), AIMessage(f"Part {i} is done. {WORDS}")]
    talk[21] = AIMessage([block, {"type": "text", "text": "Going on."}])
    fitted = Compactor(window=4_000, archive="memory:", format=LANGCHAIN).fit(talk, thread="t")
    place = next(i for i, message in enumerate(fitted.messages) if message is talk[21])
    assert fitted.messages[:place] == talk[:21]
    assert "[unabridged summary" in str(fitted.messages[place + 1 :])


def test_items_of_responses_stay_exactly_where_they_are_and_what_is_before_them_counts() -> None:
    """Its server reads the messages of people that stand before: they are part of the compacted window."""
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA" * 40}
    talk: list[Any] = [item]
    for i in range(60):
        talk += [{"role": "user", "content": f"Part {i}? {WORDS}"}, {"role": "assistant", "content": f"Done. {WORDS}"}]
    for messages in (talk, [*talk[1:21], item, *talk[21:]]):
        fitted = Compactor(window=4_000, archive="memory:", format="openai-responses").fit(messages, thread="t")
        assert fitted.tokens_before > 8_000
        assert [one for one in fitted.messages if one is item] == [item]
        assert not check(fitted.messages, format="openai-responses")
