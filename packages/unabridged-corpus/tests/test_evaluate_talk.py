"""Where nothing but talk happens, the summary turn carries what tells most; and a search shows whole passages."""

from __future__ import annotations

import re

from conversations import assistant, user
from ledger_case import count, extract, person, round_of, says
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.messages import View
from unabridged.recall.lookup import RESULT_ROOM_CHARACTERS, search
from unabridged.recall.tools import tools
from unabridged.summary.remarks import collect_talk_remarks
from unabridged_testing.archive_contract.values import TEST_SCOPE, make_part, store_parts

CHATTER = [f"Oh {how}, so {how} and friendly, thanks a lot." for how in ("nice", "good", "fine") * 10]
FACTS = {8: "My brother Anselm bought a 1974 Volvo in Uppsala.", 30: "We moved the wedding to 14 June, to Kraków."}


def talk() -> list[View]:
    views = [view for line in CHATTER for view in (person(line), says("Sure, it is."))]
    for place, fact in FACTS.items():
        views[place] = person(fact)
    return views


# R26
def test_every_message_of_a_person_is_carried_word_for_word_and_of_the_assistant_what_tells_most() -> None:
    views = talk()
    views[13] = says("The spare key hangs in Gdańsk behind the 3rd mirror.")
    made = extract(views, budget=2_000, count=count)
    for place, fact in FACTS.items():
        assert f"- [{place}] user: “{fact}”" in made.text
    assert sum(message.times for message in made.ledger.people) == 30
    small = extract(views, budget=160, count=count).text
    assert "- [13] assistant: “The spare key hangs in Gdańsk behind the 3rd mirror.”" in small
    assert f"- [0] user: “{CHATTER[0]}”" in small
    assert small.count("Sure, it is.") < 5, "what tells little comes behind it"


def test_a_question_tells_less_than_its_answer_and_names_and_numbers_most() -> None:
    views = [person(f"filler words {i} here") for i in range(20)]
    views += [
        says("Which town did Anselm choose?"),
        says("The town Anselm chose is Uppsala."),
        says("It was a town."),
    ]
    weights = [remark.weight for remark in collect_talk_remarks(views, range(len(views)))]
    assert len(weights) == 3, "what people said is not weighed"
    assert weights[1] > weights[0]
    assert weights[1] > weights[2]


def test_of_a_long_message_of_the_assistant_the_most_telling_sentence_is_kept() -> None:
    long = "This goes on and on. " * 40 + "The key is under the stone from Carrara. " + "And it goes on and on. " * 40
    (remark, *_) = collect_talk_remarks([says(long), *[says("This goes on and on.") for _ in range(9)]], range(10))
    assert remark.text == "The key is under the stone from Carrara."


def test_where_tools_work_what_the_assistant_said_is_told_by_its_place() -> None:
    views = [*talk(), View("assistant", "model", "", calls=()), *[person("x") for _ in range(3)]]
    assert not any(remark.closing for remark in extract(views, budget=300, count=count).ledger.remarks)
    worked = [*talk(), *round_of("look", "x", at="it"), says("I looked.")]
    remarks = extract(worked, budget=300, count=count).ledger.remarks
    assert [remark.turn for remark in remarks if remark.closing] == [*range(1, 59, 2), 62]
    assert collect_talk_remarks([], []) == []


def chat(*texts: str) -> MemoryArchive:
    archive = MemoryArchive()
    store_parts(archive, *(make_part(text, turn, *_voice(turn)) for turn, text in enumerate(texts)))
    return archive


def _voice(turn: int) -> tuple[str, str]:
    return ("user", "person") if turn % 2 == 0 else ("assistant", "model")


def test_a_match_brings_the_answer_that_shares_no_word_with_the_question() -> None:
    archive = chat(*CHATTER[:6], "Where did you park the violin?", "In the cupboard.", *CHATTER[6:12])
    assert "In the cupboard." in search(archive, TEST_SCOPE, "violin park").text()


def test_matches_of_one_place_are_one_passage_and_nothing_is_shown_twice() -> None:
    archive = chat(
        *CHATTER[:8], "The violin is old.", "How old is the violin?", "The violin is from 1720.", *CHATTER[8:20]
    )
    found = search(archive, TEST_SCOPE, "violin")
    assert len(found.results) == 1
    text = found.text()
    assert [text.count(f"[{turn}] ") for turn in (8, 9, 10)] == [1, 1, 1]


def test_words_that_begin_alike_count_for_the_order_and_find_nothing_by_themselves() -> None:
    archive = chat("the old mill painted blue", *CHATTER[:9], "the old mill stands there", *CHATTER[9:15])
    assert search(archive, TEST_SCOPE, "old mill painting").results[0].turn == 0
    assert not archive.search(TEST_SCOPE, "painting")


def test_further_matches_follow_in_a_line_each() -> None:
    archive = chat(*(f"needle number {i}, " + "x" * 60 if i % 5 == 0 else f"other {i}" for i in range(200)))
    found = search(archive, TEST_SCOPE, "needle")
    assert len(found.results) == 16
    assert len(found.others) > 10
    assert "Further matches:" in found.text()
    assert len(found.text()) <= RESULT_ROOM_CHARACTERS


def test_when_nothing_has_the_quoted_words_their_words_are_looked_for_and_it_is_said() -> None:
    found = search(chat("a blue old mill", "yes"), TEST_SCOPE, '"old blue mill"')
    assert [result.turn for result in found.results] == [0]
    assert "Nothing has what stands in quotes" in found.text()


def test_a_host_with_a_small_window_gives_less_room() -> None:
    archive = chat(*(f"needle {i} " + "word " * 40 for i in range(60)))
    small = tools(archive, TEST_SCOPE, room=1_500)
    assert len(small.call("search_history", {"query": "needle"})) <= 1_500
    assert re.findall(r"^\[\d+\] ref", small.call("search_history", {"query": "needle"}), re.MULTILINE)


def test_signs_of_scripts_without_spaces_take_their_share_of_the_room() -> None:
    archive = chat(*(f"数据库{i}" + "连接失败" * 30 for i in range(100)))
    assert len(search(archive, TEST_SCOPE, "数据库").text()) < RESULT_ROOM_CHARACTERS / 2


def test_talk_stays_within_the_window_and_old_facts_in_the_context() -> None:
    from unabridged import Compactor

    messages = [message for line in CHATTER * 8 for message in (user(line), assistant("Sure, it is."))]
    messages[4] = user(FACTS[8])
    with Compactor(window=2_000, archive="memory:") as compactor:
        carried: list[dict[str, str]] = []
        for message in messages:
            carried = compactor.fit([*carried, message], thread="t").messages
    assert len(carried) < len(messages) / 2
    assert any(FACTS[8] in message["content"] for message in carried)
