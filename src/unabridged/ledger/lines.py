"""The entries of a ledger in words: for each section of a summary turn its candidates, most important first.

Whose words a line is, is said by the section it stands in: people's words verbatim, everything else on one line
between quotation marks or as a list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from math import inf

from unabridged.intent import RULE_LIMIT, Request, Rule, concerns
from unabridged.languages import labels
from unabridged.ledger.action_lines import DETAILED, TIMES, ActionLines
from unabridged.ledger.entries import CHANGES, File, Ledger, Note
from unabridged.ledger.files import common_root, shown_path
from unabridged.ledger.notes import is_talk
from unabridged.ledger.page import Item, Line
from unabridged.ledger.rank import (
    decisions_within,
    file_rank,
    files_by_rank,
    name_rank,
    names_by_rank,
    notes_by_rank,
    sayings_by_rank,
)
from unabridged.text_tools import Count, fenced, head_and_tail, neutral, one_line, quote

DECIDED = 0.15
"""The share of the budget for what the assistant decided, before anything else that it said."""
_LIKELY, _NOISE = 0.05, 0.005
"""The rank from which on a name or a file is likely to be needed; and below which a name is not worth its place."""
_SEVERAL = 3
"""Names that a tool has a line of its own for."""
_TOLD = ("create", "change", "move", "run", "read", "attach")
"""What is said of a file, in this order; that it turned up in a search or a listing is not worth the words."""


class Lines:
    """The candidates of each section. `kept` turns stand in the context anyway, `spoken` ones elsewhere in the turn."""

    def __init__(
        self, ledger: Ledger, budget: int, count: Count, *, kept: Collection[int], spoken: Collection[int], story: bool
    ) -> None:
        self.ledger, self.budget, self.count, self.story = ledger, budget, count, story
        self.kept, self.spoken = frozenset(kept), frozenset(spoken)
        self.words = labels(ledger.language)
        self.root = common_root(file.path for file in ledger.files)
        self.actions = ActionLines(ledger, self.words, self.root)
        self.talk = is_talk(ledger.actions, len(ledger.requests))
        # A person's earlier message is given in full where there is room, and by its beginning where there is not.
        self._width = min(max(budget // 14, 60), 1_500)

    def heading(self, label: str) -> str:
        """The heading with this label; that of the files names the folder that all of them are in."""
        below = f" ({neutral(self.root)}/…)" if label == "files" and self.root else ""
        return self.words[label] + below

    def open_requests(self) -> Iterator[Line]:
        """Those whose words stand nowhere else, then those that are only pointed at; of each the newest first.

        Should not all fit, the last word counts most.
        """
        return map(self._open, sorted(self.ledger.open, key=lambda request: (request.turn in self.kept, -request.turn)))

    def _open(self, request: Request) -> Line:
        whole = request.turn in self.kept
        label = self.words["kept" if whole else "waiting" if request.state == "waiting" else "asked"]
        plain = f"- {label.format(turn=request.turn)}"
        head = f"{plain}, {self.words['reply']} {quote(request.context)}" if request.context else plain
        if whole:
            return Line(request.turn, head, shorter=lambda _: plain)

        def within(chars: int) -> str:
            return f"{head}:\n{fenced(head_and_tail(request.text, max(chars - len(head) - 12, 20)))}"

        return Line(request.turn, f"{head}:\n{fenced(request.text)}", shorter=within)

    def finished(self) -> Iterator[Line]:
        """Newest first; a nod is not worth a line, nor what stands among the rules."""
        rules = {rule.text for rule in self.ledger.rules}
        # In mere talk nothing was asked for that could be done again.
        told = {*self.spoken, *(saying.turn for saying in self.ledger.sayings if self.talk)}
        for request in reversed(self.ledger.finished):
            nod = request.kind in {"ack", "resume", "hold"} and len(request.text) < 60 and not request.context
            if not nod and request.turn not in told and request.text.strip() not in rules:
                yield self._finished_line(request)

    def _finished_line(self, request: Request) -> Line:
        whole = self._finished(request, self._width)
        return Line(request.turn, whole, shorter=lambda chars: self._finished(request, max(chars - 30, 40)))

    def _finished(self, request: Request, width: int) -> str:
        line = f"- [{request.turn}] {quote(head_and_tail(request.text, width))}"
        if request.state == "withdrawn":
            return f"{line} ({self.words['withdrawn']})"
        return f"{line} → {quote(request.answer, width // 2)}" if request.answer and width > 150 else line

    def more_requests(self, left: Sequence[Line]) -> Line | None:
        """Where the finished requests stand that found no place: what is not told can still be fetched."""
        lost = dict(self.ledger.dropped).get("requests", 0)
        turns = sorted(int(line.order) for line in left)
        if self.talk or not (turns or lost):
            return None
        first, last = self.ledger.first if lost else turns[0], turns[-1] if turns else self.ledger.first
        return Line(
            first - 0.5, f"- {self.actions.span(first, last)} {self.words['more'].format(count=len(turns) + lost)}"
        )

    def rules(self) -> Iterator[Line]:
        """The strongest first, newer before older, then what seems to lift something, and what was lifted.

        Rules of a message that stays stand there already.
        """
        asked = {request.turn for request in self.ledger.open}
        standing = [rule for rule in self.ledger.rules if rule.lifted < 0]
        yield from self._rules(rule for rule in standing if rule.strength > (2 if rule.turn in asked else 1))
        for sentence in reversed(self.ledger.lifts):
            if not sentence.used and sentence.turn not in self.kept and concerns(sentence, standing):
                yield Line(sentence.turn, f"- [{sentence.turn}] {sentence.text}", lesser=True)
        yield from self._rules(rule for rule in self.ledger.rules if rule.lifted >= 0)

    def passing(self) -> Iterator[Line]:
        """What sounds like a rule, but may have been meant only for the moment.

        A weak one whose request tools worked on, and that is finished, was part of the task; in mere talk weak ones
        are talk.
        """
        over = {request.turn for request in self.ledger.finished if request.worked} | self.spoken
        begun = {request.turn: request.text[: self._width] for request in self.ledger.finished}
        weak = [rule for rule in self.ledger.rules if rule.lifted < 0 and rule.strength == 1 and not self.talk]
        return self._rules(r for r in weak if r.turn not in over and r.text not in begun.get(r.turn, ""))

    def _rules(self, rules: Iterator[Rule]) -> Iterator[Line]:
        # One with a long block must not take the room of several short ones.
        for rule in sorted(rules, key=lambda rule: (-rule.strength, len(rule.text) > RULE_LIMIT, -rule.turn)):
            if rule.turn not in self.kept:
                yield self._rule(rule)

    def _rule(self, rule: Rule) -> Line:
        lifted = rule.lifted >= 0
        note = f" ({self.words['lifted'].format(turn=rule.lifted)})" if lifted else ""
        line = f"- [{rule.turn}] {rule.text}{note}"
        alone, block, _ = line.partition("\n")
        return Line(rule.turn, line, shorter=(lambda _: f"{alone} …") if block else None, lesser=lifted)

    def done(self) -> Iterator[Line]:
        """The newest actions one by one, the older ones in runs of the same deed."""
        return self.actions.done(min(max(self.budget // 14, 70), 200))

    def more_actions(self, left: Sequence[Line]) -> Line | None:
        """What was done besides what is told, by its numbers."""
        text = self.actions.count_actions(len(left))
        return Line(-0.5, text) if text else None

    def failures(self) -> Iterator[Line]:
        """Newest first; the newest actions tell of theirs."""
        newest = self.ledger.actions[-DETAILED:]
        for action in reversed(self.ledger.faults):
            if action not in newest:
                yield Line(action.turn, self.actions.action(action, 160))

    def notes(self) -> Iterator[Line]:
        """What was decided; then, where the story is told, the most telling, newer before older."""
        if self.talk:
            return
        room = int(self.budget * DECIDED)
        decided = decisions_within(self.ledger, room, lambda note: self.count(_note(note).text + "\n"))
        yield from map(_note, decided)
        for note in notes_by_rank(self.ledger) if self.story else ():
            if note not in decided:
                yield _note(note)._replace(lesser=True)

    def sayings(self) -> Iterator[Line]:
        """In mere talk, what tells most first; what stands among the rules, or in the context, is not repeated."""
        known = {rule.text for rule in self.ledger.rules if rule.strength > 1}  # in mere talk no weaker one is shown
        waiting = {*self.kept, *(request.turn for request in self.ledger.open)}
        for saying in sayings_by_rank(self.ledger) if self.talk else ():
            if saying.turn not in waiting and saying.text not in known:
                known.add(saying.text)
                whose = self.words["user" if saying.by_person else "assistant"]
                yield Line(saying.turn, f"- [{saying.turn}] {whose} {quote(saying.text)}")

    def state(self) -> Iterator[Line]:
        """The assistant's last words: where a reader picks up the thread."""
        head, said = f"- {self.words['said']} [{self.ledger.said_turn}]: ", self.ledger.said

        def within(chars: int) -> str:
            return head + quote(head_and_tail(one_line(said), max(chars - len(head), 20)))

        return iter([Line(0.0, head + quote(said), shorter=within)] if said else [])

    def files(self) -> Iterator[Line | Item]:
        """Each with what happened to it; of those only seen just the path."""
        seen = Line(inf, f"- {self.words['mention']}", "\x00seen")
        for file in files_by_rank(self.ledger):
            path, told = shown_path(file.path, self.root), self._deeds(file)
            lesser = file_rank(file, self.ledger.end) < _LIKELY
            if told:
                yield Line(-file.turn, f"- {path} {told}", file.path, lesser=lesser)
            else:
                yield Item(path, seen, lesser=lesser)

    def _deeds(self, file: File) -> str:
        """The two deeds that tell most: the last that changed it before the others. One made anew is not deleted."""
        changed = [entry for entry in file.deeds if entry[0] in CHANGES]
        others = [entry for entry in file.deeds if entry[0] in _TOLD and entry not in changed[-1:]]
        main = [*changed[-1:], *sorted(others, key=lambda entry: _TOLD.index(entry[0]))][:2]
        told = [self.words[deed] + (f" {TIMES}{number}" if number > 1 else "") for deed, number in main]
        return f"({', '.join(told)})" if told else ""

    def names(self) -> Iterator[Item]:
        """Each beside the file it was used in where that is shown, else with the tool it came from, else alone.

        What stood once in a long list is not worth its place, however much room there is.
        """
        tools, alone, beside = self._tools(), Line(inf, "-", "\x00names"), self._homes()
        for name in names_by_rank(self.ledger):
            if (rank := name_rank(name, self.ledger.end)) >= _NOISE:
                head = tools.get(name.home, alone)
                yield Item(neutral(name.text), head, beside.get(name.home, ""), lesser=rank < _LIKELY)

    def _homes(self) -> dict[str, str]:
        """The path of the file that each home of a name is, however it was written there."""
        found = {}
        for home in {name.home for name in self.ledger.names}:
            ends = f"/{home}"
            alike = [f.path for f in self.ledger.files if f"/{f.path}".endswith(ends) or ends.endswith(f"/{f.path}")]
            found[home] = max(alike, key=len, default="")
        return found

    def _tools(self) -> dict[str, Line]:
        """A line for each tool that several names came from."""
        numbers = Counter(name.home for name in self.ledger.names)
        used = dict.fromkeys(action.tool for action in self.ledger.actions if action.tool)
        return {tool: Line(i, f"- {neutral(tool)}", tool) for i, tool in enumerate(used) if numbers[tool] >= _SEVERAL}


def _note(note: Note) -> Line:
    head = f"- [{note.turn}] "

    def within(chars: int) -> str:
        return head + quote(note.text, max(chars - len(head), 20))

    return Line(note.turn, head + quote(note.text), shorter=within)
