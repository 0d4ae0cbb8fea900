"""The promises, each held by thousands of generated conversations per format.

One example runs one conversation through everything: fitted at once, fitted again, grown turn by turn by a caller who
keeps the list and by one who resends it, replayed and undone. `UNABRIDGED_EXAMPLES` sets how many; a failing example
prints the `Shape` and the window that reproduce it, made as small as can be unless `UNABRIDGED_SHRINK` is 0.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties_case import (
    EXAMPLES,
    WINDOWS,
    assert_legal,
    assert_promises,
    assert_system_stays,
    budget_of,
    compactor_for,
    fit,
    keeps_every_promise,
    profile,
    same,
    some,
    with_results,
)
from unabridged import ArchiveError, Compactor, WontFit, check
from unabridged.archive import Part, Record
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.engine.state import Setup
from unabridged.formats import FORMATS
from unabridged_testing import (
    Shape,
    SigningUpstream,
    damage,
    make_conversation,
    shapes,
)

BOUND, SIGNED = "claude-opus-6", "claude-sonnet-4-5"
fewer = settings(profile, max_examples=max(20, EXAMPLES // 10))


# --- what must be true of any list that `fit` gave back --------------------------------------------------------------


# --- one conversation through everything -----------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _estimates_are_taken_at_their_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no request sent that only the estimate calls too long: here the estimate is the measure of every promise."""
    monkeypatch.setattr(Setup, "may_fit", lambda _setup, _floor: False)


@pytest.mark.parametrize("format_", FORMATS)
def test_every_promise_holds_for_every_conversation(format_: str) -> None:
    ends: dict[str, int] = {}

    @profile
    @given(shapes(format_), st.sampled_from(WINDOWS))
    def holds(shape: Shape, window: int) -> None:
        end = keeps_every_promise(shape, window)
        ends[end] = ends.get(end, 0) + 1

    holds()
    ran = sum(ends.values())
    assert ends["compacted"] > ran / 3, ends
    assert ends.get("won't fit", 0) < ran / 10, ends


ALL_EXTRAS = ("reasoning", "media", "sdk", "opaque", "odd", "giant")
ABOVE_THE_TRIGGER = (
    Shape("openai-chat", 1710, "marathon", 1, 32, 4, 66, "working", ALL_EXTRAS),
    Shape("openai-responses", 4401, "agent", 8, 18, 1, 83, "asked", ALL_EXTRAS[2:]),
)
"""A message in them has to be shortened, and fills the budget: the result fits, above the trigger."""


@pytest.mark.parametrize("shape", ABOVE_THE_TRIGGER, ids=lambda shape: shape.format)
def test_a_compaction_that_stays_above_the_trigger_is_not_followed_by_another(shape: Shape) -> None:
    conversation = make_conversation(shape)
    ends = []
    for stop in conversation.stops:
        given = conversation.messages[:stop]
        with compactor_for(shape.format, 4_000) as compactor:
            fitted = fit(compactor, given, "t")
            again = fit(compactor, copy.deepcopy(given), "t")
            carried = fit(compactor, fitted.messages, "t")
        assert same(again.messages, fitted.messages), stop
        assert same(carried.messages, fitted.messages), stop
        ends.append(fitted.changed and fitted.tokens_after >= 3_400)
    assert any(ends)


@pytest.mark.parametrize("format_", FORMATS)
def test_an_edited_conversation_never_picks_up_the_record_of_another(format_: str) -> None:
    @fewer
    @given(shapes(format_), st.sampled_from(WINDOWS), st.integers(0, 2**32 - 1))
    def holds(shape: Shape, window: int, place: int) -> None:
        messages = make_conversation(shape).messages
        place %= len(messages)
        edited = [*messages]
        edited[place] = FORMATS[format_].edit(messages[place], lambda slot, text: edit(slot.kind, text))
        with compactor_for(format_, window) as compactor:
            try:
                fit(compactor, messages, "t")
                fitted = fit(compactor, edited, "t")
            except WontFit:
                return
            assert_promises(format_, edited, fitted, window)
            assert same(compactor.replay(fitted.messages, thread="t"), edited), "edited: replay has the edit"

    def edit(kind: str, text: str) -> str:
        return f"{text} edited" if kind in {"text", "answer"} else text

    holds()


class FullDisk(MemoryArchive):
    """An archive that takes nothing."""

    def store(self, record: Record, parts: Sequence[Part]) -> Record:
        raise ArchiveError(f"no room for {len(parts)} messages of record {record.id}")


@pytest.mark.parametrize("format_", FORMATS)
def test_nothing_leaves_the_list_that_the_archive_did_not_take(format_: str) -> None:
    @fewer
    @given(shapes(format_), st.sampled_from(WINDOWS))
    def holds(shape: Shape, window: int) -> None:
        messages = make_conversation(shape).messages
        with Compactor(window=window, archive=FullDisk(), format=format_) as compactor:
            try:
                fitted = fit(compactor, messages, "t")
            except (WontFit, ArchiveError):
                return
            assert fitted.messages is messages, "archive first: the very list while it can't be stored"
            assert fitted.tokens_before <= budget_of(window), "archive first: only while it fits"

    holds()


@pytest.mark.parametrize("format_", FORMATS)
def test_what_a_person_said_first_is_there_byte_for_byte_after_ten_compactions(format_: str) -> None:
    said = "Please clean up the importer. Never push to the branch release-7 without asking me."
    make = FORMATS[format_].text
    messages: list[Any] = [make("user", said), make("assistant", "Done, all tidy.")]
    compactions = 0
    with compactor_for(format_, 4_000) as compactor:
        for turn in range(200):
            if compactions == 10:
                break
            messages.append(make("user", f"Please look at file number {turn} and say what it does."))
            fitted = fit(compactor, messages, "t")
            compactions += fitted.changed
            messages = list(fitted.messages)
            assert any(said in FORMATS[format_].read(message).text for message in messages), (turn, compactions)
            messages.append(
                make("assistant", f"File {turn} reads rows and writes them out again, see row_{turn}. " * 8)
            )
    assert compactions == 10


@pytest.mark.parametrize("format_", FORMATS)
def test_a_damaged_conversation_comes_out_legal_and_replays_as_it_was(format_: str) -> None:
    @fewer
    @given(shapes(format_), st.sampled_from(WINDOWS), st.integers(0, 2**32 - 1))
    def holds(shape: Shape, window: int, seed: int) -> None:
        messages = damage(make_conversation(shape), seed)
        with compactor_for(format_, window) as compactor:
            try:
                fitted = fit(compactor, messages, "t")
            except WontFit:
                return
            if fitted.changed:
                assert not check(fitted.messages, format=format_, pending=True), "damaged: calls at the end may wait"
                assert_legal(format_, messages, with_results(format_, fitted.messages))
                assert_system_stays(format_, messages, fitted.messages)
                assert same(compactor.replay(fitted.messages, thread="t"), messages), "damaged: replay is exact"
                assert same(compactor.undo(fitted.messages, thread="t"), messages), "damaged: undo is the list before"

    holds()


@pytest.mark.parametrize("resends", [False, True])
def test_bound_thinking_is_accepted_by_an_upstream_that_signs_it_over_its_prefix(resends: bool) -> None:
    @fewer
    @given(shapes("anthropic"), st.sampled_from(WINDOWS))
    def holds(shape: Shape, window: int) -> None:
        conversation = make_conversation(with_extra(shape, "reasoning"))
        upstream = SigningUpstream(binds="prefix")
        history: list[Any] = []
        request: list[Any] = []
        done = 0
        with compactor_for("anthropic", window, agent=BOUND) as compactor:
            for stop in some(conversation.stops, 6):
                new = upstream.sign(conversation.messages[done:stop], after=request)
                history = [*history, *new] if resends else [*request, *new]
                try:
                    request = list(fit(compactor, history, "t").messages)
                except WontFit:
                    return
                upstream.take(request)
                done = stop

    holds()


def test_signed_thinking_is_accepted_by_an_upstream_that_demands_it() -> None:
    """Such models take no system messages in the middle."""

    @fewer
    @given(shapes("anthropic"), st.sampled_from(WINDOWS))
    def holds(shape: Shape, window: int) -> None:
        upstream = SigningUpstream(binds="block")
        older = replace(shape, extras=tuple(extra for extra in shape.extras if extra != "system"))
        messages = upstream.sign(make_conversation(with_extra(older, "reasoning")).messages)
        last_calls = [m for m in messages if "tool_use" in repr(m)][-1:]
        strict = SigningUpstream(binds="block", demands_thinking="thinking" in repr(last_calls))
        with compactor_for("anthropic", window, agent=SIGNED) as compactor:
            try:
                fitted = fit(compactor, messages, "t")
            except WontFit:
                return
            strict.take(fitted.messages)

    holds()


def with_extra(shape: Shape, extra: str) -> Shape:
    return replace(shape, extras=tuple(dict.fromkeys([*shape.extras, extra])))
