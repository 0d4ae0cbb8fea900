"""The provider says "too long" although we thought it fits: once more, shorter; then an error with numbers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations import anthropic_round, assistant, chat_round, long_chat, user
from rows import rows
from unabridged import Compaction, Compactor, Settings, WontFit, check
from unabridged.asking.learned_limits import LearnedLimits, find_lower_limits
from unabridged.asking.overflow import Overflow
from unabridged.events import Compacted, Event
from unabridged.settings import resolve_limits
from upstream import Upstream, chat, claude, serving

Refusal = tuple[int, dict[str, Any]]


def chat_refusal(limit: int, counted: int) -> Refusal:
    said = (
        f"This model's maximum context length is {limit} tokens. However, your messages resulted in {counted} tokens. "
        "Please reduce the length of the messages."
    )
    return 400, {"error": {"message": said, "type": "invalid_request_error", "code": "context_length_exceeded"}}


def claude_refusal(limit: int, counted: int) -> Refusal:
    said = f"prompt is too long: {counted} tokens > {limit} maximum"
    return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": said}}


WORDLESS: Refusal = (400, {"error": {"message": "Your input exceeds the context window of this model.", "code": None}})


def chat_run(rounds: int) -> list[Any]:
    """A request and so many rounds of tools, in Chat Completions."""
    return [user("Fix the test."), *(m for n in range(rounds) for m in chat_round(f"t{n}", f"line {n} of it\n" * 40))]


def claude_run(rounds: int) -> list[Any]:
    found = [user("Fix the test.")]
    return [*found, *(m for n in range(rounds) for m in anthropic_round(f"t{n}", f"line {n} of it\n" * 40))]


def ask_chat(server: Upstream, messages: list[Any]) -> Any:
    import openai

    with openai.OpenAI(api_key="none", base_url=f"{server.url}/v1", max_retries=0) as client:
        return client.chat.completions.create(model="served", messages=messages)


def ask_claude(server: Upstream, messages: list[Any]) -> Any:
    import anthropic

    with anthropic.Anthropic(api_key="none", base_url=server.url, max_retries=0) as client:
        return client.messages.create(model="claude-x", max_tokens=100, messages=messages)


PROVIDERS = {
    "openai": (chat_run, ask_chat, chat_refusal, chat("Done.")),
    "anthropic": (claude_run, ask_claude, claude_refusal, claude("Done.")),
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("told", [True, False], ids=["with numbers", "without numbers"])
def test_a_refused_request_is_sent_once_more_shorter_through_the_real_sdk(provider: str, told: bool) -> None:
    import anthropic
    import openai

    run, ask, refusal, answer = PROVIDERS[provider]
    events: list[Event] = []
    with serving() as server, Compactor(window=24_000, archive="memory:", on_event=events.append) as compactor:
        messages = run(50)
        fitted = compactor.fit(messages, thread="t")
        assert not fitted.changed
        server.answers = [refusal(9_000, fitted.tokens_after) if told else WORDLESS, answer]
        try:
            ask(server, fitted.messages)
        except (openai.BadRequestError, anthropic.BadRequestError) as error:
            fitted = compactor.overflowed(fitted, error)
        ask(server, fitted.messages)
        first, second = (len(json.dumps(request["messages"])) for request in server.requests)
        assert second < 0.7 * first
        assert compactor.limits.budget < (9_000 if told else 0.85 * fitted.tokens_before)
        assert fitted.tokens_after <= compactor.limits.budget
        assert check(fitted.messages) == []
        assert compactor.replay(fitted.messages, thread="t") == messages
        assert [event.receipt.reason for event in events if isinstance(event, Compacted)] == [
            f"the provider refused {fitted.tokens_before:,} tokens as too long"
        ]


def test_the_limit_is_remembered_for_every_later_call() -> None:
    with Compactor(window=24_000, archive="memory:") as compactor:
        messages = list(compactor.fit(chat_run(50), thread="t").messages)
        fitted = compactor.overflowed(compactor.fit(messages, thread="t"), _chat_error(9_000, 16_000))
        messages = fitted.messages
        for n in range(60):
            messages = compactor.fit([*messages, *chat_round(f"later{n}", "more of it\n" * 60)], thread="t").messages
            assert compactor.fit(messages, thread="t").tokens_after <= 9_000
        assert compactor.fit(chat_run(100), thread="another").tokens_after <= 9_000


def test_a_second_refusal_is_an_error_with_numbers_and_the_providers_own_as_its_cause() -> None:
    import openai

    with serving() as server, Compactor(window=24_000, archive="memory:") as compactor:
        server.answers = [WORDLESS]
        fitted = compactor.fit(chat_run(50), thread="t", system="You are brief.")
        for _ in range(5):
            try:
                ask_chat(server, fitted.messages)
            except openai.BadRequestError as error:
                refused, sent = error, fitted.tokens_after
            try:
                fitted = compactor.overflowed(fitted, refused)
            except WontFit as error:
                failed = error
                break
        assert len(server.requests) == 2
        assert failed.__cause__ is refused
        assert failed.floor == sent
        assert 0 < failed.overhead < failed.budget < failed.floor


def test_the_same_in_an_event_loop() -> None:
    import openai

    async def loop(server: Upstream, compactor: Compactor) -> int:
        fitted = await compactor.afit(chat_run(50), thread="t")
        async with openai.AsyncOpenAI(api_key="none", base_url=f"{server.url}/v1", max_retries=0) as client:
            try:
                await client.chat.completions.create(model="served", messages=fitted.messages)
            except openai.BadRequestError as error:
                fitted = await compactor.aoverflowed(fitted, error)
            await client.chat.completions.create(model="served", messages=fitted.messages)
        return fitted.tokens_after

    with serving() as server, Compactor(window=24_000, archive="memory:") as compactor:
        server.answers = [chat_refusal(9_000, 16_000), chat("Done.")]
        assert asyncio.run(loop(server, compactor)) <= 9_000
        assert len(server.requests) == 2


def test_what_says_something_else_is_raised_as_it_is() -> None:
    with Compactor(window=24_000, archive="memory:") as compactor:
        fitted = compactor.fit(chat_run(50), thread="t")
        limited = RuntimeError("429 Request too large: limit 30000 tokens per min (TPM), requested 36278")
        for error in (limited, ConnectionResetError("gone"), ValueError("max_tokens must be positive")):
            with pytest.raises(type(error)) as raised:
                compactor.overflowed(fitted, error)
            assert raised.value is error
        with pytest.raises(TypeError, match="no exception"):
            compactor.overflowed(fitted, {"choices": []})
        assert compactor.limits.window == 24_000


def test_where_compaction_is_off_the_providers_error_is_the_callers() -> None:
    with Compactor(window=24_000, archive="memory:", settings=Settings(off=True)) as compactor:
        messages = chat_run(50)
        fitted = compactor.fit(messages, thread="t")
        error = _chat_error(9_000, 16_000)
        with pytest.raises(RuntimeError) as raised:
            compactor.overflowed(fitted, error)
        assert raised.value is error


def test_a_compactor_that_never_compacts_by_itself_does_when_the_provider_refused() -> None:
    with Compactor(window=24_000, archive="memory:", settings=Settings(trigger=None)) as compactor:
        fitted = compactor.overflowed(compactor.fit(chat_run(50), thread="t"), _chat_error(9_000, 16_000))
        assert fitted.tokens_after <= 9_000
        longer = [*fitted.messages, *chat_run(50)[1:]]
        assert compactor.fit(longer, thread="t").messages is longer


def test_settings_made_for_a_larger_window_give_way() -> None:
    settings = Settings(trigger=("fraction", 0.85), keep=("tokens", 15_000))
    with Compactor(window=24_000, archive="memory:", settings=settings) as compactor:
        fitted = compactor.overflowed(compactor.fit(chat_run(50), thread="t"), _chat_error(9_000, 16_000))
        assert fitted.tokens_after <= 9_000


def test_the_answer_that_was_asked_for_is_reserved() -> None:
    said = "input length and `max_tokens` exceed context limit: 16000 + 6000 > 20000, decrease input length"
    with Compactor(window=24_000, archive="memory:") as compactor:
        fitted = compactor.overflowed(compactor.fit(claude_run(50), thread="t"), RuntimeError(said))
        assert fitted.tokens_after + 6_000 <= 20_000


def test_a_caller_who_resends_everything_gets_the_bytes_of_the_second_try_again() -> None:
    with Compactor(window=24_000, archive="memory:") as compactor:
        whole = chat_run(140)
        first = compactor.fit(list(whole), thread="t")
        assert first.changed
        retried = compactor.overflowed(first, RuntimeError("prompt is too long"))
        assert retried.tokens_after < first.tokens_after
        assert compactor.fit(list(whole), thread="t").messages == retried.messages
        later = [*whole, assistant("Done."), user("And now the docs.")]
        assert compactor.fit(later, thread="t").messages == [*retried.messages, *later[-2:]]


PROSE = "The parser reads one line after the other and keeps what it has found in a table of names. "


def _rounds(provider: str, *sizes: int) -> list[Any]:
    made = chat_round if provider == "openai" else anthropic_round
    texts = [(PROSE * (size // len(PROSE) + 1))[:size] for size in sizes]
    return [user("Fix the test."), *(m for n, text in enumerate(texts) for m in made(f"t{n}", f"{n}{text}"))]


SHAPES: dict[str, tuple[int, ...]] = {
    "four large results": (25_000,) * 4,
    "one giant result": (100_000,),
    "a giant among small ones": (500,) * 20 + (80_000,),
    "many small ones": (1_000,) * 100,
    "large ones behind small ones": (300,) * 60 + (40_000, 40_000),
}


@rows("provider", PROVIDERS)
@rows("shape", SHAPES)
def test_without_numbers_the_second_request_is_at_most_half_and_goes_through(provider: str, shape: str) -> None:
    """A provider that counts characters takes half of what it is sent first, and says nothing of it."""
    import anthropic
    import openai

    _, ask, _, answer = PROVIDERS[provider]
    with serving() as server, Compactor(window=200_000, archive="memory:") as compactor:
        messages = _rounds(provider, *SHAPES[shape])
        fitted = compactor.fit(messages, thread="t")
        assert fitted.messages is messages
        server.answers = [WORDLESS, answer]
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)) as refused:
            ask(server, fitted.messages)
        retried = compactor.overflowed(fitted, refused.value)
        ask(server, retried.messages)
        first, second = (len(json.dumps(body["messages"])) for body in server.requests)
        assert second <= first // 2
        assert retried.tokens_after <= fitted.tokens_after // 2
        assert check(retried.messages, "openai-chat" if provider == "openai" else "anthropic") == []
        assert compactor.replay(retried.messages, thread="t") == messages
        assert compactor.limits.budget == int(fitted.tokens_after * 0.8), "later ones may take what is learned"
        with pytest.raises(WontFit):
            compactor.overflowed(retried, refused.value)


@pytest.mark.parametrize("share", [0.2, 0.55, 0.7])
def test_where_half_can_not_be_reached_the_second_request_is_as_short_as_it_may(share: float) -> None:
    with Compactor(window=200_000, archive="memory:") as compactor:
        messages = chat_run(40)
        whole = compactor.plan(messages).tokens
        words, wanted = 1, whole * share / (1 - share)
        while (fixed := compactor.plan(messages, system="word " * words).tokens - whole) < wanted:
            words += max(50, int(wanted - fixed) // 2)
        fitted = compactor.fit(messages, thread="t", system="word " * words)
        assert not fitted.changed
        retried = compactor.overflowed(fitted, RuntimeError("prompt is too long"))
        assert (
            fixed < retried.tokens_after <= fitted.tokens_after * (0.5 if share < 0.5 else 0.65 if share < 0.6 else 0.8)
        )


def test_the_log_says_what_was_refused_and_what_holds_from_now_on(caplog: pytest.LogCaptureFixture) -> None:
    with Compactor(window=24_000, archive="memory:") as compactor:
        fitted = compactor.fit(chat_run(60), thread="t")
        compactor.overflowed(fitted, _chat_error(20_000, 20_100))
        (said,) = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
        assert "refused 20,100 tokens" in said
        assert "its limit is 20,000" in said
        assert f"stay within {compactor.limits.budget:,}" in said
        assert "window" not in said


@pytest.mark.parametrize("lie", [0.7, 1.0, 1.3])
def test_a_provider_that_counts_otherwise_is_never_refused_twice_in_a_turn(lie: float) -> None:
    """Nothing is observed: all that is learned is learned from refusals."""

    def provider(messages: list[Any]) -> None:
        counted = int(compactor.plan(messages).tokens / factor * lie)
        if counted > 9_000:
            raise _chat_error(9_000, counted)

    refusals = compactions = 0
    with Compactor(window=12_000, archive="memory:") as compactor:
        messages: list[Any] = [user("Go on until it is done.")]
        for n in range(100):
            factor = compactor._calibration.value.factor  # noqa: SLF001 - the provider's count must not follow ours
            fitted = compactor.fit([*messages, *chat_round(f"t{n}", f"line {n} of it\n" * 30)], thread="t")
            try:
                provider(fitted.messages)
            except RuntimeError as error:
                refusals += 1
                fitted = compactor.overflowed(fitted, error)
                factor = compactor._calibration.value.factor  # noqa: SLF001 - likewise
                provider(fitted.messages)
            messages, compactions = fitted.messages, compactions + fitted.changed
    print(f"a provider that counts {lie:g} times as much refused {refusals} of 100")  # noqa: T201 - to be read
    assert refusals <= 1
    assert compactions > 2


@rows("established", [0, 9])
@rows("lie", [1.3, 2.7, 6.0])
def test_what_the_provider_counted_is_applied_once_whatever_is_reported_later(lie: float, established: int) -> None:
    """The limit is in its tokens: its count calibrates ours, and is not taken off the limit as well."""
    with Compactor(window=120_000, archive="memory:") as compactor:
        whole = chat_run(45)
        fitted = compactor.fit(whole, thread="t")
        assert not fitted.changed
        for _ in range(established):
            compactor.observe(fitted, {"prompt_tokens": fitted.estimate, "completion_tokens": 5})
        requested = int(fitted.estimate * lie)
        limit = requested * 6 // 7
        fitted = compactor.overflowed(fitted, _chat_error(limit, requested))
        assert fitted.changed
        assert fitted.estimate * lie <= limit
        for _ in range(12):
            assert compactor.limits.window == limit
            assert compactor.fit(whole, thread="again").tokens_before == pytest.approx(requested, rel=0.01)
            compactor.observe(fitted, {"prompt_tokens": int(fitted.estimate * lie), "completion_tokens": 5})
        shorter = list(whole)
        while shorter and compactor.plan(shorter).tokens > 0.8 * limit:
            del shorter[-2:]
        again = compactor.fit(shorter, thread="shorter")
        assert again.messages is shorter
        assert again.estimate * lie > 0.75 * limit


LIMIT_ONLY = "This model's maximum context length is 22000 tokens. Please reduce the length of the messages."


@rows("said", ["prompt is too long", LIMIT_ONLY], ids=["nothing told", "limit told"])
@rows("ratio", [0.5, 0.8, 1.0, 1.2, 1.7])
@rows("early", [0, 9])
def test_a_refusal_without_a_count_is_kept_in_our_own_tokens_whatever_is_reported_later(
    ratio: float, early: int, said: str
) -> None:
    """All it says is that so many of our tokens are too many: what that is in the provider's follows its reports."""
    with Compactor(window=24_000, archive="memory:") as compactor:
        whole = chat_run(50)
        for _ in range(early):
            compactor.observe(compactor.fit(whole[:40], thread="early"), _usage(compactor, whole[:40], 0.9))
        refused = compactor.fit(whole, thread="t")
        assert not refused.changed
        fitted = compactor.overflowed(refused, RuntimeError(said))
        for _ in range(12):
            compactor.observe(fitted, {"prompt_tokens": round(fitted.estimate * ratio), "completion_tokens": 5})
        factor = compactor._calibration.value.factor  # noqa: SLF001 - what the reports taught
        assert factor == pytest.approx(ratio, rel=0.01)
        again = compactor.fit(list(whole), thread="again")
        assert again.changed, "what was refused is not sent again"
        assert again.estimate < 0.81 * refused.estimate
        most = min(0.8 * refused.estimate, (22_000 if "22000" in said else 24_000) * 0.9 / factor)
        assert compactor.limits.budget / factor == pytest.approx(most, rel=0.02)


def test_the_smallest_refusal_of_a_kind_tells_most_and_one_that_leaves_nothing_is_not_kept() -> None:
    named = resolve_limits(Settings(), 100_000)
    refusals = LearnedLimits(Settings(), named)
    wordless = Overflow()
    assert refusals.limits(1.0) == named
    first = refusals.add(wordless, 50_000, 1.0)
    assert first is not None
    assert first.budget == 40_000
    assert refusals.add(wordless, 60_000, 1.0) == first
    assert refusals.add(wordless, 10, 1.0) is None
    assert refusals.limits(1.0) == first
    told = refusals.add(Overflow(limit=30_000, requested=90_000), 30_000, 3.0)
    assert told is not None
    assert told.window == 30_000
    for factor in (1.0, 3.0):
        later = refusals.limits(factor)
        assert later is not None
        assert later.window == 30_000, "a limit it told is in its own tokens, whatever ours are"


sizes = st.integers(200, 2_000_000)


@given(sizes, sizes, st.none() | sizes, st.none() | sizes, st.none() | st.integers(1, 60_000))
def test_the_lowered_budget_is_below_what_was_refused_and_never_above_what_was_told(
    window: int, sent: int, limit: int | None, requested: int | None, output: int | None
) -> None:
    now = resolve_limits(Settings(), window)
    found = find_lower_limits(Overflow(limit, requested, output), sent, Settings(), now)
    if found is None:
        return
    assert found.budget < sent
    assert found.window <= min(window, limit or window)


def _usage(compactor: Compactor, messages: list[Any], ratio: float) -> dict[str, int]:
    estimate = compactor.fit(messages, thread="usage").estimate
    return {"prompt_tokens": round(estimate * ratio), "completion_tokens": 5}


def _chat_error(limit: int, counted: int) -> RuntimeError:
    return RuntimeError(chat_refusal(limit, counted)[1]["error"]["message"])


def test_a_request_that_nobody_counted_is_counted_when_it_is_refused() -> None:
    # what a gateway sends as it came, since it could not be fitted
    uncounted = Compaction(long_chat(40, words=40), changed=False, tokens_before=0, tokens_after=0, thread="t")
    with Compactor(window=8_000, archive="memory:") as engine:
        shorter = engine.overflowed(uncounted, {"error": {"message": "prompt is too long: 9000 tokens > 8000 maximum"}})
        assert shorter.changed
        with pytest.raises(WontFit) as refused:
            engine.overflowed(shorter, {"error": {"message": "prompt is too long"}})
        assert refused.value.floor > 0
        impossible = replace(uncounted, refused=True)
        with pytest.raises(WontFit, match=r"smaller than [1-9][\d,]* tokens"):
            engine.overflowed(impossible, {"error": {"message": "prompt is too long"}})
