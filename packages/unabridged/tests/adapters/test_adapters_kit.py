"""What every framework's adapter stands on: one text for sync and async, events as data, what recall answers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from rows import rows
from unabridged import ArchiveError, Compaction, Settings, SettingsError, events
from unabridged.adapters.kit import (
    Agent,
    BoundedMapping,
    Engine,
    Request,
    Steps,
    Stream,
    add_collected_event,
    apply_change,
    apply_recorded_compactions,
    arun,
    astream,
    astream_fitted,
    call_host,
    call_in_thread,
    call_method,
    change_between,
    collect_events,
    combine_listeners,
    current_thread,
    event_data,
    explain_no_compaction,
    look_up,
    make_sync_and_async,
    name_by_identity,
    name_sub_thread,
    run,
    stream,
    stream_fitted,
    thread,
)
from unabridged.adapters.kit import current_host_values as values
from unabridged.archive import open_archive
from unabridged.events import Compacted, Compacting, Event, Failed, Fitted, Receipt, Unchanged, Undone
from unabridged.formats import get_format

SECRET = "the pump is in cellar 4"  # noqa: S105 - what a conversation says
RECEIPT = Receipt("r1", "t", "summary", "full", 1.0, ((0, 4),), 5, 2, 900, 90, "memory:", "model-free", notes=("a",))
WHERE: dict[str, Any] = {"thread": "t", "namespace": "shop"}
EVENTS: list[Event] = [
    Fitted(**WHERE, tokens_before=900, tokens_after=900, messages=5, window=8_000, budget=7_200, trigger=6_800),
    Compacting(**WHERE, reason="full", tokens=900, messages=[SECRET]),
    Compacted(**WHERE, receipt=RECEIPT, before=[SECRET], after=[SECRET]),
    Unchanged(**WHERE, reason="no safe cut", tokens=900),
    Failed(**WHERE, stage="summary", error=ValueError("no key"), cost={"calls": 2}),
    Undone(**WHERE, record="r1"),
]
MESSAGES = {(Compacting, "messages"), (Compacted, "before"), (Compacted, "after")}
"""The fields that hold what people said."""


def test_every_kind_of_event_is_tried_here() -> None:
    known = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]
    assert {type(event) for event in EVENTS} == {*known} - {Event}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_field_of_an_event_is_told_but_no_message(event: Event) -> None:
    data = event_data(event)
    assert set(data) == {"type", "event", *(field.name for field in fields(event))} - {
        name for kind, name in MESSAGES if isinstance(event, kind)
    }
    assert (data["type"], data["event"], data["namespace"]) == ("unabridged", type(event).__name__.lower(), "shop")
    assert SECRET not in json.dumps(data)


def test_a_receipt_is_told_whole_and_an_error_in_words() -> None:
    assert event_data(EVENTS[2])["receipt"]["notes"] == ("a",)
    told = event_data(EVENTS[4])
    assert (told["error"], told["cost"]) == ("ValueError: no key", {"calls": 2})


def test_why_nothing_was_compacted_is_said_by_the_event_that_knows() -> None:
    with collect_events() as told:
        for event in (Unchanged("t", "no safe cut", 9), Failed("t", "summary", ValueError("no key"))):
            add_collected_event(event)
    add_collected_event(EVENTS[0])  # nobody collects any more
    assert (
        explain_no_compaction(told) == "Not compacted: the summariser failed (ValueError: no key). Nothing was changed."
    )
    assert explain_no_compaction(told[:1]) == "Not compacted: no safe cut."
    answered = Failed("t", "summary", ValueError("no key"), goes_on=True)
    assert explain_no_compaction([answered, told[0]]) == "Not compacted: no safe cut.", (
        "another model wrote the summary"
    )


class Store:
    """Has a sync and an async form of what it does."""

    def get(self, key: str) -> str:
        return f"sync {key}"

    async def aget(self, key: str) -> str:
        await asyncio.sleep(0)
        return f"async {key}"


def test_one_generator_serves_sync_and_async_callers() -> None:
    def work(given: Any) -> Steps[list[str]]:
        found: list[str] = [(yield call_method(Store(), "get", "a")), (yield call_in_thread(str.upper, "b"))]
        try:
            yield call_host(given, "c")
        except ValueError as error:
            found.append(str(error))
        return found

    def fails(text: str) -> None:
        raise ValueError(text)

    async def fails_later(text: str) -> None:
        raise ValueError(text)

    assert run(work(fails)) == ["sync a", "B", "c"]
    assert asyncio.run(arun(work(fails_later))) == ["async a", "B", "c"]
    plainly, waiting = make_sync_and_async(work)
    assert (plainly(fails), asyncio.run(waiting(fails_later))) == (["sync a", "B", "c"], ["async a", "B", "c"])
    assert (plainly.__name__, waiting.__name__) == ("work", "awork")


SMALL = Settings(trigger=("tokens", 500), keep=("messages", 2))
TALK = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"{i} {SECRET} " * 20} for i in range(12)]


def engine(**keywords: Any) -> Engine:
    return Engine(get_format("openai-chat"), **{"archive": "memory:", "settings": SMALL, **keywords})


def test_an_engine_has_one_archive_and_one_compactor_a_model_and_recall_finds_what_left() -> None:
    own = engine(namespace="shop")
    agent = Agent("some", 8_000, recall=True)
    assert own.compactor_for(agent) is own.compactor_for(agent) is not own.compactor_for(Agent("some", 9_000))
    assert own.compactor_for(agent).limits.window == 8_000
    assert run(own.request(TALK, agent, thread="t").fit()).changed
    assert "cellar" in look_up(own.archive, own.scope("t"), "search_history", {"query": "pump"})
    assert "cellar" in look_up(own.archive, own.scope("t"), "read_history", {"ref": "0"})
    assert "no thread" in look_up(own.archive, own.scope(None), "search_history", {"query": "pump"})
    own.close()


def test_the_users_own_window_and_model_beat_what_the_framework_says() -> None:
    own = engine(window=7_000, agent="gpt-4o")
    assert own.compactor_for(Agent("other", 9_000)).limits.window == 7_000
    own.close()


def test_what_is_wrong_with_the_keywords_is_told_at_once() -> None:
    with pytest.raises(TypeError, match="'keeps'"):
        engine(keeps=3)
    with pytest.raises(SettingsError, match="window"):
        engine(window=-1)


def test_an_engine_made_in_an_event_loop_opens_nothing_yet() -> None:
    async def build() -> Engine:
        return engine(archive="dir:///proc/unabridged")

    own = asyncio.run(build())
    assert not own.is_ready
    with pytest.raises(ArchiveError):
        own.compactor_for(Agent())


class TooLongError(Exception):
    """As a provider says it."""

    code = "context_length_exceeded"


def test_a_request_refused_as_too_long_is_sent_once_more_and_shorter() -> None:
    sizes: list[int] = []

    def send(messages: list[Any]) -> dict[str, Any]:
        sizes.append(len(json.dumps(messages)))
        if len(sizes) == 1:
            raise TooLongError("maximum context length is 400 tokens")
        return {"usage": {"prompt_tokens": 300, "completion_tokens": 1}}

    own = engine(settings=Settings(trigger=("tokens", 4_000), keep=("messages", 2)), window=5_000)
    sent = run(own.request(TALK, Agent(), thread="t").exchange(send))
    assert sent.fitted.changed
    assert sizes[1] < sizes[0]
    own.close()


def test_a_refusal_that_nothing_is_done_about_is_the_callers_and_nothing_is_sent_again() -> None:
    sizes: list[int] = []

    def send(messages: list[Any]) -> None:
        sizes.append(len(messages))
        raise TooLongError("maximum context length is 400 tokens")

    own = engine(settings=Settings(off=True))
    with pytest.raises(TooLongError):
        run(own.request(TALK, Agent()).exchange(send))
    assert sizes == [12]
    own.close()


def test_after_a_refusal_too_the_host_is_asked_for_the_state_of_that_request() -> None:
    asked: list[Any] = []
    own = engine(settings=Settings(trigger=("tokens", 4_000)), window=5_000, state=lambda _: asked.append(values()))
    request = own.request(TALK, Agent(), thread="t", values={"todos": 3})
    run(request.shorten(run(request.fit()), TooLongError("maximum context length is 400 tokens")))
    assert asked == [{"todos": 3}]
    assert values() is None
    own.close()


def test_an_archive_is_closed_by_whoever_opened_it() -> None:
    given = open_archive("memory:")
    others, own = engine(archive=given), engine()
    opened = own.archive
    others.close()
    own.close()
    assert given.threads("default") == []
    with pytest.raises(ArchiveError, match="closed"):
        opened.threads("default")
    given.close()


def test_any_other_error_is_the_callers() -> None:
    def send(_: list[Any]) -> None:
        raise ValueError("no such model")

    own = engine(settings=Settings())
    with pytest.raises(ValueError, match="no such model"):
        run(own.request(TALK, Agent()).exchange(send))
    own.close()


class Items(Stream):
    """Items that are numbers once the model speaks."""

    def begins_answer(self, item: Any) -> bool:
        return isinstance(item, int)


OPENED: dict[str, Any] = {"type": "opened"}
REFUSAL = {"type": "failed", "error": {"code": "context_length_exceeded", "message": "maximum is 400 tokens"}}


def fit_after(refused: Any, request: Request) -> Steps[Compaction]:
    """What fits; what is sent once more, where the first request was refused."""
    fitted = yield from request.fit()
    return (yield from request.shorten(fitted, refused)) if refused else fitted


def streamed(tries: list[list[Any]], *, form: str, own: Engine, refused: Any = None) -> list[Any]:
    """What the caller sees of these streams, one a try; the first is for what was shortened after `refused`, if any."""
    left = iter(tries)
    request = own.request(TALK, Agent(), thread="t")

    def items(_: list[Any]) -> Iterator[Any]:
        for item in next(left):
            if isinstance(item, Exception):
                raise item
            yield item

    async def later(messages: list[Any]) -> AsyncIterator[Any]:
        for item in items(messages):
            yield item

    async def all_of() -> list[Any]:
        if form == "async":
            return [item async for item in astream(request, later, Items())]
        fitted = await arun(fit_after(refused, request))
        return [item async for item in astream_fitted(request, fitted, later(fitted.messages), later, Items())]

    if form == "sync":
        return list(stream(request, items, Items()))
    if form == "open":
        fitted = run(fit_after(refused, request))
        return list(stream_fitted(request, fitted, items(fitted.messages), items, Items()))
    return asyncio.run(all_of())


FORMS = ["sync", "async", "open", "open async"]
"""Streams that are opened here, and those that are open already."""


@rows("form", FORMS)
@rows(
    ("tries", "seen"),
    [
        ([[OPENED, 1, 2]], [OPENED, 1, 2]),
        ([[OPENED, REFUSAL], [OPENED, 3]], [OPENED, 3]),
        ([[TooLongError("maximum context length is 400 tokens")], [4]], [4]),
        ([[OPENED]], [OPENED]),
        ([[OPENED, REFUSAL], [OPENED, REFUSAL]], [OPENED, REFUSAL]),
    ],
    ids=["plain", "refused when open", "refused at once", "says nothing", "refused twice"],
)
def test_a_stream_shows_the_answer_and_no_refusal_that_was_mended(form: str, tries: Any, seen: Any) -> None:
    own = engine(settings=Settings(trigger=("tokens", 4_000), keep=("messages", 2)), window=5_000)
    assert streamed(tries, form=form, own=own) == seen
    own.close()


@pytest.mark.parametrize("form", FORMS)
def test_a_stream_that_is_refused_while_nothing_may_be_changed_shows_that_and_is_not_opened_again(form: str) -> None:
    own = engine(settings=Settings(off=True))
    assert streamed([[OPENED, REFUSAL], [1]], form=form, own=own) == [OPENED, REFUSAL]
    with pytest.raises(TooLongError):
        streamed([[TooLongError("maximum context length is 400 tokens")], [1]], form=form, own=own)
    own.close()


@pytest.mark.parametrize("form", FORMS)
def test_a_stream_that_breaks_after_its_first_words_is_not_opened_again(form: str) -> None:
    own = engine(settings=Settings())
    with pytest.raises(TooLongError):
        streamed([[1, TooLongError("maximum context length is 400 tokens")], [2]], form=form, own=own)
    own.close()


@pytest.mark.parametrize("form", ["open", "open async"])
def test_a_stream_to_what_was_shortened_already_shows_its_refusal_and_is_not_opened_again(form: str) -> None:
    own = engine(settings=Settings(trigger=("tokens", 4_000), keep=("messages", 2)), window=5_000)
    shortened = TooLongError("maximum context length is 400 tokens")
    assert streamed([[OPENED, REFUSAL], [1]], form=form, own=own, refused=shortened) == [OPENED, REFUSAL]
    own.close()


class Connection:
    """A stream as an SDK has it, with a connection behind it."""

    def __init__(self, *items: Any) -> None:
        self._items = iter(items)
        self.closed = False

    def __iter__(self) -> Iterator[Any]:
        return self._items

    def close(self) -> None:
        self.closed = True


def test_a_stream_that_is_left_early_is_closed_and_learned_from() -> None:
    learned: list[Any] = []
    own = engine(settings=Settings())
    request = own.request(TALK, Agent(), thread="t")
    vars(request.compactor)["observe"] = lambda _, report: learned.append(report)
    opened = Connection(OPENED, 1, 2)
    items = stream_fitted(request, run(request.fit()), opened, iter, Items())
    assert next(items) is OPENED
    items.close()  # type: ignore[attr-defined]
    assert opened.closed
    assert learned == [1]
    own.close()


def test_a_thread_is_named_for_a_stretch_of_code() -> None:
    assert current_thread() is None
    with thread("t1"), thread("t2"):
        assert current_thread() == "t2"
    assert current_thread() is None


def test_a_sub_agent_is_named_inside_its_parents_thread() -> None:
    assert name_sub_thread("t", "m1") == "t/m1"
    assert name_sub_thread("t", "m9", "t/m1") == "t/m1"
    assert name_sub_thread("t", "m9", "other/m1") == "t/m9"
    assert name_sub_thread("t", "m9", "t2/m1") == "t/m9"
    assert name_sub_thread("t", None) == "t"


def test_a_hosts_list_follows_a_compaction_and_keeps_what_it_never_saw() -> None:
    a, b, c, new, late = (SimpleNamespace(id=name) for name in ("a", "b", "c", "s", "x"))
    change = change_between([a, b, c], [new, c])
    assert change is not None
    assert apply_change([a, late, b, c], change) == [new, late, c]
    assert change_between([a, b], [a, b]) is None


def test_messages_without_ids_are_followed_by_identity() -> None:
    a, b, c, new, late, added = (["x"] for _ in range(6))
    change = change_between([a, b, added, c], [new, added, c], name_by_identity)
    assert change is not None
    followed = apply_change([a, late, b, c], change, name_by_identity)
    assert [*map(id, followed)] == [id(new), id(late), id(c)]


def test_originals_that_the_host_keeps_are_given_as_the_newest_compaction_left_them() -> None:
    """Whichever model they were made for; one that was taken back, or made of another list, is not applied."""
    engine = Engine(get_format("openai-chat"), archive="memory:", window=4_000)
    kept: list[Any] = []
    for i in range(40):
        kept.append({"role": "user" if i % 2 == 0 else "assistant", "content": f"turn {i}: " + f"word{i} " * 150})
        engine.compactor_for(Agent(f"model-{i % 3}")).fit(list(kept), thread="t")
    scope = engine.scope("t")
    assert scope is not None
    shorter = apply_recorded_compactions(engine.archive, scope, kept, engine.format)
    assert len(shorter) < len(kept) // 2
    assert shorter[-1] is kept[-1]
    compactor = engine.compactor_for(Agent())
    assert compactor.replay(shorter, thread="t") == kept
    assert apply_recorded_compactions(engine.archive, scope, kept[:2], engine.format) == kept[:2]
    changed = [{"role": "user", "content": "another beginning"}, *kept[1:]]
    assert apply_recorded_compactions(engine.archive, scope, changed, engine.format) is changed
    for _ in range(100):
        now = apply_recorded_compactions(engine.archive, scope, kept, engine.format)
        if compactor.undo(now, thread="t") is now:
            break
    assert now is kept


def test_no_framework_is_imported() -> None:
    code = "import sys, unabridged.adapters.kit; print(*(m for m in sys.modules if m.startswith(('lang', 'pydantic'))))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""


def test_what_an_adapter_knows_of_conversations_is_the_newest_of_it() -> None:
    known: BoundedMapping[str, int] = BoundedMapping(2)
    for count, name in enumerate(["a", "b", "a", "c"]):
        known[name] = count
    assert dict(known) == {"a": 2, "c": 3}, "the one that was longest untouched made room"


def test_an_event_reaches_the_callers_listener_and_the_frameworks_tracing() -> None:
    told: list[str] = []
    event = events.Unchanged("t", "nothing to do", 10)
    combine_listeners(lambda _: told.append("caller"), lambda _: told.append("tracing"))(event)
    combine_listeners(None, lambda _: told.append("tracing alone"))(event)
    combine_listeners(lambda _: told.append("caller alone"), None)(event)
    assert told == ["caller", "tracing", "tracing alone", "caller alone"]


def test_a_stream_that_is_left_and_can_not_be_closed_raises_nothing() -> None:
    class Broken:
        def __iter__(self) -> Iterator[str]:
            yield from ("a", "b")

        def close(self) -> None:
            raise ValueError("generator already executing")

    engine = Engine(get_format("openai-chat"), archive="memory:", window=8_000)
    request = engine.request([{"role": "user", "content": "Hello"}], Agent())
    opened: Any = Broken()
    items: Any = stream(request, lambda _: opened, Stream())
    assert next(items) == "a"
    items.close()  # as the garbage collector does
    engine.close()
