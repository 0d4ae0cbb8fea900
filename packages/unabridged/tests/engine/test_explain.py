"""`plan` says of each message what `fit` does with it, and why: a property over formats and ways to send a history."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations import assistant, chat_round, system, user
from properties_case import WINDOWS, compactor_for, profile
from unabridged import Compaction, Compactor, Outlook, Settings, WontFit
from unabridged.engine.state import Setup
from unabridged.formats import FORMATS
from unabridged.settings import Clear
from unabridged_testing import Shape, make_conversation, shapes


@pytest.fixture(autouse=True)
def _estimates_are_taken_at_their_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no request sent that only the estimate calls too long: such a request is planned with another budget."""
    monkeypatch.setattr(Setup, "may_fit", lambda _setup, _floor: False)


def assert_explains(outlook: Outlook, messages: list[Any], fitted: Compaction) -> None:
    """The same messages stay, and whoever is said to be quoted is."""
    assert [one.index for one in outlook.messages] == list(range(len(messages)))
    assert all(one.why for one in outlook.messages)
    kept = Counter(map(id, fitted.messages))
    for one, message in reversed([*zip(outlook.messages, messages, strict=True)]):  # one object may stand twice
        assert (one.fate == "stays") == (kept[id(message)] > 0), one
        kept[id(message)] -= 1


@pytest.mark.parametrize("format_name", sorted(FORMATS))
def test_what_plan_says_of_each_message_is_what_fit_does(format_name: str) -> None:
    clears = st.sampled_from([None, Clear()])

    @settings(profile, max_examples=max(10, profile.max_examples // 6))
    @given(shapes(format_name), st.sampled_from(WINDOWS), st.booleans(), clears)
    def holds(shape: Shape, window: int, resent: bool, clear: Clear | None) -> None:
        whole = make_conversation(shape).messages
        with compactor_for(format_name, window, settings=Settings(clear=clear)) as engine:
            working: list[Any] = []
            for first in range(0, len(whole), 7):
                came = whole[first : first + 7]
                working = deepcopy(whole[: first + 7]) if resent else [*working, *came]
                outlook = engine.plan(working, thread="t")
                try:
                    fitted = engine.fit(working, thread="t")
                except WontFit:
                    return
                assert_explains(outlook, working, fitted)
                working = fitted.messages

    holds()


def reasons(outlook: Outlook, fate: str) -> dict[int, str]:
    return {one.index: one.why for one in outlook.messages if one.fate == fate}


def test_every_fate_has_a_reason_with_numbers() -> None:
    pinned = user("Pinned: never push.")
    messages = [system("Be brief."), user("Build it."), pinned]
    messages += [m for i in range(40) for m in chat_round(f"r{i}", f"line {i} " * 60)]
    messages += [user("And the tests?"), assistant("Yes.")]
    with Compactor(window=4_000, archive="memory:", settings=Settings(clear=None, pin=lambda m: m is pinned)) as engine:
        outlook = engine.plan(messages, thread="t")
        stay = reasons(outlook, "stays")
        assert (stay[0], stay[2]) == ("a system message", "pinned by the host")
        assert "newest" in stay[len(messages) - 1]
        assert reasons(outlook, "quoted")[1].endswith("; the summary turn quotes its words")
        assert all(why.startswith("before the newest") for why in reasons(outlook, "goes").values())
        fitted = engine.fit(messages, thread="t")
        again = engine.plan(messages, thread="t")
        assert fitted.receipt
        which = f"it went in an earlier compaction ({fitted.receipt.id}, or one before it)"
        assert set(reasons(again, "goes").values()) == {which}
        assert {one.tokens for one in again.messages if one.fate == "goes"} == {None}
        text = str(fitted.messages)
        assert "Build it." in text


def test_quoted_are_those_whose_words_stand_in_the_summary() -> None:
    messages = [m for i in range(60) for m in (user(f"Rule {i}: " + f"word{i} " * 50), assistant(f"Done {i}. " * 30))]
    with Compactor(window=6_000, archive="memory:") as engine:
        outlook = engine.plan(messages, thread="t")
        summary = str(engine.fit(messages, thread="t").messages)
    quoted, left_out = reasons(outlook, "quoted"), reasons(outlook, "goes")
    assert quoted
    assert all(f"Rule {index // 2}:" in summary for index in quoted)
    dropped = [index for index in left_out if messages[index]["role"] == "user"]
    assert dropped
    assert all(left_out[index].endswith("has no room for its words") for index in dropped)
    assert not [index for index in dropped if f"Rule {index // 2}:" in summary]


def test_clearing_and_shortening_are_explained_with_what_they_free() -> None:
    bulky = [user("Read."), *(m for i in range(30) for m in chat_round(f"read{i}", f"line {i} " * 300))]
    with Compactor(window=32_000, archive="memory:", settings=Settings(clear=Clear())) as engine:
        cleared = reasons(engine.plan(bulky, thread="t"), "cleared")
        assert cleared
        assert all("tokens become" in why for why in cleared.values())
    huge = [user("Read."), *chat_round("one", "line " * 40_000)]
    with Compactor(window=8_000, archive="memory:", settings=Settings(clear=None)) as engine:
        assert all("tokens become at most" in why for why in reasons(engine.plan(huge), "shortened").values())


def test_below_the_trigger_and_switched_off_every_message_stays() -> None:
    messages = [user("Hello."), assistant("Hello!")]
    for chosen, why in ((Settings(), "the request is below the trigger"), (Settings(off=True), "compaction is off")):
        with Compactor(window=8_000, archive="memory:", settings=chosen) as engine:
            assert [(one.fate, one.why) for one in engine.plan(messages).messages] == [("stays", why)] * 2


def test_no_hook_and_no_model_is_called_to_explain() -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("called")

    messages = [m for i in range(60) for m in (user(f"Rule {i}: " + "word " * 50), assistant("Done. " * 30))]
    with Compactor(refuse, window=6_000, archive="memory:", state=refuse, on_event=refuse) as engine:
        assert reasons(engine.plan(messages, thread="t"), "quoted")
        assert engine.threads() == []
