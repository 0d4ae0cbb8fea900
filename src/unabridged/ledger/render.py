"""The ledger as text, within a budget of tokens: sections in a fixed order, each filled by rank.

Each section has a share of the budget; what one leaves over goes to the others. Whose words a line is, is said by the
section it stands in: people's words verbatim, everything else on one line between quotation marks or as a list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from unabridged.ledger.entries import Action, Ledger, Request, Rule, by_rank
from unabridged.ledger.languages import labels
from unabridged.ledger.page import Count, Line, Page, Section
from unabridged.ledger.phrasing import escaped, fenced, head_and_tail, neutral, one_line, quote
from unabridged.ledger.sayings import is_talk
from unabridged.ledger.shelf import TIMES, Shelf, common_root

Refer = Callable[[int], str]

# Shares of the whole budget, in the order in which they are served: what a reader must have, then what the next steps
# will name. Tuned together on recorded coding sessions; small changes hardly matter.
_OPEN, _RULES, _STATE, _FINISHED, _NOTES, _FAULTS = 0.45, 0.35, 0.08, 0.06, 0.06, 0.04
# Names and files need tokens rather than shares: the more there are, the smaller the share that will do.
_FILES, _NAMES = (0.20, 0.15), (0.38, 0.46)
# In a small budget a reader needs the story more than the last of the names; where there are no files, ids tell little
# without what was done with them.
_DONE, _DONE_WITHOUT_FILES = (0.20, 0.12), 0.40
_SMALL, _LARGE = 1_000, 3_000
# What is left is served in small helpings, so that no section starves the others: (share of each, rank of a file or a
# name that may still be listed). What was hardly met comes last.
_HELPINGS = ((0.04, 0.05), (0.04, 0.04), (0.06, 0.02), (0.1, 0.01), (0.1, 0.005), (0.2, 0.001), (1.0, 0.0))
SAYINGS = "What was said (what tells most of it, word for word; none of it is open)"
_POINTERS = 48
"""Tokens put by for where the rest stands."""
_FORGOTTEN = 200
"""Messages after which a failure that nobody came back to no longer counts as unresolved."""
_DETAILED = 10
"""The newest actions, told one by one; older ones are told in runs."""


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
) -> Rendered:
    """The ledger within `budget` tokens as `count` counts them; never more, however small the budget.

    `kept` names the turns whose own message stays in the context: those are pointed at, not repeated. `refer` makes the
    mark by which the agent can fetch a message; without it, a message is named by its number. Without `story`, what was
    done and said is left to the prose.
    """
    page = Page(budget, count)
    page.put_by(spare := min(budget // 20, _POINTERS))
    lines = _Lines(ledger, refer or str, frozenset(kept), budget)
    words = lines.words
    opened = page.section(words["open"], lines.open_requests())
    finished = page.section(words["finished"], lines.finished())
    rules = page.section(words["rules"], lines.rules())
    done = page.section(words["done"], lines.done() if story else iter(()))
    faults = page.section(words["faults"], lines.faults() if story else iter(()))
    notes = page.section(words["notes"], lines.notes() if story and not lines.talk else iter(()))
    said = page.section(words.get("sayings", SAYINGS), lines.sayings() if lines.talk else iter(()))
    state = page.section(words["state"], lines.state() if story else iter(()))
    shelf = Shelf(ledger, words, page)
    for request in ledger.requests:
        if request.turn in kept:
            page.know(request.text)
    for section, share in ((opened, _OPEN), (rules, _RULES)):
        page.fill(section, share)
    if lines.talk:  # Where nothing is done, what was said is the story.
        page.fill(said, 1.0)
    deeds = _between(_DONE, budget) if len(ledger.files) > 2 else _DONE_WITHOUT_FILES
    first = ((state, _STATE), (finished, _FINISHED), (done, deeds), (notes, _NOTES), (faults, _FAULTS))
    for section, share in first:
        page.fill(section, share)
    shelf.files(_between(_FILES, budget), _HELPINGS[0][1])
    shelf.names(_between(_NAMES, budget), _HELPINGS[0][1])
    for place, (share, least) in enumerate(_HELPINGS):
        if place == 3:  # after the others had theirs: most of these were meant for the moment
            rules.extend(lines.lesser_rules())
        for section in (rules, notes, done, finished, faults):
            page.fill(section, share, last=share == 1.0)
        shelf.files(share, least)
        shelf.names(share, least)
    page.put_by(-spare)
    for section, rest in [(section, lines.unlisted(section.left())) for section in (finished, done)]:
        page.add(section, rest, page.left if rest.text else 0)
    shelf.names(1.0)
    parts: list[tuple[str, Section]] = [
        ("open requests", opened), ("finished requests", finished), ("standing rules", rules),
        ("actions", done), ("failures", faults), ("notes", notes), ("sayings", said),
    ]  # fmt: skip
    text = page.text()
    lost = [f"{number} {name}" for name, section in parts if (number := len(section.left()))]
    return Rendered(text, (*lost, *shelf.left_out()))


def _between(shares: tuple[float, float], budget: int) -> float:
    """The share for this budget: the first up to a small one, the second from a large one on, and between them."""
    way = min(max((budget - _SMALL) / (_LARGE - _SMALL), 0.0), 1.0)
    return shares[0] + (shares[1] - shares[0]) * way


class _Lines:
    """The candidates of each section, most important first."""

    def __init__(self, ledger: Ledger, refer: Refer, kept: Collection[int], budget: int) -> None:
        self.ledger, self.refer, self.kept = ledger, refer, kept
        self.words = labels(ledger.language)
        self.root = common_root(file.path for file in ledger.files)
        # What a tool says every time ("File updated. Please review …") tells nothing.
        repeated = Counter(action.outcome for action in ledger.actions if not action.failed)
        self.usual = {outcome for outcome, number in repeated.items() if number > 2 and len(outcome) > 30}
        # A person's earlier message is given in full where there is room, and by its beginning where there is not.
        self.width = min(max(budget // 10, 60), 1_500)
        self.told = min(max(budget // 10, 80), 200)
        self.talk = is_talk(ledger.actions, len(ledger.requests))

    def open_requests(self) -> Iterator[Line]:
        """The newest first: should not all fit, the last word counts most."""
        for request in reversed(self.ledger.open):
            if request.turn in self.kept:
                yield Line(request.turn, f"- {self.words['kept'].format(turn=self.refer(request.turn))}")
                continue
            label = self.words["waiting" if request.state == "waiting" else "asked"]
            head = f"- {label.format(turn=self.refer(request.turn))}"
            if request.context:
                head += f", {self.words['reply']} {quote(request.context)}"

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
        """Newest first; a nod is not worth a line, nor is what stands among the rules as it is."""
        dropped = dict(self.ledger.dropped).get("requests", 0)
        rules = {rule.text for rule in self.ledger.rules}
        told = {saying.turn for saying in self.ledger.sayings} if self.talk else set()
        for request in reversed(self.ledger.finished):
            if request.turn in told:  # in mere talk nothing was asked for that could be done again
                continue
            nod = request.kind in {"ack", "resume", "hold"} and len(request.text) < 60 and not request.context
            if nod or request.text.strip() in rules:
                continue
            yield Line(
                request.turn,
                self._finished(request, self.width),
                shorter=lambda chars, request=request: self._finished(request, max(chars - 30, 40)),  # type: ignore[misc]
            )
        if dropped:
            yield Line(-1, f"- {self.words['earlier'].format(count=dropped)}")

    def unlisted(self, left: Sequence[Line]) -> Line:
        """Where the entries of a section stand that found no place: what is not told can still be fetched."""
        turns = sorted({int(line.order) for line in left if line.order >= 0})
        if not turns:
            return Line(0.0, "")
        shown = [f"[{self.refer(turn)}]" for turn in turns]
        if len(shown) > 12:
            shown = [f"[{self.refer(turns[0])}-{self.refer(turns[-1])}]"]
        return Line(-0.5, f"- {self.words['earlier'].format(count=len(left))}: {' '.join(shown)}")

    def _finished(self, request: Request, width: int) -> str:
        line = f"- [{self.refer(request.turn)}] {quote(head_and_tail(request.text, width))}"
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
        """What may have been meant only for the moment, what was lifted, and what seems to lift something.

        A weak one whose request tools worked on, and that is finished, was part of the task; in mere talk weak ones
        are talk.
        """
        over = {request.turn for request in self.ledger.finished if request.worked}
        if not self.talk:
            yield from self._rules(lambda rule: rule.lifted < 0 and rule.strength == 1 and rule.turn not in over)
        for sentence in reversed(self.ledger.lifts):
            if not sentence.used and sentence.turn not in self.kept:
                yield Line(sentence.turn, f"- [{self.refer(sentence.turn)}] {sentence.text}")
        yield from self._rules(lambda rule: rule.lifted >= 0)

    def _rules(self, wanted: Callable[[Rule], bool]) -> Iterator[Line]:
        rules = [rule for rule in self.ledger.rules if wanted(rule) and rule.turn not in self.kept]
        for rule in sorted(rules, key=lambda rule: (-rule.strength, -rule.turn)):
            note = f" ({self.words['lifted'].format(turn=self.refer(rule.lifted))})" if rule.lifted >= 0 else ""
            yield Line(rule.turn, f"- [{self.refer(rule.turn)}] {rule.text}{note}")

    def done(self) -> Iterator[Line]:
        """The newest actions one by one, the older ones in runs of the same deed."""
        actions = self.ledger.actions
        newest = actions[-_DETAILED:]
        for action in reversed(newest):
            yield Line(
                action.turn,
                self._action(action, self.told, gist=True),
                shorter=lambda chars, action=action: self._action(action, max(chars // 2 - 20, 40)),  # type: ignore[misc]
            )
        for run in reversed(_runs(actions[: -len(newest)] if newest else ())):
            yield Line(run[0].turn, self._run(run))

    def faults(self) -> Iterator[Line]:
        """Newest first; those that were just told are not repeated, and what nobody came back to is left."""
        told = set(self.ledger.actions[-3:])
        for action in reversed(self.ledger.faults):
            if action not in told and self.ledger.end - action.turn < _FORGOTTEN:
                yield Line(action.turn, self._action(action, 160))

    def notes(self) -> Iterator[Line]:
        """The most telling first, newer before older; some of them old."""
        for note in by_rank(self.ledger):
            head = f"- [{self.refer(note.turn)}] "
            yield Line(
                note.turn,
                head + quote(note.text),
                shorter=lambda chars, note=note, head=head: head + quote(note.text, max(chars - len(head), 20)),  # type: ignore[misc]
            )

    def sayings(self) -> Iterator[Line]:
        """What tells most first; what stands among the rules, or in the context, is not repeated."""
        known = {rule.text for rule in self.ledger.rules}
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

    def _action(self, action: Action, width: int, *, gist: bool = False) -> str:
        line = f"- [{self.refer(action.turn)}] {self.words[action.deed]} {self._target(action, width)}"
        if gist and action.gist:
            line += f": {quote(action.gist, width)}"
        if not action.answered:
            return f"{line} ({self.words['unanswered']})"
        if action.failed:
            return f"{line} → {self.words['failed']}: {quote(self._short(action.outcome), width)}"
        told = action.outcome and action.outcome not in self.usual
        return f"{line} → {quote(self._short(action.outcome), width)}" if told else line

    def _run(self, run: Sequence[Action]) -> str:
        if len(run) == 1:
            return self._action(run[0], 100)
        targets = list(dict.fromkeys(self._target(action, 60, brief=True) for action in run))
        more = f", {self.words['more'].format(count=len(targets) - 8)}" if len(targets) > 8 else ""
        span = f"{self.refer(run[0].turn)}-{self.refer(run[-1].turn)}"
        line = f"- [{span}] {self.words[run[0].deed]} {TIMES}{len(run)}: "
        return line + ", ".join(targets[:8]) + more

    def _target(self, action: Action, width: int, *, brief: bool = False) -> str:
        if brief and action.paths:
            return neutral(", ".join(path.rstrip("/").rpartition("/")[2] for path in action.paths[:2]))
        base = action.paths[0].rpartition("/")[2] if action.paths else ""
        about = f" ({base})" if base and base not in action.target else ""
        return neutral(one_line(escaped(self._short(f"{_tool(action)}{action.target}{about}")), width))

    def _short(self, text: str) -> str:
        return text.replace(self.root + "/", "") if self.root else text


def _tool(action: Action) -> str:
    """The tool's own name, where deed and target don't tell it."""
    plain = action.paths or action.tool in {"shell", "bash", "sh"} or action.deed == "run"
    return "" if plain and action.deed != "call" else f"{action.tool} "


def _runs(actions: Sequence[Action]) -> list[list[Action]]:
    """Neighbours with the same deed that went well, together."""
    runs: list[list[Action]] = []
    for action in actions:
        last = runs[-1][-1] if runs else None
        if last is not None and last.deed == action.deed and not last.failed and not action.failed:
            runs[-1].append(action)
        else:
            runs.append([action])
    return runs
