"""Tokens per task, the price of forgetting: each clause of the definition on a conversation small enough to count."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from conversations import anthropic_round, assistant, chat_round, system, user
from rows import rows
from unabridged.messages import View
from unabridged.settings import Prices
from unabridged_corpus.evaluate.data import build_conversation
from unabridged_corpus.evaluate.line_needs import LineNeed, find_line_needs
from unabridged_corpus.evaluate.report import evaluate
from unabridged_corpus.evaluate.task_cost import (
    MAX_FETCH_TOKENS,
    MeasuredMessage,
    Miss,
    RecordedTask,
    SentRequest,
    SideAsk,
    TaskCost,
    TaskRecall,
    measure_messages,
    measure_schemas,
    replay_task,
)
from unabridged_corpus.evaluate.task_systems import build_task, choose_task_systems

LINE = "total = sum(prices) * (1 + tax_rate)"
OTHER = "discount = lookup_discount(customer)"
FILE = f"def bill(prices):\n    {LINE}\n    {OTHER}\n    return total\n"


def count(text: str) -> int:
    return len(text.split())


def read(path: str = "shop/bill.py", text: str = FILE, tool: str = "read_file") -> list[dict[str, Any]]:
    return chat_round(tool, text, path=path)


def copy(*lines: str, path: str = "notes/copy.txt", tool: str = "write_file") -> list[dict[str, Any]]:
    return chat_round(tool, "done", path=path, text_to_write="\n".join(lines))


def measured(messages: Sequence[dict[str, Any]]) -> list[MeasuredMessage]:
    return measure_messages(messages, count)


def needs(*messages: dict[str, Any]) -> list[LineNeed]:
    return find_line_needs([one.view for one in measured(messages)])


def lines(*messages: dict[str, Any]) -> list[tuple[int, str, int]]:
    return [(need.place, need.line, need.source.place) for need in needs(*messages)]


# -- what a need is ----------------------------------------------------------------------------------------------------


def test_a_line_of_a_call_that_stood_first_in_a_tool_result_is_a_need_and_that_result_its_source() -> None:
    found = lines(user("Fix the bill."), *read(), *copy(f"\t{LINE}  "), *copy(LINE))
    assert found == [(3, LINE, 2), (5, LINE, 2)]


@rows(
    ("before", "why"),
    [
        ([user(f"Use `{LINE}` in the bill.")], "a person said it"),
        ([system(f"The rule is {LINE}")], "the system prompt has it"),
        ([assistant(f"I would write {LINE}")], "the agent said it"),
        (copy(LINE), "the agent wrote it"),
    ],
)
def test_a_line_that_stood_somewhere_else_before_is_none(before: list[dict[str, Any]], why: str) -> None:
    assert lines(user("Go."), *before, *read(), *copy(LINE)) == [], why


def test_a_short_line_is_none_and_white_space_counts_once() -> None:
    text = "a  =\tb + 123456789012345\nabcdefghijklmnopqrstuvw"
    assert lines(user("Go."), *read(text=text), *copy("a = b + 123456789012345", "abcdefghijklmnopqrstuvw")) == []
    assert [line for _, line, _ in lines(user("Go."), *read(text=f"{text}x"), *copy("abcdefghijklmnopqrstuvwx"))] == [
        "abcdefghijklmnopqrstuvwx"
    ]


def test_what_the_agent_only_says_needs_nothing_and_a_result_that_comes_later_is_no_source() -> None:
    assert lines(user("Go."), *read(), assistant(LINE)) == []
    assert lines(user("Go."), *copy(LINE), *read()) == []


def test_a_line_within_a_numbered_line_of_the_result_is_found_and_quotes_are_read_as_they_are() -> None:
    quoted = 'print("the total is " + str(total))'
    assert lines(user("Go."), *read(text=f"    12\u2192{quoted}"), *copy(quoted)) == [(3, quoted, 2)]


@rows("path", ["shop/bill.py", "./shop/bill.py", "/home/ann/shop/bill.py"])
def test_a_write_to_the_same_path_ends_a_source_and_may_itself_still_need_it(path: str) -> None:
    edit = chat_round("edit_file", "done", path=path, old_text=LINE, new_text="total = 0")
    assert lines(user("Go."), *read(), *edit, *copy(LINE, OTHER)) == [(3, LINE, 2)]
    again = read(tool="view_file")
    assert lines(user("Go."), *read(), *edit, *again, *copy(OTHER))[1:] == [(7, OTHER, 6)], "what was read anew is one"


@rows("path", ["shop/tax.py", "bill.pyc", "ill.py"])
def test_a_write_to_another_path_ends_nothing(path: str) -> None:
    assert lines(user("Go."), *read(), *copy("print(1)", path=path), *copy(LINE)) == [(5, LINE, 2)]


def test_shell_commands_read_and_write_paths_too() -> None:
    shown = chat_round("bash", FILE, command="cat shop/bill.py")
    changed = chat_round("bash", "", command="sed -i 's/tax_rate/tax/' shop/bill.py")
    script = chat_round("bash", "", command=f"cat > fix.py <<'END'\n{LINE}\nEND")
    assert lines(user("Go."), *shown, *script) == [(3, LINE, 2)]
    assert lines(user("Go."), *shown, *changed, *script) == []


def test_a_source_whose_call_the_recording_repeats_is_charged_to_nobody() -> None:
    assert lines(user("Go."), *read(), *copy(LINE), *read()) == []
    assert lines(user("Go."), *read(), *copy(LINE), *read("shop/tax.py")) != []


def test_in_a_text_protocol_the_action_is_the_call_and_the_observation_the_result() -> None:
    said = [
        user("Fix the bill. Answer with one command."),
        assistant("I look.\n<command>\ncat shop/bill.py\n</command>"),
        user(f"{FILE}(Open file: n/a)\n(Current directory: /shop)\nbash-$"),
        assistant(f"I note it.\n<command>\ncat > fix.py <<END\n{LINE}\nEND\n</command>"),
        user("(Open file: n/a)\n(Current directory: /shop)\nbash-$"),
    ]
    (need,) = needs(*said)
    assert (need.place, need.line, need.source.place) == (3, LINE, 2)
    assert need.source.asked == said[1]["content"]


def test_anthropic_blocks_need_the_same() -> None:
    messages = [
        user("Go."),
        *anthropic_round("read_file", FILE, path="a.py"),
        *anthropic_round("write", "ok", new=LINE),
    ]
    task = build_task(build_conversation("one", "anthropic", messages), count)
    assert [(need.place, need.line) for found in task.needs.values() for need in found] == [(3, LINE)]


# -- what a run costs --------------------------------------------------------------------------------------------------


class Keeps:
    """A system that keeps the messages that a function chooses, and writes a summary where one is wanted."""

    def __init__(self, keep: Callable[[list[MeasuredMessage]], list[MeasuredMessage]] = list, **options: Any) -> None:
        self.keep, self.options = keep, options
        self.history: list[MeasuredMessage] = []
        self.given: list[list[MeasuredMessage]] = []
        self.searched: list[str] = []
        self.recall: TaskRecall | None = None
        if "answer" in options:
            self.recall = TaskRecall(measure_schemas([{"name": "search"}], count), self.search)

    def send(self, new: Sequence[MeasuredMessage]) -> SentRequest | None:
        self.given.append(list(new))
        self.history = self.keep([*self.history, *new])
        if len(self.given) - 1 == self.options.get("ends"):
            return None
        accepted = len(self.given) - 1 != self.options.get("refused")
        return SentRequest(self.history, self.options.get("asks", ()), accepted)

    def search(self, query: str) -> str:
        self.searched.append(query)
        return str(self.options["answer"])


def last(number: int) -> Callable[[list[MeasuredMessage]], list[MeasuredMessage]]:
    return lambda history: history[-number:]


def task(*messages: dict[str, Any]) -> RecordedTask:
    return RecordedTask(measured(messages), count)


def run(system_: Keeps, *messages: dict[str, Any]) -> tuple[TaskCost, list[Miss]]:
    missed: list[Miss] = []
    return replay_task(task(*messages), system_, on_miss=missed.append), missed


FILLER = [message for i in range(3) for message in chat_round("run_tests", f"{i} passed", number=i)]
STORY = [user("Fix the bill."), *read(), *FILLER, *copy(LINE, OTHER), *copy(LINE, OTHER), assistant("Done.")]


def test_whoever_sends_everything_misses_nothing_and_pays_for_each_prefix_at_the_price_of_the_cache() -> None:
    cost, missed = run(Keeps(), *STORY)
    assert (cost.needs, cost.missed, cost.fetches, missed) == (4, 0, 0, [])
    sizes = [one.tokens for one in task(*STORY).messages]
    prices = Prices()
    first, whole = sizes[0], sum(sizes[:-1])
    read_again = sum(sum(sizes[:stop]) for stop in range(1, len(sizes) - 1, 2))
    assert cost.sent == pytest.approx(prices.write * (whole - first) + prices.write * first + prices.read * read_again)
    assert cost.tokens == cost.sent
    assert cost.calls == 7


def test_a_passage_that_the_request_lacks_costs_its_source_which_then_stands_in_the_history() -> None:
    keeps = Keeps(last(4))
    cost, missed = run(keeps, *STORY)
    assert (cost.needs, cost.missed, cost.fetched) == (4, 2, 1), "the second call finds it, with all the source says"
    assert cost.fetches == count(FILE)
    assert [[need.line for need in miss.needs] for miss in missed] == [[LINE, OTHER]]
    assert [one.view.text for one in missed[0].request] == ["", "", "", ""]
    call, result, own, *_ = keeps.given[5]
    assert json.loads(call.view.calls[0].arguments) == {"path": "shop/bill.py"}
    assert call.view.calls[0].id == result.view.answers[0].call_id == "fetch_1"
    assert result.view.answers[0].text == FILE
    assert own.view.calls[0].name == "write_file", "it comes before the call that needs it"


def test_what_was_fetched_and_compacted_away_is_fetched_again() -> None:
    later = [message for i in range(3, 6) for message in chat_round("run_tests", f"{i} passed", number=i)]
    story = [*STORY[:-1], *later, *copy(LINE, OTHER), assistant("Done.")]
    cost, _ = run(Keeps(last(4)), *story)
    assert (cost.needs, cost.missed, cost.fetched) == (6, 4, 2)
    assert cost.fetches == 2 * count(FILE)


def test_a_line_in_a_summary_is_there_whatever_its_white_space() -> None:
    (summary,) = measured([user(f"Summary: the bill has {LINE.replace(' ', '  ')}, and\n{OTHER}")])
    cost, _ = run(Keeps(lambda history: [summary, *[one for one in history if one is not summary][-2:]]), *STORY)
    assert (cost.missed, cost.fetches) == (0, 0)


PASSAGE = [LINE, OTHER, "invoice = render_invoice(customer, total)", "archive.store(invoice, customer.number)"]


def lacking(summary: str, *copied: str, text: str = "\n".join(PASSAGE)) -> list[str]:
    """Return the lines that are charged where a call copies these, and all it has of the source is this summary."""
    (made,) = measured([user(summary)])
    keeps = Keeps(lambda history: [made, *[one for one in history if one is not made][-2:]])
    _, missed = run(keeps, user("Go."), *read(text=text), *FILLER, *copy(*copied), assistant("Done."))
    return [need.line for miss in missed for need in miss.needs]


def test_two_lines_that_follow_each_other_in_the_source_are_a_passage_that_must_be_fetched() -> None:
    assert lacking("The bill is read.", LINE, OTHER) == [LINE, OTHER]
    numbered = f"   12\u2192    {LINE}\n   13\u2192\n   14\u2192    }}\n   15\u2192    {OTHER}\n"
    assert lacking("The bill is read.", LINE, OTHER, text=numbered) == [LINE, OTHER], "numbers and short lines between"
    twice = f"{LINE}\nand much that comes between\n{OTHER}\nand\n{LINE}\n{OTHER}"
    assert lacking("The bill is read.", LINE, OTHER, text=twice) == [LINE, OTHER], "the second time they do"


@rows(
    ("copied", "text", "why"),
    [
        ([LINE], FILE, "a single line is written without looking"),
        ([LINE, OTHER], f"{LINE}\nand much that comes between\n{OTHER}", "two single lines"),
        ([OTHER, LINE], FILE, "in another order they are the agent's own"),
    ],
)
def test_lines_that_do_not_follow_each_other_are_no_passage(copied: list[str], text: str, why: str) -> None:
    assert lacking("The bill is read.", *copied, text=text) == [], why


def test_a_line_whose_words_are_all_in_the_request_is_no_part_of_a_passage() -> None:
    words = "discount is what lookup_discount gives for the customer"
    assert lacking(words, LINE, OTHER) == []
    new = "invoice = render_invoice(total, currency, address)"
    assert lacking(words, new, OTHER, text=f"{new}\n{OTHER}") == [], "one line with words enough is no passage"
    assert lacking(words.replace("customer", "man"), LINE, OTHER) == [LINE, OTHER]
    short = "a_b = max(xy1, xy2) - min(xy3)"
    assert lacking("Go on.", LINE, short, text=f"{LINE}\n{short}") == [], "words of less than four characters are none"


def test_lines_that_lack_few_words_are_written_anew() -> None:
    assert lacking("The tax_rate is 7 %.", LINE, OTHER) == [LINE, OTHER], "five of their words are not there"
    assert lacking("Of all prices a total; tax_rate, discount.", LINE, OTHER) == []
    few, other = "first = int(xy) + abs(x1, x2)", "then = str(yx) + hex(y1, y2)"
    assert lacking("Go on.", few, other, text=f"{few}\n{other}") == [], "two words"


def test_a_request_that_has_most_of_the_lines_is_enough() -> None:
    assert lacking(LINE, *PASSAGE) == PASSAGE[1:]
    assert lacking(f"{LINE}\n{OTHER}", *PASSAGE) == PASSAGE[2:], "half of them are not most"
    longer = [*PASSAGE, "unlike_any = other_line_of(all)"]
    assert lacking("\n".join(longer[:3]), *longer, text="\n".join(longer)) == [], "two of five are new, a passage"


def test_each_source_is_charged_for_its_own_passage() -> None:
    first, second = PASSAGE[:2], PASSAGE[2:]
    story = [user("Go."), *read(text="\n".join(first)), *read("shop/send.py", "\n".join(second)), *FILLER]
    cost, missed = run(Keeps(last(4)), *story, *copy(*PASSAGE), assistant("Done."))
    assert (cost.needs, cost.missed, cost.fetched) == (4, 4, 2)
    assert [[need.line for need in miss.needs] for miss in missed] == [first, second]
    apart = [user("Go."), *read(text=LINE), *read("shop/send.py", OTHER), *FILLER]
    cost, _ = run(Keeps(last(4)), *apart, *copy(LINE, OTHER), assistant("Done."))
    assert (cost.needs, cost.missed) == (2, 0), "one line of each"


def test_of_a_long_source_the_part_around_the_first_line_is_fetched() -> None:
    far = ["\n".join(f"{word} {i}" for i in range(5_000)) for word in ("first", "then")]
    text = "\n".join([far[0], *PASSAGE[:2], far[1], *PASSAGE[2:]])
    keeps = Keeps(last(2))
    story = [user("Go."), *read(text=text), *FILLER, *copy(*PASSAGE[:2]), *copy(*PASSAGE), assistant("Done.")]
    cost, _ = run(keeps, *story)
    assert cost.fetches == 2 * MAX_FETCH_TOKENS, "the last lines are in another part, which the second call fetches"
    shown = keeps.given[5][1].view.answers[0].text
    assert LINE in shown
    assert PASSAGE[2] not in shown
    assert 0.9 * MAX_FETCH_TOKENS < count(shown) <= 1.1 * MAX_FETCH_TOKENS


def test_a_call_fetches_a_source_once_however_many_of_its_lines_are_in_other_parts() -> None:
    text = "\n".join([*PASSAGE[:2], *(f"first {i}" for i in range(5_000)), *PASSAGE[2:]])
    cost, missed = run(Keeps(last(2)), user("Go."), *read(text=text), *FILLER, *copy(*PASSAGE), assistant("Done."))
    assert (cost.missed, cost.fetched, cost.fetches) == (4, 1, MAX_FETCH_TOKENS)
    assert [need.line for miss in missed for need in miss.needs] == PASSAGE


def test_after_a_refused_request_all_passages_are_missed_and_its_calls_are_charged_all_the_same() -> None:
    everything, _ = run(Keeps(), *STORY)
    keeps = Keeps(refused=2)
    cost, missed = run(keeps, *STORY)
    assert (cost.refused_at, cost.missed, cost.fetched, missed) == (2, 4, 2, [])
    assert cost.fetches == 2 * count(FILE), "each call fetches its source"
    single, _ = run(Keeps(refused=0), user("Go."), *read(), *copy(LINE), assistant("Done."))
    assert (single.needs, single.missed, single.fetches) == (1, 0, 0), "a single line costs nothing there either"
    assert cost.sent == everything.sent
    assert sum(map(len, keeps.given)) == len(STORY) - 1, "nothing is put into a history that nobody takes"


def test_a_system_that_ends_the_run_is_charged_the_mean_of_its_calls_for_the_rest() -> None:
    ask = SideAsk(fresh=100, output=10)
    whole, _ = run(Keeps(asks=[ask]), *STORY)
    cost, _ = run(Keeps(ends=1, asks=[ask]), *STORY)
    assert (cost.refused_at, cost.missed, cost.calls) == (1, 4, 7)
    assert cost.sent == pytest.approx(7 * Prices().write * task(*STORY).messages[0].tokens)
    assert cost.summaries == whole.summaries == 7 * (100 + 5 * 10)


def test_a_summary_asked_behind_the_live_prompt_reads_that_from_the_cache() -> None:
    story = [user("Go."), assistant("I go."), user("On."), assistant("Done.")]

    class Suffix(Keeps):
        def send(self, new: Sequence[MeasuredMessage]) -> SentRequest | None:
            before = list(self.history)
            super().send(new)
            return SentRequest(self.history, [SideAsk(before, 10, 2)] if before else [])

    cost, _ = run(Suffix(), *story)
    sizes = [one.tokens for one in task(*story).messages]
    assert cost.summaries == pytest.approx(0.1 * sizes[0] + 10 + 5 * 2)


def test_with_recall_tools_a_miss_costs_the_answer_of_a_search() -> None:
    answer = f"[recall] 1 result: {LINE} {OTHER}"
    keeps = Keeps(last(4), answer=answer)
    cost, _ = run(keeps, *STORY)
    assert (cost.missed, cost.recalled, cost.fetched) == (2, 1, 0)
    assert cost.fetches == count(answer) != count(FILE)
    assert keeps.searched == ["tax_rate prices total"], "an agent that searches does not know the line"
    assert keeps.given[5][0].view.calls[0].name == "search_history"


def test_the_schemas_of_recall_tools_count_in_every_request() -> None:
    with_tools = Keeps(answer="")
    cost, _ = run(with_tools, *STORY)
    bare, _ = run(Keeps(), *STORY)
    assert with_tools.recall is not None
    prices, tokens = Prices(), with_tools.recall.schemas.tokens
    assert cost.sent == pytest.approx(bare.sent + prices.write * tokens + 6 * prices.read * tokens)


def test_a_search_that_does_not_bring_the_line_is_charged_with_the_fetch_that_follows() -> None:
    answer = "[recall] nothing was found"
    cost, _ = run(Keeps(last(6), answer=answer), *STORY)
    assert (cost.missed, cost.recalled, cost.fetched) == (2, 0, 1)
    assert cost.fetches == count(answer) + count(FILE)


def test_a_call_searches_once_for_a_source_and_then_fetches_it() -> None:
    keeps = Keeps(last(4), answer=f"[recall] 1 result: {LINE}")
    cost, _ = run(keeps, user("Go."), *read(), *FILLER, *copy(LINE, OTHER), assistant("Done."))
    assert (cost.missed, cost.recalled, cost.fetched, len(keeps.searched)) == (2, 1, 1, 1)


# -- the systems of `unabridged eval` ----------------------------------------------------------------------------------


def setting(number: int) -> list[str]:
    return [
        f"setting_{number} = load_part_{number}(size_{number})",
        f"check_part_{number}(limit_{number}=setting_{number})",
    ]


def long_story(rounds: int = 30) -> list[dict[str, Any]]:
    """A run that reads thirty files, and copies two lines of each ten files later."""
    messages = [user("Copy the settings of every part.")]
    for i in range(rounds):
        filler = "\n".join(f"filler {i} {j} of the file" for j in range(30))
        messages += chat_round(f"read_{i}", "\n".join([*setting(i), filler]), path=f"part_{i}.py")
        if i >= 10:
            messages += copy(*setting(i - 10), path=f"copy_{i}.py")
    return [*messages, assistant("Done.")]


def test_every_arm_that_lives_in_a_window_is_replayed_and_reported() -> None:
    conversation = build_conversation("one", "openai-chat", long_story())
    report = evaluate(__file__, [conversation, conversation], window=4_000, budgets=(500,))  # type: ignore[arg-type]
    found = {row.arm: row for row in report.tasks}
    assert set(found) == {"unabridged", "unabridged+recall", "tail", "langchain", "langchain-untrimmed"}
    for row in found.values():
        assert (row.window, row.needs, row.conversations) == (4_000, 80, 2)
        assert row.tokens == pytest.approx(row.sent + row.summaries + row.fetches)
        assert row.interval == (row.tokens, row.tokens), "the same run twice"
    assert found["unabridged"].summaries == found["tail"].summaries == 0 < found["langchain"].summaries
    assert found["tail"].missed > 0 < found["tail"].fetches
    assert [row.refused for row in found.values()] == [0] * 5


@rows("name", ["unabridged", "tail", "langchain", "langchain-untrimmed"])
def test_below_the_trigger_all_send_the_very_messages(name: str) -> None:
    given = task(*long_story(4))
    sent = []
    for _ in range(2):
        one = choose_task_systems([name], 100_000, count, None)[name]()
        sent.append(one.send(given.messages[:5]))
        sent.append(one.send(given.messages[5:7]))
    assert all(request is not None and request.accepted for request in sent)
    assert [list(request.request) for request in sent if request] == [given.messages[:5], given.messages[:7]] * 2


def test_a_request_that_can_not_fit_ends_our_run_and_refuses_the_others() -> None:
    giant = measured([system("word " * 9_000), user("Go.")])
    systems = choose_task_systems(["unabridged", "tail", "langchain"], 4_000, count, None)
    sent = {name: begin().send(giant) for name, begin in systems.items()}
    assert sent["unabridged"] is None
    assert [sent[name] is not None and sent[name].accepted for name in ("tail", "langchain")] == [False, False]  # type: ignore[union-attr]


def test_our_archive_answers_a_search_and_its_schemas_are_counted() -> None:
    story = measured(long_story())
    systems = choose_task_systems(["unabridged"], 4_000, count, None)
    one = systems["unabridged+recall"]()
    one.send(story[:40])
    assert one.recall is not None
    assert "load_part_0(size_0)" in one.recall.search("setting_0 load_part_0")
    assert one.recall.schemas.tokens > 100
    assert systems["unabridged"]().recall is None


def test_a_view_without_anything_to_read_makes_no_message() -> None:
    conversation = build_conversation("one", "openai-chat", [user(""), assistant("Hello.")])
    assert [one.view for one in build_task(conversation, count).messages] == [View("assistant", "model", "Hello.")]
