"""One compaction, step by step: read, reapply, mend, clear, plan, write, check, store.

    read      the views of the list, with whose words each turn is            `state`
    reapply   what was recorded of its beginning is applied again             `reapply`
    mend      what would be refused is made legal                             `legality.repair`
    clear     bulky old tool results become stubs, if that is enough          `clear`
    plan      what goes, what stays, how much the summary may say             `plan`
    write     the summary turn, by a model or by rule, and the new list       `write_summary`, `rewrite`
    check     legal, within the budget, smaller than before                   here
    store     originals, record and receipt are archived; then it is shown    `store`

`compact` is a generator that yields what it needs from outside (an ask for a model), so that one short driver makes it
sync and another makes it async. What is decided is decided elsewhere, by pure functions on views.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from unabridged.archive.transcripts import TranscriptError
from unabridged.engine import clear
from unabridged.engine.hooks import HookRaised, Hooks, raise_as_hook_raised
from unabridged.engine.plan import Bounds, FrameSizes, Situation, find_newest_person_message, make_plan
from unabridged.engine.reapply import reapply_records
from unabridged.engine.rewrite import Rewrite, assign_identity, complete_rewrite
from unabridged.engine.shorten import Shortener
from unabridged.engine.state import Setup, State
from unabridged.engine.store import store
from unabridged.engine.trigger import find_message_goal, may_clear_enough
from unabridged.engine.write import count_people_tokens, report_failed_models, write_summary
from unabridged.errors import ArchiveError, SummaryFailed, WontFit
from unabridged.events import Compacting, Kind
from unabridged.history.replay import UNNAMED_THREAD_PREFIX
from unabridged.languages import get_labels
from unabridged.languages.detection import detect_language
from unabridged.legality import repair
from unabridged.marks import find_view_record_ids, format_shortening_note, format_summary_turn, is_trusted_summary
from unabridged.results import Plan
from unabridged.summary.summary_body import SummaryWriter, render_pins

log = logging.getLogger("unabridged")

ENOUGH_CLEARED_SHARE = 0.05
"""The share of the budget that clearing must free to be all that the trigger will need: one turn may go beyond it."""
TRY_GROWTH, TRY_SPARE_TOKENS = 1.05, 64
"""By how much the budget grows, as a factor and in tokens, where only an estimate says that a request won't fit."""
NO_RECORD_ID = "0" * 12
"""Stands for the id of a record until it is known."""
NOT_SMALLER_REASON = "the summary was not smaller than what it would have replaced"
_Failure = ArchiveError | HookRaised | SummaryFailed
Steps = Generator[Any, Any, str]
"""Ends with why nothing changed, in words; with an empty string when something did."""


def compact(setup: Setup, state: State, reason: str) -> Steps:
    """Compact the state's list: as recorded if that is enough, else anew. Whatever fails, nothing is lost.

    While the request fits, a failure leaves it as it was. When it does not, what failed is left out.
    """
    current = setup
    while True:
        try:
            return (yield from _run_compaction(current, state, reason))
        except WontFit as error:
            if setup.limits.assumed:
                state.restart(setup)  # nobody knows the window: the provider decides
                return str(error)
            if not setup.may_fit(error.floor):
                raise
            state.restart(setup)  # it is made as small as can be, and the provider says what it takes
            current = raise_budget(current, error.floor)
        except (ArchiveError, HookRaised, SummaryFailed) as error:
            state.restart(setup)
            # To wait would only make the request grow where the summariser's window is too small for it.
            is_too_long = isinstance(error, SummaryFailed) and getattr(error, "why", "") == "too-long"
            fits = setup.fits(state.estimate) and not is_too_long
            ends = isinstance(error, ArchiveError) and not isinstance(error, TranscriptError)
            _report_failure(setup, state, error, goes_on=not (fits or ends))
            if fits:
                return str(error)
            if ends:
                raise
            current = _remove_failed_part(current, state, error)


def _remove_failed_part(setup: Setup, state: State, error: _Failure) -> Setup:
    """Return the setup without the transcript, the hooks or the model that failed, and note that."""
    if isinstance(error, ArchiveError):
        state.report.done_without.append(f"without a transcript: {error}")
        return replace(setup, transcripts=None)
    if isinstance(error, HookRaised):
        state.report.done_without.append(f"without hooks: {error.reason}")
        return replace(setup, host=replace(setup.host, hooks=Hooks()))
    state.report.done_without.append(f"model-free: {error.reason}")
    return replace(setup, summary_writer=SummaryWriter())


def raise_budget(setup: Setup, floor: int) -> Setup:
    """Return the setup with a budget just above `floor`, the least that a request takes; it grows with each try."""
    limits = setup.limits
    window = int(max(floor, limits.budget) * TRY_GROWTH) + TRY_SPARE_TOKENS + limits.reserve
    return replace(setup, limits=replace(limits, window=window))


def _run_compaction(setup: Setup, state: State, reason: str) -> Steps:
    reapply_records(setup, state)
    force, needed = state.request.is_by_hand, setup.trigger_reason(state.estimate, state.working.messages)
    if not (force or state.restored.is_broken or needed) or (force and _is_same_list_again(state)):
        return ""
    chosen = choose_compaction(setup, state)
    if isinstance(chosen, str) and state.working is state.restored.base:
        return chosen
    _emit_compacting(setup, state, reason)
    rewrite = chosen if isinstance(chosen, Rewrite) else (yield from write_within_budget(setup, state, chosen))[0]
    if not is_worth_storing(setup, state, rewrite):
        state.restart(setup)
        return NOT_SMALLER_REASON
    store(setup, state, rewrite, reason)
    return ""


def choose_compaction(setup: Setup, state: State) -> Rewrite | Plan | str:
    """Return what a compaction does with the state's list: a clearing, a plan, or in words why nothing."""
    mend(setup, state)
    situation, force = build_situation(setup, state), state.request.is_by_hand
    cleared = None if force else clear_bulky_content(setup, state, over=state.estimate - situation.clearing_goal + 1)
    return make_plan(situation, force=force) if cleared is None else cleared


def write_within_budget(setup: Setup, state: State, plan: Plan | str) -> Generator[Any, Any, tuple[Rewrite, Plan]]:
    """Return the new list, within the budget, and its plan.

    Counting in pieces is a little off, so a few tries may aim lower.
    """
    slack = 0
    while True:
        plan = Plan() if isinstance(plan, str) else plan
        rewrite = yield from make_rewrite(setup, state, plan)
        over = state.request.overhead + rewrite.result.tokens - setup.limit
        if over <= 0:
            state.report.notes += filter(None, (setup.limits.note, plan.note))
            return rewrite, plan
        slack += over + 8
        situation = build_situation(setup, state, slack)
        if slack > setup.limit // 4:
            with raise_as_hook_raised("finalize", setup.host.hooks.finalize):
                raise situation.build_wont_fit_error(setup.limit + over)
        plan = make_plan(situation, force=state.request.is_by_hand)


def _is_same_list_again(state: State) -> bool:
    """Return whether a requested compaction is the one just restored: the same list was passed in again."""
    same = state.receipt is not None and state.receipt.messages_before == len(state.request.original)
    is_summary = state.record is not None and state.record.kind == "summary"
    return same and is_summary and state.working.messages is not state.request.start


def compact_early(setup: Setup, state: State) -> Steps:
    """Make the record that the trigger will need, before it is pulled; the state's list is nobody's but ours."""
    reapply_records(setup, state, settles=False)
    is_early = state.record is not None and state.record.data.get("early")
    if is_early and setup.find_thinking_rule(state.format) == "bound":
        return "one that was made early waits for the trigger"
    mend(setup, state)
    if clear_bulky_content(setup, state, over=int(setup.limit * ENOUGH_CLEARED_SHARE)) is not None:
        return "clearing will do"
    plan = make_plan(build_situation(setup, state))
    if isinstance(plan, str) or not plan.gone or plan.caps:
        return "nothing to be made early"
    try:
        rewrite = yield from make_rewrite(setup, state, plan)
        store(setup, state, rewrite, "made early, in the background", early=True)
    except (ArchiveError, HookRaised, SummaryFailed) as error:
        _report_failure(setup, state, error, goes_on=False)
        return str(error)
    return ""


def clear_below_trigger(setup: Setup, state: State, reason: str) -> None:
    """Clear what pays for itself, below the trigger; what an archive can't take stays as it is."""
    wanted = setup.settings.clear
    if wanted is None or not may_clear_enough(state.working.sizes, wanted.minimum + clear.STUB_TOKENS):
        return
    try:
        reapply_records(setup, state)
        mend(setup, state)
        rewrite = clear_bulky_content(setup, state, over=0)
        if rewrite is not None:
            _emit_compacting(setup, state, reason)
            store(setup, state, rewrite, reason, asked=True)
        elif state.is_mended:  # below the trigger, a conversation that came in illegal is the caller's
            state.replace_list(setup, state.restored.base.messages)
            state.is_mended, state.report.notes = False, []
    except ArchiveError as error:
        setup.host.emit_failure(state.scope, _name_failed_stage(error), error)
        state.restart(setup)


def restore_used_records(setup: Setup, state: State) -> bool:
    """Apply recorded compactions that were already sent; return whether any changed the list. Record nothing."""
    try:
        reapply_records(setup, state, early=False)
    except ArchiveError:
        state.restart(setup)  # reported by the next write
        return False
    return state.working.messages != state.request.start


# -- the steps that have no file of their own -------------------------------------------------------------------------


def mend(setup: Setup, state: State) -> None:
    """Make the list legal with as little change as possible."""
    messages, views = state.working.messages, state.working.views
    mended = repair(messages, model=setup.agent, format=state.format, pending=state.is_pending, views=views, form=False)
    if mended.findings:
        state.is_mended = True
        state.report.notes += [f"repaired: {finding.message}" for finding in mended.findings]
        state.replace_list(setup, mended.messages)


def clear_bulky_content(setup: Setup, state: State, *, over: int) -> Rewrite | None:
    """Return the list with stubs for what is clearable; None when there is nothing, or not enough."""
    working, wanted, pin = state.working, setup.settings.clear, setup.settings.pin
    if wanted is None:
        return None
    clearing = clear.plan_clearing(
        working.views,
        working.sizes,
        wanted,
        clear.ClearingTerms(setup.prices, over, state.request.idle_seconds),
        count=setup.meter.text,
        protect=lambda i: pin is not None and pin(working.messages[i]),
    )
    if clearing is None:
        return None
    turns, recall = state.turns(), setup.settings.recall
    draft = assign_identity(setup, state, Rewrite("clearing", edited=dict.fromkeys(clearing)))
    record_id = draft.identity.id
    changes = clear.build_edits(
        clearing, lambda i: f"[{turns[i]}]" if recall else None, lambda i: f"{record_id}/{turns[i]}"
    )
    edited = {i: state.format.edit(working.messages[i], change) for i, change in changes.items()}
    rewrite = complete_rewrite(setup, state, replace(draft, edited=edited))
    total = state.request.overhead + rewrite.result.tokens
    return rewrite if total < state.estimate - over and total <= setup.limit else None


def build_situation(setup: Setup, state: State, slack: int = 0) -> Situation:
    """Return the state in the terms of a plan; limits are scaled to the meter's tokens, less `slack`."""
    factor, pin, aim, limits = setup.calibration.factor, setup.settings.pin, setup.limits.target_tokens, setup.limits
    messages, views = state.working.messages, state.working.views
    piece = setup.meter.text(format_shortening_note(NO_RECORD_ID)) + 30
    pins = render_pins(state.read_pins(setup))
    return Situation(
        views=views,
        sizes=state.working.sizes,
        overhead=state.request.overhead,
        bounds=Bounds(
            target=setup.target - slack,
            limit=setup.limit - slack,
            aim=None if aim is None else int(aim / factor) - slack,
            scale=factor * (1 + setup.meter.error),
        ),
        limits=limits,
        frame=_measure_frame(setup, state),
        least=lambda i: setup.measure(
            state.format, _build_shortener(setup, state, i).shorten_pieces(messages[i], piece)
        )[1],
        lacks_pin=any(is_trusted_summary(view) and view.text and pins not in view.text for view in views),
        pinned=frozenset(i for i, m in enumerate(messages) if pin and not is_trusted_summary(views[i]) and pin(m)),
        newest=find_newest_person_message(views),
        people=min(limits.people, count_people_tokens(setup, state)),
        goal=find_message_goal(limits, len(messages), 2 if _needs_acknowledgment(setup, state) else 1),
    )


def _needs_acknowledgment(setup: Setup, state: State) -> bool:
    """Return whether an acknowledgment follows a summary turn."""
    return state.format.alternates or setup.settings.form != "user"


def _measure_frame(setup: Setup, state: State) -> FrameSizes:
    """Return what a summary turn of the list takes besides its body."""
    language = detect_language(view.text for view in state.working.views if view.origin == "person")
    scope = state.scope if state.is_named else state.scope._replace(thread=f"{UNNAMED_THREAD_PREFIX}{'0' * 16}")
    preface = setup.build_preface(language, scope, state.read_pins(setup))
    text, words = state.format.text, get_labels(language)
    frame = [
        text("user", format_summary_turn(NO_RECORD_ID, preface, 9_999, 99_999, language)),
        text("assistant", words["acknowledgment"]),
        text("user", words["bridge"]),
    ]
    header, acknowledgment, bridge = (setup.measure(state.format, message)[1] for message in frame)
    separator = acknowledgment if _needs_acknowledgment(setup, state) else 0
    return FrameSizes(header + separator, separator, acknowledgment + bridge if state.format.lone_system else 0)


def is_worth_storing(setup: Setup, state: State, rewrite: Rewrite) -> bool:
    """Return whether the new list is smaller, in tokens or in messages where a trigger by messages fired, or mended."""
    result, working = rewrite.result, state.working
    if state.is_mended:
        return True
    fired = find_message_goal(setup.limits, len(working.messages), 1).fewest_gone
    if fired and state.request.overhead + result.tokens <= setup.target:
        return len(result.messages) < len(working.messages)
    return result.tokens < working.tokens


def make_rewrite(setup: Setup, state: State, plan: Plan) -> Generator[Any, Any, Rewrite]:
    """Return the new list with its summary turn; whether it fits and is smaller is checked by the caller."""
    kind: Kind = "summary" if plan.gone else "shortening" if plan.caps else "repair"
    draft = Rewrite(kind, plan.gone, plan.place, edited=dict.fromkeys(plan.caps))
    if setup.transcripts is not None:
        assign_identity(setup, state, draft)  # a transcript that is refused is refused before a model is paid
    written = (yield from write_summary(setup, state, plan)) if plan.gone else None
    draft = assign_identity(setup, state, replace(draft, written=written))
    rows = {i: (state.working.messages[i], state.working.views[i], state.working.sizes[i]) for i in plan.caps}
    shorteners = {i: _build_shortener(setup, state, i, draft.identity.id) for i in plan.caps}
    edited = {i: shorteners[i].shorten(*rows[i], cap) for i, cap in plan.caps.items()}
    return complete_rewrite(setup, state, replace(draft, edited=edited))


def _build_shortener(setup: Setup, state: State, index: int, record_id: str = NO_RECORD_ID) -> Shortener:
    """Return what cuts the message at this index down for a record."""
    views, records = state.working.views, state.restored.records
    view = views[index]
    named = ((one, records.find(one)) for one in find_view_record_ids(view)) if records is not None else ()
    earlier = frozenset(one for one, record in named if record and view.meaning_digest in record.data.get("marks", ()))
    note, signed = format_shortening_note(record_id), clear.is_beside_signed_reasoning(views, index)
    return Shortener(state.format, setup.meter.text, note, signed, earlier)


# -- events ------------------------------------------------------------------------------------------------------------


def _emit_compacting(setup: Setup, state: State, reason: str) -> None:
    thread, namespace, original = state.scope.thread, state.scope.namespace, state.request.original
    setup.host.emit(Compacting(thread, reason, setup.tokens(state.estimate), original, namespace=namespace))


def _report_failure(setup: Setup, state: State, error: _Failure, *, goes_on: bool) -> None:
    """Emit and log what failed; a summariser's failure is logged, once in a row, by who asks it."""
    if isinstance(error, SummaryFailed):
        report_failed_models(setup, state, error.others, goes_on=goes_on)
        if error.cost or not error.resting:  # a model that rests was not asked
            setup.host.emit_failure(state.scope, "summary", error, goes_on=goes_on)
        return
    stage, cause = ("hook", error.error) if isinstance(error, HookRaised) else (_name_failed_stage(error), error)
    what = str(error) if isinstance(error, TranscriptError) else type(cause).__name__
    log.warning("a compaction was given up, the %s failed: %s", stage, what)
    setup.host.emit_failure(state.scope, stage, cause, goes_on=goes_on)


def _name_failed_stage(error: ArchiveError) -> str:
    return "transcript" if isinstance(error, TranscriptError) else "archive"
