"""What a regular expression costs at worst, told from its parse tree: a static check, nothing is timed.

A pattern becomes an automaton whose states are the places that read one character (as Glushkov's), with what must stand
before and behind each. Then two questions, both about a matcher that tries everything and fails in the end:

- *exponential*: can one text lead from a place back to itself in two ways? `(a+)+`, `(?:a|ab?)*`, `(?:\\w+\\s*)+`
- *quadratic*: can one text stay in a first loop, lead from it to a second, and stay in that? `\\s*\\s*$`, `.*.*x`.
  Where a pattern is searched for, the search itself is the first loop: `\\s+$`, `[\\w.]+@`, `<a>.*?</a>`.

A loop that comes by a place where the pattern may end, or from which every text succeeds, is harmless: nothing before
it is tried again. A bounded repeat counts as a loop only where it is long. Possessive repeats, single characters looked
at before and behind, `\\b` and anchors are understood; longer assertions are taken as if they always held, which
refuses too much rather than too little.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import inf
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Literal, NamedTuple

Use = Literal["search", "match", "fullmatch"]
NESTED = 8
"""A repeat of fewer times is no loop in a nest of repeats."""
ADJACENT = 64
"""A repeat of fewer times is no loop beside another."""
SEARCHED = 1_001
"""A repeat of fewer times is no loop of a pattern that is searched for: each place costs so many steps at most."""
_SAMPLES = "aZzA09_ \t\n\r\x0b\x1c.-/#'\"`<>[](){}|\\@:;,!?=+*&%$~^éßÀ\u00a0\u2028\u200b日ア가😀\u0660\x00"
_MULTIPLE = 2
"""As many edges from one place to another are told apart."""


class Guard(NamedTuple):
    """What may stand before and behind a place, as bits over the symbols of one pattern."""

    before: int
    behind: int

    def and_(self, other: Guard) -> Guard | None:
        """Both; None when nothing meets both."""
        both = Guard(self.before & other.before, self.behind & other.behind)
        return both if both.before and both.behind else None


class Edge(NamedTuple):
    """A step to the next place that reads a character: allowed by its guard, in a repeat of at most so many times."""

    to: int
    guard: Guard
    times: float
    """0 when the step is in no repeat."""


@dataclass(slots=True)
class Part:
    """A piece of the pattern: where it begins and ends, and the ways through it that read nothing."""

    first: list[tuple[int, Guard]] = field(default_factory=list)
    last: list[tuple[int, Guard]] = field(default_factory=list)
    empty: list[Guard] = field(default_factory=list)


class Alphabet:
    """Characters that a pattern can't tell apart are one symbol; two more stand for the beginning and the end."""

    def __init__(self, tree: Any, flags: int, binary: bool) -> None:
        self.flags = flags
        self.leaves: dict[tuple[str, int], Callable[[str], bool]] = {}
        points = set(_SAMPLES)
        for op, argument, local in _leaves(tree, flags):
            points.update(_points(op, argument))
            self.leaves.setdefault((repr((op, argument)), local), _reader(op, argument, local, binary))
        points |= {other for point in points for other in (point.lower(), point.upper()) if len(other) == 1}
        if binary:
            points = {point for point in points if ord(point) < 256}
        readers = list(self.leaves.values())
        word = _reader(sre.CATEGORY, sre.CATEGORY_WORD, flags, binary)
        signs: dict[tuple[bool, ...], str] = {}
        for point in sorted(points):
            signs.setdefault((word(point), point == "\n", *(reads(point) for reads in readers)), point)
        self.shown = list(signs.values())
        self.count = len(signs)
        self.symbols = (1 << self.count) - 1
        self.edge = 1 << self.count  # the beginning, before; the end, behind
        self.all = self.symbols | self.edge
        self.any = Guard(self.all, self.all)
        self.word = self._bits(signs, 0)
        self.newline = self._bits(signs, 1)
        self.sets = {key: self._bits(signs, i + 2) for i, key in enumerate(self.leaves)}

    def of(self, op: Any, argument: Any, flags: int) -> int:
        """The symbols that this leaf of the tree reads."""
        return self.sets[repr((op, argument)), flags]

    @staticmethod
    def _bits(signs: Iterable[tuple[bool, ...]], place: int) -> int:
        return sum(1 << i for i, sign in enumerate(signs) if sign[place])


def _reader(op: Any, argument: Any, flags: int, binary: bool) -> Callable[[str], bool]:
    """Whether a character is read by this leaf: `re` itself is asked."""
    if op is sre.LITERAL or op is sre.NOT_LITERAL:
        text = re.escape(chr(argument))
        text = text if op is sre.LITERAL else f"[^{text}]"
    elif op is sre.ANY:
        text = "."
    else:
        items = argument if op is sre.IN else [(op, argument)]
        negated = bool(items) and items[0][0] is sre.NEGATE
        text = f"[{'^' if negated else ''}{''.join(_item(*item) for item in items if item[0] is not sre.NEGATE)}]"
    if binary:
        raw = re.compile(text.encode("latin-1"), flags & ~(re.VERBOSE | re.UNICODE))
        return lambda char: raw.fullmatch(char.encode("latin-1")) is not None
    plain = re.compile(text, flags & ~re.VERBOSE)
    return lambda char: plain.fullmatch(char) is not None


_CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_NOT_DIGIT: r"\D", sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S", sre.CATEGORY_WORD: r"\w", sre.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


def _item(op: Any, argument: Any) -> str:
    if op is sre.CATEGORY:
        return _CATEGORIES[argument]
    if op is sre.RANGE:
        return f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}"
    return re.escape(chr(argument))


def _points(op: Any, argument: Any) -> Iterator[str]:
    """Characters at the borders of what a leaf reads."""
    if op in (sre.LITERAL, sre.NOT_LITERAL):
        yield chr(argument)
    elif op is sre.RANGE:
        for code in (argument[0] - 1, *argument, argument[1] + 1):
            yield chr(min(max(code, 0), 0x10FFFF))
    elif op is sre.IN:
        for item in argument:
            yield from _points(*item)


def _leaves(tree: Any, flags: int) -> Iterator[tuple[Any, Any, int]]:
    """Everything that reads one character, with the flags it is under."""
    for op, argument in tree:
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            yield op, argument, flags
        elif op is sre.BRANCH:
            for branch in argument[1]:
                yield from _leaves(branch, flags)
        elif op is sre.SUBPATTERN:
            yield from _leaves(argument[3], (flags | argument[1]) & ~argument[2])
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            yield from _leaves(argument[2], flags)
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            yield from _leaves(argument[1], flags)
        elif op is sre.ATOMIC_GROUP:
            yield from _leaves(argument, flags)
        elif op is sre.GROUPREF_EXISTS:
            yield from _leaves(argument[1], flags)
            yield from _leaves(argument[2] or (), flags)


class Automaton:
    """The places of a pattern that read a character, and the steps between them."""

    def __init__(self, pattern: re.Pattern[Any], use: Use) -> None:
        flags = pattern.flags & ~re.DEBUG
        binary = isinstance(pattern.pattern, bytes)
        tree = _parser.parse(pattern.pattern, flags)
        self.alphabet = Alphabet(tree, flags, binary)
        self.reads: list[int] = []
        self.atomic: list[frozenset[int]] = []
        self.steps: dict[int, list[Edge]] = defaultdict(list)
        self.ends: dict[int, list[Guard]] = defaultdict(list)
        self.searched = use == "search"
        self._moves: dict[tuple[int, int], dict[int, list[int]]] = {}
        self._inside: frozenset[int] = frozenset()
        self._groups: dict[int, tuple[Any, int]] = {}
        self.start = self._place(self.alphabet.symbols)
        whole = self._sequence(tree, flags)
        if use == "fullmatch":
            whole = self._joined(whole, Part(empty=[Guard(self.alphabet.all, self.alphabet.edge)]))
        for to, guard in whole.first:
            self._add(self.start, Edge(to, guard, 0))
        if self.searched:
            self._add(self.start, Edge(self.start, self.alphabet.any, inf))
        for place, guard in whole.last:
            self.ends[place].append(guard)
        self.ends[self.start] += whole.empty

    def _place(self, reads: int) -> int:
        self.reads.append(reads)
        self.atomic.append(self._inside)
        return len(self.reads) - 1

    def _add(self, place: int, edge: Edge) -> None:
        guard = edge.guard.and_(Guard(self.reads[place] | self.alphabet.edge * (place == 0), self.reads[edge.to]))
        if guard is None:
            return
        edge = edge._replace(guard=guard)
        if self.steps[place].count(edge) < _MULTIPLE:
            self.steps[place].append(edge)

    def _link(self, lasts: Iterable[tuple[int, Guard]], firsts: Iterable[tuple[int, Guard]], times: float) -> None:
        for (place, after), (to, before) in product(list(lasts), list(firsts)):
            if guard := after.and_(before):
                self._add(place, Edge(to, guard, times))

    def _joined(self, one: Part, other: Part) -> Part:
        self._link(one.last, other.first, 0)
        first = [(to, both) for skip in one.empty for to, guard in other.first if (both := skip.and_(guard))]
        last = [(at, both) for skip in other.empty for at, guard in one.last if (both := skip.and_(guard))]
        empty = [both for a in one.empty for b in other.empty if (both := a.and_(b))]
        return Part(_few(one.first + first), _few(other.last + last), _few(empty))

    def _sequence(self, tree: Any, flags: int) -> Part:
        part = Part(empty=[self.alphabet.any])
        for op, argument in tree:
            part = self._joined(part, self._part(op, argument, flags))
        return part

    def _part(self, op: Any, argument: Any, flags: int) -> Part:  # noqa: C901, PLR0911 - a case each
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            place = self._place(self.alphabet.of(op, argument, flags))
            return Part([(place, self.alphabet.any)], [(place, self.alphabet.any)])
        if op is sre.SUBPATTERN:
            number, on, off, body = argument
            if number is not None:
                self._groups[number] = (body, (flags | on) & ~off)
            return self._sequence(body, (flags | on) & ~off)
        if op is sre.BRANCH:
            return _either(self._sequence(branch, flags) for branch in argument[1])
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            return self._repeat(argument, flags, possessive=op is sre.POSSESSIVE_REPEAT)
        if op is sre.ATOMIC_GROUP:
            if len(argument) == 1 and argument[0][0] is sre.MAX_REPEAT:
                return self._repeat(argument[0][1], flags, possessive=True)
            return self._atomic_part(lambda: self._sequence(argument, flags))
        if op is sre.AT:
            return Part(empty=self._at(argument, flags))
        if op in (sre.ASSERT, sre.ASSERT_NOT):
            return self._assertion(argument, flags, negated=op is sre.ASSERT_NOT)
        if op is sre.GROUPREF:
            return self._sequence(*self._groups[argument])
        if op is sre.GROUPREF_EXISTS:
            return _either([self._sequence(argument[1], flags), self._sequence(argument[2] or (), flags)])
        assert op is sre.FAILURE, f"{op} is not understood"
        return Part()

    def _atomic_part(self, build: Callable[[], Part]) -> Part:
        outside = self._inside
        self._inside = outside | {len(self.reads)}
        part = build()
        self._inside = outside
        return part

    def _repeat(self, argument: Any, flags: int, *, possessive: bool) -> Part:
        least, most, body = argument[0], inf if argument[1] is sre.MAXREPEAT else argument[1], argument[2]
        if possessive:
            return self._atomic_part(lambda: self._repeated(least, most, body, flags, possessive=True))
        return self._repeated(least, most, body, flags, possessive=False)

    def _repeated(self, least: int, most: float, body: Any, flags: int, *, possessive: bool) -> Part:
        """The body as often as it must be, as far as that is few, and then a loop."""
        whole = Part(empty=[self.alphabet.any])
        if most == 0:
            return whole
        exact = least == most
        for _ in range(min(least, 16) if exact else min(max(least - 1, 0), 3)):
            whole = self._joined(whole, self._sequence(body, flags))
        if exact:
            return whole
        loop = self._sequence(body, flags)
        if most > 1:
            self._link(loop.last, loop.first, most)
        if least == 0:
            loop.empty = [self.alphabet.any]
        alone = len(body) == 1 and body[0][0] in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)
        if possessive and alone:  # It ends only where the next character is not one of its own.
            others = Guard(self.alphabet.all, self.alphabet.all & ~self.reads[loop.first[0][0]])
            loop.empty = [others] if loop.empty else []
            if most == inf:
                loop.last = [(place, others) for place, _ in loop.last]
        return self._joined(whole, loop)

    def _at(self, where: Any, flags: int) -> list[Guard]:
        letters = self.alphabet
        if where in (sre.AT_BEGINNING_STRING, sre.AT_BEGINNING):
            lines = where is sre.AT_BEGINNING and flags & re.MULTILINE
            return [Guard(letters.edge | (letters.newline if lines else 0), letters.all)]
        if where in (sre.AT_END_STRING, sre.AT_END):
            return [Guard(letters.all, letters.edge | (letters.newline if where is sre.AT_END else 0))]
        other = letters.all & ~letters.word
        if where is sre.AT_BOUNDARY:
            return [Guard(letters.word, other), Guard(other, letters.word)]
        return [Guard(letters.word, letters.word), Guard(other, other)]

    def _assertion(self, argument: Any, flags: int, *, negated: bool) -> Part:
        """A guard where one character is looked at; what is longer holds always, and costs what it reads."""
        direction, body = argument
        alternatives = body[0][1][1] if len(body) == 1 and body[0][0] is sre.BRANCH else [body]
        single, longer = 0, False
        for alternative in alternatives:
            if len(alternative) == 1 and alternative[0][0] in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
                single |= self.alphabet.of(alternative[0][0], alternative[0][1], flags)
            elif len(alternative) == 1 and alternative[0] == (sre.AT, sre.AT_END_STRING) and direction > 0:
                single |= self.alphabet.edge
            else:
                longer = True
        allowed = self.alphabet.all & ~single if negated else (self.alphabet.all if longer else single)
        part = Part(empty=[Guard(allowed, self.alphabet.all) if direction < 0 else Guard(self.alphabet.all, allowed)])
        if longer and direction > 0:
            tried = self._atomic_part(lambda: self._sequence(body, flags))
            for place, _ in tried.last:
                self.ends[place].append(self.alphabet.any)
            if not negated and not tried.empty:
                begins = 0
                for place, guard in tried.first:
                    begins |= self.reads[place] & guard.behind
                part.empty = [Guard(self.alphabet.all, begins)]
            part.first = tried.first
        return part

    def moves(self, place: int, symbol: int) -> dict[int, list[int]]:
        """Where each symbol leads from a place where this one was read; a place that is led to twice, twice."""
        if (place, symbol) not in self._moves:
            found: dict[int, list[int]] = {}
            for edge in self.steps.get(place, ()):
                if edge.guard.before >> symbol & 1:
                    for behind in _bits(edge.guard.behind):
                        found.setdefault(behind, []).append(edge.to)
            self._moves[place, symbol] = found
        return self._moves[place, symbol]

    @cached_property
    def before(self) -> dict[int, frozenset[int]]:
        """For each place in a loop, the places that lead to it, and itself."""
        into: dict[int, set[int]] = defaultdict(set)
        for place, edges in self.steps.items():
            for edge in edges:
                into[edge.to].add(place)
        found = {}
        for place in self.loops(0):
            reached, work = {place}, [place]
            while work:
                work += (new := into[work.pop()] - reached)
                reached |= new
            found[place] = frozenset(reached)
        return found

    @cached_property
    def safe(self) -> frozenset[tuple[int, int]]:
        """(place, symbol just read) from which the rest of the pattern succeeds whatever follows."""
        symbols = range(self.alphabet.count)
        held = {(place, symbol) for place in range(len(self.reads)) for symbol in symbols}
        held = {(place, symbol) for place, symbol in held if self.reads[place] >> symbol & 1}
        while gone := {state for state in held if not self._succeeds(*state, held)}:
            held -= gone
        return frozenset(held)

    def may_end(self, place: int, symbol: int, behind: int) -> bool:
        """Whether the pattern may end at a place where this symbol was read and that one follows."""
        return any(g.before >> symbol & 1 and g.behind >> behind & 1 for g in self.ends.get(place, ()))

    def _succeeds(self, place: int, symbol: int, held: set[tuple[int, int]]) -> bool:
        done = 0
        for guard in self.ends.get(place, ()):
            if guard.before >> symbol & 1:
                done |= guard.behind
        if not done & self.alphabet.edge:
            return False
        edges = [edge for edge in self.steps.get(place, ()) if edge.guard.before >> symbol & 1]
        return all(
            done >> behind & 1 or any(edge.guard.behind >> behind & 1 and (edge.to, behind) in held for edge in edges)
            for behind in range(self.alphabet.count)
        )

    def loops(self, least: float) -> dict[int, frozenset[int]]:
        """The places in loops of at least so many times, with all the places of the same loop."""
        steps = {
            place: {edge.to for edge in edges if not edge.times or edge.times >= least}
            for place, edges in self.steps.items()
        }
        found: dict[int, frozenset[int]] = {}
        for component in _components(len(self.reads), steps):
            if len(component) > 1 or any(place in steps.get(place, ()) for place in component):
                found |= dict.fromkeys(component, frozenset(component))
        return found


def _few(items: list[Any]) -> list[Any]:
    """Each item as often as it is told apart."""
    kept: list[Any] = []
    seen: dict[Any, int] = defaultdict(int)
    for item in items:
        seen[item] += 1
        if seen[item] <= _MULTIPLE:
            kept.append(item)
    return kept


def _either(parts: Iterable[Part]) -> Part:
    whole = Part()
    for part in parts:
        whole.first += part.first
        whole.last += part.last
        whole.empty += part.empty
    return Part(whole.first, whole.last, _few(whole.empty))


def _components(count: int, steps: dict[int, set[int]]) -> Iterator[list[int]]:
    """The strongly connected places (Tarjan, without recursion)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on: set[int] = set()
    for root in range(count):
        if root in order:
            continue
        order[root] = low[root] = len(order)
        stack.append(root)
        on.add(root)
        work = [(root, iter(steps.get(root, ())))]
        while work:
            place, rest = work[-1]
            for to in rest:
                if to not in order:
                    order[to] = low[to] = len(order)
                    stack.append(to)
                    on.add(to)
                    work.append((to, iter(steps.get(to, ()))))
                    break
                if to in on:
                    low[place] = min(low[place], order[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[place])
                if low[place] == order[place]:
                    component: list[int] = []
                    while not component or component[-1] != place:
                        component.append(stack.pop())
                        on.discard(component[-1])
                    yield component


def cost(pattern: re.Pattern[Any], use: Use = "search") -> str:
    """Why the pattern may take more than linear time on some text; "" when it takes none."""
    automaton = Automaton(pattern, use)
    return _exponential(automaton) or _adjacent(automaton) or _searched(automaton)


def _exponential(automaton: Automaton) -> str:
    """The first place that one text leads back to in two ways."""
    loops = automaton.loops(NESTED)
    for place, loop in loops.items():
        if place == automaton.start:
            continue
        symbols = [symbol for symbol in _bits(automaton.reads[place]) if (place, symbol) not in automaton.safe]
        if _two_ways(automaton, place, loop, symbols):
            texts = (_two_ways(automaton, place, loop, [symbol]) for symbol in symbols)
            if text := next((text for text in texts if text), ""):
                return f"exponential: {text!r} goes round in two ways"
    return ""


def _two_ways(automaton: Automaton, place: int, loop: frozenset[int], symbols: Iterable[int]) -> str:
    """A text that leads from one of these symbols at a place back to the same in two ways; any of them will do."""
    begins = [(place, place, symbol, False) for symbol in symbols]
    wanted = {(place, place, symbol, True) for symbol in symbols}
    came: dict[Any, tuple[Any, int] | None] = dict.fromkeys(begins)
    work = list(begins)
    while work:
        state = work.pop()
        one, two, last, parted = state
        ones, twos = automaton.moves(one, last), automaton.moves(two, last)
        for behind in ones.keys() & twos.keys():
            if automaton.may_end(one, last, behind):
                continue
            for (i, a), (j, b) in product(enumerate(ones[behind]), enumerate(twos[behind])):
                if a not in loop or b not in loop or (a, behind) in automaton.safe:
                    continue
                new = (a, b, behind, parted or a != b or (one == two and i != j))
                if new not in came:
                    came[new] = (state, behind)
                    if new in wanted:
                        return _told(automaton, came, new)
                    work.append(new)
    return ""


def _bits(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _told(automaton: Automaton, came: dict[Any, tuple[Any, int] | None], state: Any) -> str:
    text: list[str] = []
    while (step := came[state]) is not None:
        state, symbol = step
        text.append(automaton.alphabet.shown[symbol])
    return "".join(reversed(text))


def _adjacent(automaton: Automaton) -> str:
    """Two loops of the pattern, one behind the other, that one text stays in and leads across."""
    loops = automaton.loops(ADJACENT)
    loops.pop(automaton.start, None)
    for one, other in product(loops, loops):
        if one == other or not automaton.reads[one] & automaton.reads[other]:
            continue
        if automaton.atomic[one] - automaton.atomic[other]:
            continue  # What is atomic is left once, and not entered again.
        if text := _crosses(automaton, one, other, loops[one], loops[other]):
            return f"quadratic: {text!r} stays in one repeat, in a later one, and leads from one to the other"
    return ""


def _searched(automaton: Automaton) -> str:
    """A loop of a pattern that is searched for, entered from many places of one text."""
    if not automaton.searched:
        return ""
    start = automaton.start
    for other, loop in automaton.loops(SEARCHED).items():
        if other != start and (text := _crosses(automaton, start, other, frozenset({start}), loop)):
            return f"quadratic when searched for: {text!r} is both what a repeat goes over and where it may begin"
    return ""


def _crosses(automaton: Automaton, one: int, other: int, stay: frozenset[int], loop: frozenset[int]) -> str:
    """A text that stays in one loop, stays in the other, and leads from the first to the second."""
    shared = automaton.reads[one] & automaton.reads[other]
    symbols = [symbol for symbol in _bits(shared) if (other, symbol) not in automaton.safe]
    if not _leads(automaton, one, other, stay, loop, symbols):
        return ""
    texts = (_leads(automaton, one, other, stay, loop, [symbol]) for symbol in symbols)
    return next((text for text in texts if text), "")


def _leads(  # noqa: PLR0917 - a question with six parts
    automaton: Automaton, one: int, other: int, stay: frozenset[int], loop: frozenset[int], symbols: list[int]
) -> str:
    came: dict[Any, tuple[Any, int] | None] = dict.fromkeys((one, one, other, symbol) for symbol in symbols)
    wanted = {(one, other, other, symbol) for symbol in symbols}
    work = list(came)
    reaching = automaton.before[other]
    while work:
        state = work.pop()
        first, middle, last, before = state
        stays, leads, loops = (automaton.moves(place, before) for place in (first, middle, last))
        for behind in stays.keys() & leads.keys() & loops.keys():
            if automaton.may_end(last, before, behind):
                continue
            for a, b, c in product(set(stays[behind]) & stay, set(leads[behind]) & reaching, set(loops[behind]) & loop):
                new = (a, b, c, behind)
                if new not in came and (c, behind) not in automaton.safe:
                    came[new] = (state, behind)
                    if new in wanted:
                        return _told(automaton, came, new)
                    work.append(new)
    return ""
