"""Whose words a `user` turn is: a person's, a tool's observation, the host's, or nobody can tell.

In a text protocol (no tool calls; the model writes an action into its text and the host answers in a `user` turn) an
observation is not a person's request. A turn is taken for one only when both sides say so: the model acted right
before it, and the turn itself looks machine-made, by its wording or because it begins or ends as the others do. One
that begins so, or has both the wording and the last line of the others, needs no action before it: the model's text may
have been edited since. A host that hands outputs over bare shows it by doing so every time.

What answers a marked action and is none of these is `unknown`: at most a person's, so it makes no rules and asks for
nothing. Only where the host says of nearly all else that it is an output is one without, in words, a person's. Code in
a fence is run by some hosts and shown to people by others: there, what follows is `unknown` where code here is often
answered by what looks printed, or where the model's words say that it is about to do something itself. The caller or an
adapter that knows better says so with `origin=`.

How the host answers is learned by counting: what it did every time, it will have done this time. The counts are small,
say nothing of what was said, and are stored with each record. So a list that was compacted is judged with all that went
in mind, and every turn in it is taken for whose it was before.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from unabridged.archive.protocol import RecordData
from unabridged.intent.frames import blocks_of, frames
from unabridged.intent.host_words import is_hosts
from unabridged.intent.text_actions import acts, addresses, intends, manner
from unabridged.marks import is_cleared, is_ours
from unabridged.messages import Origin, View
from unabridged.text_cache import remembered
from unabridged.text_tools import bare

Facts = Mapping[str, int]
"""How often each thing was seen; see `_facts_shown_by` for what is counted."""
NOTHING: Facts = Counter()

_CODE = ("coded", "shown", "fenced")
"""How a turn ends that may be run as well as shown; `fenced` stands in older records."""
_LINES, _READ = 12, 12
"""Last lines that are remembered of each kind: one that the host puts under every output is soon among them. And lines
that are looked at to tell whether somebody said them."""
_OBSERVATION = re.compile("|".join(frames()["observations"]))
_SPOKEN: frozenset[Origin] = frozenset({"person", "summary", "doubtful"})
"""Whose a turn may be that is no tool's and no host's."""
_PARTICULAR = re.compile(r"[/\\.'\"`\d]")
_NUMBER = re.compile(r"\d+")
_PLAIN = re.compile(r"[\"'\u201c\u2018(\xbf\xa1*]*[^\W\d_]+(?:['\u2019-][^\W\d_]+)*[.,!?;:\u2026\"'\u201d\u2019)*]*")
_MADE = re.compile(r"\s{2,}|\t|\S+:\d|[A-Z]{4,}\b(?!\W*$)|[\[({<#@+|$-]|(?:def|class|import|from \S+ import)\s")
"""How a line begins that a machine made."""
_ASKS = ("?", "\uff1f", "\u061f")


def with_origins(views: Sequence[View], before: Facts = NOTHING, said: Sequence[Origin | None] = ()) -> list[View]:
    """The same views, with observations and host notes that sit in `user` turns given their true origin.

    `before` is what was learned from messages that are no longer here; `said` is what the caller says of each.
    """
    ruled = _by_rule(views, before)
    return [v.said_by(o) if o else r for v, r, o in zip(views, ruled, said, strict=True)] if said else ruled


def _by_rule(views: Sequence[View], before: Facts) -> list[View]:
    found = [_by_itself(view) for view in views]
    if _calls_tools(views, before):
        return found
    host = _Host(found, before)
    for i in [i for i, view in enumerate(found) if view.role == "user" and view.origin in _SPOKEN]:
        if (said := _turn_before(found, i)) is not None:
            whose = host.whose(said.text, views[i])
            if whose == "person":  # but no summary answers an action
                retold = found[i].origin != "person" or found[i].inserted
                whose = "unknown" if retold and acts(said.text) else found[i].origin
            found[i] = (found[i] if whose in _SPOKEN else views[i]).said_by(whose)
    return found


def _by_itself(view: View) -> View:
    """The view by itself: the host's or a person's, where only an earlier look of ours said that a tool gave it.

    Formats call only answers a tool's.
    """
    guessed = view.origin in {"tool", "unknown"} and not view.answers
    if view.role != "user" or not (guessed or view.origin == "person"):
        return view
    return set_apart(view if view.origin == "person" else view.said_by("person"))


def set_apart(view: View) -> View:
    """A person's turn without the blocks that another system put into it, which are `inserted`.

    Where a person says nothing beside them, or beside the host's words, the turn is that system's, or `doubtful`. Who
    sends an image with it is a person.
    """
    blocks = blocks_of(view)
    for whose in ({"person", "doubtful"},) if view.media else ({"person"}, {"doubtful"}):
        others = tuple(block.text for block in blocks if block.whose not in whose)
        own = "\n".join(block.text.strip("\n") for block in blocks if block.whose in whose) if others else view.text
        if view.media or not (is_hosts(own) or (others and not own.strip())):
            said = view.with_inserted(own, others) if others else view
            return said if "person" in whose else said.said_by("doubtful")
    return view.said_by("summary" if any(block.whose == "summary" for block in blocks) else "host")


def learn(views: Sequence[View], gone: Collection[int], before: Facts = NOTHING) -> Facts:
    """What is known when these messages are gone or changed: what was known, and what each of them showed."""
    if _calls_tools(views, before):
        return {"calls": 1}
    facts = Counter(before)
    facts.update(fact for i in sorted(gone) for fact in _facts_shown_by(views, i))
    facts["unclear"] += sum(views[i].origin == "unknown" for i in gone)
    number: Counter[str] = Counter()
    for fact, _ in facts.most_common():
        kind = fact.rpartition(" ")[0]
        number[kind] += kind.endswith(("line", "head"))
        if number[kind] > _LINES:
            del facts[fact]
    return +facts


def facts_in(data: RecordData) -> Facts:
    """The facts that a record holds; records of earlier versions have none."""
    return Counter(data.get("habits", {}))


def _calls_tools(views: Sequence[View], before: Facts) -> bool:
    """Whether there are real tool calls, or were: then no `user` turn answers an action in the text."""
    return bool(before.get("calls")) or any(view.calls or view.answers for view in views)


class _Host:
    """How the host answers, as far as what went and all that is here has shown."""

    def __init__(self, views: Sequence[View], before: Facts) -> None:
        self._facts = Counter(before)
        self._facts.update(fact for i in range(len(views)) for fact in _facts_shown_by(views, i))
        self._first_lines, self._last_lines = self._frame()

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

    def whose(self, said: str, answer: View) -> Origin:
        """Whose turn it is that answers these words of the model's."""
        text, ends, worded = answer.text, manner(said), _is_observation(answer.text)
        begins = _first_line(text) in self._first_lines
        framed = begins or _last_line(text) in self._last_lines
        if not acts(said):
            if begins or (worded and framed):
                return "tool"
            made = (worded or framed) and self._mostly_acts
            run = ends and ((worded and not addresses(said)) or self._may_run(said))
            return "unknown" if made or run else "person"
        if worded or framed or is_cleared(answer) or (ends == "marked" and self._gives_bare(text)):
            return "tool"
        return "unknown" if self._may_give(said, text) else "person"

    @property
    def _mostly_acts(self) -> bool:
        """Whether the model acts in nearly all that it says."""
        return self._facts["acted"] > 2 and self._facts["acted"] >= 3 * self._facts["talk"]

    def _gives_bare(self, answer: str) -> bool:
        """Whether this is what a marked action gave, though nothing around it says so: the host always does that."""
        marked = self._facts["marked"]
        first = sum(self._facts[f"marked head {line}"] for line in self._first_lines)
        last = sum(self._facts[f"marked line {line}"] for line in self._last_lines)
        framed = self._facts["marked worded"] + max(first, last)
        return 2 * framed < marked and (marked > 1 or _reading(answer) == "made")

    def _may_give(self, said: str, answer: str) -> bool:
        """Whether a turn may be what an action of the model's gave, though nothing says so.

        Where the host words nearly all that answers such an action as an answer, one without may be a person's. Lines
        that were only learned don't count here: outputs that are alike have some too.
        """
        ends = manner(said)
        if self._facts[ends] > 2 and 4 * self._facts[f"{ends} worded"] >= 3 * self._facts[ends]:
            return _reading(answer) == "made"
        if ends == "marked":
            return True
        return self._may_run(said) if ends else self._mostly_acts

    def _may_run(self, said: str) -> bool:
        """Whether the code in the model's turn may have been run: as code here often is, or as the words before it say.

        Not where people have always answered code in words: there it is shown to them.
        """
        turns, made, words, addressed, intended = (
            sum(self._facts[f"{kind}{what}"] for kind in _CODE)
            for what in ("", " made", " words", " addressed", " intends")
        )
        if addresses(said):
            return False
        if made > 1 and made >= words and turns >= 4 * addressed:
            return True
        about_to = manner(said) != "shown" and intends(said)
        return about_to and (turns < 3 or (made > 0 and 2 * intended >= turns))


@remembered
def _is_observation(text: str) -> bool:
    """Whether the turn is worded as an observation."""
    return _OBSERVATION.search(text) is not None


def _last_line(text: str) -> str:
    """The last line, as a digest: what the host puts under its outputs is the same every time, whatever it says."""
    return _digest(text.rstrip()[-400:].rpartition("\n")[2].strip()[-80:])


def _first_line(text: str) -> str:
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


def _turn_before(views: Sequence[View], index: int) -> View | None:
    """The model's turn right before this `user` turn, if it is the model's."""
    before = next((views[i] for i in range(index - 1, -1, -1) if views[i].role != "system"), None)
    models = before and before.role == "assistant" and before.origin != "summary" and not is_ours(before)
    return before if models else None


def _facts_shown_by(views: Sequence[View], index: int) -> list[str]:
    """What this message shows of the host's habits."""
    view = views[index]
    if view.role != "user" or view.origin not in {"person", "tool", "doubtful", "unknown"} or is_cleared(view):
        return []  # what stood there was counted when it was cleared
    head, line, before = _first_line(view.text), _last_line(view.text), _turn_before(views, index)
    if before is None:
        return [f"plain head {head}"] if head else []
    ends, acted, worded = manner(before.text), acts(before.text), _is_observation(view.text)
    code = ends in _CODE
    seen = {
        "acted": acted,
        "talk": not acted,
        f"plain head {head}": head and not acted and not ends,
        f"head {head}": head and acted,
        f"line {line}": line and acted,
        ends: ends,
        f"{ends} worded": ends and worded,
        f"{ends} head {head}": ends and head,
        # A bare "ok" that comes often is the output itself.
        f"{ends} line {line}": ends and not worded and "\n" in view.text.strip(),
        f"{ends} {_reading(view.text) if code else ''}": code,
        f"{ends} addressed": code and addresses(before.text),
        f"{ends} intends": code and intends(before.text),
    }
    return [fact for fact, holds in seen.items() if holds]


@remembered
def _reading(text: str) -> Literal["made", "words", "neither"]:
    """What most of a turn is: made by a machine, with nobody opening it or asking at its end, or said in words.

    A few lines tell: the first ones, and the last. A word or two is neither.
    """
    lines = [line.rstrip()[:300] for line in text[:4_000].splitlines() if line.strip()][:_READ]
    lines += [text.rstrip().rpartition("\n")[2].rstrip()[:300]] * (len(lines) == _READ)
    said = [_reads_as_speech(line) for line in lines]
    if 2 * sum(said) >= len(lines) > 0:
        return "words"
    first = lines[0] if lines else ""
    leads = len(lines) == 1 or first.endswith((":", ",", "!", ".", "\uff1a", "\uff0c"))  # "Now:"
    few = leads and len(first.split()) <= 3 and _PLAIN.match(first) and not _MADE.match(first)
    return "neither" if few or any(said[:1]) or (any(said[-1:]) and lines[-1].endswith(_ASKS)) else "made"


def _reads_as_speech(line: str) -> bool:
    """Whether a line reads as if somebody said it: three words or more, signs that stand for them, or a question."""
    line = bare(line)
    if _MADE.match(line):
        return False
    words = line.split()
    plain = sum(_PLAIN.fullmatch(word) is not None for word in words)
    if line.endswith(_ASKS):
        return 2 * plain >= len(words)
    signs = sum(sign > "\u2e7f" for sign in line)
    return (len(words) > 2 and 5 * plain >= 3 * len(words)) or 2 * signs >= max(8, len(line))
