"""Have the provider compact in its own way: its block stands first in the list, and a summary turn beside it.

The turn says what no provider's block may be trusted to keep: people's words, rules, pins and where to read the rest.
And it names the record, so that replay, undo and search find the originals as always. What fails, or comes out too
large, is reported, and our own prompt is used instead.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from unabridged.archive.protocol import Scope
from unabridged.asking.ask import Ask, Reply
from unabridged.asking.asker import Asker
from unabridged.engine.plan import MIN_SUMMARY_TOKENS
from unabridged.engine.state import Setup, State
from unabridged.errors import ArchiveError, SummaryFailed
from unabridged.formats import detect_message_format
from unabridged.formats.base import Format, read_all_messages, require_list
from unabridged.formats.fields import begins_with_compaction
from unabridged.history.replay import find_record, undo_records
from unabridged.marks import find_summary_turn_id
from unabridged.results import Plan
from unabridged.summary.brief import Brief, SummaryBody
from unabridged.summary.summary_body import build_priced_cost, write_by_rule

NATIVE_HEADING = "## Compacted by the provider itself: its own summary stands before this turn"
INSTEAD = "our own prompt was used instead"
MESSAGES_PLACE = "{messages}"
"""Where a prompt of the caller's own has the conversation, which the provider has anyway."""
NATIVE_PLACE = -1
"""Stands for it among the models whose failures are logged once in a row."""
FIRST_MESSAGES = 64
"""So many messages are looked at for a block and the summary turn that stands beside it."""


def write_natively(setup: Setup, state: State, plan: Plan, brief: Brief) -> Generator[Any, Any, SummaryBody | None]:
    """Return the body of the turn beside the provider's own compaction; None where that could not be had."""
    report, asker = state.report, setup.summary_writer.asker
    if asker is None or report.native == "failed":
        return None
    try:
        reply, room, cost = yield from _ask_provider(setup, state, plan, asker)
    except SummaryFailed as failed:
        report.add_cost(failed.cost)
        report.native = "failed"
        report.done_without.append(f"{failed.reason}; {INSTEAD}")
        asker.warn_of_failure(NATIVE_PLACE, failed, INSTEAD.capitalize())
        setup.host.emit_failure(state.scope, "summary", failed, goes_on=True)
        return None
    report.add_cost(cost)
    report.native = "made"
    asker.log_next_failure_again(NATIVE_PLACE)
    limits = brief.limits._replace(total=min(brief.limits.total, room))
    beside = write_by_rule(replace(brief, limits=limits), NATIVE_HEADING)
    notes = (f"compacted by the provider itself ({asker.native_provider})", *beside.notes)
    made = {"prose": reply.text, "summariser": reply.model or asker.name, "native": reply.native}
    return replace(beside, cost=cost, notes=notes, **made)


def _ask_provider(
    setup: Setup, state: State, plan: Plan, asker: Asker
) -> Generator[Any, Any, tuple[Reply, int, dict[str, float]]]:
    """Return the provider's compaction of all up to the cut, the tokens left for the summary turn, and the cost."""
    working, request, gone = state.working, state.request, set(plan.gone)
    if state.report.native == "made":
        raise SummaryFailed("the list with the provider's own compaction did not fit")
    if 0 not in asker.list_ready_models():
        raise SummaryFailed(asker.describe_cool_down(asker.seconds_until_ready))
    if any(view.resets for i, view in enumerate(working.views) if i not in gone):
        raise SummaryFailed("another compaction of the provider's own stays in the list, and it takes one at most")
    prompt = (setup.settings.instruction or "").replace(MESSAGES_PLACE, "")
    reply: Reply = yield Ask(request.system, working.messages[: plan.gone[-1] + 1], request.tools, prompt, native=True)
    cost = build_priced_cost(1, reply.usage, reply.model or asker.name) if reply.usage is not None else {}
    failed: SummaryFailed | None = reply.native if isinstance(reply.native, SummaryFailed) else None
    if failed is None:
        size, stays = setup.measure(state.format, reply.native)[1], state.estimate - sum(working.sizes[i] for i in gone)
        room = min(plan.replaced, setup.target - stays) - size
        if room >= MIN_SUMMARY_TOKENS:
            return reply, room, cost
        failed = SummaryFailed(f"the provider's own compaction is too large: {size:,} tokens")
    failed.cost = cost
    raise failed


def restore_for_other_provider(setup: Setup, scope: Scope, messages: list[Any], format_: Format | None) -> list[Any]:
    """Return the original conversation of a list whose compaction another provider made; any other list as it is."""
    if not messages or not begins_with_compaction(require_list(messages)):
        return messages
    format_ = format_ or detect_message_format(messages)
    views = read_all_messages(messages[:FIRST_MESSAGES], format_)
    try:
        record_ids = filter(None, map(find_summary_turn_id, views))
        record = next((find_record(setup.archive, scope, record_id) for record_id in record_ids), None)
        maker = record.data.get("native") if record is not None else None
        if maker and maker != setup.summary_writer.native_provider:
            return undo_records(setup.archive, scope, messages, format_, every=True, strict=False)[0]
    except ArchiveError as error:  # without its originals, the provider decides
        setup.host.emit_failure(scope, "archive", error)
    return messages
