"""Measure every conversation, arm and budget, and report rows with averages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from unabridged_corpus.evaluate import cut_points, peers, questions
from unabridged_corpus.evaluate.arms import choose_arms
from unabridged_corpus.evaluate.data import EvalConversation
from unabridged_corpus.evaluate.questions import QuestionScore
from unabridged_corpus.evaluate.score import NeedsScore, average_shares, bootstrap_interval, count_held_needs
from unabridged_corpus.evaluate.task_cost import TaskCost, replay_task
from unabridged_corpus.evaluate.task_systems import build_task, choose_task_systems


@dataclass(frozen=True, slots=True)
class NeedsRow:
    """The needs that an agent still has after the cut, for one arm and budget: shares, averaged over conversations."""

    arm: str
    budget: int
    tokens: int
    """What the arm's text took on average; those that keep messages besides take more than the budget."""
    files: float
    names: float
    pooled_files: float
    """Over all needs together, instead of conversation by conversation."""
    pooled_names: float
    verbatim: float
    """The share of people's messages before the cut that stand in the context word for word."""
    conversations: int
    cuts: int


@dataclass(frozen=True, slots=True)
class QuestionsRow:
    """Questions whose evidence is all there, for one arm."""

    arm: str
    window: int
    tokens: int
    """Of the context in the end, on average."""
    in_context: float
    after_cuts: float
    or_search: float | None
    questions: int
    conversations: int


@dataclass(frozen=True, slots=True)
class TaskRow:
    """What a whole run takes in the window under one arm: tokens at cache prices, means over conversations."""

    arm: str
    window: int
    tokens: float
    interval: tuple[float, float]
    """The 95 % bootstrap interval of the tokens."""
    sent: float
    summaries: float
    fetches: float
    needs: int
    """Lines that calls copied from earlier results, in all conversations."""
    missed: int
    """Those whose line was not in the request."""
    refused: int
    """Conversations that ended in a request over the window."""
    conversations: int


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """Everything that was measured."""

    data: str
    window: int
    counted: str
    """How tokens were counted."""
    needs: tuple[NeedsRow, ...]
    questions: tuple[QuestionsRow, ...]
    tasks: tuple[TaskRow, ...] = ()


@dataclass(slots=True)
class _Scores:
    """The scores of one arm at one budget."""

    arm: str
    budget: int
    begin: cut_points.ArmFactory
    needs_scores: dict[str, list[NeedsScore]] = field(default_factory=dict)
    verbatim: dict[str, list[float]] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)

    def add(self, conversation: str, points: Iterable[cut_points.CutPoint], count: cut_points.CountFunction) -> None:
        """Score one more conversation at each of its cuts."""
        arm = self.begin(self.budget, count)
        for cut_point in points:
            text = arm(cut_point)
            whole = f"{text}\n{cut_point.text_beside_summary()}"
            self.tokens.append(count(text))
            self.needs_scores.setdefault(conversation, []).append(count_held_needs(whole, cut_point.needed))
            self.verbatim.setdefault(conversation, []).append(_find_verbatim_share(cut_point, whole))

    def build_row(self) -> NeedsRow:
        files, names = average_shares(self.needs_scores)
        pooled = [one for listed in self.needs_scores.values() for one in listed]
        pooled_files = _divide_or_one(sum(one.files for one in pooled), sum(one.files_needed for one in pooled))
        pooled_names = _divide_or_one(sum(one.names for one in pooled), sum(one.names_needed for one in pooled))
        tokens, verbatim = int(fmean(self.tokens)), fmean(map(fmean, self.verbatim.values()))
        shares = files, names, pooled_files, pooled_names, verbatim
        return NeedsRow(self.arm, self.budget, tokens, *shares, len(self.needs_scores), len(pooled))


def evaluate(
    data: Path,
    conversations: Iterable[EvalConversation],
    *,
    window: int = 24_000,
    budgets: Sequence[int] = (1_000, 3_000),
    arms: Sequence[str] = (),
    model: Any = None,
) -> EvaluationReport:
    """Measure every arm on these conversations, cut where a window of this size would be full; return the report."""
    count, counted = cut_points.make_token_counter()
    factories = choose_arms(list(arms), model)
    scores = [_Scores(name, budget, begin) for budget in budgets for name, begin in factories.items()]
    answered: dict[str, list[QuestionScore]] = {}
    systems = choose_task_systems(factories, window, count, model)
    costs: dict[str, list[TaskCost]] = {name: [] for name in systems}
    for conversation in conversations:
        points = list(cut_points.find_cut_points(conversation, window))
        for one in scores:
            one.add(conversation.name, points, count)
        task = build_task(conversation, count)
        for name, begin in systems.items():
            costs[name].append(replay_task(task, begin()))
        if conversation.questions:
            for name, done in _score_questions(conversation, window, factories, count, model).items():
                answered.setdefault(name, []).append(done)
    needs = tuple(one.build_row() for one in scores if one.needs_scores)
    asked = tuple(_build_questions_row(name, window, listed) for name, listed in answered.items())
    tasks = tuple(_build_task_row(name, window, listed) for name, listed in costs.items() if listed)
    return EvaluationReport(str(data), window, counted, needs, asked, tasks)


def _find_verbatim_share(cut_point: cut_points.CutPoint, text: str) -> float:
    words = [view.text.strip() for view in cut_point.before if view.origin == "person" and view.text.strip()]
    return sum(one in text for one in words) / len(words) if words else 1.0


def _score_questions(
    conversation: EvalConversation, window: int, names: Iterable[str], count: cut_points.CountFunction, model: Any
) -> dict[str, QuestionScore]:
    """Return the scores of one conversation's questions, for each arm that can be replayed in a window."""
    scores: dict[str, QuestionScore] = {}
    for name in names:
        if name in {"unabridged", "model"}:
            writer = model if name == "model" else None
            scores[name] = questions.score_unabridged(conversation, window, count, writer)
        elif name == "tail":
            size = scores["unabridged"].tokens if "unabridged" in scores else window // 2
            scores[name] = questions.score_tail(conversation, size, count)
        elif name.startswith("langchain"):
            trim = peers.DEFAULT_TRIM_TOKENS if name == "langchain" else None
            scores[name] = questions.score_langchain(conversation, window, count, trim)
    return scores


def _build_questions_row(name: str, window: int, listed: Sequence[QuestionScore]) -> QuestionsRow:
    asked = sum(one.asked for one in listed)
    reached = [one.or_search for one in listed if one.or_search is not None]
    tokens, after_cuts = int(fmean(one.tokens for one in listed)), fmean(one.after_cuts for one in listed)
    in_context = _divide_or_one(sum(one.in_context for one in listed), asked)
    or_search = _divide_or_one(sum(reached), asked) if reached else None
    return QuestionsRow(name, window, tokens, in_context, after_cuts, or_search, asked, len(listed))


def _build_task_row(name: str, window: int, costs: Sequence[TaskCost]) -> TaskRow:
    tokens = [one.tokens for one in costs]
    sent, summaries, fetches = (fmean(getattr(one, part) for one in costs) for part in ("sent", "summaries", "fetches"))
    needs, missed = sum(one.needs for one in costs), sum(one.missed for one in costs)
    refused = sum(one.refused_at is not None for one in costs)
    mean, interval = fmean(tokens), bootstrap_interval(tokens)
    return TaskRow(name, window, mean, interval, sent, summaries, fetches, needs, missed, refused, len(costs))


def _divide_or_one(part: float, whole: float) -> float:
    return part / whole if whole else 1.0
