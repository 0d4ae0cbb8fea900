"""Clearing: old bulky tool results and arguments become one-line stubs, when the window needs it or when it pays.

Planning is pure: views, sizes and prices in, a `Clearing` out. Never a rolling mask: all that is clearable goes at
once, and the prefix stays byte-stable until the next time. `docs/clearing.md` has the rule and what it was measured on.

    fresh -> (keep_rounds later) clearable -> (when it pays, or the window needs it) stub
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from unabridged.compaction.stubs import media_stub, names_of, shorten_arguments, stub, words_of
from unabridged.errors import SettingsError
from unabridged.formats.base import Edit, Slot
from unabridged.marks import is_shortened, is_stub
from unabridged.measure.models import ModelInfo
from unabridged.messages import Call, Media, View
from unabridged.settings import Clear, Prices

_SOME = "0" * 12 + "/9999"
"""Stands for the id of a record and a turn until they are known: as long as most."""
STUB_TOKENS = 60
"""What a stub is taken to cost until it is made: only the stubs of what goes are made and counted."""

LEAST_SHARE = 0.20
"""A clearing that frees less of the conversation than this is not worth a record, whatever it pays."""

# Provider-defined tools whose calls or outputs have a structure of their own: there is no text to put a stub into.
_FIXED_CALLS = frozenset({"local_shell_call", "shell_call", "computer_call", "apply_patch_call"})
_FIXED_OUTPUTS = frozenset({"computer_call"})

_BESIDE = frozenset({"call", "attached"})
"""What stands in the model's own turn, and is never touched there beside reasoning that is signed."""


def prices_for(wanted: Clear | None, info: ModelInfo | None) -> Prices | None:
    """What the agent's provider charges, as told or as known; None where nothing is to be cleared for its price."""
    if wanted is None or not wanted.payback:
        return None
    if wanted.prices is not None or info is None or not info.input:
        return wanted.prices
    return Prices(info.read_share, info.write_share, 1.0, info.output / info.input, info.cache_seconds or 300.0)


@dataclass(frozen=True, slots=True)
class Clearing:
    """These pieces become stubs; everything else stays, untouched and in order."""

    slots: tuple[tuple[int, Slot], ...]
    """(index of the message, piece of it), in order."""
    names: tuple[tuple[str, ...], ...]
    """For each of them, the names that would stand nowhere else any more: its stub keeps them."""
    freed: int
    """Tokens that go, the stubs (without references) already taken off."""
    rewritten: int
    """Tokens from the first change on, which a provider's cache has to take in again."""
    why: Literal["window", "payback"]


def expected_turns(so_far: int, *, expected: float | None = None, limit: int | None = None) -> float:
    """How many more model calls the run will make: as many as it has made, unless the caller knows better.

    `expected` is the caller's own number of calls still to come; `limit` is the host's cap on all calls of the run.
    """
    turns = float(so_far) if expected is None else expected
    return max(0.0, turns if limit is None else min(turns, limit - so_far))


def plan_clearing(
    views: Sequence[View],
    sizes: Sequence[int],
    *,
    prices: Prices | None,
    remaining_turns: float,
    count: Callable[[str], int],
    keep_rounds: int = 3,
    minimum: int = 50,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    protect: Callable[[int], bool] | None = None,
    patience: float = 0.5,
    over: int = 0,
    idle: float = 0.0,
    rough: bool = False,
) -> Clearing | None:
    """What to clear now, or None when it is better to leave everything as it is.

    `over` is by how many tokens the request is too large: above 0, all that is clearable goes, if that is enough.
    Otherwise, and only with `prices`, it goes when it pays: when rewriting costs less than carrying the bulk for the
    `remaining_turns` would, and when carrying it has already cost `patience` times as much. `idle` is the number of
    seconds since the last model call. `rough` makes no stubs: a quick look at whether there may be something to clear.
    """
    if keep_rounds < 1 or minimum < 1:
        raise SettingsError(f"keep_rounds is {keep_rounds} and minimum is {minimum}: both must be 1 or more")
    if prices is None and over <= 0:
        return None
    wanted = _Wanted(_first_kept(views, keep_rounds), minimum, include, exclude, protect)
    pieces = list(_pieces(views, sizes, wanted, keep_rounds, count))
    rule = _Rule(sizes, prices, remaining_turns, patience, over, idle)
    if rule.start(pieces) is None:
        return None
    if not rough:  # it looks worth it: now make the stubs, to know exactly
        pieces = [piece for piece in _with_stubs(views, pieces, count) if piece.freed >= minimum]
    start = rule.start(pieces)
    if start is None:
        return None
    gone = [piece for piece in pieces if piece.message >= start]
    freed = sum(piece.freed for piece in gone)
    return Clearing(
        slots=tuple((piece.message, piece.slot) for piece in gone),
        names=tuple(piece.names for piece in gone),
        freed=freed,
        rewritten=sum(sizes[start:]) - freed,
        why="window" if over > 0 else "payback",
    )


def may_be_bulky(sizes: Sequence[int], minimum: int) -> bool:
    """Whether clearing could free enough of messages of these sizes, if all that is bulky in them could go."""
    least = minimum + STUB_TOKENS
    return sum(size for size in sizes if size >= least) >= LEAST_SHARE * sum(sizes)


def plan_by_settings(
    wanted: Clear | None, views: Sequence[View], sizes: Sequence[int], *, prices: Prices | None, **terms: Any
) -> Clearing | None:
    """What to clear now as the settings want it, which may be nothing at all; `terms` are those of `plan_clearing`."""
    if wanted is None:
        return None
    return plan_clearing(
        views,
        sizes,
        prices=prices if wanted.payback else None,
        remaining_turns=expected_turns(
            sum(view.role == "assistant" for view in views), expected=wanted.remaining_turns
        ),
        keep_rounds=wanted.keep_rounds,
        minimum=wanted.minimum,
        include=wanted.include,
        exclude=wanted.exclude,
        **terms,
    )


def edits(
    views: Sequence[View],
    clearing: Clearing,
    ref: Callable[[int], str | None] = lambda _: None,
    record: Callable[[int], str] = lambda _: "",
) -> dict[int, Edit]:
    """For each message that changes, the edit that puts the stubs in.

    `record` says what they name: the record, and which of its messages; `ref` the reference to their original.
    """
    slots: dict[int, dict[Slot, tuple[str, ...]]] = {}
    for (index, slot), names in zip(clearing.slots, clearing.names, strict=True):
        slots.setdefault(index, {})[slot] = names
    calls: dict[str, Call] = {}
    found: dict[int, Edit] = {}
    for index, view in enumerate(views):
        calls.update((call.id, call) for call in view.calls)
        if index in slots:
            answered = {answer.call_id: calls.get(answer.call_id) for answer in view.answers}
            found[index] = _edit(view, slots[index], answered, ref(index), record(index))
    return found


class _Piece(NamedTuple):
    """A piece of a message that may become a stub."""

    message: int
    slot: Slot
    text: str
    calls: tuple[Call, ...]
    """The call it answers or is; for media, every call answered beside it."""
    media: tuple[Media, ...]
    tokens: int
    freed: int
    waited: int
    """How many model calls have read it since it became clearable."""
    names: tuple[str, ...] = ()

    def stub(self) -> str:
        if self.slot.kind == "media":
            return "\n".join(media_stub(item, record=_SOME) for item in self.media)
        if self.slot.kind == "call":
            return shorten_arguments(self.text, names=self.names, record=_SOME)
        return stub(self.calls[0] if self.calls else None, self.text, names=self.names, record=_SOME)


class _Wanted(NamedTuple):
    """Which pieces the caller lets us clear."""

    stop: int
    minimum: int
    include: Collection[str] | None
    exclude: Collection[str]
    protect: Callable[[int], bool] | None

    def message(self, index: int, view: View, size: int) -> bool:
        bulky = size - STUB_TOKENS >= self.minimum and not view.opaque
        return bulky and not (self.protect is not None and self.protect(index))

    def piece(self, piece: _Piece) -> bool:
        tools = [call.name for call in piece.calls] or [""]
        allowed = all(tool not in self.exclude and (self.include is None or tool in self.include) for tool in tools)
        done = is_shortened(piece.text) if piece.slot.kind == "call" else is_stub(piece.text)
        return allowed and piece.freed >= self.minimum and not done


class _Rule(NamedTuple):
    """When clearing is worth it, and from which message on."""

    sizes: Sequence[int]
    prices: Prices | None
    remaining_turns: float
    patience: float
    over: int
    idle: float

    def start(self, pieces: Sequence[_Piece]) -> int | None:
        """The first message to change, such that everything clearable from there on goes; None: leave all as it is."""
        whole = sum(self.sizes)
        if self.over > 0 or self.prices is None:
            freed = sum(piece.freed for piece in pieces)
            return pieces[0].message if freed >= max(self.over, LEAST_SHARE * whole, 1) else None
        ahead = [0, *accumulate(self.sizes)]
        rewriting, carrying = self.prices.rewriting(self.idle), self.prices.read
        best: tuple[float, int] | None = None
        freed = waste = 0
        for place in range(len(pieces) - 1, -1, -1):
            piece = pieces[place]
            freed += piece.freed
            waste += piece.freed * piece.waited
            if place and pieces[place - 1].message == piece.message:
                continue  # one message changes as a whole
            price = (whole - ahead[piece.message] - freed) * rewriting
            gain = freed * carrying * self.remaining_turns
            # At break-even the next break-even is a few turns away, and the prefix would be rewritten over and over for
            # nothing. So the rewrite also waits until waiting has cost a good part of it.
            due = self.patience * price <= waste * carrying
            pays = price < gain and due and freed >= LEAST_SHARE * whole
            if pays and (best is None or gain - price >= best[0]):
                best = (gain - price, piece.message)
        return None if best is None else best[1]


def _first_kept(views: Sequence[View], rounds: int) -> int:
    """The index from which on the last so many rounds stand; what the model has not read yet is always among them."""
    index = len(views)
    while index > 0 and rounds > 0:
        end = index
        while index > 0 and views[index - 1].role != "assistant":
            index -= 1
        answered = any(view.answers or view.origin == "tool" for view in views[index:end])
        while index > 0 and views[index - 1].role == "assistant":
            index -= 1
            answered = answered or views[index].calls_tools
        rounds -= answered
    return index


def _pieces(
    views: Sequence[View], sizes: Sequence[int], wanted: _Wanted, keep_rounds: int, count: Callable[[str], int]
) -> Iterator[_Piece]:
    """Every piece that may become a stub, in order, with the tokens that would free, stubs at their allowance."""
    later = _turns_after(views)
    calls: dict[str, Call] = {}  # ids may be reused: the newest call with an id is the one an answer means
    for index in range(wanted.stop):
        view = views[index]
        calls.update((call.id, call) for call in view.calls)
        if wanted.message(index, view, sizes[index]):
            waited = max(0, later[index] - keep_rounds)
            found = _pieces_of(view, _Place(index, sizes[index], waited), calls, count)
            signed = bool(view.calls) and beside_signed(views, index)
            yield from (piece for piece in found if wanted.piece(piece) and not (signed and piece.slot.kind in _BESIDE))


class _Place(NamedTuple):
    message: int
    size: int
    waited: int

    def piece(self, slot: Slot, text: str, tokens: int, calls: Iterable[Call], media: tuple[Media, ...] = ()) -> _Piece:
        return _Piece(self.message, slot, text, tuple(calls), media, tokens, tokens - STUB_TOKENS, self.waited)


def _pieces_of(view: View, place: _Place, calls: Mapping[str, Call], count: Callable[[str], int]) -> Iterator[_Piece]:
    """What one message could be cleared of. Its tokens are shared out by length: nothing long is tokenised again."""
    answered = [calls[answer.call_id] for answer in view.answers if answer.call_id in calls]
    fixed = any(call.name in _FIXED_OUTPUTS for call in answered)
    words = min(place.size, count(view.whole_text())) if view.media else place.size
    length = len(view.text) + sum(len(call.arguments) for call in view.calls)
    length += sum(map(len, (*(answer.text for answer in view.answers), *view.attached)))
    for answer in () if fixed else view.answers:
        tokens = words * len(answer.text) // (length or 1)
        yield place.piece(
            Slot("answer", answer.call_id),
            answer.text,
            tokens,
            [calls[answer.call_id]] if answer.call_id in calls else [],
        )
    for call in view.calls:
        if call.name not in _FIXED_CALLS and not call.id.startswith("function:"):  # nor those of the oldest chat format
            yield place.piece(
                Slot("call", call.id), call.arguments, words * len(call.arguments) // (length or 1), [call]
            )
    if view.origin == "tool" and not view.answers:
        yield place.piece(Slot("text"), view.text, words, [])
    if view.attached and view.origin in {"model", "tool"}:  # what a provider's own tools gave, not a person's documents
        attached = "\n".join(view.attached)
        yield place.piece(Slot("attached"), attached, words * len(attached) // (length or 1), [])
    if view.origin == "tool" and view.media and not fixed:
        yield place.piece(Slot("media"), "", place.size - words, answered, view.media)


def _with_stubs(views: Sequence[View], pieces: Sequence[_Piece], count: Callable[[str], int]) -> list[_Piece]:
    """The pieces with the names only they hold, newest first served, and with what clearing them frees exactly."""
    going = {(piece.message, piece.slot) for piece in pieces}
    known: set[str] = set()
    for index, view in enumerate(views):
        known |= words_of(view.text) if (index, Slot("text")) not in going else set()
        for text in view.attached:
            known |= words_of(text) if (index, Slot("attached")) not in going else set()
        for answer in view.answers:
            known |= words_of(answer.text) if (index, Slot("answer", answer.call_id)) not in going else set()
        for call in view.calls:
            known |= words_of(_unescaped(call.arguments)) if (index, Slot("call", call.id)) not in going else set()
    for piece in pieces:
        known |= words_of(_unescaped(piece.stub()))
    done: list[_Piece] = []
    for piece in reversed(pieces):
        names = names_of(_unescaped(piece.text) if piece.slot.kind == "call" else piece.text, known)
        known.update(names)
        named = piece._replace(names=names)
        done.append(named._replace(freed=piece.tokens - count(named.stub())))
    return done[::-1]


def _unescaped(arguments: str) -> str:
    """JSON text with its line breaks undone, so that a word after one is read as itself."""
    return arguments.replace("\\n", "\n").replace("\\t", "\t")


def _turns_after(views: Sequence[View]) -> list[int]:
    """For each message, how many model calls came after it: one for each unbroken run of assistant messages."""
    turns = 0
    after: list[int] = []
    for index in range(len(views) - 1, -1, -1):
        after.append(turns)
        turns += views[index].role == "assistant" and (index == 0 or views[index - 1].role != "assistant")
    return after[::-1]


def beside_signed(views: Sequence[View], index: int) -> bool:
    """Whether the unbroken run of assistant messages around this one carries reasoning that a provider checks."""
    start, stop = index, index + 1
    while start > 0 and views[start - 1].role == "assistant":
        start -= 1
    while stop < len(views) and views[stop].role == "assistant":
        stop += 1
    return any(block.signature for view in views[start:stop] for block in view.reasoning)


def _edit(
    view: View, slots: Mapping[Slot, tuple[str, ...]], calls: Mapping[str, Call | None], ref: str | None, record: str
) -> Edit:
    media = {item.source: item for item in view.media}

    def edit(slot: Slot, text: str) -> str:
        """Each text part of a result has its own stub; a part that is shorter than its stub stays."""
        if slot not in slots:
            return text
        if slot.kind == "media":
            return media_stub(media[text], ref, record) if text in media else text
        if slot.kind == "call":
            new = shorten_arguments(text, ref, slots[slot], record)
        else:
            new = stub(calls.get(slot.id), text, ref, slots[slot], record)
        return new if len(new) < len(text) else text

    return edit
