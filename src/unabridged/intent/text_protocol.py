"""How the host of a text protocol answers, learned by counting: what it did every time, it will have done this time.

The counts are small, say nothing of what was said, and are stored with each record. So a list that was compacted is
judged with all that went in mind, and every turn in it is taken for whose it was before.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from unabridged.archive.protocol import RecordData
from unabridged.intent.text_actions import CODE, acts, addresses, intends, manner
from unabridged.marks import is_cleared, is_ours
from unabridged.messages import View
from unabridged.text_cache import remembered
from unabridged.text_tools import bare

Facts = Mapping[str, int]
"""How often each thing was seen; see `_facts_shown_by` for what is counted."""
NOTHING: Facts = Counter()

_LINES = 12
"""Last lines that are remembered of each kind: one that the host puts under every output is soon among them."""
_READ = 12
"""Lines that are looked at to tell whether somebody said them."""
_OBSERVATION = re.compile(
    r"\A\s*(?:<(?:output|returncode|observation|tool_result|tool_response|function_result|stdout|stderr|result|information)"
    r"|\[?(?:Observation|OBSERVATION|Tool (?:output|result)|Output|OUTPUT|Command output|Execution (?:result|logs)"
    r"|EXECUTION RESULT|STDOUT|STDERR|(?:New|Current) Terminal)\b[^\n]{0,40}[:\]]"
    r"|Traceback \(most recent call last\)|\[File: |Your command ran |I ran this command:|[Ee]xit ?code\b|returncode\b"
    r"|Command \w+ returned:|```tool_outputs|\[?(?:stdout|stderr)[\]:])"
    r"|(?:\n|\A)\S{0,40}[$#>]\s*\Z"
    r"|\n\[?(?:exit code|Exit code|returncode|The command completed with exit code)\W{0,3}\d+",
)
_PARTICULAR = re.compile(r"[/\\.'\"`\d]")
_NUMBER = re.compile(r"\d+")
_PLAIN = re.compile(r"[\"'\u201c\u2018(\xbf\xa1*]*[^\W\d_]+(?:['\u2019-][^\W\d_]+)*[.,!?;:\u2026\"'\u201d\u2019)*]*")
_MADE = re.compile(r"\s{2,}|\t|\S+:\d|[A-Z]{4,}\b(?!\W*$)|[\[({<#@+|$-]|(?:def|class|import|from \S+ import)\s")
"""How a line begins that a machine made."""
_MACHINES = re.compile(
    r"\b(?:no such file|command not found|permission denied|nothing to commit|no output|no matches|is a directory"
    r"|not a directory|already exists|up to date|syntax error|segmentation fault|timed out)\b",
    re.IGNORECASE,
)
_OPENING = re.compile(r"[^\W\d_]+(?: [^\W\d_]+)?[:,!.\uff1a\uff0c]")
"""A word or two that more follows: "Now:"."""
_EASTERN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_ASKS = ("?", "\uff1f", "\u061f")


def learn(views: Sequence[View], gone: Collection[int], before: Facts = NOTHING) -> Facts:
    """What is known when these messages are gone or changed: what was known, and what each of them showed."""
    if calls_tools(views, before):
        return {"calls": 1}
    facts = Counter(before)
    facts.update(fact for i in sorted(gone) for fact in _facts_shown_by(views, i))
    facts["unclear"] += sum(views[i].origin == "unknown" for i in gone)
    kept: Counter[str] = Counter()
    number: Counter[str] = Counter()
    for fact, times in facts.most_common():
        kind = fact.rpartition(" ")[0]
        number[kind] += 1
        if number[kind] <= _LINES or not kind.endswith(("line", "head")):
            kept[fact] = times
    return +kept


def facts_in(data: RecordData) -> Facts:
    """The facts that a record holds; records of earlier versions have none."""
    return Counter(data.get("habits", {}))


def calls_tools(views: Sequence[View], before: Facts) -> bool:
    """Whether there are real tool calls, or were: then no `user` turn answers an action in the text."""
    return bool(before.get("calls")) or any(view.calls or view.answers for view in views)


class Host:
    """How the host answers, as far as what went and all that is here has shown."""

    def __init__(self, views: Sequence[View], before: Facts) -> None:
        self._facts = Counter(before)
        self._facts.update(fact for i in range(len(views)) for fact in _facts_shown_by(views, i))
        self._first_lines, self._last_lines = self._frame()
        self._bare = {manner for manner in ("marked", "fenced") if 2 * self._framed(manner) < self._facts[manner]}

    def _frame(self) -> tuple[set[str], set[str]]:
        """First and last lines of the host's: a person does not begin or end three messages with the very same.

        The first line of a host that has many tools may say which one answers; one that people use too is no frame.
        """
        facts = self._facts
        last = self._often("line ", facts["acted"] // 2)
        first = self._often("head ", facts["acted"] // 2)
        first |= self._often("marked head ", facts["marked"] // 8) | self._often("shown head ", facts["shown"] // 2)
        seen = {line: facts[f"head {line}"] + facts[f"shown head {line}"] for line in first}
        return {line for line in first if 4 * facts[f"plain head {line}"] <= seen[line]}, last

    def _often(self, kind: str, times: int) -> set[str]:
        facts = self._facts.items()
        return {fact.removeprefix(kind) for fact, number in facts if fact.startswith(kind) and number >= max(3, times)}

    def _framed(self, manner: str) -> int:
        """How often an action that ends in this manner was answered with something of the host's around it."""
        first, last = (
            sum(self._facts[f"{manner} {kind} {line}"] for line in lines)
            for kind, lines in (("head", self._first_lines), ("line", self._last_lines))
        )
        return self._facts[f"{manner} worded"] + max(first, last)

    def begins(self, text: str) -> bool:
        """Whether the turn begins as the host's outputs do."""
        return first_line(text) in self._first_lines

    def frames(self, text: str) -> bool:
        """Whether the turn begins or ends as the host's outputs do."""
        return self.begins(text) or last_line(text) in self._last_lines

    @property
    def mostly_acts(self) -> bool:
        """Whether the model acts in nearly all that it says."""
        return self._facts["acted"] > 2 and self._facts["acted"] >= 3 * self._facts["talk"]

    def may_give(self, said: str, answer: str) -> bool:
        """Whether a turn may be what an action of the model's gave, though nothing says so.

        Where the host words nearly all that answers such an action as an answer, one without may be a person's. Lines
        that were only learned don't count here: outputs that are alike have some too.
        """
        ends = manner(said)
        if self._facts[ends] > 2 and 4 * self._facts[f"{ends} worded"] >= 3 * self._facts[ends]:
            return looks_printed(answer)
        if ends == "marked":
            return True
        return self.may_run(said) if ends else self.mostly_acts

    def gives_bare(self, said: str, answer: str) -> bool:
        """Whether this is what the action at the end of the model's turn gave, though nothing around it says so."""
        ends = manner(said)
        if ends not in self._bare:
            return False
        if ends == "marked":
            return self._facts["marked"] > 1 or looks_printed(answer)
        mostly = self._facts["fenced printed"] >= self._facts["fenced words"]
        return self._runs_commands or (mostly and looks_printed(answer) and not addresses(said))

    @property
    def _runs_commands(self) -> bool:
        """Whether blocks of shell commands are run and not shown: what follows looks printed, and nobody is addressed.

        A few turns must be of one kind; of many, a third may be words, since what is printed may be prose.
        """
        turns, printed, words = (self._facts[f"fenced{kind}"] for kind in ("", " printed", " words"))
        others = max(self._facts["fenced addressed"], self._facts["talk"])
        if turns < 5:
            return printed > 1 and not (words or others)
        return 2 * printed >= turns >= 3 * words and turns >= 5 * others

    def may_run(self, said: str) -> bool:
        """Whether the code in the model's turn may have been run: as code here often is, or as the words before it say.

        Not where people have always answered code in words: there it is shown to them.
        """
        turns, made, words, addressed, intended = (
            sum(self._facts[f"{kind}{what}"] for kind in CODE)
            for what in ("", " made", " words", " addressed", " intends")
        )
        if addresses(said):
            return False
        if made > 1 and made >= words and turns >= 4 * addressed:
            return True
        about_to = manner(said) != "shown" and intends(said)
        return about_to and (turns < 3 or (made > 0 and 2 * intended >= turns))


@remembered
def is_observation(text: str) -> bool:
    """Whether the turn is worded as an observation."""
    return _OBSERVATION.search(text) is not None


def looks_printed(text: str) -> bool:
    """Whether nothing in it reads as if somebody said it."""
    kind, opens = _reading(text)
    return kind == "printed" and not opens


def last_line(text: str) -> str:
    """The last line, as a digest: what the host puts under its outputs is the same every time, whatever it says."""
    return _digest(text.rstrip()[-400:].rpartition("\n")[2].strip()[-80:])


def first_line(text: str) -> str:
    """What the first line begins with, as a digest: up to its colon, no paths and quotations; "" for mere words."""
    line, _, more = text.lstrip()[:400].partition("\n")
    label, colon, _ = line[:80].partition(":")
    if not colon and not more.strip():
        return ""
    words = [word for word in label.split() if not _PARTICULAR.search(word)]
    return _digest(" ".join(words)) if any(map(str.isalpha, "".join(words))) else ""


def _digest(line: str) -> str:
    if sum(map(str.isalpha, line)) >= 8:  # "1" and "2" are answers
        line = _NUMBER.sub("0", line)
    return hashlib.sha256(line.encode("utf-8", "surrogatepass")).hexdigest()[:12] if line else ""


def turn_before(views: Sequence[View], index: int) -> View | None:
    """The model's turn right before this `user` turn, if it is the model's."""
    before = next((views[i] for i in range(index - 1, -1, -1) if views[i].role != "system"), None)
    ours = before is None or before.origin == "summary" or is_ours(before)
    return before if before is not None and not ours and before.role == "assistant" else None


def _facts_shown_by(views: Sequence[View], index: int) -> Iterable[str]:
    """What this message shows of the host's habits."""
    view = views[index]
    if view.role != "user" or view.origin not in {"person", "tool", "unknown"} or is_cleared(view):
        return  # what stood there was counted when it was cleared
    before = turn_before(views, index)
    ends = manner(before.text) if before is not None else ""
    acted = before is not None and acts(before.text)
    head, line = first_line(view.text), last_line(view.text)
    if before is None or not (acted or ends):
        yield from [f"plain head {head}"] * bool(head)
    if before is None:
        return
    yield "acted" if acted else "talk"
    if acted:
        yield from (*[f"line {line}"] * bool(line), *[f"head {head}"] * bool(head))
    if not ends:
        return
    yield ends
    if is_observation(view.text):
        yield f"{ends} worded"
    elif "\n" in view.text.strip():  # a bare "ok" that comes often is the output itself
        yield f"{ends} line {line}"
    yield from [f"{ends} head {head}"] * bool(head)
    if ends in CODE:
        kind, opens = _reading(view.text)
        yield from [f"{ends} {kind}"] * bool(kind)
        yield from [f"{ends} made"] * (kind == "printed" and not opens)
        yield from [f"{ends} addressed"] * addresses(before.text)
        yield from [f"{ends} intends"] * intends(before.text)


@remembered
def _reading(text: str) -> tuple[Literal["", "printed", "words"], bool]:
    """What most of a turn is, and whether somebody opens it or asks at its end. A word or two is neither.

    A few lines tell: the first ones, and the last.
    """
    lines = [line.rstrip()[:300] for line in text[:4_000].splitlines() if line.strip()][:_READ]
    lines += [text.rstrip().rpartition("\n")[2].rstrip()[:300]] * (len(lines) == _READ)
    said = [_reads_as_speech(line) for line in lines]
    opens = bool(lines) and (said[0] or _OPENING.fullmatch(lines[0]) or (said[-1] and lines[-1].endswith(_ASKS)))
    kind: Literal["", "printed", "words"] = ""
    if 2 * sum(said) >= len(lines) > 0:
        kind = "words"
    elif len(lines) != 1 or len(lines[0].split()) > 3 or _MADE.match(lines[0]) or not _PLAIN.match(lines[0]):
        kind = "printed"
    return kind, bool(opens)


def _reads_as_speech(line: str) -> bool:
    """Whether a line reads as if somebody said it: three words or more, signs that stand for them, or a question."""
    line = bare(line)
    if _MADE.match(line) or (len(line) < 80 and _MACHINES.search(line)):
        return False
    words = line.split()
    plain = sum(_PLAIN.fullmatch(word) is not None for word in words)
    if line.endswith(_ASKS):
        return 2 * plain >= len(words)
    return (len(words) > 2 and 5 * plain >= 3 * len(words)) or 2 * len(_EASTERN.findall(line)) >= max(8, len(line))
