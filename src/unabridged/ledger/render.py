"""The ledger as text, within a budget of tokens: sections in a fixed order, each filled by rank.

Each section has a share of the budget; what one leaves over goes to the others. Whose words a line is, is said by the
section it stands in: people's words verbatim, everything else on one line between quotation marks or as a list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from unabridged.intent import RULE_LIMIT, Request, Rule, concerns
from unabridged.languages import labels
from unabridged.ledger.entries import Action, Ledger, Note
from unabridged.ledger.page import Line, Page, Section
from unabridged.ledger.ranking import by_rank, decisions_within
from unabridged.ledger.sayings import is_talk
from unabridged.ledger.shelf import Shelf
from unabridged.ledger.telling import DETAILED, Teller
from unabridged.texts import Count, fenced, head_and_tail, one_line, quote

Refer = Callable[[int], str]

# Shares of the whole budget, in the order in which they are served: what a reader must have, then what the next steps
# will name. Pairs are for a small and for a large budget. Tuned together on recorded coding sessions; small changes
# hardly matter.
_OPEN_SAID_HERE = 0.6
"""What open requests take first where their words stand nowhere else; after the rules they get all that is left."""
_OPEN, _RULES, _STATE, _NOTES, _FAULTS = 0.45, 0.35, 0.07, 0.06, 0.04
_DECIDED, _FINISHED = (0.13, 0.15), (0.05, 0.08)
_FILES, _NAMES = (0.26, 0.18), (0.44, 0.50)
# Where there are no files, ids tell little without what was done with them.
_DONE, _DONE_WITHOUT_FILES = (0.14, 0.10), 0.40
_SMALL, _LARGE = 1_000, 3_000
# What is left is served in small helpings, so that no section starves the others: (share of each, rank of a file or a
# name that may still be listed). What was hardly met comes last.
_HELPINGS = ((0.04, 0.05), (0.04, 0.04), (0.06, 0.02), (0.1, 0.01), (0.1, 0.005), (0.2, 0.001), (1.0, 0.0))
SAYINGS = "What was said (what tells most of it, word for word; none of it is open)"
_POINTERS = 48
"""Tokens put by for where the rest stands."""
_REPLY = 200
"""Characters below which an answer to the assistant hardly asks for something by itself."""
_BEGINNING = 120
"""Characters up to which a finished request is told by its beginning alone."""
_MANY = 10_000
"""More than a ledger has actions: keeps those of one message in order."""
_FORGOTTEN = 200
"""Messages after which a failure that nobody came back to no longer counts as unresolved."""


class Rendered(NamedTuple):
    """The text, and what of the ledger it does not hold."""

    text: str
    left_out: tuple[str, ...]


def render(
    ledger: Ledger,
    budget: int,
    count: Count,
    *,
    refer: Refer | None = None,
    kept: Collection[int] = (),
    story: bool = True,
    spoken: Collection[int] = (),
    without: Collection[str] = (),
) -> Rendered:
    """The ledger within `budget` tokens as `count` counts them; never more, however small the budget.

    `kept` names the turns whose own message stays in the context: those are pointed at, not repeated. `refer` makes the
    mark by which the agent can fetch a message; without it, a message is named by its number. Without `story`, what was
    done and said is left to the prose. `spoken` names the turns whose words the summary turn gives in full elsewhere,
    `without` the sections (`settings.SECTIONS`) that are not wanted.
    """
    page = Page(budget, count)
    page.put_by(spare := min(budget // 20, _POINTERS))
    lines = _Lines(ledger, refer or str, frozenset(kept), budget, frozenset(spoken))
    decided = [] if "notes" in without else lines.decided(int(budget * between(_DECIDED, budget)), count)
    words = lines.words
    opened = page.section(words["open"], lines.open_requests())
    wanted = partial(_wanted, without)
    finished = page.section(words["finished"], wanted("finished", lines.finished()))
    rules = page.section(words["rules"], lines.rules())
    passing = page.section(words["passing"], wanted("passing", lines.passing(), also=not lines.talk))
    done = page.section(words["done"], wanted("done", lines.done(), also=story))
    faults = page.section(words["faults"], iter(()))
    notes = page.section(words["notes"], wanted("notes", lines.notes(decided), also=story and not lines.talk))
    said = page.section(words.get("sayings", SAYINGS), wanted("sayings", lines.sayings(), also=lines.talk))
    state = page.section(words["state"], wanted("state", lines.state(), also=story))
    shelf = Shelf(ledger, words, page, without)
    for text in lines.elsewhere():
        page.know(text)
    said_here = any(request.turn not in lines.kept for request in ledger.open)
    page.fill(opened, _OPEN_SAID_HERE if said_here else _OPEN, whole=said_here)
    page.fill(rules, _RULES)
    if said_here:
        page.fill(opened, 1.0)
    _serve(page, notes, [*map(lines.note, decided)])
    if lines.talk:  # Where nothing is done, what was said is the story.
        page.fill(said, 1.0)
    deeds = between(_DONE, budget) if len(ledger.files) > 2 else _DONE_WITHOUT_FILES
    for section, share in ((state, _STATE), (finished, between(_FINISHED, budget)), (done, deeds), (notes, _NOTES)):
        page.fill(section, share)
    if story and "failures" not in without:
        faults.extend(lines.faults(done))
        page.fill(faults, _FAULTS)
    shelf.files(between(_FILES, budget), _HELPINGS[0][1])
    shelf.names(between(_NAMES, budget), _HELPINGS[0][1])
    for place, (share, least) in enumerate(_HELPINGS):
        if place == 3:  # after the others had theirs
            rules.extend(lines.lesser_rules())
            page.fill(passing, share)
        for section in (rules, notes, done, finished, faults):
            page.fill(section, share, last=share == 1.0)
        shelf.files(share, least)
        shelf.names(share, least)
    page.put_by(-spare)
    page.drop(faults, lines.told_twice(done, faults))
    rest = [(finished, lines.earlier_requests(finished.left()))] * ("finished" not in without)
    for section, line in (*rest, (done, lines.earlier_actions(done))):
        page.add(section, line, page.left if line.text else 0)
    shelf.names(1.0)
    parts: list[tuple[str, Section]] = [
        ("open requests", opened), ("finished requests", finished), ("standing rules", rules),
        ("actions", done), ("failures", faults), ("notes", notes), ("sayings", said),
    ]  # fmt: skip
    text = page.text()
    lost = [f"{number} {name}" for name, section in parts if (number := len(section.left()))]
    return Rendered(text, (*lost, *shelf.left_out()))


def _wanted(without: Collection[str], name: str, candidates: Iterator[Line], *, also: bool = True) -> Iterator[Line]:
    """The candidates of a section; none when it is left out."""
    return candidates if also and name not in without else iter(())


def _without_block(line: str) -> Callable[[int], str]:
    """A rule alone, where there is no room for the block that it points at."""
    alone = line.partition("\n")[0] + " …"
    return lambda _: alone


def _serve(page: Page, section: Section, lines: Sequence[Line]) -> None:
    """Give these lines, which stand first in the section, the room that they were chosen for."""
    if lines:
        page.fill(section, sum(page.count(line.text + "\n") for line in lines) / page.budget)


def between(shares: tuple[float, float], budget: int) -> float:
    """The share for this budget: the first up to a small one, the second from a large one on, and between them."""
    way = min(max((budget - _SMALL) / (_LARGE - _SMALL), 0.0), 1.0)
    return shares[0] + (shares[1] - shares[0]) * way


def _asks_little(request: Request) -> tuple[bool, int]:
    """Ranks a short reply behind what was asked, and newer before older."""
    return bool(request.context) and len(request.text) < _REPLY, -request.turn


class _Lines:
    """The candidates of each section, most important first."""

    def __init__(
        self, ledger: Ledger, refer: Refer, kept: Collection[int], budget: int, spoken: Collection[int] = ()
    ) -> None:
        self.ledger, self.refer, self.kept, self.spoken = ledger, refer, kept, spoken
        self.words = labels(ledger.language)
        self.teller = Teller(ledger, self.words, refer)
        self.runs: dict[float, Sequence[Action]] = {}
        """The actions of each line by its order, which a line keeps when it is shortened."""
        # A person's earlier message is given in full where there is room, and by its beginning where there is not.
        self.width = min(max(budget // 14, 60), 1_500)
        self.told = min(max(budget // 14, 70), 200)
        self.talk = is_talk(ledger.actions, len(ledger.requests))

    def elsewhere(self) -> list[str]:
        """People's messages that stand in the context anyway."""
        return [request.text for request in self.ledger.requests if request.turn in {*self.kept, *self.spoken}]

    def open_requests(self) -> Iterator[Line]:
        """Those whose words stand nowhere else, then those that are only pointed at; of each the newest first.

        Should not all fit, the last word counts most.
        """
        for request in sorted(self.ledger.open, key=lambda request: (request.turn in self.kept, -request.turn)):
            whole = request.turn in self.kept
            label = self.words["kept" if whole else "waiting" if request.state == "waiting" else "asked"]
            head = plain = f"- {label.format(turn=self.refer(request.turn))}"
            if request.context:
                head += f", {self.words['reply']} {quote(request.context)}"
            if whole:
                yield Line(request.turn, head, shorter=lambda _, plain=plain: plain)  # type: ignore[misc]
                continue

            def shown(text: str, head: str = head) -> str:
                return f"{head}:\n{fenced(text)}"

            yield Line(
                request.turn,
                shown(request.text),
                shorter=lambda chars, request=request, head=head, shown=shown: shown(  # type: ignore[misc]
                    head_and_tail(request.text, max(chars - len(head) - 12, 20))
                ),
            )

    def finished(self) -> Iterator[Line]:
        """Newest first, replies after what was asked; a nod is not worth a line, nor what stands among the rules."""
        rules = {rule.text for rule in self.ledger.rules}
        # In mere talk nothing was asked for that could be done again.
        told = {*self.spoken, *(saying.turn for saying in self.ledger.sayings if self.talk)}
        for request in sorted(self.ledger.finished, key=_asks_little):
            if request.turn in told:
                continue
            nod = request.kind in {"ack", "resume", "hold"} and len(request.text) < 60 and not request.context
            if nod or request.text.strip() in rules:
                continue
            yield Line(
                request.turn,
                self._finished(request, self.width),
                shorter=lambda chars, request=request: self._finished(request, max(chars - 30, 40)),  # type: ignore[misc]
            )

    def earlier_requests(self, left: Sequence[Line]) -> Line:
        """Where the finished requests stand that found no place: what is not told can still be fetched."""
        lost = dict(self.ledger.dropped).get("requests", 0)
        turns = sorted(int(line.order) for line in left)
        if self.talk or not (turns or lost):
            return Line(0.0, "")
        first, last = self.ledger.first if lost else turns[0], turns[-1] if turns else self.ledger.first
        span = f"[{self.refer(first)}-{self.refer(last)}]" if first != last else f"[{self.refer(first)}]"
        return Line(first - 0.5, f"- {span} {self.words['more'].format(count=len(turns) + lost)}")

    def earlier_actions(self, done: Section) -> Line:
        """What was done besides what is told, by its numbers."""
        left = [action for line in done.left() for action in self.runs[line.order]]
        return Line(-0.5, self.teller.earlier(left) if done.lines else "")

    def _finished(self, request: Request, width: int) -> str:
        told = head_and_tail(request.text, width) if width > _BEGINNING else one_line(request.text, width)
        line = f"- [{self.refer(request.turn)}] {quote(told)}"
        if request.state == "withdrawn":
            return f"{line} ({self.words['withdrawn']})"
        if not request.answer or width <= 150:
            return line
        return f"{line} → {quote(request.answer, width // 2)}"

    def rules(self) -> Iterator[Line]:
        """The strongest first, newer before older. Rules of a message that stays stand there already."""
        asked = {request.turn for request in self.ledger.open}
        return self._rules(lambda rule: rule.lifted < 0 and rule.strength > (2 if rule.turn in asked else 1))

    def lesser_rules(self) -> Iterator[Line]:
        """What seems to lift something, and what was lifted."""
        standing = [rule for rule in self.ledger.rules if rule.lifted < 0]
        for sentence in reversed(self.ledger.lifts):
            if not sentence.used and sentence.turn not in self.kept and concerns(sentence, standing):
                yield Line(sentence.turn, f"- [{self.refer(sentence.turn)}] {sentence.text}")
        yield from self._rules(lambda rule: rule.lifted >= 0)

    def passing(self) -> Iterator[Line]:
        """What sounds like a rule, but may have been meant only for the moment.

        A weak one whose request tools worked on, and that is finished, was part of the task; in mere talk weak ones
        are talk.
        """
        over = {request.turn for request in self.ledger.finished if request.worked} | set(self.spoken)
        begun = {request.turn: request.text[: self.width] for request in self.ledger.finished}
        return self._rules(
            lambda rule: (
                rule.lifted < 0
                and rule.strength == 1
                and rule.turn not in over
                and rule.text not in begun.get(rule.turn, "")
            )
        )

    def _rules(self, wanted: Callable[[Rule], bool]) -> Iterator[Line]:
        rules = [rule for rule in self.ledger.rules if wanted(rule) and rule.turn not in self.kept]
        # One with a long block must not take the room of several short ones.
        for rule in sorted(rules, key=lambda rule: (-rule.strength, len(rule.text) > RULE_LIMIT, -rule.turn)):
            note = f" ({self.words['lifted'].format(turn=self.refer(rule.lifted))})" if rule.lifted >= 0 else ""
            line = f"- [{self.refer(rule.turn)}] {rule.text}{note}"
            yield Line(rule.turn, line, shorter=_without_block(line) if "\n" in line else None)

    def done(self) -> Iterator[Line]:
        """The newest actions one by one, the older ones in runs of the same deed."""
        newest = self.ledger.actions[-DETAILED:]
        for place, run in reversed([*enumerate(self.teller.runs())]):
            alone = run[0] if len(run) == 1 and run[0] in newest else None
            order = run[0].turn + place / _MANY
            line = Line(order, self.teller.run(run))
            if alone is not None:
                line = Line(
                    order,
                    self.teller.action(alone, self.told, gist=True),
                    shorter=lambda chars, action=alone: self.teller.action(action, max(chars // 2 - 20, 40)),  # type: ignore[misc]
                )
            self.runs[order] = run
            yield line

    def faults(self, done: Section) -> Iterator[Line]:
        """Newest first; what is told as done is not repeated, and what nobody came back to is left."""
        for action in reversed(self.ledger.faults):
            if action not in self._told(done) and self.ledger.end - action.turn < _FORGOTTEN:
                yield Line(action.turn, self.teller.action(action, 160))

    def told_twice(self, done: Section, faults: Section) -> list[Line]:
        """The failures that have since been told among what was done."""
        told = {action.turn for action in self._told(done) if action.failed}
        return [line for line in faults.lines if line.order in told]

    def _told(self, done: Section) -> list[Action]:
        return [action for line in done.lines for action in self.runs.get(line.order, ())]

    def decided(self, room: int, count: Count) -> list[Note]:
        """What was decided, as much as there is room for it."""
        return decisions_within(self.ledger, room, lambda note: count(self.note(note).text))

    def notes(self, first: Sequence[Note]) -> Iterator[Line]:
        """These first; then the most telling, newer before older, some of them old."""
        return map(self.note, dict.fromkeys([*first, *by_rank(self.ledger)]))

    def note(self, note: Note) -> Line:
        """A note as it is shown."""
        head = f"- [{self.refer(note.turn)}] "
        return Line(
            note.turn,
            head + quote(note.text),
            shorter=lambda chars: head + quote(note.text, max(chars - len(head), 20)),
        )

    def sayings(self) -> Iterator[Line]:
        """What tells most first; what stands among the rules, or in the context, is not repeated."""
        known = {rule.text for rule in self.ledger.rules if rule.strength > 1}  # in mere talk no weaker one is shown
        waiting = {*self.kept, *(request.turn for request in self.ledger.open)}
        for saying in sorted(self.ledger.sayings, key=lambda saying: (-saying.weight, -saying.turn)):
            if saying.turn not in waiting and saying.text not in known:
                known.add(saying.text)
                whose = "user" if saying.by_person else "assistant"
                yield Line(
                    saying.turn, f"- [{self.refer(saying.turn)}] {self.words.get(whose, whose)} {quote(saying.text)}"
                )

    def state(self) -> Iterator[Line]:
        """The assistant's last words: where a reader picks up the thread."""
        said = self.ledger.said
        if said:
            head = f"- {self.words['said']} [{self.refer(self.ledger.said_turn)}]: "
            yield Line(
                0.0,
                head + quote(said),
                shorter=lambda chars: head + quote(head_and_tail(one_line(said), max(chars - len(head), 20))),
            )
