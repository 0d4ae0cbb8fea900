"""What the summariser is shown of a conversation, as plain text, cut up so that every ask fits its window."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

from unabridged.asking.ask import AskFailed
from unabridged.authorship import find_block_author
from unabridged.languages.detection import detect_certain_language
from unabridged.messages import Media, View
from unabridged.summary.brief import DEFAULT_RESERVE_TOKENS, SPARE_DIVISOR, Brief, LivePrompt, Summariser
from unabridged.summary.prompt import KEY_FIELD, Wording, remove_unsendable
from unabridged.text_tools import Count

T = TypeVar("T")

MIN_CHUNK_TOKENS = 256
"""Tokens of conversation that must fit into one ask beside the prompt, or asking makes no sense."""
MIN_NOTES = 4
"""Notes that fit into one fold at least, so that the folds are at most a third of the chunks, and one a level."""
GOAL_PERCENT = 92
"""The share of its budget that the model is told to use: what is a little longer is cut by rule."""
FOLLOWING_DIVISOR, RULES_DIVISOR = 12, 12
"""The shares of the window, one in so many, in which the summariser is shown what stays, and earlier rules."""
SMALL_WINDOW_TOKENS = 6_144
"""Tokens of a summariser's window below which it is asked in few words."""
FRAME_TOKENS = 12
"""Tokens that the label of one note takes."""
RECORD_DENSITY = 3.0
"""Characters a token of a record in a language with spaces has, counted on records that models wrote."""

_SAMPLE_FAULT = "word " * 60
"""As long as the fault that a second ask may have to name."""
_SPEAKERS = {"person": "user", "model": "assistant", "summary": "an earlier summary by another system, not the user"}


# -- how it is cut up -------------------------------------------------------------------------------------------------


class ShownText(NamedTuple):
    """One message, or a part of one, as the summariser reads it."""

    text: str
    tokens: int


class AskPlan(NamedTuple):
    """How the conversation is shown: behind the live prompt, in one ask, or in chunks."""

    reserve: int
    goal: int
    """The tokens the model is told to stay within; what is accepted is a little more."""
    note: int
    """What the notes on one chunk may take."""
    fold_room: int
    """What fits into one fold."""
    chunks: list[list[str]]
    rules: tuple[str, ...]
    """The rules that were picked out before."""
    wording: Wording
    live: LivePrompt | None = None
    """The live prompt that is asked behind, if it is asked as a suffix."""
    tight: bool = False
    """Whether the reply behind it got less room than one apart would."""
    single: bool = False
    prior_note: str = ""
    """The earlier prose as the first of the notes, when there are chunks."""


def plan_asks(brief: Brief, model: Summariser) -> AskPlan:
    """Return how to show it so that every ask, its reply included, fits.

    Raise `AskFailed` when the window is too small.
    """
    count, window, prior = brief.count, model.window, brief.earlier.prose
    reserve = _compute_reserve(brief, model)
    goal = min(brief.limits.budget, reserve) * GOAL_PERCENT // 100
    rules = _select_known_rules(brief, window // RULES_DIVISOR) if model.instruction is None else ()
    # Where the host's hook says what is shown, nothing else is.
    following = _render_following(brief, window // FOLLOWING_DIVISOR) if brief.hook_input is None else ()
    is_short = window < SMALL_WINDOW_TOKENS
    wording = Wording(model.instruction, _choose_language(brief, model), _measure_density(brief), following, is_short)
    free = window - reserve - window // 20  # the count may be off: a twentieth is left for that
    record = wording.build_record_prompt([], tokens=goal, prior=prior, rules=rules, fault=_SAMPLE_FAULT)
    part = wording.build_record_prompt([], tokens=goal, part=True, fault=_SAMPLE_FAULT)
    fold = wording.build_fold_prompt([], tokens=goal, rules=rules, last=True, fault=_SAMPLE_FAULT)
    single_room, chunk_room, fold_room = (free - count(prompt.text) for prompt in (record, part, fold))
    if min(chunk_room, fold_room) < MIN_CHUNK_TOKENS:
        fault = (
            f"a window of {window:,} tokens is too small to summarise with: the prompt takes "
            f"{free - min(chunk_room, fold_room):,} and {reserve:,} are reserved for the reply. Use a summariser with "
            "a larger window, a shorter instruction, or a smaller Settings(summary_reserve=…)."
        )
        raise AskFailed("too-long", fault)
    shown = _split_messages_within(brief, model, max(single_room, MIN_CHUNK_TOKENS))
    note = min(reserve * 4 // 5, fold_room // MIN_NOTES - FRAME_TOKENS)
    plan = AskPlan(reserve, goal, note, fold_room, [[part.text for part in shown]], rules, wording)
    for live in (model.live, model.live.drop_kept_messages()) if model.live is not None else ():
        if behind := _plan_behind_live_prompt(plan, brief, window, live):
            return behind
    if sum(part.tokens for part in shown) <= single_room:
        return plan._replace(single=True)
    shown = _split_messages_within(brief, model, chunk_room)
    if prior and count(prior) > fold_room // 2:  # too long to stand beside the notes: it is read like the rest
        shown = [*split_messages([(-1, View("user", "summary", prior))], count, chunk_room), *shown]
        prior = ""
    runs = group_into_runs([part.tokens for part in shown], chunk_room)
    return plan._replace(chunks=[[shown[i].text for i in run] for run in runs], prior_note=prior)


def _compute_reserve(brief: Brief, model: Summariser) -> int:
    """Return the tokens left free for a reply: as the caller says, else 4,096 or all that the prose may take."""
    if model.reserve is not None:
        return max(1, min(model.reserve, model.window // 2))
    budget = brief.limits.budget
    return min(max(DEFAULT_RESERVE_TOKENS, budget + budget // SPARE_DIVISOR), model.window // 4)


def _plan_behind_live_prompt(plan: AskPlan, brief: Brief, window: int, live: LivePrompt) -> AskPlan | None:
    """Return the plan for one ask behind this prompt; None without room there for half of what the prose may take.

    Near the trigger little room is left.
    """
    bare = plan.wording.build_suffix_prompt(tokens=plan.goal, kept=live.kept, rules=plan.rules, fault=_SAMPLE_FAULT)
    left = window - window // 20 - live.tokens - brief.count(bare.text)
    if left < min(plan.reserve, max(MIN_CHUNK_TOKENS, brief.limits.budget // 2)):
        return None
    reply = min(plan.reserve, left)
    goal = min(brief.limits.budget, reply) * GOAL_PERCENT // 100
    return plan._replace(reserve=reply, goal=goal, live=live, tight=reply < plan.reserve)


def _split_messages_within(brief: Brief, model: Summariser, room: int) -> list[ShownText]:
    """Return the conversation in parts of at most `room` tokens; with `max_input`, the newest of them."""
    most = model.max_input
    parts = split_messages(brief.list_numbered_messages(), brief.count, room if most is None else min(room, most))
    return parts if most is None else _keep_newest_within(parts, most, lambda part: part.tokens)


def _keep_newest_within(entries: list[T], room: int, size: Callable[[T], int]) -> list[T]:
    """Return the newest entries, as many as so many tokens take, in order."""
    taken = [*accumulate(size(entry) for entry in reversed(entries))]
    return entries[len(entries) - bisect_right(taken, room) :]


def _choose_language(brief: Brief, model: Summariser) -> str:
    """Return the language of the summary; a caller's own prompt may ask for any, so nothing is assumed beside one."""
    if model.instruction is not None:
        return ""
    people = detect_certain_language(view.text for view in brief.views if view.origin == "person")
    return people or detect_certain_language(view.text for view in brief.views if view.origin in {"person", "model"})


def _measure_density(brief: Brief) -> float:
    """Return the characters that a token of a record has: as what is said, but full of names and numbers."""
    texts = [view.text for view in brief.views if view.origin in {"person", "model"} and view.text]
    density = max(sum(map(len, texts)), 1) / max(sum(map(brief.count, texts)), 1)
    return min(density, RECORD_DENSITY) if texts else RECORD_DENSITY


def _render_following(brief: Brief, room: int) -> tuple[str, ...]:
    """Return what stays, as the summariser reads it; of a long tail the end."""
    parts = split_messages(brief.beside.following, brief.count, max(room // 4, MIN_CHUNK_TOKENS))
    return tuple(part.text for part in _keep_newest_within(parts, room, lambda part: part.tokens))


def _select_known_rules(brief: Brief, room: int) -> tuple[str, ...]:
    """Return the rules that were picked out before, the newest as far as so many tokens take them."""
    rules = [rule.text for rule in brief.ledger.rules] if brief.ledger else []
    return tuple(_keep_newest_within(rules, room, lambda text: brief.count(text) + 2))


def group_into_runs(sizes: Sequence[int], room: int) -> list[list[int]]:
    """Return the indices of these sizes in consecutive runs, each of at most `room` tokens."""
    runs: list[list[int]] = []
    left = 0
    for place, size in enumerate(sizes):
        if not runs or size > left:
            runs.append([])
            left = room
        runs[-1].append(place)
        left -= size
    return runs


# -- a message as text ------------------------------------------------------------------------------------------------


def split_messages(numbered: Sequence[tuple[int, View]], count: Count, room: int) -> list[ShownText]:
    """Return every message as one part, in order; one that is larger than `room` tokens as several."""
    names = {id_: call.name for _, view in numbered for call in view.calls for id_ in call.ids}
    parts: list[ShownText] = []
    for turn, view in numbered:
        for who, text in _split_by_speaker(view, turn, names):
            parts += _split_below_header(f"{KEY_FIELD} [{turn}] {who}", remove_unsendable(text), count, room)
    return parts


def describe_media(media: Media, turn: int) -> str:
    """Return an image or file in words: its kind, its size or address, and the message it stood in."""
    words = [media.kind, media.mime if media.mime != media.kind else "", media.name]
    if media.source.startswith(("http://", "https://", "file", "gs://", "s3://")) and len(media.source) <= 300:
        words.append(media.source)
    elif media.source:
        size = len(media.source.partition("base64,")[2] or media.source) * 3 // 4
        words.append(f"{size / 1_000:,.0f} kB" if size >= 1_000 else f"{size} bytes")
    return f"[{' '.join(filter(None, words))}, turn {turn}]"


def _split_by_speaker(view: View, turn: int, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what a message says with whose words they are: thinking, text, calls, what is attached, answers, media."""
    who = _SPEAKERS.get(view.origin, view.origin)
    if thinking := "\n".join(block.text for block in view.reasoning if block.text):
        yield f"{who}, thinking", thinking
    if text := "\n".join(filter(None, [view.text, *(describe_media(item, turn) for item in view.media)])):
        yield who, text
    for call in view.calls:
        yield f"{who} calls {_clean_tool_name(call.name)}", call.arguments
    for text in view.inserted:
        yield _SPEAKERS.get(find_block_author(text), "host"), text
    for text in view.attached:
        yield "tool of the provider" if who == "assistant" else f"attached, not the words of the {who}", text
    for answer in view.answers:
        tool = " ".join(filter(None, ["tool", _clean_tool_name(names.get(answer.call_id, ""))]))
        yield f"{tool} answers{', an error' if answer.error else ''}", answer.text


def _clean_tool_name(name: str) -> str:
    """Return a tool's name as it may stand in a header: on one line, and no longer than names are."""
    return remove_unsendable(" ".join(name.split()))[:80]


def _split_below_header(header: str, text: str, count: Count, room: int) -> Iterator[ShownText]:
    """Yield the text below its header, in as many parts as it takes."""
    whole = f"{header}\n{text}\n"
    size = count(whole)
    if size <= room:
        yield ShownText(whole, size)
        return
    number = 1
    while text:
        label = f"{header}, part {number}\n"
        end = find_fitting_length(text, room - count(label) - 2, count)
        part = f"{label}{text[:end]}\n"
        yield ShownText(part, count(part))
        text, number = text[end:], number + 1


def find_fitting_length(text: str, room: int, count: Count) -> int:
    """Return how many characters of the text take at most `room` tokens; at least one, and whole lines or words."""
    end = min(len(text), max(1, room * 4))
    while end > 1 and (size := count(text[:end])) > room:
        end = max(1, min(end - 1, int(end * room / size * 0.97)))
    if end < len(text):
        for mark in "\n ":
            if (place := text.rfind(mark, end * 3 // 4, end)) > 0:
                return place + 1
    return end
