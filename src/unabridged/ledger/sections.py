"""The sections of a summary turn in words, each within the room it is given.

Whose words a line is, is said by the section it stands in: people's words verbatim, everything else on one line between
quotation marks, indented, or as a list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile, zip_longest
from typing import NamedTuple

from unabridged.intent import GOING, RULE_LIMIT, Request, Rule, concerns
from unabridged.languages import labels
from unabridged.ledger.action_lines import TIMES, ActionLines, checks_in
from unabridged.ledger.bounds import file_rank, name_rank, names_told
from unabridged.ledger.entries import Action, Deed, File, Ledger
from unabridged.ledger.names import common_root
from unabridged.ledger.story import Story
from unabridged.text_tools import Count, fenced, head_and_tail, indent, neutral, quote

_NOISE = 0.02
"""The rank of a name not worth its place: it stood once in a list of a thousand."""
_SHORT = 20
"""Bytes of a message that can hardly be understood without what was asked before it."""
_SHORTEST = 24
"""Tokens below which a shortened line says nothing."""
_WIDTH = 120
"""Characters of a check, and of how it ended."""
_TOLD: tuple[Deed, ...] = ("create", "change", "delete", "move", "mention", "attach", "read")
"""What is said of a file, the first of these that happened to it."""


_CHANGED = frozenset({"create", "change", "delete", "move", "attach"})
"""What is told of files beside a model's prose."""


class Line(NamedTuple):
    """A candidate for a section: where it would stand in it, and its text, which may be several lines."""

    order: float
    text: str
    shorter: Callable[[int], str] | None = None
    """Makes a version of about so many characters, when the whole is too long."""


class Sections:
    """Writes each section. `kept` turns stand in the context anyway."""

    def __init__(
        self, ledger: Ledger, count: Count, kept: Collection[int], people: float, prose: str, *, scant: bool = False
    ) -> None:
        self._ledger, self._count, self._kept = ledger, count, frozenset(kept)
        self.later: Sequence[Action] = ()
        """What was done in messages that stay."""
        self._labels = labels(ledger.language)
        self._root = common_root(file.path for file in ledger.files)
        said = {saying.turn: saying.text for saying in ledger.sayings if saying.by_person and not saying.retold}
        whole = {request.turn for request in ledger.open if len(request.text) >= len(said.get(request.turn, ""))}
        doubtful = {request.turn for request in ledger.doubtful}
        shown = {s for s in ledger.sayings if s.turn in self._kept or s.turn in (doubtful if s.retold else whole)}
        self._rejected = {saying.turn: quote(saying.rejected) for saying in ledger.sayings if saying.rejected}
        self._story = Story(ledger, self._labels, self._root, shown, people)
        self._prose = self._shown = prose
        self._scant = scant
        self._left_out: dict[str, int] = {}

    def heading(self, label: str) -> str:
        """The heading with this label; that of the files names the folder that all of them are in."""
        below = f" ({neutral(self._root)}/…)" if label == "files" and self._root else ""
        return self._labels[label] + below

    def know(self, text: str) -> None:
        """Note what stands elsewhere in the turn, so that its names are not listed again."""
        self._shown += text

    def left_out(self) -> tuple[str, ...]:
        """What found no place, by numbers."""
        found = {**self._left_out, "moments": self._story.left_out}
        return tuple(f"{number} {what}" for what, number in found.items() if number)

    # -- what people want ---------------------------------------------------------------------------------------------

    def open_requests(self, room: int) -> str:
        """The newest message first, then what is behind it in the order asked.

        Should not all fit, those whose words stand nowhere else come before those only pointed at, the newest first.
        Beside prose, which says what is under way, none is only pointed at.
        """
        lines = []
        newest = max((request.turn for request in self._ledger.open), default=-1)
        for request in sorted(self._ledger.open, key=lambda request: (request.turn in self._kept, -request.turn)):
            whole, order = request.turn in self._kept, request.turn if request.turn < newest else -1
            plain = f"- {self._label(request)}"
            head = f"{plain}, {self._labels['reply']} {quote(request.context)}" if request.context else plain
            if request.kind == "steer":
                head = f"{plain}, {self._labels['rejecting'].format(call=self._rejected.get(request.turn, ''))}"
            text = head if whole else f"{head}:\n{fenced(request.text)}"
            shorter = partial(_always, plain) if whole else partial(_open_request, head, request.text)
            lines += [Line(order, text, shorter)] if not (whole and self._prose) else []
        return self._fit("open requests", [*lines, *(() if self._prose else self._behind())], room)

    def doubtful(self, room: int) -> str:
        """What reads like another system's summary and may be a person's request, the newest first.

        Then what would be standing rules in it, where that is not told in full.
        """
        lines = []
        for request in reversed(self._ledger.doubtful):
            whole, head = request.turn in self._kept, f"- {self._label(request)}"
            text = request.text if request.doubtful else request.beside
            shorter = partial(_always, head) if whole else partial(_open_request, head, text)
            if request.doubtful or not whole:
                lines.append(Line(-request.turn, head if whole else f"{head}:\n{fenced(text)}", shorter))
        doubted = [r for r in self._ledger.rules if r.doubtful and r.lifted < 0 and r.turn not in self._kept]
        rules = [Line(rule.turn, f"- [{rule.turn}] {quote(rule.text, RULE_LIMIT)}") for rule in doubted]
        spare = min(sum(self._count(line.text) + 1 for line in rules), room // 8)
        told = self._fit("texts that may be summaries", lines, room - spare)
        rules = [line for line, rule in zip(rules, doubted, strict=True) if rule.text not in told]
        return f"{told}\n{self._fit('rules that may be from summaries', rules, spare)}".strip()

    def _label(self, request: Request) -> str:
        """What is said of an open request; where the assistant has spoken since, in which message: it may be done."""
        answer = max(r.answer_turn for r in (*self._ledger.open, *self._ledger.doubtful))
        silent = request == self._ledger.requests[-1] and not (request.worked or request.answer)
        asked = "answered" if request.turn < answer else "newest" if silent else "asked"
        asked = "kept" if request.turn in self._kept else asked
        label = {"open": asked, "interrupted": "broken_off"}.get(request.state, "waiting")
        return self._labels[label].format(turn=request.turn, answer=answer)

    def _behind(self) -> Iterator[Line]:
        """What was dropped for the newest that is open; behind a short one the task, where it was answered before."""
        *_, newest = self._ledger.open or (Request(-1, ""),)
        sure = [request for request in self._ledger.requests if not request.doubtful]
        before = [r for r in sure if r.turn < newest.turn and r.state not in GOING]
        for r in takewhile(lambda r: r.state != "finished" and r.kind != "withdraw", reversed(before)):
            asked = f"{self._labels['asked'].format(turn=r.turn)} ({self._labels[r.state]})"
            yield Line(r.turn, f"- {asked}: {quote(r.text, RULE_LIMIT)}")
        told = [r for r in sure if r.kind == "new" and len(newest.text) < len(r.text)]
        *_, task = (r for r in (newest, *told) if r.turn <= newest.turn)
        short = newest.kind != "new" or len(newest.text.encode("utf-8", "replace")) <= _SHORT
        if short and task.state == "finished" and task.turn not in self._kept:
            yield Line(task.turn, f"- {self._labels['behind'].format(turn=task.turn)}: {quote(task.text, RULE_LIMIT)}")

    def rules(self, room: int) -> str:
        """The strongest first, newer before older, then what seems to lift something, and what was lifted.

        Rules of a message that stays stand there already.
        """
        asked = {request.turn for request in self._ledger.open}
        sure = [rule for rule in self._ledger.rules if not rule.doubtful]
        standing = [rule for rule in sure if rule.lifted < 0]
        lines = [*self._rules(rule for rule in standing if rule.strength > (2 if rule.turn in asked else 1))]
        idle = (said for said in reversed(self._ledger.lifts) if not said.used and said.turn not in self._kept)
        lines += [Line(said.turn, f"- [{said.turn}] {said.text}") for said in idle if concerns(said, standing)]
        lines += self._rules(rule for rule in sure if rule.lifted >= 0)
        return self._fit("standing rules", lines, room)

    def _rules(self, rules: Iterable[Rule]) -> Iterator[Line]:
        # One with a long block must not take the room of several short ones.
        for rule in sorted(rules, key=lambda rule: (-rule.strength, len(rule.text) > RULE_LIMIT, -rule.turn)):
            if rule.turn not in self._kept:
                lifted = self._labels["lifted"].format(turn=rule.lifted) if rule.lifted >= 0 else ""
                notes = "; ".join(filter(None, (self._story.reply(rule.turn, said=rule.text), lifted)))
                line = f"- [{rule.turn}] {rule.text}" + (f" ({notes})" if notes else "")
                alone, block, _ = line.partition("\n")
                yield Line(rule.turn, line, partial(_always, f"{alone} …") if block else None)

    def own_words(self, room: int) -> str:
        """People's messages, and what was decided, word for word, in order."""
        return self._story.own_words(room, self._count, self._shown)

    # -- what happened ------------------------------------------------------------------------------------------------

    def story(self, room: int) -> str:
        """What was said and done, in order."""
        return self._story.tell(room, self._count)

    def todo(self, room: int) -> str:
        """The assistant's own list of what is to be done, as it last wrote it; beside prose only what is not done."""
        lines = self._ledger.todo.splitlines()
        if self._prose:
            lines = [line for line in lines if not line.startswith("- [completed]")]
        text = f"- [{self._ledger.todo_turn}]\n  {indent(chr(10).join(lines))}"
        return text if lines and self._count(text) <= room else ""

    def checks(self, room: int) -> str:
        """Which checks ran since the last edit and how they ended, and which customary ones did not."""
        edit, ran, overdue = checks_in([*self._ledger.actions, *self.later])
        told = ActionLines(self._ledger, self._labels, self._root)
        lines = [Line(action.turn, told.action(action, _WIDTH)) for action in reversed(ran)]
        if overdue:
            due = [f"{quote(command, _WIDTH // 2)} [{a.turn}]{told.ended(a, _WIDTH)}" for command, a in overdue]
            lines.insert(0, Line(self._ledger.end, f"- {self._labels['due'].format(turn=edit)}: {'; '.join(due)}"))
        return self._fit("checks", lines, room)

    # -- what is named ------------------------------------------------------------------------------------------------

    def files(self, room: int) -> str:
        """Those that something happened to, by what it was, those first that the next steps need.

        Beside prose only changed ones, and only where it names less than half of them.
        """
        groups, left, listed = dict[Deed, list[str]](), room, set[str]()
        files = sorted(self._ledger.files, key=lambda file: -file_rank(file, self._ledger.end))
        if self._prose:
            files = [file for file in files if any(deed in _CHANGED for deed, _ in file.deeds)]
            files = files if sum(_base(file) in self._prose for file in files) * 2 < len(files) else []
        below = f"{self._root}/" if self._root else ""  # paths below the common root are shown without it
        shown = {file: neutral(file.path.removeprefix(below)) for file in files}
        tops = {path.partition("/")[0] for file, path in shown.items() if file.deeds}
        for file, path in shown.items():
            deeds, name = dict(file.deeds), _base(file)
            deed: Deed = next((deed for deed in _TOLD if deed in deeds), "mention")
            seen = deed == "mention" and not file.named
            # What merely looks like a file is none, unless it is where others are that something was done with.
            strange = seen and ("." not in name or not (deeds or path.partition("/")[0] in tops))
            if strange or name in self._prose or (deed == "mention" and name in listed):
                continue
            listed.add(name)
            often = f" {TIMES}{deeds[deed]}" if deed == "change" and deeds[deed] > 1 else ""
            text = "/".join(path.split("/")[-2:]) if seen else path + often
            cost = self._count(text) + 1 + (0 if deed in groups else self._count(self._labels[deed]) + 3)
            if cost > left:
                self._left_out["files"] = self._left_out.get("files", 0) + 1
                continue
            groups.setdefault(deed, []).append(text)
            left -= cost
        return "\n".join(f"- {self._labels[deed]}: {', '.join(groups[deed])}" for deed in _TOLD if deed in groups)

    def names(self, room: int) -> str:
        """Names that the next steps may have to spell and that stand nowhere else, on one line.

        After each three that are likely comes an id that was told, however long ago. Beside prose only those, and only
        where it forgets most of them; behind them, beside scant prose, likely ones, up to a quarter of it in all.
        """
        end, found = self._ledger.end, list[str]()
        likely = sorted(self._ledger.names, key=lambda name: (-name_rank(name, end), name.text))
        told = names_told(likely)
        spare = 0
        if self._prose:
            told = told if sum(name.text in self._prose for name in told) * 3 < len(told) else []
            spare = max(0, room - self._count(self._prose) // 4)
            listed = [*told, *(likely if self._scant else ())]
        else:
            mixed = zip_longest(likely[::3], likely[1::3], likely[2::3], told)
            listed = [name for names in mixed for name in names if name is not None]
        for name in dict.fromkeys(listed):
            if name.text in self._shown or name_rank(name, end) < _NOISE:
                continue
            if (cost := self._count(f" {name.text}")) > room - (0 if name in told else spare):
                break
            found.append(neutral(name.text))
            room -= cost
        return f"- {' '.join(found)}" if found else ""

    def _fit(self, what: str, lines: Sequence[Line], room: int) -> str:
        """As many of the lines as there is room for, most important first, the others shortened or counted."""
        chosen: list[Line] = []
        for line in lines:
            cost = self._count(line.text) + 1
            if cost > room and line.shorter is not None and room >= _SHORTEST:
                line = line._replace(text=self._shortened(line, room - 1))  # noqa: PLW2901 - the same line
                cost = self._count(line.text) + 1
            if cost <= room:
                chosen.append(line)
                room -= cost
        self._left_out[what] = len(lines) - len(chosen)
        return "\n".join(line.text for line in sorted(chosen, key=lambda line: line.order))

    def _shortened(self, line: Line, tokens: int) -> str:
        """The line, short enough for so many tokens where that is possible."""
        chars = len(line.text) * (tokens - 4) // max(self._count(line.text), 1)
        tried = (line.shorter(chars * 4**n // 5**n) for n in range(6) if line.shorter)
        return next((text for text in tried if self._count(text) <= tokens), line.text)


def _base(file: File) -> str:
    """The name of a file without its folders."""
    return file.path.rstrip("/").rpartition("/")[2]


def _always(text: str, _: int) -> str:
    return text


def _open_request(head: str, text: str, chars: int) -> str:
    return f"{head}:\n{fenced(head_and_tail(text, max(chars - len(head) - 12, 20)))}"
