"""How the host of a text protocol answers, learned by counting: what it did every time, it will have done this time.

The counts are small, say nothing of what was said, and are stored with each record. So a list that was compacted is
judged with all that went in mind, and every turn in it is taken for whose it was before.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, cast

from unabridged.ledger.phrasing import bare
from unabridged.messages import View
from unabridged.remember import remembered
from unabridged.rewrite import is_ours
from unabridged.stubs import is_stub

Facts = Mapping[str, int]
"""How often each thing was seen; see `_seen` for what is counted."""
NOTHING: Facts = Counter()

Manner = Literal["", "marked", "fenced"]
"""How a turn of the model ends: in words, in an action that is marked as one, in one block of shell commands."""
MANNERS: tuple[Manner, ...] = ("marked", "fenced")

_LINES = 12
"""Last lines that are remembered of each kind: one that the host puts under every output is soon among them."""
_READ = 12
"""Lines that are looked at to tell whether somebody said them."""
_ACTION = re.compile(
    r"<(?:command|execute\w*|tool_call|tool_use|function[=_]\w*|invoke|action|bash|shell|run)\b"
    r"|^[ \t]*(?:Action|ACTION|Command|Tool|Action Input)[ \t]*:"
    r"|```(?:bash|sh|shell|console|python|tool_code|json|mswea_bash_command|repl)?\s*\n[^`]+```\s*$"
    r"|^[ \t]*\$ \S",
    re.MULTILINE,
)
_ENDS_MARKED = re.compile(
    r"</(?:command|execute\w*|tool_call|tool_use|function|invoke|action|bash|shell|run|function_calls)>\s*\Z"
    r"|^[ \t]*Action[ \t]*:[^\n]+(?:\n[ \t]*Action Input[ \t]*:[^\n]*)?\s*\Z",
    re.MULTILINE,
)
_ENDS_FENCED = re.compile(
    r"(?:\A|\n)```(?:bash|sh|shell|zsh|console|powershell|mswea_bash_command)?[ \t]*\n(?!```).*\n?```\s*\Z", re.DOTALL
)
_OBSERVATION = re.compile(
    r"\A\s*(?:<(?:output|returncode|observation|tool_result|tool_response|function_result|stdout|stderr|result)\b"
    r"|\[?(?:Observation|OBSERVATION|Tool (?:output|result)|Output|OUTPUT|Command output|Execution result"
    r"|EXECUTION RESULT|STDOUT|STDERR)\b[^\n]{0,40}[:\]]"
    r"|Traceback \(most recent call last\)|\[File: |Your command ran |Exit code\b|exit code\b|returncode\b)"
    r"|(?:\n|\A)\S{0,40}[$#>]\s*\Z"
    r"|\n\[?(?:exit code|Exit code|returncode|The command completed with exit code)\W{0,3}\d+",
)
# Who shows a command to somebody speaks to them; who runs it does not.
_ADDRESSED = re.compile(
    r"\b(?:you(?:r|rs|rself|'\w+)?|(?:run|use|try) (?:this|these|the following|it)|Sie|Ihr\w*|du|dein\w*|vous|votre|vos"
    r"|usted|ustedes|puedes)\b|[你您]|ください",
    re.IGNORECASE,
)
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
_EASTERN = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_ASKS = ("?", "\uff1f", "\u061f")


def learned(views: Sequence[View], gone: Collection[int], before: Facts = NOTHING) -> Facts:
    """What is known when these messages are gone or changed: what was known, and what each of them showed."""
    if calls_tools(views, before):
        return {"calls": 1}
    facts = Counter(before)
    facts.update(fact for i in sorted(gone) for fact in _seen(views, i))
    kept = Counter({fact: number for fact, number in facts.items() if "line " not in fact})
    for kind in ("line ", "marked line ", "fenced line "):
        lines = Counter({fact: number for fact, number in facts.items() if fact.startswith(kind)})
        kept.update(dict(lines.most_common(_LINES)))
    return kept


def stored(data: Mapping[str, object]) -> Facts:
    """The facts that a record holds; records of earlier versions have none."""
    return Counter(cast("dict[str, int]", data.get("habits") or {}))


def seen_in(views: Sequence[View], before: Facts) -> Facts:
    """What is known of the whole conversation: what went, and all that is here."""
    facts = Counter(before)
    facts.update(fact for i in range(len(views)) for fact in _seen(views, i))
    return facts


def calls_tools(views: Sequence[View], before: Facts) -> bool:
    """Whether there are real tool calls, or were: then no `user` turn answers an action in the text."""
    return bool(before.get("calls")) or any(view.calls or view.answers for view in views)


def template(facts: Facts) -> set[str]:
    """Last lines that the host puts under what it answers: a person does not end three messages with the very same."""
    often = max(3, facts.get("acted", 0) // 2)
    return {fact.removeprefix("line ") for fact, times in facts.items() if fact.startswith("line ") and times >= often}


def hands_over_bare(facts: Facts, manner: Manner) -> bool:
    """Whether the host puts nothing of its own around most of what answers an action that ends in this manner.

    Where it does, one without is a person's who spoke in between.
    """
    lines = sum(facts.get(f"{manner} line {line}", 0) for line in template(facts))
    wrapped = facts.get(f"{manner} worded", 0) + lines
    return 2 * wrapped < facts.get(manner, 0)


def is_run(facts: Facts, said: str, answer: str) -> bool:
    """Whether a block of shell commands at the end of the model's turn was run and this is what it printed."""
    if is_a_loop(facts):
        return True
    mostly = facts.get("fenced printed", 0) >= facts.get("fenced words", 0)
    return mostly and looks_printed(answer) and not _addresses(said)


def is_a_loop(facts: Facts) -> bool:
    """Whether blocks of shell commands are run and not shown: what follows them looks printed, and nobody is addressed.

    A few turns must be of one kind; of many, a third may be words, since what is printed may be prose.
    """
    turns, printed, words = (facts.get(f"fenced{kind}", 0) for kind in ("", " printed", " words"))
    others = facts.get("fenced addressed", 0), facts.get("talk", 0)
    if turns < 5:
        return printed > 1 and not (words or any(others))
    return 2 * printed >= turns >= 3 * words and all(turns >= 5 * number for number in others)


def acted(text: str) -> bool:
    """Whether the model's turn holds an action."""
    return _shape(text)[0]


def manner(text: str) -> Manner:
    """How the model's turn ends."""
    return _shape(text)[1]


@remembered
def worded(text: str) -> bool:
    """Whether the turn is worded as an observation."""
    return _OBSERVATION.search(text) is not None


def looks_printed(text: str) -> bool:
    """Whether nothing in it reads as if somebody said it."""
    kind, opens = _reading(text)
    return kind == "printed" and not opens


def last_line(text: str) -> str:
    """The last line, as a digest: what the host puts under its outputs is the same every time, whatever it says."""
    line = text.rstrip().rpartition("\n")[2].strip()[-80:]
    return hashlib.sha256(line.encode("utf-8", "surrogatepass")).hexdigest()[:12] if line else ""


def answered_by(views: Sequence[View], index: int) -> View | None:
    """The model's turn right before this `user` turn, if it is the model's."""
    before = next((views[i] for i in range(index - 1, -1, -1) if views[i].role != "system"), None)
    ours = before is None or before.origin == "summary" or is_ours(before)
    return before if before is not None and not ours and before.role == "assistant" else None


def is_cleared(view: View) -> bool:
    """Whether nothing is left of the turn but stubs."""
    return bool(view.text) and all(map(is_stub, view.text.splitlines()))


def _seen(views: Sequence[View], index: int) -> Iterable[str]:
    """What this message shows of the host's habits."""
    view = views[index]
    before = answered_by(views, index) if view.role == "user" and view.origin in {"person", "tool"} else None
    if before is None or is_cleared(view):  # what stood there was counted when it was cleared
        return
    acts, ends = _shape(before.text)
    if not acts and not ends:
        yield "talk"
        return
    line = last_line(view.text)
    yield from ("acted", *[f"line {line}"] * bool(line))
    if not ends:
        return
    yield ends
    if worded(view.text):
        yield f"{ends} worded"
    elif "\n" in view.text.strip():  # a bare "ok" that comes often is the output itself
        yield f"{ends} line {line}"
    if ends == "fenced":
        kind, _ = _reading(view.text)
        yield from [f"fenced {kind}"] * bool(kind)
        yield from ["fenced addressed"] * _addresses(before.text)


def _addresses(text: str) -> bool:
    """Whether the words before the block speak to somebody."""
    return _ADDRESSED.search(text.partition("```")[0]) is not None


@remembered
def _shape(text: str) -> tuple[bool, Manner]:
    """Whether a turn of the model holds an action, and how it ends."""
    if _ENDS_MARKED.search(text):
        return True, "marked"
    ends = text.count("```") == 2 and _ENDS_FENCED.search(text) is not None
    return bool(_ACTION.search(text)), "fenced" if ends else ""


@remembered
def _reading(text: str) -> tuple[Literal["", "printed", "words"], bool]:
    """What most of a turn is, and whether somebody opens it or asks at its end. A word or two is neither.

    A few lines tell: the first ones, and the last.
    """
    lines = [line.rstrip()[:300] for line in text[:4_000].splitlines() if line.strip()][:_READ]
    lines += [text.rstrip().rpartition("\n")[2].rstrip()[:300]] * (len(lines) == _READ)
    said = [_said(line) for line in lines]
    opens = bool(lines) and (said[0] or _OPENING.fullmatch(lines[0]) or (said[-1] and lines[-1].endswith(_ASKS)))
    kind: Literal["", "printed", "words"] = ""
    if 2 * sum(said) >= len(lines) > 0:
        kind = "words"
    elif len(lines) != 1 or len(lines[0].split()) > 3 or _MADE.match(lines[0]) or not _PLAIN.match(lines[0]):
        kind = "printed"
    return kind, bool(opens)


def _said(line: str) -> bool:
    """Whether a line reads as if somebody said it: three words or more, signs that stand for them, or a question."""
    line = bare(line)
    if _MADE.match(line) or (len(line) < 80 and _MACHINES.search(line)):
        return False
    words = line.split()
    plain = sum(_PLAIN.fullmatch(word) is not None for word in words)
    if line.endswith(_ASKS):
        return 2 * plain >= len(words)
    return (len(words) > 2 and 5 * plain >= 3 * len(words)) or 2 * len(_EASTERN.findall(line)) >= max(8, len(line))
