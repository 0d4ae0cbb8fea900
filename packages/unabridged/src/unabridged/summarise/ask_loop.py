"""A conversation in, its summary out, by way of asks. No I/O; nothing is trusted before it is verified.

    what goes ── fits the summariser's window ──> one ask
             └── is larger ──> one ask a chunk (map), then asks that put the notes together (fold)

Everything that goes is shown exactly once; an earlier summary is brought up to date, never stacked. A reply with a
fault is asked for once more, with the fault named; then the summary has failed. So the number of calls is at most
`calls_bound`: two for each chunk and for each fold. What of the accepted prose may stand is for `checks` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from unabridged.asking.ask import Ask, AskFailed, Rejected, Reply, add_usage, cost_of
from unabridged.errors import SummaryFailed
from unabridged.languages import language_name
from unabridged.measure.calibrate import Usage
from unabridged.summarise.brief import Brief, Summariser
from unabridged.summarise.checks import People, check_prose
from unabridged.summarise.chunks import FRAME, Chunks, fitting, make_chunks
from unabridged.summarise.prompt import Question, parts
from unabridged.summarise.rules import split_rules
from unabridged.summarise.verify import Expected, Problem, find_problems, impossible_checks, trim, visible_text

OVERRUN = 1.25
"""Of what a reply may take, up to which it is shortened by rule and not asked for again."""
SHRINKS = 3
"""How often a summariser may say that an ask was too long for it before it is given up."""

_TOO_LONG = frozenset({"over-budget", "not-smaller"})
_NO_ROOM = frozenset({"cut-off", "empty", "reasoning-only"})
"""What becomes of the reply of a model that thinks first and has no room for that."""


@dataclass(slots=True)
class Summary:
    """Prose that passed every check, what the asks for it took and brought, and what could not be checked."""

    text: str = ""
    calls: int = 0
    usage: Usage | None = None
    checks_impossible: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """Who wrote it."""
    notes: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    """What was taken out of it, because it did not hold."""
    rules: tuple[str, ...] = ()
    """Sentences that the model listed as standing rules; nothing is known of them yet."""
    used: list[tuple[int | None, Usage | None]] = field(default_factory=list)
    """Of each call that was answered: by which model, by its place, and what it used."""
    wasted: list[tuple[int | None, Usage | None]] = field(default_factory=list)
    """Those of them whose reply was no good, while another model's was."""
    failed: dict[int | None, SummaryFailed] = field(default_factory=dict)
    """By its place, the newest error of each model that failed and in whose place another one was asked."""

    def add(self, reply: Reply, *, asked_for_rules: bool = True) -> Reply:
        """Count the reply, and take the rules it lists out of it; where none were asked for, it stays as it is."""
        text, rules = split_rules(visible_text(reply.text)) if asked_for_rules else (reply.text, ())
        self.fail(*reply.failed)
        self.used.append((reply.place, reply.usage))
        self.calls += 1
        self.usage = add_usage(self.usage, reply.usage)
        self.checks_impossible = _once(*self.checks_impossible, *impossible_checks(reply))
        self.models = _once(*self.models, *filter(None, [reply.model]))
        self.rules = _once(*self.rules, *rules)
        self.note(*reply.notes)
        return replace(reply, text=text)

    def fail(self, *errors: SummaryFailed) -> None:
        """Remember that these models failed; the newest error of each counts."""
        self.failed |= {error.place: error for error in errors}

    def failures(self) -> tuple[SummaryFailed, ...]:
        """Return the errors of the models in whose place another one answered, each with what it took for nothing."""
        for place, error in self.failed.items():
            error.cost = _cost(usage for by, usage in self.wasted if by == place)
        return tuple(self.failed.values())

    def give_up(self, last: SummaryFailed) -> None:
        """Give the error that ends the summary, and those of other models, what the calls of each took: all of them."""
        self.fail(*last.others)
        others = {place: error for place, error in self.failed.items() if place != last.place}
        for place, error in others.items():
            error.cost = _cost(usage for by, usage in self.used if by == place)
        last.cost = _cost(usage for by, usage in self.used if by not in others)
        last.others = tuple(others.values())

    def note(self, *notes: str) -> None:
        """Add what the receipt should say, each thing once."""
        self.notes = _once(*self.notes, *notes)


def _cost(used: Iterable[Usage | None]) -> dict[str, float]:
    """Return what these calls took, as a receipt has it; nothing where there were none."""
    calls = list(used)
    return cost_of(len(calls), reduce(add_usage, calls, None)) if calls else {}


def _once(*entries: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entries))


def summarise(brief: Brief, model: Summariser) -> Generator[Ask, Reply, Summary]:
    """Yields asks, is sent replies, and ends with the summary; `SummaryFailed` when none was good enough.

    A driver that could not get a reply throws `AskFailed`. One that says the ask was too long is answered with smaller
    asks, three times at most; any other ends the summary.
    """
    summary = Summary()
    try:
        yield from _ask_until_it_fits(brief, model, summary)
    except SummaryFailed as failed:
        summary.give_up(failed)
        raise
    return summary


def _ask_until_it_fits(brief: Brief, model: Summariser, summary: Summary) -> Generator[Ask, Reply, None]:
    """Asks for the prose, with smaller asks, or apart from the live prompt, where there was no room."""
    refused: SummaryFailed
    for _ in range(SHRINKS + 1):
        work = _Work(brief, model, make_chunks(brief, model), summary)
        try:
            text = yield from work.write()
            return work.check(text)
        except AskFailed as failed:
            if failed.overflow is None:
                raise
            summary.fail(*failed.others)
            refused = failed
            model = _with_smaller_window(model, failed, work.asked, summary)
        except Rejected as rejected:
            if not (work.plan.tight and _NO_ROOM & set(rejected.problems)):
                raise
            summary.note(f"asked again apart: {work.plan.reserve:,} tokens were too few for the reply")
            refused, model = rejected, replace(model, live=None)
    raise refused


def _with_smaller_window(model: Summariser, failed: AskFailed, asked: int, summary: Summary) -> Summariser:
    """The same for a summariser that takes less than was thought: what it told, else half of what it was asked."""
    limit = failed.overflow.limit if failed.overflow is not None else None
    if model.live is not None:
        return replace(model, live=None, window=min(model.window, limit or model.window))
    told = limit is not None and limit < model.window
    window = limit if told and limit is not None else min(model.window * 3 // 5, asked // 2)
    summary.note(f"the summariser takes {window:,} tokens, not {model.window:,}")
    model.learn(failed.place, window)
    return replace(model, window=window)


_Asking = Callable[[str], Question]
"""Words the question, given the fault of the attempt before ("" the first time)."""


@dataclass(slots=True)
class _Work:
    """One summary under way."""

    brief: Brief
    model: Summariser
    plan: Chunks
    summary: Summary
    asked: int = 0
    """What the newest ask takes with its reply, in tokens."""

    @property
    def ours(self) -> bool:
        """Whether it is asked with the built-in prompt."""
        return self.model.instruction is None

    def write(self) -> Generator[Ask, Reply, str]:
        """The prose, as accepted."""
        brief, plan = self.brief, self.plan
        texts = [text for view in brief.views if (text := view.whole_text())]
        whole = sum(brief.count(text) for text in texts) + brief.count(brief.prior)
        if brief.source is not None:  # what a hook condensed may be told as it is
            texts = [text for view in brief.source if (text := view.whole_text())]
        final = self._expected(brief.budget + brief.spare, texts, brief.replaced or whole)
        if (self.model.reserve or 0) > (half := self.model.window // 2):
            self.summary.note(
                f"the reply got {half:,} of {self.model.reserve:,} tokens: half of the summariser's window"
            )
        if plan.live is not None:
            return (yield from self._ask_for(self._suffix, final))
        self._note_limits(whole)
        if plan.single:
            return (yield from self._ask_for(self._single, final))
        notes = [plan.prior_note] if plan.prior_note else []
        for shown in plan.chunks:
            note = yield from self._ask_for(self._chunk(shown), self._expected(plan.note, shown))
            notes.append(note)
        while len(runs := plan.folds([brief.count(note) for note in notes])) > 1:
            notes = yield from self._fold_runs(notes, runs)
        return (yield from self._ask_for(self._fold(notes, final=True), replace(final, shown=())))

    def check(self, draft: str) -> None:
        """The draft without what may not stand in it becomes the summary; `Rejected` when nothing is left."""
        people = People.of(self.brief)
        checked = check_prose(draft, self.brief, people)
        if not checked.text:
            raise self._rejected([Problem("unfaithful", "nothing in the reply may stand in a summary")])
        self.summary.text = checked.text
        self.summary.mended = checked.left_out
        self.summary.note(*checked.notes)

    def _fold_runs(self, notes: Sequence[str], runs: Sequence[Sequence[int]]) -> Generator[Ask, Reply, list[str]]:
        """Fewer notes: each run of them as one."""
        folded: list[str] = []
        for run in runs:
            group = [notes[i] for i in run]
            if len(group) > 1:
                group = [(yield from self._ask_for(self._fold(group), self._expected(self.plan.note)))]
            folded += group
        return folded

    def _ask_for(self, word: _Asking, expected: Expected) -> Generator[Ask, Reply, str]:
        """The reply to the question, once it has no fault; a faulty one is asked for again, once."""
        question = word("")
        reply = self._trimmed(self.summary.add((yield self._ask(question)), asked_for_rules=self.ours), expected)
        found = find_problems(reply, replace(expected, marks=question.marks))
        if found:
            question, ask = self._again(word, found, visible_text(reply.text), expected)
            fault = _fault(reply, found)
            try:
                said = yield replace(ask, again=1)
            except AskFailed as failed:
                if failed.overflow is None and failed.place not in {None, reply.place}:
                    self.summary.fail(fault)
                raise
            if said.place != reply.place:
                self.summary.fail(fault)
                self.summary.wasted.append((reply.place, reply.usage))
                self.summary.note(f"{fault.reason}; {said.model} was asked instead")
            reply = self._trimmed(self.summary.add(said, asked_for_rules=self.ours), expected)
            found = find_problems(reply, replace(expected, marks=question.marks))
        if found:
            raise self._rejected(found)
        return visible_text(reply.text)

    def _trimmed(self, reply: Reply, expected: Expected) -> Reply:
        """The reply, one that is a little too long without the last lines of its longest sections.

        Beside a prompt of the caller's own a reply of any length is shortened so: it was not told how long it may be.
        """
        text = visible_text(reply.text)
        size = expected.count(text)
        if size <= expected.budget or (self.ours and size > expected.budget * OVERRUN):
            return reply
        self.summary.note(f"the summary took {size:,} of {expected.budget:,} tokens: shortened by rule")
        trimmed = trim(text, expected.budget, expected.count)
        if (
            not self.ours and not expected.budget // 2 <= expected.count(trimmed) <= expected.budget
        ):  # its lines are long
            trimmed = text[: fitting(text, expected.budget, expected.count)].rstrip()
        return replace(reply, text=trimmed)

    def _rejected(self, found: Sequence[Problem]) -> Rejected:
        """Return the error that ends the summary: the last reply was no good."""
        return Rejected(
            f"the summary was not usable after {self.summary.calls} calls: {'; '.join(p.message for p in found)}",
            problems=tuple(problem.name for problem in found),
            calls=self.summary.calls,
            usage=self.summary.usage,
            models=self.summary.models,
            place=self.summary.used[-1][0],
        )

    def _again(self, word: _Asking, found: Sequence[Problem], draft: str, expected: Expected) -> tuple[Question, Ask]:
        """The second ask. A draft that is only too long, or in the wrong language, is cheaper to mend than to redo."""
        names = {problem.name for problem in found}
        fault = "; ".join(problem.message for problem in found)
        wording = self.plan.wording
        how = "shorten" if names <= _TOO_LONG and self.ours else ""
        if names == {"wrong-language"} and language_name(wording.language) and self.ours:
            how = "translate"
        if how and self.brief.count(draft) <= self.plan.fold_room:
            tokens = min(self.plan.goal, expected.budget * 4 // 5)
            question = wording.rewrite(how, draft, tokens=tokens, fault=fault)
            return question, self._ask(question, apart=True)
        question = word(fault)
        ask = self._ask(question)
        if "cut-off" in names and not ask.messages and self.model.reserve is None:
            # It may have thought at length: give it what is left.
            left = self.model.window * 19 // 20 - self.brief.count(ask.instruction)
            ask = replace(ask, max_tokens=max(ask.max_tokens, min(2 * self.plan.reserve, left)))
        return question, ask

    def _suffix(self, fault: str) -> Question:
        kept = self.plan.live.kept if self.plan.live is not None else 0
        return self.plan.wording.suffix(tokens=self.plan.goal, kept=kept, rules=self.plan.rules, fault=fault)

    def _single(self, fault: str) -> Question:
        return self.plan.wording.record(
            self.plan.chunks[0], tokens=self.plan.goal, prior=self.brief.prior, rules=self.plan.rules, fault=fault
        )

    def _chunk(self, shown: Sequence[str]) -> _Asking:
        tokens = self.plan.note * 2 // 3
        return lambda fault: self.plan.wording.record(shown, tokens=tokens, part=True, fault=fault)

    def _fold(self, notes: Sequence[str], *, final: bool = False) -> _Asking:
        tokens = self.plan.goal if final else self.plan.note * 2 // 3
        rules = self._known_rules(notes) if final else ()
        return lambda fault: self.plan.wording.fold(notes, tokens=tokens, rules=rules, last=final, fault=fault)

    def _known_rules(self, notes: Sequence[str]) -> tuple[str, ...]:
        """Return the rules carried on, and of those that earlier replies listed as many as fit beside the notes."""
        count, known = self.brief.count, list(self.plan.rules)
        left = self.plan.fold_room - sum(count(note) + FRAME for note in notes) - count(parts()["known-rules"]) - FRAME
        for rule in self.summary.rules:
            left -= count(rule) + 2
            known += [rule] * (left >= 0)
        return _once(*known)

    def _ask(self, question: Question, *, apart: bool = False) -> Ask:
        """The question as an ask: behind the live prompt where that is the plan, else on its own."""
        ask = Ask(instruction=question.text, max_tokens=self.plan.reserve, window=self.model.window)
        self.asked = self.brief.count(question.text) + self.plan.reserve
        if self.plan.live is not None and not apart:
            live = self.plan.live
            return replace(ask, system=live.system, messages=live.messages, tools=live.tools)
        return replace(ask, gone=self.brief.gone, budget=min(self.brief.budget, self.plan.reserve))

    def _expected(self, budget: int, shown: Sequence[str] = (), replaced: int = 1 << 60) -> Expected:
        return Expected(budget, replaced, self.brief.count, shown, self.plan.wording.language)

    def _note_limits(self, whole: int) -> None:
        live, most = self.model.live, self.model.max_input
        if live is not None:
            self.summary.note(f"asked apart: no room behind the live prompt of {live.tokens:,} tokens")
        if most is not None and whole > most:
            self.summary.note(f"the summariser was shown the newest {most:,} of {whole:,} tokens (max_input)")


def _fault(reply: Reply, found: Sequence[Problem]) -> Rejected:
    """Return the error of a model whose reply was no good, where another one may be asked."""
    return Rejected(
        f"a reply of {reply.model or 'the model'} was not usable: {'; '.join(problem.message for problem in found)}",
        problems=tuple(problem.name for problem in found),
        calls=1,
        usage=reply.usage,
        models=filter(None, [reply.model]),
        place=reply.place,
    )
