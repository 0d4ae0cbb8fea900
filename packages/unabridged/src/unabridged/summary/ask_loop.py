"""A conversation in, its summary out, by way of asks. No I/O; nothing is trusted before it is verified.

    what goes ── fits the summariser's window ──> one ask
             └── is larger ──> one ask a chunk (map), then asks that put the notes together (fold)

Everything that goes is shown exactly once; an earlier summary is brought up to date, never stacked. A reply with a
fault is asked for once more, with the fault named; then the summary has failed. So there are at most two calls for each
chunk and for each fold. What of the accepted prose stays is decided by `citations`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

from unabridged.asking.ask import Ask, AskFailed, Rejected, Reply, add_usage, build_call_cost
from unabridged.errors import SummaryFailed
from unabridged.languages import get_language_name
from unabridged.summary import verify
from unabridged.summary.brief import Brief, Summariser
from unabridged.summary.chunks import FRAME_TOKENS, AskPlan, find_fitting_length, group_into_runs, plan_asks
from unabridged.summary.citations import check_prose
from unabridged.summary.prompt import PROMPT_PARTS, Prompt
from unabridged.summary.rules import split_off_rules
from unabridged.summary.verify import ExpectedReply, Problem
from unabridged.tokens.calibrate import Usage

OVERRUN_FACTOR = 1.25
"""Of what a reply may take, up to which it is shortened by rule and not asked for again."""
MAX_SHRINKS = 3
"""How often a summariser may say that an ask was too long for it before it is given up."""

_LENGTH_PROBLEMS = frozenset({"over-budget", "not-smaller"})
_ROOM_PROBLEMS = frozenset({"cut-off", "empty", "reasoning-only"})
"""The faults of a reply by a model that thinks first and has no room for that."""

_CallUsage = tuple[int | None, Usage | None]
"""By which model a call was answered, by its index, and what it used."""


@dataclass(slots=True)
class ModelSummary:
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
    """Sentences that the model listed as standing rules, not checked yet."""
    used: list[_CallUsage] = field(default_factory=list)
    wasted: list[_CallUsage] = field(default_factory=list)
    """Those of `used` whose reply was no good, while another model's was."""
    failed: dict[int | None, SummaryFailed] = field(default_factory=dict)
    """By its index, the newest error of each model that failed and in whose place another one was asked."""

    def add_reply(self, reply: Reply, *, has_rules: bool = True) -> Reply:
        """Count the reply and return it without the rules that it lists; where none were asked for, as it is."""
        visible = verify.extract_visible_text(reply.text) if has_rules else ""
        text, rules = split_off_rules(visible) if visible else (reply.text, ())  # thinking alone is a fault of its own
        self.record_failures(*reply.failed)
        self.used.append((reply.place, reply.usage))
        self.calls += 1
        self.usage = add_usage(self.usage, reply.usage)
        self.checks_impossible = _remove_duplicates(*self.checks_impossible, *verify.list_impossible_checks(reply))
        self.models = _remove_duplicates(*self.models, *filter(None, [reply.model]))
        self.rules = _remove_duplicates(*self.rules, *rules)
        self.note(*reply.notes)
        return replace(reply, text=text)

    def record_failures(self, *errors: SummaryFailed) -> None:
        """Remember that these models failed; the newest error of each counts."""
        self.failed |= {error.place: error for error in errors}

    def list_failures(self) -> tuple[SummaryFailed, ...]:
        """Return the errors of the models that another one stood in for, each with the cost of its useless calls."""
        for place, error in self.failed.items():
            error.cost = _sum_call_costs(usage for by, usage in self.wasted if by == place)
        return tuple(self.failed.values())

    def assign_costs(self, last: SummaryFailed) -> None:
        """Set the cost of the error that ends the summary, and of other models' errors: together, that of all calls."""
        self.record_failures(*last.others)
        others = {place: error for place, error in self.failed.items() if place != last.place}
        for place, error in others.items():
            error.cost = _sum_call_costs(usage for by, usage in self.used if by == place)
        last.cost = _sum_call_costs(usage for by, usage in self.used if by not in others)
        last.others = tuple(others.values())

    def note(self, *notes: str) -> None:
        """Add what the receipt should say, each thing once."""
        self.notes = _remove_duplicates(*self.notes, *notes)


def _sum_call_costs(used: Iterable[Usage | None]) -> dict[str, float]:
    """Return what these calls took, as a receipt has it; nothing where there were none."""
    calls = list(used)
    return build_call_cost(len(calls), reduce(add_usage, calls, None)) if calls else {}


def _remove_duplicates(*entries: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entries))


def summarise(brief: Brief, model: Summariser) -> Generator[Ask, Reply, ModelSummary]:
    """Yield asks, take replies, and return the summary; raise `SummaryFailed` when none was good enough.

    A driver that could not get a reply throws `AskFailed`. One that says the ask was too long is answered with smaller
    asks, three times at most; any other ends the summary.
    """
    summary = ModelSummary()
    try:
        yield from _ask_until_it_fits(brief, model, summary)
    except SummaryFailed as failed:
        summary.assign_costs(failed)
        raise
    return summary


def _ask_until_it_fits(brief: Brief, model: Summariser, summary: ModelSummary) -> Generator[Ask, Reply, None]:
    """Ask for the prose, with smaller asks, or apart from the live prompt, where there was no room."""
    error: SummaryFailed
    for _ in range(MAX_SHRINKS + 1):
        run = _AskRun(brief, model, plan_asks(brief, model), summary)
        try:
            text = yield from run.run_asks()
            return run.accept_draft(text)
        except AskFailed as failed:
            if failed.overflow is None:
                raise
            summary.record_failures(*failed.others)
            error, model = failed, _reduce_window(model, failed, run.asked_tokens, summary)
        except Rejected as rejected:
            if not (run.plan.tight and _ROOM_PROBLEMS & set(rejected.problems)):
                raise
            summary.note(f"asked again apart: {run.plan.reserve:,} tokens were too few for the reply")
            error, model = rejected, replace(model, live=None)
    raise error


def _reduce_window(model: Summariser, failed: AskFailed, asked: int, summary: ModelSummary) -> Summariser:
    """Return the summariser with the window that the provider named, else with half of what it was asked."""
    limit = failed.overflow.limit if failed.overflow is not None else None
    if model.live is not None:
        return replace(model, live=None, window=min(model.window, limit or model.window))
    window = limit if limit is not None and limit < model.window else min(model.window * 3 // 5, asked // 2)
    summary.note(f"the summariser takes {window:,} tokens, not {model.window:,}")
    model.learn_window(failed.place, window)
    return replace(model, window=window)


@dataclass(slots=True)
class _AskRun:
    """The asks for one summary, by one plan."""

    brief: Brief
    model: Summariser
    plan: AskPlan
    summary: ModelSummary
    asked_tokens: int = 0
    """What the newest ask takes with its reply."""

    def run_asks(self) -> Generator[Ask, Reply, str]:
        """Return the prose, as accepted."""
        brief, plan, wording, limits = self.brief, self.plan, self.plan.wording, self.brief.limits
        texts = [text for view in brief.views if (text := view.whole_text())]
        whole = sum(map(brief.count, texts)) + brief.count(brief.earlier.prose)
        if brief.hook_input is not None:  # what a hook condensed may be told as it is
            texts = [text for view in brief.hook_input.views if (text := view.whole_text())]
        final = self._build_expectation(limits.budget + limits.spare, texts, limits.replaced or whole)
        half, reserve, add_note = self.model.window // 2, self.model.reserve or 0, self.summary.note
        if reserve > half:
            add_note(f"the reply got {half:,} of {reserve:,} tokens: half of the summariser's window")
        if plan.live is not None:
            suffix = partial(wording.build_suffix_prompt, tokens=plan.goal, kept=plan.live.kept, rules=plan.rules)
            return (yield from self._ask_until_usable(suffix, final))
        if self.model.live is not None:
            add_note(f"asked apart: no room behind the live prompt of {self.model.live.tokens:,} tokens")
        if (most := self.model.max_input) is not None and whole > most:
            add_note(f"the summariser was shown the newest {most:,} of {whole:,} tokens (max_input)")
        if plan.single:
            record = partial(wording.build_record_prompt, plan.chunks[0], prior=brief.earlier.prose, rules=plan.rules)
            return (yield from self._ask_until_usable(partial(record, tokens=plan.goal), final))
        notes = [plan.prior_note] if plan.prior_note else []
        for shown in plan.chunks:
            part = partial(wording.build_record_prompt, shown, tokens=plan.note * 2 // 3, part=True)
            note = yield from self._ask_until_usable(part, self._build_expectation(plan.note, shown))
            notes.append(note)
        while len(runs := group_into_runs([brief.count(note) + FRAME_TOKENS for note in notes], plan.fold_room)) > 1:
            notes = yield from self._fold_runs(notes, runs)
        fold = partial(wording.build_fold_prompt, notes, tokens=plan.goal, rules=self._collect_rules(notes), last=True)
        return (yield from self._ask_until_usable(fold, final._replace(shown=())))

    def accept_draft(self, draft: str) -> None:
        """Check the draft and keep what may stand in a summary; raise `Rejected` when nothing is left."""
        checked = check_prose(draft, self.brief)
        if not checked.text:
            raise self._build_final_rejection([Problem("unfaithful", "nothing in the reply may stand in a summary")])
        self.summary.text, self.summary.mended = checked.text, checked.left_out
        self.summary.note(*checked.notes)

    def _fold_runs(self, notes: Sequence[str], runs: Sequence[Sequence[int]]) -> Generator[Ask, Reply, list[str]]:
        """Return fewer notes: each run of them as one."""
        folded: list[str] = []
        for run in runs:
            group = [notes[i] for i in run]
            if len(group) > 1:
                fold = partial(self.plan.wording.build_fold_prompt, group, tokens=self.plan.note * 2 // 3)
                group = [(yield from self._ask_until_usable(fold, self._build_expectation(self.plan.note)))]
            folded += group
        return folded

    def _ask_until_usable(self, word: Callable[..., Prompt], expected: ExpectedReply) -> Generator[Ask, Reply, str]:
        """Return the reply to a question, once it has no fault; a faulty one is asked for again, once.

        `word` words the question, given the fault of the attempt before ("" the first time).
        """
        question = word(fault="")
        reply = self._accept_reply((yield self._build_ask(question)), expected)
        problems = verify.find_problems(reply, expected._replace(marks=question.marks))
        if problems:
            question, ask = self._build_second_ask(word, problems, verify.extract_visible_text(reply.text), expected)
            who, models = reply.model or "the model", tuple(filter(None, [reply.model]))
            cost: dict[str, Any] = {"calls": 1, "usage": reply.usage, "models": models, "place": reply.place}
            fault = _build_rejection(f"a reply of {who} was not usable", problems, **cost)
            try:
                second = yield replace(ask, again=1)
            except AskFailed as failed:
                if failed.overflow is None and failed.place not in {None, reply.place}:
                    self.summary.record_failures(fault)
                raise
            if second.place != reply.place:
                self.summary.record_failures(fault)
                self.summary.wasted.append((reply.place, reply.usage))
                self.summary.note(f"{fault.reason}; {second.model} was asked instead")
            reply = self._accept_reply(second, expected)
            if problems := verify.find_problems(reply, expected._replace(marks=question.marks)):
                raise self._build_final_rejection(problems)
        return verify.extract_visible_text(reply.text)

    def _accept_reply(self, reply: Reply, expected: ExpectedReply) -> Reply:
        """Count a reply; return it, one that is a little too long without the last lines of its longest sections.

        Beside a prompt of the caller's own a reply of any length is shortened so: it did not say how long it may be.
        """
        reply = self.summary.add_reply(reply, has_rules=self.model.instruction is None)
        text, budget, count = verify.extract_visible_text(reply.text), expected.budget, expected.count
        size = count(text)
        if size <= budget or (self.model.instruction is None and size > budget * OVERRUN_FACTOR):
            return reply
        self.summary.note(f"the summary took {size:,} of {budget:,} tokens: shortened by rule")
        trimmed = verify.trim_sections(text, budget, count)
        if self.model.instruction is not None and not budget // 2 <= count(trimmed) <= budget:  # its lines are long
            trimmed = text[: find_fitting_length(text, budget, count)].rstrip()
        return replace(reply, text=trimmed)

    def _build_final_rejection(self, problems: Sequence[Problem]) -> Rejected:
        """Return the error that ends the summary: the last reply was no good."""
        summary = self.summary
        start = f"the summary was not usable after {summary.calls} calls"
        cost: dict[str, Any] = {"calls": summary.calls, "usage": summary.usage, "models": summary.models}
        return _build_rejection(start, problems, place=summary.used[-1][0], **cost)

    def _build_second_ask(
        self, word: Callable[..., Prompt], problems: Sequence[Problem], draft: str, expected: ExpectedReply
    ) -> tuple[Prompt, Ask]:
        """Return the second ask: for a new reply, or only to shorten or translate the draft."""
        names = {problem.name for problem in problems}
        fault = "; ".join(problem.message for problem in problems)
        wording = self.plan.wording
        how = "shorten" if names <= _LENGTH_PROBLEMS and self.model.instruction is None else ""
        if names == {"wrong-language"} and get_language_name(wording.language) and self.model.instruction is None:
            how = "translate"
        if how and self.brief.count(draft) <= self.plan.fold_room:
            tokens = min(self.plan.goal, expected.budget * 4 // 5)
            question = wording.build_rewrite_prompt(how, draft, tokens=tokens, fault=fault)
            return question, self._build_ask(question, apart=True)
        question = word(fault=fault)
        ask = self._build_ask(question)
        if "cut-off" in names and not ask.messages and self.model.reserve is None:
            # It may have thought at length: give it what is left.
            left = self.model.window * 19 // 20 - self.brief.count(ask.instruction)
            ask = replace(ask, max_tokens=max(ask.max_tokens, min(2 * self.plan.reserve, left)))
        return question, ask

    def _collect_rules(self, notes: Sequence[str]) -> tuple[str, ...]:
        """Return the rules carried on, and of those that earlier replies listed as many as fit beside the notes."""
        count, rules = self.brief.count, list(self.plan.rules)
        heading = count(PROMPT_PARTS["known-rules"]) + FRAME_TOKENS
        left = self.plan.fold_room - sum(count(note) + FRAME_TOKENS for note in notes) - heading
        for rule in self.summary.rules:
            left -= count(rule) + 2
            rules += [rule] * (left >= 0)
        return _remove_duplicates(*rules)

    def _build_ask(self, question: Prompt, *, apart: bool = False) -> Ask:
        """Return the question as an ask: behind the live prompt where that is the plan, else on its own."""
        ask = Ask(instruction=question.text, max_tokens=self.plan.reserve, window=self.model.window)
        self.asked_tokens = self.brief.count(question.text) + self.plan.reserve
        if (live := self.plan.live) is not None and not apart:
            return replace(ask, system=live.system, messages=live.messages, tools=live.tools)
        return replace(ask, gone=self.brief.objects, budget=min(self.brief.limits.budget, self.plan.reserve))

    def _build_expectation(self, budget: int, shown: Sequence[str] = (), replaced: int = 1 << 60) -> ExpectedReply:
        return ExpectedReply(budget, replaced, self.brief.count, shown, self.plan.wording.language)


def _build_rejection(start: str, problems: Sequence[Problem], **cost: Any) -> Rejected:
    """Return the error for a reply with these problems."""
    message = f"{start}: {'; '.join(problem.message for problem in problems)}"
    return Rejected(message, problems=tuple(problem.name for problem in problems), **cost)
