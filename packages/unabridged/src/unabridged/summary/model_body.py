"""The body of a summary turn with a model's prose in it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from unabridged.asking.ask import Ask, AskFailed, Rejected, Reply, build_call_cost
from unabridged.asking.asker import Asker
from unabridged.errors import SummaryFailed
from unabridged.summary.ask_loop import ModelSummary, summarise
from unabridged.summary.body_ledger import build_ledger, compute_people_room, write_body
from unabridged.summary.brief import SPARE_DIVISOR, Brief, Summariser, SummaryBody
from unabridged.summary.chunks import plan_asks
from unabridged.summary.citations import is_citation
from unabridged.summary.layout import measure_people
from unabridged.summary.ledger import Rule
from unabridged.summary.originals import select_evenly
from unabridged.summary.rules import find_rules
from unabridged.summary.verify import trim_sections
from unabridged.tokens.calibrate import Usage
from unabridged.tokens.models import find_model_info

PROSE_SHARE, LEAST_PROSE_SHARE, REST_TOKENS = 0.86, 0.75, 600
"""The share of a summary turn that a model's prose takes, at most and at least; between these, tokens for the rest."""
LISTS_IN_PROSE = ("files", "names")
"""Sections that are left out beside prose that quotes people and uses half of its room or more."""
EARLIER_DIVISOR, EARLIER_DIVISOR_ANEW = 16, 4
"""The share of the summariser's window, one in so many, for the prose of earlier rounds; and when it begins anew."""

MODEL_HEADING = "## Summary by a model (its own words, not the user's)"
CITED_MODEL_HEADING = f"{MODEL_HEADING[:-1]}, but for the words it quotes as [n] “…”)"
CONSEQUENCE = "While the request fits, history stays as it is; else the summary is model-free"


def write_with_model(brief: Brief, model: Summariser, asker: Asker | None) -> Generator[Ask, Reply, SummaryBody]:
    """Return the body with a model's prose; a model whose replies were no good is left alone for a while.

    Raise `SummaryFailed` when no reply was good enough: it says what it cost each model, and is logged once in a row.
    """
    try:
        written = yield from _write_summary_body(brief, model)
    except SummaryFailed as failed:
        why = failed.why if isinstance(failed, AskFailed) else ""
        if asker is not None:
            _add_dollars(asker, failed, *failed.others)
            if isinstance(failed, Rejected) or why == "too-long":
                asker.open_circuits()
            if why != "cancelled":
                asker.warn_of_failure(None, failed, CONSEQUENCE)
        raise
    if asker is not None:
        _add_dollars(asker, *written.failed)
        asker.record_success()
    return written


def _add_dollars(asker: Asker, *errors: SummaryFailed) -> None:
    for error in errors:
        error.cost = _add_price(error.cost, asker.models[error.place or 0].name)


def _add_price(cost: dict[str, float], model: str) -> dict[str, float]:
    """Return the cost with dollars in it, where the prices of the model and its tokens are known."""
    info = find_model_info(model)
    if not (info and info.input and "input" in cost):
        return cost
    return {**cost, "dollars": (int(cost["input"]) * info.input + int(cost["output"]) * info.output) / 1e6}


def build_priced_cost(calls: int, usage: Usage | None, model: str) -> dict[str, float]:
    """Return what these calls of the model took, with dollars where its prices are known."""
    return _add_price(build_call_cost(calls, usage), model)


def _write_summary_body(brief: Brief, model: Summariser) -> Generator[Ask, Reply, SummaryBody]:
    limits, count, ledger = brief.limits, brief.count, build_ledger(brief)
    quoted = measure_people(ledger, compute_people_room(brief), count, kept=brief.kept, prose=MODEL_HEADING)
    room = min(limits.budget, limits.total - quoted) - count(brief.state)
    most = min(int(room * PROSE_SHARE), max(int(room * LEAST_PROSE_SHARE), room - REST_TOKENS))
    spare = max(0, min(most // SPARE_DIVISOR, room - most))
    if brief.has_nothing_to_show():  # nothing is new: the earlier prose stays
        summary = ModelSummary(trim_sections(brief.earlier.prose, most, count))
    else:
        asked = replace(brief, limits=limits._replace(budget=most, spare=spare), ledger=ledger)
        summary = yield from summarise(*_choose_source(asked, model))
    rules, notes = tuple[Rule, ...](), tuple[str, ...]()
    if model.instruction is None:  # a prompt of the caller's own does not ask for rules
        rules, notes = find_rules(summary.rules, brief.choose_ledger_source(), ledger.rules, ledger.people)
    ledger = replace(ledger, rules=rules)
    cites = any(map(is_citation, summary.text.split("\n")))
    prose = f"{CITED_MODEL_HEADING if cites else MODEL_HEADING}\n{summary.text.strip()}"
    is_full = count(prose) * 2 >= most
    without = {*brief.without, *(LISTS_IN_PROSE if cites and is_full else ())}
    body = write_body(brief, ledger, max(room, count(prose)), prose=prose, without=without)
    unchecked = (f"not checked, the model can't tell: {check}" for check in summary.checks_impossible)
    return replace(
        body,
        prose=summary.text,
        summariser=", ".join(summary.models) or model.name,
        cost=build_priced_cost(summary.calls, summary.usage, *summary.models[:1] or [model.name]),
        notes=(*summary.notes, *unchecked, *body.notes),
        mended=(*summary.mended, *notes),
        failed=summary.list_failures(),
    )


def _choose_source(brief: Brief, model: Summariser) -> tuple[Brief, Summariser]:
    """Return what the model is asked to summarise: the originals when they were read and one ask can show them all."""
    apart, divisor = model, EARLIER_DIVISOR
    if (whole := brief.originals) is not None:
        apart, divisor = replace(model, live=None), EARLIER_DIVISOR_ANEW
        anew = replace(brief, views=whole.views, turns=whole.turns, earlier=brief.earlier._replace(prose=""))
        if sum(len(view.whole_text()) for view in whole.views) < 8 * model.window and model.max_input is None:
            try:
                if plan_asks(anew, apart).single:
                    return anew, apart
            except AskFailed:
                return brief, model
    prose = select_evenly(brief.earlier.proses, model.window // divisor, brief.count) or brief.earlier.prose
    return replace(brief, earlier=brief.earlier._replace(prose=prose)), apart
