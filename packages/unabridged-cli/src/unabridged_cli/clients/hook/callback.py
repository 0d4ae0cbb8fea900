"""The hook inside a program that runs the agent itself: for the adapter of the Claude Agent SDK."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from unabridged.archive.protocol import Archive
from unabridged_cli.clients.hook import HOOK_TIMEOUT_SECONDS, actions
from unabridged_cli.clients.hook.events import describe_event, find_event_session, to_context_output
from unabridged_cli.clients.hook.transcript import HookSession

__all__ = ["HOOK_TIMEOUT_SECONDS", "answer_event"]

log = logging.getLogger("unabridged")


def answer_event(event: Mapping[str, Any], archive: Archive, namespace: str) -> dict[str, Any]:
    """Do what the hook does at this event; return what the client gets as the answer."""
    session, reason = find_event_session(event)._replace(namespace=namespace), describe_event(event)
    name, is_compacted = event["hook_event_name"], event.get("source") == "compact"
    is_complete, answer = True, dict[str, Any]()
    if name == "PreCompact":
        is_complete = actions.archive_session(session, reason, actions.BEFORE_COMPACTION_SECONDS, archive)
    elif name == "PostCompact":
        actions.check_summary(session, reason, event.get("compact_summary"), archive)
    elif name == "SessionStart":
        text, is_complete = actions.build_context_text(session, reason, archive, is_compacted=is_compacted)
        answer = to_context_output(text)
    if not is_complete:
        _finish_archiving_later(session, reason, archive)
    return answer


def _finish_archiving_later(session: HookSession, reason: str, archive: Archive) -> None:
    """Do what there was no time for while the agent goes on; if the program ends first, the next event goes on."""

    def work() -> None:
        try:
            actions.finish_archiving(session, reason, archive)
        except Exception as error:  # noqa: BLE001 - the program may have closed its archive
            log.warning("the rest of %s: %s: %s", session.thread, type(error).__name__, error)

    threading.Thread(target=work, name="unabridged-rest", daemon=True).start()
