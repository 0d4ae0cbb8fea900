"""A block of conversation in, its summary out, by way of asks. No I/O; nothing is trusted before it is verified.

    what goes ── fits the summariser's window ──> one ask
             └── is larger ──> one ask a chunk (map), then asks that put the notes together (fold)

Everything that goes is shown exactly once; an earlier summary is brought up to date, never stacked. A reply with a
fault is asked for once more, with the fault named; then the summary has failed. A summary that claims what nobody said
is given back once to be put right, if its ask was not repeated already, and then mended by rule (`claims`). So the
number of calls is at most `calls_bound`: two for each chunk and for each fold.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace

from unabridged.asking.ask import Ask, AskFailed, Rejected, Reply, added, cost_of
from unabridged.errors import SummaryFailed
from unabridged.languages import language_name
from unabridged.measure.calibrate import Usage
from unabridged.messages import View
from unabridged.summarise.chunking import Block, Chunks, Live, calls_bound, make_chunks
from unabridged.summarise.claims import Finding, Mended, mend, within
from unabridged.summarise.evidence import Evidence
from unabridged.summarise.instructions import Question
from unabridged.summarise.shown import marks
from unabridged.summarise.standing import NO_RULE, split_rules, unsaid_rules
from unabridged.summarise.verify import Expected, Problem, impossible, problems, visible

__all__ = ["Ask", "AskFailed", "Block", "Live", "Rejected", "Reply", "Summary", "calls_bound", "summarise"]

SHRINKS = 2
"""How often a summariser may say that an ask was too long for it before it is given up."""

MOST_NAMED = 12
"""Claims that are named to the model when a summary is given back."""
MOST_LISTED = 40
"""Claims that are listed one by one when a summary was mended."""

_TOO_LONG = frozenset({"over-budget", "not-smaller"})
_NO_ROOM = frozenset({"cut-off", "empty", "reasoning-only"})
"""What becomes of the reply of a model that thinks first and has no room for that."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Prose that passed every check, what it cost, and what could not be checked."""

    text: str
    calls: int
    usage: Usage | None
    checks_impossible: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """Who wrote it."""
    notes: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    """What was taken out of it or marked, because it did not hold."""
    rules: tuple[str, ...] = ()
    """Sentences that the model listed as standing rules; nothing is known of them yet."""


@dataclass(slots=True)
class _Tally:
    calls: int = 0
    usage: Usage | None = None
    impossible: dict[str, None] = field(default_factory=dict)
    models: dict[str, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    rules: dict[str, None] = field(default_factory=dict)

    def add(self, reply: Reply) -> Reply:
        """Count the reply, and take the rules it lists out of it."""
        text, rules = split_rules(visible(reply.text))
        self.rules.update(dict.fromkeys(rules))
        self.calls += 1
        self.usage = added(self.usage, reply.usage)
        self.impossible.update(dict.fromkeys(impossible(reply)))
        self.models.update(dict.fromkeys([reply.model] if reply.model else []))
        self.notes.update(dict.fromkeys(reply.notes))
        return replace(reply, text=text) if rules else reply


def summarise(block: Block) -> Generator[Ask, Reply, Summary]:
    """Yields asks, is sent replies, and ends with the summary; `SummaryFailed` when none was good enough.

    A driver that could not get a reply throws `AskFailed`. One that says the ask was too long is answered with smaller
    asks, twice at most; any other ends the summary.
    """
    tally = _Tally()
    try:
        return (yield from _summarised(block, tally))
    except SummaryFailed as failed:
        failed.cost = cost_of(tally.calls, tally.usage) if tally.calls else {}
        raise


def _summarised(block: Block, tally: _Tally) -> Generator[Ask, Reply, Summary]:
    """The summary; what its asks took is counted in the tally, whatever comes of it."""
    refused: SummaryFailed
    for _ in range(SHRINKS + 1):
        work = _Work(block, make_chunks(block), tally)
        try:
            text = yield from work.steps()
            mended = yield from work.faithful(text)
        except AskFailed as failed:
            if failed.overflow is None:
                raise
            refused = failed
            block = _smaller(block, failed.overflow.limit, tally)
            continue
        except Rejected as rejected:
            if not (work.plan.tight and _NO_ROOM & set(rejected.problems)):
                raise
            tally.notes[f"asked again apart: {work.plan.reserve:,} tokens were too few for the reply"] = None
            refused, block = rejected, replace(block, mode="standalone")
            continue
        return Summary(
            mended.text,
            tally.calls,
            tally.usage,
            tuple(tally.impossible),
            tuple(tally.models),
            tuple(tally.notes),
            _listed(mended.findings),
            tuple(tally.rules),
        )
    raise refused


def _listed(findings: Sequence[Finding]) -> tuple[str, ...]:
    """What was mended, for the receipt; repetitions are only counted."""
    lines = list(dict.fromkeys(finding.line for finding in findings if finding.kind != "repetition"))
    listed = lines[:MOST_LISTED] + [f"and {len(lines) - MOST_LISTED:,} more"] * (len(lines) > MOST_LISTED)
    if again := sum(finding.kind == "repetition" for finding in findings):
        listed.append(f"lines that say only what the ledger says, left out: {again:,}")
    return tuple(listed)


def _smaller(block: Block, limit: int | None, tally: _Tally) -> Block:
    """The same block for a summariser that takes less than was thought."""
    if block.mode == "suffix":
        return replace(block, mode="standalone", window=min(block.window, limit or block.window))
    window = limit if limit is not None and limit < block.window else block.window * 3 // 5
    tally.notes[f"the summariser takes {window:,} tokens, not {block.window:,}"] = None
    return replace(block, window=window)


# -- asking -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Work:
    """One summary under way."""

    block: Block
    plan: Chunks
    tally: _Tally
    spare: bool = False
    """Whether the last ask was answered at once, so that another may follow it."""

    def steps(self) -> Generator[Ask, Reply, str]:
        """The prose, as accepted."""
        block, plan = self.block, self.plan
        final = self._expected(block.budget, self._replaced(), _said(block.views))
        if plan.suffix:
            return (yield from self._accepted(self._suffix, final))
        self._note_limits()
        if plan.single:
            return (yield from self._accepted(self._single, final))
        notes = [plan.prior_note] if plan.prior_note else []
        for chunk in plan.chunks:
            shown = [piece.text for piece in chunk]
            expected = self._expected(plan.note, None, shown)
            notes.append((yield from self._accepted(self._chunk(shown), expected)))
        while len(runs := plan.folds([block.count(note) for note in notes])) > 1:
            notes = yield from self._folded(notes, runs)
        return (yield from self._accepted(self._fold(notes, final=True), replace(final, shown=())))

    def _folded(self, notes: Sequence[str], runs: Sequence[Sequence[int]]) -> Generator[Ask, Reply, list[str]]:
        """Fewer notes: each run of them as one."""
        folded: list[str] = []
        for run in runs:
            group = [notes[i] for i in run]
            if len(group) > 1:
                expected = self._expected(self.plan.note, None, ())
                group = [(yield from self._accepted(self._fold(group), expected))]
            folded += group
        return folded

    def _accepted(self, question: _Asking, expected: Expected) -> Generator[Ask, Reply, str]:
        """The reply to the question, once it has no fault; a faulty one is asked for again, once."""
        first, key = question("")
        reply = self.tally.add((yield first))
        found = problems(reply, replace(expected, marks=marks(key)))
        self.spare = not found
        if not found:
            return visible(reply.text)
        second, key = self._again(question, found, visible(reply.text), expected)
        reply = self.tally.add((yield replace(second, again=1)))
        found = problems(reply, replace(expected, marks=marks(key)))
        if not found:
            return visible(reply.text)
        raise self._rejected(found)

    def _rejected(self, found: Sequence[Problem]) -> Rejected:
        return Rejected(
            f"the summary was not usable after {self.tally.calls} calls: {'; '.join(p.message for p in found)}",
            problems=tuple(problem.name for problem in found),
            calls=self.tally.calls,
            usage=self.tally.usage,
            models=self.tally.models,
        )

    def faithful(self, draft: str) -> Generator[Ask, Reply, Mended]:
        """The draft with nothing in it that does not hold; given back to the model once, then mended by rule."""
        block, language = self.block, self.plan.wording.language
        evidence = Evidence(block.views, block.beside, block.prior, block.ledger, block.ledger_text, block.also)
        mended = mend(draft, evidence, language=language)
        faults = [finding.fault for finding in mended.findings if finding.kind != "repetition"]
        if faults and self.spare:
            second = yield from self._put_right(draft, faults)
            if second and 2 * block.count(second) >= block.count(mended.text):
                again = mend(second, evidence, language=language)
                left = sum(finding.kind != "repetition" for finding in again.findings)
                # What the model itself put right is listed with what the rules still had to mend.
                known = {finding.text for finding in again.findings}
                before = (f for f in mended.findings if f.kind != "repetition" and f.text not in known)
                if left < len(faults):
                    mended = Mended(again.text, (*again.findings, *before))
        text = within(mended.text, block.budget, block.count)
        if not text:
            raise self._rejected([Problem("unfaithful", "nothing in the reply was found in the conversation")])
        unsaid = (Finding("instruction", rule, NO_RULE) for rule in unsaid_rules(self.tally.rules, evidence))
        return Mended(text, (*mended.findings, *unsaid))

    def _put_right(self, draft: str, faults: Sequence[str]) -> Generator[Ask, Reply, str]:
        """What the model makes of the draft once it is told what does not hold; "" when that is no use."""
        tokens = min(self.plan.goal, self.block.budget * 4 // 5)
        named = "\n".join(f"- {fault}" for fault in faults[:MOST_NAMED])
        question = self.plan.wording.mend(draft, tokens=tokens, fault=named)
        if self.block.count(question.text) + self.plan.reserve > self.block.window * 19 // 20:
            return ""
        try:
            reply = self.tally.add((yield replace(self._ask(question)[0], again=1)))
        except AskFailed:  # the draft is there, and the rules can mend it
            return ""
        expected = self._expected(self.block.budget, self._replaced(), ())
        return "" if problems(reply, replace(expected, marks=marks(question.key))) else visible(reply.text)

    def _again(self, question: _Asking, found: Sequence[Problem], draft: str, expected: Expected) -> tuple[Ask, str]:
        """A draft that is only too long, or in the wrong language, is cheaper to mend than to write anew."""
        names = {problem.name for problem in found}
        fault = "; ".join(problem.message for problem in found)
        wording = self.plan.wording
        if self.block.count(draft) <= self.plan.fold_room:
            tokens = min(self.plan.goal, expected.budget * 4 // 5)
            if names <= _TOO_LONG:
                return self._ask(wording.shorten(draft, tokens=tokens, fault=fault))
            if names == {"wrong-language"} and language_name(wording.language):
                return self._ask(wording.translate(draft, tokens=tokens, fault=fault))
        second, key = question(fault)
        if "cut-off" in names and not second.messages:  # it may have thought at length: give it what is left
            left = self.block.window * 19 // 20 - self.block.count(second.instruction)
            second = replace(second, max_tokens=max(second.max_tokens, min(2 * self.plan.reserve, left)))
        return second, key

    def _suffix(self, fault: str) -> tuple[Ask, str]:
        live = self.plan.live
        if live is None:
            raise ValueError("a suffix needs the live prompt: set live")
        question = self.plan.wording.suffix(tokens=self.plan.goal, kept=live.kept, ledger=self.plan.ledger, fault=fault)
        ask = Ask(live.system, live.messages, live.tools, question.text, self.plan.reserve, window=self.block.window)
        return ask, ""

    def _single(self, fault: str) -> tuple[Ask, str]:
        shown = [piece.text for piece in self.plan.chunks[0]]
        return self._ask(
            self.plan.wording.record(
                shown, tokens=self.plan.goal, prior=self.block.prior, ledger=self.plan.ledger, fault=fault
            )
        )

    def _chunk(self, shown: Sequence[str]) -> _Asking:
        tokens = self.plan.note * 2 // 3
        return lambda fault: self._ask(self.plan.wording.record(shown, tokens=tokens, part=True, fault=fault))

    def _fold(self, notes: Sequence[str], *, final: bool = False) -> _Asking:
        tokens = self.plan.goal if final else self.plan.note * 2 // 3
        ledger = self.plan.ledger if final else ""
        return lambda fault: self._ask(self.plan.wording.fold(notes, tokens=tokens, ledger=ledger, fault=fault))

    def _ask(self, question: Question) -> tuple[Ask, str]:
        ask = Ask(instruction=question.text, max_tokens=self.plan.reserve, window=self.block.window)
        return replace(ask, gone=self.block.gone, budget=self.block.budget), question.key

    def _expected(self, budget: int, replaced: int | None, shown: Sequence[str]) -> Expected:
        most = replaced if replaced is not None else 1 << 60
        return Expected(budget, most, self.block.count, shown, self.plan.wording.language)

    def _replaced(self) -> int:
        count = self.block.count
        return sum(count(text) for text in _said(self.block.views)) + count(self.block.prior)

    def _note_limits(self) -> None:
        live, most = self.block.live, self.block.max_input
        if self.block.mode == "suffix" and live is not None:
            self.tally.notes[f"asked apart: no room behind the live prompt of {live.tokens:,} tokens"] = None
        if most is not None and (whole := self._replaced()) > most:
            self.tally.notes[f"the summariser was shown the newest {most:,} of {whole:,} tokens (max_input)"] = None


_Asking = Callable[[str], tuple[Ask, str]]
"""Makes the ask, and tells its key, given the fault of the attempt before ("" the first time)."""


def _said(views: Sequence[View]) -> list[str]:
    return [text for view in views if (text := view.whole_text())]
