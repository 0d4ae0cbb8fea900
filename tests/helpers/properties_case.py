"""The promises, asserted of one generated conversation: the properties of the suite and `make soak` run them."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, settings

from effort import examples
from ledger_case import people_in
from unabridged import Compaction, Compactor, Settings, WontFit, check, repair
from unabridged.authorship import assign_origins
from unabridged.formats import FORMATS
from unabridged.formats.fields import get
from unabridged.legality import find_unanswered_round
from unabridged.marks import list_separator_texts
from unabridged.settings import resolve_limits
from unabridged_testing import (
    Conversation,
    Shape,
    make_conversation,
    refusals,
)

EXAMPLES = examples(40, 150)
WINDOWS = (2_000, 3_000, 4_000)
SYSTEM = "You are the assistant of a small company. Be brief."
TOOLS = [{"name": "read_file", "description": "Read a file.", "parameters": {"type": "object", "properties": {}}}]
profile = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,  # the suite says the same every time; soak finds what is new
    database=None,
    print_blob=False,
    phases=[Phase.generate] if os.environ.get("UNABRIDGED_SHRINK") == "0" else [Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


def compactor_for(format_: str, window: int, **more: Any) -> Compactor:
    return Compactor(window=window, archive="memory:", format=format_, **more)


METERS = {format_: compactor_for(format_, 10**9) for format_ in FORMATS}
"""Never compact anything; say how large a list is."""


def fixed_for(window: int) -> dict[str, Any]:
    """System prompt and tools; a provider's own prompt for tools would leave nothing of the smallest windows."""
    return {"system": SYSTEM, "tools": TOOLS if window > 3_000 else None}


def same(one: Any, other: Any) -> bool:
    """Equal all the way down, and of the same types."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def is_filler(message: Any) -> bool:
    """Whether it is one of the lines that only keep roles alternating: put in again, it is a new one."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        content = content[0].get("text")
    if isinstance(message, dict) and len(parts := message.get("parts", ())) == 1:
        content = parts[0].get("text")
    return isinstance(content, str) and content in list_separator_texts()


def budget_of(window: int) -> int:
    return resolve_limits(Settings(), window).budget


def assert_legal(format_: str, given: Sequence[Any], out: Sequence[Any]) -> None:
    if given:
        assert not check(out, format=format_), "legal: by our own rules"
        assert not refusals(format_, out), "legal: by the other reading of the rules"


def with_results(format_: str, messages: list[Any]) -> list[Any]:
    """The list with a result for each call at its end that waits for one."""
    waits = (
        find_unanswered_round([FORMATS[format_].read(m) for m in messages], items=FORMATS[format_].items) is not None
    )
    return repair(messages, format=format_).messages if waits else messages


def assert_kept_objects_are_the_callers(given: Sequence[Any], out: Sequence[Any]) -> None:
    places: dict[int, list[int]] = {}
    for index, message in enumerate(given):
        places.setdefault(id(message), []).append(index)
    last = -1
    for message in out:
        if id(message) in places:
            later = [index for index in places[id(message)] if index > last]
            assert later, "kept: in the order they had"
            last = later[0]
        else:
            ours = is_filler(message) or "cleared: " in str(message)  # two results may leave the same stub
            assert ours or not [old for old in given if same(message, old)], "kept: the caller's own object, not a copy"


def assert_no_turn_is_invented(format_: str, given: Sequence[Any], out: Sequence[Any]) -> None:
    """Turns must alternate for Converse only; for Anthropic, a system message in the middle may need one beside it."""
    roles = [FORMATS[format_].read(message).role for message in given]
    inner = "system" in roles[next((i for i, role in enumerate(roles) if role != "system"), len(roles)) :]
    if format_ == "bedrock-converse" or (format_ == "anthropic" and inner):
        return
    known = {id(message) for message in given}
    assert not [message for message in out if id(message) not in known and is_filler(message)], "no invented turn"


def assert_system_stays(format_: str, given: Sequence[Any], out: Sequence[Any]) -> None:
    def system(messages: Sequence[Any]) -> list[int]:
        return [id(m) for m in messages if FORMATS[format_].read(m).role == "system"]

    assert system(given) == system(out), "system: every one, the same objects, in order"
    first = next((i for i, m in enumerate(given) if FORMATS[format_].read(m).role != "system"), len(given))
    assert all(a is b for a, b in zip(given[:first], out[:first], strict=True)), "system: in front where it was"


def assert_sealed_stays(conversation: Conversation, out: Sequence[Any]) -> None:
    here = {id(message) for message in out}
    for message, what in zip(conversation.messages, conversation.what, strict=True):
        assert what != "sealed" or id(message) in here, "opaque: the provider's own items stay"


def assert_reasoning_is_glued(format_: str, given: Sequence[Any], out: Sequence[Any]) -> None:
    """In Responses items, reasoning and the item it led to stay or go together, and stay neighbours."""
    if format_ != "openai-responses":
        return
    follower = {id(given[i]): given[i + 1] for i, m in enumerate(given[:-1]) if FORMATS[format_].read(m).glued}
    leader = {id(item): key for key, item in follower.items()}
    for i, message in enumerate(out):
        if id(message) in follower:
            item = follower[id(message)]
            shortened = FORMATS[format_].read(item).text and get(out[i + 1], "id") == get(item, "id")
            assert out[i + 1] is item or shortened, "glued: reasoning in front of its own item"
        if id(message) in leader:
            assert id(out[max(i - 1, 0)]) == leader[id(message)], "glued: the item behind its own reasoning"


def assert_the_newest_message_of_a_person_stays(
    format_: str, conversation: Conversation, stop: int, out: Sequence[Any], window: int
) -> None:
    """As the caller's own object; words beside a result stay with it, or are quoted."""
    spoken = [i for i, what in enumerate(conversation.what[:stop]) if what in {"person", "mixed"}]
    newest = conversation.messages[spoken[-1]]
    if METERS[format_].plan([newest]).tokens > budget_of(window) // 4:
        return  # too large to stay whole beside everything else that must
    if conversation.what[spoken[-1]] == "person":
        assert any(message is newest for message in out), "newest: the caller's own object"
    views = [FORMATS[format_].read(message) for message in out]
    voiced = "\n".join(view.text for view in views if view.role == "user")
    assert conversation.said[spoken[-1]] in voiced, "newest: verbatim"


_DROPPED = re.compile(r"left out of the summary, kept in the archive: (\d+) messages of people")


def assert_people_are_quoted_or_counted(
    format_: str, conversation: Conversation, went: set[int], fitted: Compaction
) -> None:
    """Every message of a person that went stands in the summary by its number, or the receipt counts it."""
    if fitted.receipt is None or fitted.receipt.kind != "summary":
        return
    went.update(turn for first, end in fitted.receipt.turns for turn in range(first, end))
    gone = [turn for turn in went if conversation.said[turn]]
    here = {id(message) for message in fitted.messages}
    twins = sum(id(conversation.messages[turn]) in here for turn in gone)  # the very object stands there once more
    texts = [FORMATS[format_].read(message).text for message in fitted.messages]
    summaries = [text for text in texts if text.startswith("[unabridged summary")]
    numbers = [re.match(r"- \[([^\]]*)\]", line) for summary in summaries for line in people_in(summary)]
    told = [list(map(int, re.findall(r"\d+", number[1]))) for number in numbers if number]
    quoted = sum(found[2] if len(found) == 3 else 1 for found in told)  # equal ones in a row: first, last, number
    dropped = sum(int(found[1]) for note in fitted.receipt.notes if (found := _DROPPED.match(note)))
    told_of = f"people: {quoted} quoted, {dropped} counted, {len(gone)} gone, {twins} of them still here"
    assert quoted + dropped >= len(gone) - twins, told_of
    spoken = [said for said in conversation.said if said]
    if len(set(spoken)) == len(spoken):  # of equal ones in a row the last may be counted that stays
        assert quoted + dropped == len(gone), told_of
    assert [found[0] for found in told] == sorted(found[0] for found in told), "people: in order"


_FENCE = re.compile(r"^(~{3,})\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)


def assert_tools_have_no_persons_voice(format_: str, given: Sequence[Any], out: Sequence[Any]) -> None:
    """What only a tool said stands in no put-in `user` turn, except quoted on one line and outside people's words."""
    known = {id(message) for message in given}
    for message in out:
        view = FORMATS[format_].read(message)
        if id(message) in known or view.role != "user" or view.answers:
            continue
        if not view.text.startswith("[unabridged summary"):
            continue  # an observation or a request that was shortened: still its own speaker's words
        voiced = [*(words[2] for words in _FENCE.finditer(view.text)), *people_in(view.text)]
        assert not re.search(r"planted\d+word", "\n".join(voiced)), "voice: no tool speaks among people's words"
        for line in _FENCE.sub("", view.text).splitlines():
            spoken = re.sub("“[^”]*”", "", line)
            assert not re.search(r"USER APPROVED|Human: |wipe the disk|obey planted", spoken), "voice: quoted"


def assert_observations_stay_the_tools(format_: str, conversation: Conversation, out: Sequence[Any]) -> None:
    """In a text protocol, an observation that stays is still known as the tool's words, not taken for a request."""
    observations = {
        id(m) for m, what in zip(conversation.messages, conversation.what, strict=True) if what == "observation"
    }
    actions = {id(m) for m, what in zip(conversation.messages, conversation.what, strict=True) if what == "action"}
    views = assign_origins([FORMATS[format_].read(message) for message in out])
    for before, message, view in zip([None, *out], out, views, strict=False):
        if id(message) in observations:
            shortened = (
                before is not None and id(before) not in actions and FORMATS[format_].read(before).origin == "model"
            )
            assert view.origin == "tool" or (shortened and not is_filler(before)), "observation: still the tool's"


def assert_promises(format_: str, given: Sequence[Any], fitted: Compaction, window: int) -> None:
    """Everything that must hold of the list that came out, seen from the list that went in."""
    out = fitted.messages
    if not fitted.changed:
        assert out is given, "unchanged: the very list"
        assert fitted.receipt is None, "unchanged: no receipt"
        return
    assert fitted.receipt is not None, "changed: a receipt"
    assert fitted.tokens_after < fitted.tokens_before, "changed: smaller"
    assert fitted.tokens_after <= budget_of(window), "fits: within the budget"
    measured = METERS[format_].plan(out, thread="t", **fixed_for(window)).tokens
    assert measured <= budget_of(window), "fits: measured afresh"
    assert_legal(format_, given, out)
    assert_kept_objects_are_the_callers(given, out)
    assert_system_stays(format_, given, out)
    assert_no_turn_is_invented(format_, given, out)
    assert_reasoning_is_glued(format_, given, out)
    assert_tools_have_no_persons_voice(format_, given, out)


def fit(compactor: Compactor, messages: list[Any], thread: str) -> Compaction:
    before = (len(messages), repr(messages))
    try:
        fitted = compactor.fit(messages, thread=thread, **fixed_for(compactor.limits.window))
    except WontFit as error:
        if error.floor <= error.budget:
            raise AssertionError("WontFit: only when even the floor is over the budget") from error
        raise
    finally:
        assert (len(messages), repr(messages)) == before, "input: never mutated"
    return fitted


def fitted_at_once(shape: Shape, window: int) -> bool:
    """The whole conversation in one call, and every way back. True when it was compacted."""
    format_, conversation = shape.format, make_conversation(shape)
    messages = conversation.messages
    with compactor_for(format_, window) as compactor:
        fitted = fit(compactor, messages, "t")
        assert_promises(format_, messages, fitted, window)
        if not fitted.changed:
            return False
        out = fitted.messages
        assert_sealed_stays(conversation, out)
        assert_observations_stay_the_tools(format_, conversation, out)
        assert_the_newest_message_of_a_person_stays(format_, conversation, len(messages), out, window)
        assert_people_are_quoted_or_counted(format_, conversation, set(), fitted)
        again = fit(compactor, out, "t")
        assert again.messages is out, "again: the very list"
        assert same(compactor.replay(out, thread="t"), messages), "replay: the original conversation"
        resent = fit(compactor, copy.deepcopy(messages), "t")
        assert same(resent.messages, out), "resent: the same bytes every time"
        assert same(compactor.undo(out, thread="t"), messages), "undo: the list before"
    return True


def grown_by_a_caller_who_keeps_the_list(shape: Shape, window: int, calls: int = 4) -> None:
    """Fitted before each model call; what came out is what the next call starts from."""
    format_, conversation = shape.format, make_conversation(shape)
    kept: list[Any] = []
    went: set[int] = set()
    done = 0
    with compactor_for(format_, window) as compactor:
        for stop in some(conversation.stops, calls):
            given = kept + conversation.messages[done:stop]
            fitted = fit(compactor, given, "t")
            assert_promises(format_, given, fitted, window)
            if fitted.changed:
                assert_the_newest_message_of_a_person_stays(format_, conversation, stop, fitted.messages, window)
                assert_people_are_quoted_or_counted(format_, conversation, went, fitted)
            kept, done = list(fitted.messages), stop
            assert same(compactor.replay(kept, thread="t"), conversation.messages[:stop]), "carried: replay is exact"
            if fitted.changed and stop == conversation.stops[-1]:
                assert same(compactor.undo(kept, thread="t"), given), "carried: undo is the list before"


def grown_by_a_caller_who_resends(shape: Shape, window: int, calls: int = 3) -> None:
    """The full original history before each model call, deserialised anew each time."""
    format_, conversation = shape.format, make_conversation(shape)
    with compactor_for(format_, window) as compactor:
        for stop in some(conversation.stops, calls):
            given = copy.deepcopy(conversation.messages[:stop])
            fitted = fit(compactor, given, "t")
            assert_promises(format_, given, fitted, window)
            again = fit(compactor, copy.deepcopy(given), "t")
            assert same(again.messages, fitted.messages), "resent: the same bytes every time"
            assert same(compactor.replay(fitted.messages, thread="t"), given), "resent: replay is exact"


def some(stops: Sequence[int], count: int) -> list[int]:
    """At most so many of the stops, spread evenly, the last among them."""
    if len(stops) <= count:
        return list(stops)
    return [stops[(i + 1) * len(stops) // count - 1] for i in range(count)]


def keeps_every_promise(shape: Shape, window: int, *, grow: str | None = None) -> str:
    """All of the above; every other conversation is grown, in one of the two ways or, with `grow="both"`, in both."""
    ended = "unchanged"
    way = grow or ("carried", "", "resent", "")[shape.seed % 4]
    try:
        if fitted_at_once(shape, window):
            ended = "compacted"
        if way in {"carried", "both"}:
            grown_by_a_caller_who_keeps_the_list(shape, window)
        if way in {"resent", "both"}:
            grown_by_a_caller_who_resends(shape, window)
    except WontFit:
        return "won't fit"
    return ended
