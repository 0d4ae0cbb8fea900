"""One compaction, step by step: read, restore, mend, clear, plan, write, check, store.

    read      the views of the list, with whose words each turn is            `state`
    restore   what was recorded of its beginning is applied again             `restore`
    mend      what would be refused is made legal                             `legal.repair`
    clear     bulky old tool results become stubs, if that is enough          `clear`
    plan      what goes, what stays, how much the summary may say             `plan`
    write     the summary turn, by a model or by rule, and the new list       `write`, `rewrite`
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
from unabridged.compaction import clear
from unabridged.compaction.hooks import HookRaised, Hooks, blame
from unabridged.compaction.plan import Plan, Situation, make_plan, newest_of_people
from unabridged.compaction.restore import restore
from unabridged.compaction.rewrite import Rewrite, build, identify
from unabridged.compaction.shorten import Shortener
from unabridged.compaction.state import Setup, State, pins_for, put_list, restart
from unabridged.compaction.store import store
from unabridged.compaction.trigger import messages_to_go, most_messages
from unabridged.compaction.write import people_tokens, tell_models, write
from unabridged.errors import ArchiveError, SummaryFailed, WontFit
from unabridged.events import Compacting, Failed
from unabridged.history.replay import UNNAMED
from unabridged.languages import detect, labels
from unabridged.legal import repair
from unabridged.marks import is_our_summary, marked_ids, shortening_note, summary_text
from unabridged.messages import View
from unabridged.summarise.summary_body import Writers, render_pins

log = logging.getLogger("unabridged")

ENOUGH_EARLY = 0.05
"""Of the budget, what clearing must free to be all that the trigger will need: one turn may go well beyond it."""
ROOM_TO_TRY, SLACK = 1.05, 64
"""By how much the budget grows, as a factor and in tokens, where only an estimate says that a request won't fit."""
Steps = Generator[Any, Any, str]
"""Ends with why nothing changed, in words; with an empty string when something did."""


def compact(setup: Setup, state: State, reason: str, *, force: bool = False) -> Steps:
    """Compact the state's list: as recorded if that is enough, else anew. Whatever fails, nothing is lost.

    While the request fits, a failure leaves it as it was. When it does not, what failed is done without.
    """
    now = setup
    while True:
        try:
            return (yield from _compact(now, state, reason, force=force))
        except WontFit as error:
            if setup.limits.assumed:
                restart(setup, state)  # nobody knows the window: the provider decides
                return str(error)
            if not setup.may_fit(error.floor):
                raise
            restart(setup, state)  # it is made as small as can be, and the provider tells what it takes
            now = with_room_for(now, error.floor)
        except (ArchiveError, HookRaised, SummaryFailed) as error:
            restart(setup, state)
            fits = setup.fits(state.estimate) and not _is_too_small(error)
            _tell_failure(setup, state, error, goes_on=not fits and not _ends_it(error))
            if fits:
                return str(error)
            if isinstance(error, TranscriptError):
                state.without.append(f"without a transcript: {error}")
                now = replace(now, transcripts=None)
                continue
            if isinstance(error, ArchiveError):
                raise
            hook = isinstance(error, HookRaised)
            state.without.append(f"{'without hooks' if hook else 'model-free'}: {error.reason}")
            now = replace(now, hooks=Hooks()) if hook else replace(now, writers=Writers())


def with_room_for(setup: Setup, floor: int) -> Setup:
    """Return the setup with a budget just above what a request takes at least; it grows with each try."""
    limits = setup.limits
    window = int(max(floor, limits.budget) * ROOM_TO_TRY) + SLACK + limits.reserve
    return replace(setup, limits=replace(limits, window=window))


def _compact(setup: Setup, state: State, reason: str, *, force: bool) -> Steps:
    restore(setup, state)
    if not (force or state.broken) and setup.trigger_reason(state.load) is None:
        return ""
    if force and _is_asked_again(state):
        return ""
    chosen = choose(setup, state, force=force)
    if isinstance(chosen, str) and state.messages is state.base:
        return chosen
    _announce(setup, state, reason)
    made = chosen if isinstance(chosen, Rewrite) else (yield from _write_within(setup, state, chosen, force=force))
    if not _is_smaller(setup, state, made) and not state.mended:
        restart(setup, state)
        return "the summary was not smaller than what it would have replaced"
    store(setup, state, made, reason)
    return ""


def choose(setup: Setup, state: State, *, force: bool = False) -> Rewrite | Plan | str:
    """Return what a compaction does with the state's list: a clearing, a plan, or in words why nothing."""
    mend(setup, state)
    now = situation(setup, state)
    cleared = None if force else clear_bulk(setup, state, over=state.estimate - now.enough + 1)
    return make_plan(now, force=force) if cleared is None else cleared


def _write_within(setup: Setup, state: State, plan: Plan | str, *, force: bool) -> Generator[Any, Any, Rewrite]:
    """Return the new list, within the budget: counting in pieces is a little off, so a few tries may aim lower."""
    slack = 0
    while True:
        plan = Plan() if isinstance(plan, str) else plan
        made = yield from write_list(setup, state, plan)
        over = state.overhead + sum(made.sizes) - setup.limit
        if over <= 0:
            state.notes += [note for note in (setup.limits.note, plan.note) if note]
            return made
        slack += over + 8
        now = situation(setup, state, slack)
        if slack > setup.limit // 4:
            with blame("finalize", setup.hooks.finalize):
                raise now.wont_fit(setup.limit + over)
        plan = make_plan(now, force=force)


def _is_asked_again(state: State) -> bool:
    """Return whether a compaction that somebody asked for is the one that was just restored: the same list again."""
    same = state.receipt is not None and state.receipt.messages_before == len(state.given)
    return same and state.record is not None and state.record.kind == "summary" and state.messages is not state.begun


def compact_early(setup: Setup, state: State) -> Steps:
    """Make the record that the trigger will need, before it is pulled; the state's list is nobody's but ours."""
    restore(setup, state, settles=False)
    if state.record is not None and state.record.data.get("early") and setup.thinking(state.format) == "bound":
        return "one that was made early waits for the trigger"
    mend(setup, state)
    if clear_bulk(setup, state, over=int(setup.limit * ENOUGH_EARLY)) is not None:
        return "clearing will do"
    plan = make_plan(situation(setup, state))
    if isinstance(plan, str) or not plan.gone or plan.caps:
        return "nothing to be made early"
    try:
        made = yield from write_list(setup, state, plan)
        store(setup, state, made, "made early, in the background", early=True)
    except (ArchiveError, HookRaised, SummaryFailed) as error:
        _tell_failure(setup, state, error, goes_on=False)
        return str(error)
    return ""


def clear_below_trigger(setup: Setup, state: State, reason: str) -> None:
    """Clear what pays for itself, below the trigger; what an archive can't take stays as it is."""
    wanted = setup.settings.clear
    if wanted is None or not clear.may_be_bulky(state.sizes, wanted.minimum):
        return
    try:
        restore(setup, state)
        mend(setup, state)
        made = clear_bulk(setup, state, over=0)
        if made is not None:
            state.asked = True  # it holds below the trigger
            _announce(setup, state, reason)
            store(setup, state, made, reason)
        elif state.mended:  # below the trigger, a conversation that came in illegal is the caller's
            put_list(setup, state, state.base)
            state.mended, state.notes = False, []
    except ArchiveError as error:
        setup.emit(Failed(state.scope.thread, _stage(error), error, namespace=state.scope.namespace))
        restart(setup, state)


def restore_sent(setup: Setup, state: State) -> bool:
    """Apply what was recorded of the list and is in use already; whether that is anything. Nothing is recorded."""
    try:
        restore(setup, state, early=False)
    except ArchiveError:
        restart(setup, state)  # it is told of where something is done about it
        return False
    return state.messages != state.begun


# -- the steps that have no file of their own -------------------------------------------------------------------------


def mend(setup: Setup, state: State) -> None:
    """Make the list legal with as little change as possible."""
    format_ = state.format
    mended = repair(
        state.messages, model=setup.agent, format=format_, pending=state.pending, views=state.views, form=False
    )
    if mended.findings:
        state.mended = True
        state.notes += [f"repaired: {finding.message}" for finding in mended.findings]
        put_list(setup, state, mended.messages)


def clear_bulk(setup: Setup, state: State, *, over: int) -> Rewrite | None:
    """The list with stubs for what is clearable; None when there is nothing, or not enough."""
    found = _clearable(setup, state, over=over)
    if found is None:
        return None
    turns, recall = state.turns(), setup.settings.recall
    draft = identify(setup, state, Rewrite("clearing", edited=dict.fromkeys(found.pieces)))
    changes = clear.edits(
        state.views, found, lambda i: f"[{turns[i]}]" if recall else None, lambda i: f"{draft.record_id}/{turns[i]}"
    )
    edited = {i: state.format.edit(state.messages[i], change) for i, change in changes.items()}
    made = build(setup, state, replace(draft, edited=edited))
    total = state.overhead + sum(made.sizes)
    return made if total < state.estimate - over and total <= setup.limit else None


def _clearable(setup: Setup, state: State, *, over: int) -> clear.Clearing | None:
    wanted, pin = setup.settings.clear, setup.settings.pin
    if wanted is None:
        return None
    return clear.plan_clearing(
        state.views,
        state.sizes,
        wanted,
        clear.Terms(setup.prices, over, state.idle),
        count=setup.meter.text,
        protect=lambda i: pin is not None and pin(state.messages[i]),
    )


def situation(setup: Setup, state: State, slack: int = 0) -> Situation:
    """The state in the terms of a plan; limits are scaled to the meter's tokens, less `slack`."""
    factor, pin, text = setup.calibration.factor, setup.settings.pin, state.format.text
    language = detect(view.text for view in state.views if view.origin == "person")
    alternates = state.format.alternates or setup.settings.form != "user"
    separator = setup.size(state.format, text("assistant", labels(language)["acknowledgment"])) if alternates else 0
    scope = state.scope if state.named else state.scope._replace(thread=f"{UNNAMED}{'0' * 16}")
    beside = [text("assistant", labels(language)["acknowledgment"]), text("user", labels(language)["bridge"])]
    front = setup.front(language, scope, pins_for(setup, state))
    header = text("user", summary_text("0" * 12, front, 9_999, 99_999, language))
    pins = [i for i, m in enumerate(state.messages) if pin and not is_our_summary(state.views[i]) and pin(m)]
    piece = setup.meter.text(shortening_note("0" * 12)) + 30
    return Situation(
        views=state.views,
        sizes=state.sizes,
        overhead=state.overhead,
        target=setup.target - slack,
        limit=setup.limit - slack,
        limits=setup.limits,
        frame=setup.size(state.format, header) + separator,
        separator=separator,
        beside_system=sum(setup.size(state.format, m) for m in beside) if state.format.lone_system else 0,
        pinned=frozenset(pins),
        lacks_pin=_lacks_pin(setup, state),
        newest=newest_of_people(state.views),
        people=min(setup.limits.people, people_tokens(setup, state)),
        fewest_gone=_fewest_gone(setup, state),
        most_messages=most_messages(setup.limits, len(state.messages)),
        scale=factor * (1 + setup.meter.error),
        least=lambda i: setup.size(state.format, _shortener(setup, state, i).cut_down(state.messages[i], piece)),
        aim=None if setup.limits.aim is None else int(setup.limits.aim / factor) - slack,
    )


def _lacks_pin(setup: Setup, state: State) -> bool:
    """Return whether a summary in the list lacks a text that is pinned now."""
    pins = render_pins([*setup.settings.pins, *pins_for(setup, state)])
    return any(is_our_summary(view) and pins not in view.text for view in state.views)


def _fewest_gone(setup: Setup, state: State) -> int:
    """Return how many messages must go where a trigger by messages fired, for the list to have fewer; else 0."""
    parted = state.format.alternates or setup.settings.form != "user"
    return messages_to_go(setup.limits, len(state.messages), 2 if parted else 1)


def _is_smaller(setup: Setup, state: State, made: Rewrite) -> bool:
    """Return whether the new list is smaller: in tokens, or in messages where a trigger by messages fired."""
    if _fewest_gone(setup, state) and state.overhead + sum(made.sizes) <= setup.target:
        return len(made.messages) < len(state.messages)
    return sum(made.sizes) < sum(state.sizes)


def write_list(setup: Setup, state: State, plan: Plan) -> Generator[Any, Any, Rewrite]:
    """The new list with its summary turn, proved to be legal; whether it fits and is smaller is checked after."""
    kind = "summary" if plan.gone else "shortening" if plan.caps else "repair"
    draft = Rewrite(kind, plan.gone, plan.place, edited=dict.fromkeys(plan.caps))  # type: ignore[arg-type]
    if setup.transcripts is not None:
        identify(setup, state, draft)  # a transcript that is refused is refused before a model is paid
    written = (yield from write(setup, state, plan)) if plan.gone else None
    draft = identify(setup, state, replace(draft, written=written))
    edited = {
        i: _shortener(setup, state, i, draft.record_id).shorten(state.messages[i], state.views[i], state.sizes[i], cap)
        for i, cap in plan.caps.items()
    }
    return build(setup, state, replace(draft, edited=edited))


def _shortener(setup: Setup, state: State, index: int, record_id: str = "0" * 12) -> Shortener:
    """What cuts the message at this index down for a record."""
    signed = clear.beside_signed(state.views, index)
    note, view = shortening_note(record_id), state.views[index]
    return Shortener(state.format, setup.meter.text, note, signed, _shortened_by(state, view))


def _shortened_by(state: State, view: View) -> frozenset[str]:
    """Return the records that put this message in as it is, as far as it names them."""
    named = ((one, state.records.named(one)) for one in marked_ids(view)) if state.records is not None else ()
    return frozenset(one for one, record in named if record and view.meaning in record.data.get("marks", ()))


# -- what the host is told --------------------------------------------------------------------------------------------


def _announce(setup: Setup, state: State, reason: str) -> None:
    thread, namespace = state.scope.thread, state.scope.namespace
    setup.emit(Compacting(thread, reason, setup.tokens(state.estimate), state.given, namespace=namespace))


def _tell_failure(
    setup: Setup, state: State, error: ArchiveError | HookRaised | SummaryFailed, *, goes_on: bool
) -> None:
    """Say what failed. It is logged too; a summariser's failure is, once in a row, by who asks it."""
    thread, namespace = state.scope.thread, state.scope.namespace
    if isinstance(error, SummaryFailed):
        tell_models(setup, state, error.others, goes_on=goes_on)
        if error.cost or not error.resting:  # a model that rests was not asked
            setup.emit(Failed(thread, "summary", error, error.cost, goes_on, namespace=namespace))
        return
    stage, cause = ("hook", error.error) if isinstance(error, HookRaised) else (_stage(error), error)
    said = str(error) if isinstance(error, TranscriptError) else type(cause).__name__
    log.warning("a compaction was given up, the %s failed: %s", stage, said)
    setup.emit(Failed(thread, stage, cause, goes_on=goes_on, namespace=namespace))


def _is_too_small(error: Exception) -> bool:
    """Return whether the summariser's window is too small to ask it: to wait would only make the request grow."""
    return isinstance(error, SummaryFailed) and getattr(error, "why", "") == "too-long"


def _ends_it(error: Exception) -> bool:
    """Return whether nothing can be compacted after this error: without a transcript, a hook or a model it can."""
    return isinstance(error, ArchiveError) and not isinstance(error, TranscriptError)


def _stage(error: ArchiveError) -> str:
    return "transcript" if isinstance(error, TranscriptError) else "archive"
