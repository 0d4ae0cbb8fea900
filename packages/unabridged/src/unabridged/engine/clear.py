"""Clear old bulky tool results and arguments to one-line stubs, when the window needs it or when it pays.

Planning is pure: views, sizes and prices in, a `Clearing` out. Never a rolling mask: all that is clearable goes at
once, and the prefix stays byte-stable until the next time. `docs/clearing.md` has the rule.

    fresh -> (keep_rounds later) clearable -> (when it pays, or the window needs it) stub
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from unabridged.engine.stubs import build_media_stub, build_stub, find_new_names, find_words, shorten_arguments
from unabridged.engine.trigger import MIN_CLEARED_SHARE
from unabridged.formats.base import LEGACY_CALL_PREFIX, Edit, Slot
from unabridged.marks import is_shortened, is_stub
from unabridged.messages import Call, Media, View
from unabridged.settings import Clear, Prices
from unabridged.tokens.models import ModelInfo

_SAMPLE_RECORD_ID = "0" * 12 + "/9999"
"""Stands for the id of a record and a turn until they are known: as long as most."""
STUB_TOKENS = 60
"""What a stub is taken to cost until it is made: only the stubs of what goes are made and counted."""

PATIENCE_SHARE = 0.5
"""What carrying the bulk must have cost, as a share of what the rewrite will, before it goes because it pays."""

# Provider-defined tools whose calls or outputs have a structure of their own: there is no text to put a stub into.
_FIXED_CALLS = frozenset({"local_shell_call", "shell_call", "computer_call", "apply_patch_call"})
_FIXED_OUTPUTS = frozenset({"computer_call"})

_MODEL_SLOTS = frozenset({"call", "attached"})
"""What stands in the model's own turn, and is never touched there beside reasoning that is signed."""


def find_prices(wanted: Clear | None, info: ModelInfo | None) -> Prices | None:
    """Return what the agent's provider charges; None where nothing is to be cleared for its price."""
    if wanted is None or not wanted.payback:
        return None
    if wanted.prices is not None or info is None or not info.input:
        return wanted.prices
    lifetime = info.cache_seconds or 300.0
    return Prices(info.cache_read_share, info.cache_write_share, 1.0, info.output / info.input, lifetime)


class ClearingTerms(NamedTuple):
    """When clearing is worth it.

    `over` is by how many tokens the request is too large: above 0, all that is clearable goes, if that is enough.
    Otherwise, and only with `prices`, it goes when it pays: when rewriting costs less than carrying the bulk for the
    turns to come would, and when carrying it has already cost `patience` times as much. `idle` is the number of seconds
    since the last model call.
    """

    prices: Prices | None
    over: int = 0
    idle: float = 0.0
    patience: float = PATIENCE_SHARE

    def find_first_to_clear(self, pieces: Sequence[ClearablePiece], sizes: Sequence[int], turns: float) -> int | None:
        """Return the first message to change, from which on everything clearable goes; None to leave all as it is."""
        whole = sum(sizes)
        if self.over > 0 or self.prices is None:
            freed = sum(piece.freed for piece in pieces)
            return pieces[0].message if freed >= max(self.over, MIN_CLEARED_SHARE * whole, 1) else None
        ahead = [0, *accumulate(sizes)]
        rewriting, carrying = self.prices.rewrite_cost(self.idle), self.prices.read
        best: tuple[float, int] | None = None
        freed = waste = 0
        for place in range(len(pieces) - 1, -1, -1):
            piece = pieces[place]
            freed += piece.freed
            waste += piece.freed * piece.waited
            if place and pieces[place - 1].message == piece.message:
                continue  # one message changes as a whole
            price = (whole - ahead[piece.message] - freed) * rewriting
            gain = freed * carrying * turns
            # At break-even the next break-even is a few turns away, and the prefix would be rewritten over and over for
            # nothing. So the rewrite also waits until waiting has cost a good part of it.
            due = self.patience * price <= waste * carrying
            pays = price < gain and due and freed >= MIN_CLEARED_SHARE * whole
            if pays and (best is None or gain - price >= best[0]):
                best = (gain - price, piece.message)
        return None if best is None else best[1]


def plan_clearing(
    views: Sequence[View],
    sizes: Sequence[int],
    wanted: Clear,
    terms: ClearingTerms,
    *,
    count: Callable[[str], int],
    protect: Callable[[int], bool] = lambda _: False,
) -> Clearing | None:
    """Return what to clear now, or None when it is better to leave everything as it is.

    A message stays for which `protect` returns True. Stubs are made, to know exactly, only where it looks worth it.
    """
    if terms.prices is None and terms.over <= 0:
        return None
    turns = wanted.remaining_turns
    if turns is None:  # as many as there were
        turns = sum(view.role == "assistant" for view in views)
    pieces = [piece for piece in _find_clearable_pieces(views, sizes, wanted, count) if not protect(piece.message)]
    if terms.find_first_to_clear(pieces, sizes, turns) is None:
        return None
    pieces = [piece for piece in _measure_stubs(views, pieces, count) if piece.freed >= wanted.minimum]
    start = terms.find_first_to_clear(pieces, sizes, turns)
    if start is None:
        return None
    chosen: dict[int, dict[Slot, ClearablePiece]] = {}
    for piece in pieces:
        if piece.message >= start:
            chosen.setdefault(piece.message, {})[piece.slot] = piece
    return chosen


def build_edits(
    clearing: Clearing, ref: Callable[[int], str | None] = lambda _: None, record: Callable[[int], str] = lambda _: ""
) -> dict[int, Edit]:
    """Return for each message that changes the edit that puts the stubs in.

    `record` returns what they name: the record, and which of its messages; `ref` the reference to their original.
    """
    return {index: _build_edit(pieces, ref(index), record(index)) for index, pieces in clearing.items()}


class ClearablePiece(NamedTuple):
    """A piece of a message that may become a stub."""

    message: int
    slot: Slot
    text: str
    calls: tuple[Call, ...]
    """The call it answers or is; for media, every call answered beside it."""
    media: tuple[Media, ...]
    tokens: int
    waited: int
    """How many model calls have read it since it became clearable."""
    names: tuple[str, ...] = ()
    """The names in it that would stand nowhere else any more."""
    cost: int = STUB_TOKENS

    @property
    def freed(self) -> int:
        """Return the tokens that it frees, its stub (without a reference) already taken off."""
        return self.tokens - self.cost

    def build_stub(self, text: str, ref: str | None = None, record: str = _SAMPLE_RECORD_ID) -> str:
        """Return the stub of this part of it; of media those of all together."""
        if self.slot.kind == "media":
            return "\n".join(build_media_stub(item, ref, record) for item in self.media)
        if self.slot.kind == "call":
            return shorten_arguments(text, ref, self.names, record)
        return build_stub(self.calls[0] if self.calls else None, text, ref, self.names, record)

    def may_be_cleared(self, wanted: Clear) -> bool:
        """Return whether the settings allow it to be cleared, and it is worth a stub and is not one yet."""
        tools = {call.name for call in self.calls} or {""}
        allowed = tools.isdisjoint(wanted.exclude) and (wanted.include is None or tools.issubset(wanted.include))
        done = is_shortened(self.text) if self.slot.kind == "call" else is_stub(self.text)
        return allowed and self.freed >= wanted.minimum and not done


Clearing = Mapping[int, Mapping[Slot, ClearablePiece]]
"""The pieces that become stubs, by the index of their message; everything else stays, untouched and in order."""


def _find_first_kept(views: Sequence[View], rounds: int) -> int:
    """Return where the last so many rounds begin; what the model has not read yet is always among them."""
    index = len(views)
    while index > 0 and rounds > 0:
        end = index
        while index > 0 and views[index - 1].role != "assistant":
            index -= 1
        answered = any(view.answers or view.origin == "tool" for view in views[index:end])
        while index > 0 and views[index - 1].role == "assistant":
            index -= 1
            answered = answered or bool(views[index].calls)
        rounds -= answered
    return index


def _find_clearable_pieces(
    views: Sequence[View], sizes: Sequence[int], wanted: Clear, count: Callable[[str], int]
) -> Iterator[ClearablePiece]:
    """Yield every piece that may become a stub, in order; its stub is not made yet."""
    later = _count_later_model_calls(views)
    calls: dict[str, Call] = {}  # ids may be reused: the newest call with an id is the one an answer means
    for index in range(_find_first_kept(views, wanted.keep_rounds)):
        view = views[index]
        calls.update((id_, call) for call in view.calls for id_ in call.ids)
        if view.opaque or sizes[index] - STUB_TOKENS < wanted.minimum:
            continue
        waited = max(0, later[index] - wanted.keep_rounds)
        signed = bool(view.calls) and is_beside_signed_reasoning(views, index)
        for piece in _split_into_pieces(index, view, sizes[index], calls, count):
            if piece.may_be_cleared(wanted) and not (signed and piece.slot.kind in _MODEL_SLOTS):
                yield piece._replace(waited=waited)


def _iterate_texts(view: View) -> Iterator[tuple[Slot, str, Call | None]]:
    """Yield the texts of a message with their places, and with the call for arguments."""
    yield Slot("text"), view.text, None
    for answer in view.answers:
        yield Slot("answer", answer.call_id), answer.text, None
    for call in view.calls:
        yield Slot("call", call.id), call.arguments, call
    yield Slot("attached"), "\n".join(view.attached), None


def _split_into_pieces(
    index: int, view: View, size: int, calls: Mapping[str, Call], count: Callable[[str], int]
) -> Iterator[ClearablePiece]:
    """Yield what of one message may be cleared; its tokens are shared out by length, not counted again."""
    answered = tuple(calls[answer.call_id] for answer in view.answers if answer.call_id in calls)
    fixed = any(call.name in _FIXED_OUTPUTS for call in answered)
    words = min(size, count(view.whole_text())) if view.media else size
    length = sum(len(text) for _, text, _ in _iterate_texts(view)) or 1
    for slot, text, call in _iterate_texts(view):
        about = call or calls.get(slot.id)
        if slot.kind == "text":
            goes = view.origin == "tool" and not view.answers
        elif slot.kind == "answer":
            goes = not fixed
        elif call is not None:
            goes = call.name not in _FIXED_CALLS and not call.id.startswith(LEGACY_CALL_PREFIX)
        else:  # what a provider's own tools gave, not a person's documents
            goes = view.origin in {"model", "tool"}
        if text and goes:
            yield ClearablePiece(index, slot, text, (about,) if about else (), (), words * len(text) // length, 0)
    if view.origin == "tool" and view.media and not fixed:
        yield ClearablePiece(index, Slot("media"), "", answered, view.media, size - words, 0)


def _measure_stubs(
    views: Sequence[View], pieces: Sequence[ClearablePiece], count: Callable[[str], int]
) -> list[ClearablePiece]:
    """Return the pieces with the names that stand nowhere else and the exact cost of their stubs, newest first."""
    going = {(piece.message, piece.slot) for piece in pieces}
    other_words: set[str] = set()
    for index, view in enumerate(views):
        for slot, text, _ in _iterate_texts(view):
            other_words |= find_words(_unescape_line_breaks(slot, text)) if (index, slot) not in going else set()
    for piece in pieces:
        other_words |= find_words(_unescape_line_breaks(piece.slot, piece.build_stub(piece.text)))
    done: list[ClearablePiece] = []
    for piece in reversed(pieces):
        names = find_new_names(_unescape_line_breaks(piece.slot, piece.text), other_words)
        other_words.update(names)
        named = piece._replace(names=names)
        done.append(named._replace(cost=count(named.build_stub(named.text))))
    return done[::-1]


def _unescape_line_breaks(slot: Slot, text: str) -> str:
    """Return the text; of arguments with their line breaks unescaped, so that a word after one is read as itself."""
    return text.replace("\\n", "\n").replace("\\t", "\t") if slot.kind == "call" else text


def _count_later_model_calls(views: Sequence[View]) -> list[int]:
    """Return for each message how many model calls came after it: one for each unbroken run of assistant messages."""
    turns = 0
    after: list[int] = []
    for index in range(len(views) - 1, -1, -1):
        after.append(turns)
        turns += views[index].role == "assistant" and (index == 0 or views[index - 1].role != "assistant")
    return after[::-1]


def is_beside_signed_reasoning(views: Sequence[View], index: int) -> bool:
    """Return whether the unbroken run of assistant messages around this one carries signed reasoning."""
    start, stop = index, index + 1
    while start > 0 and views[start - 1].role == "assistant":
        start -= 1
    while stop < len(views) and views[stop].role == "assistant":
        stop += 1
    return any(block.signature for view in views[start:stop] for block in view.reasoning)


def _build_edit(pieces: Mapping[Slot, ClearablePiece], ref: str | None, record: str) -> Edit:
    def edit(slot: Slot, text: str) -> str:
        """Each text part of a result has its own stub; a part that is shorter than its stub stays."""
        piece = pieces.get(slot)
        if piece is None:
            return text
        if slot.kind == "media":
            return {item.source: build_media_stub(item, ref, record) for item in piece.media}.get(text, text)
        new = piece.build_stub(text, ref, record)
        return new if len(new) < len(text) else text

    return edit
