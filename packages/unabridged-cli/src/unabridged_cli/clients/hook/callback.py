"""The hook inside a program that runs the agent itself: for the adapter of the Claude Agent SDK."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from unabridged.archive.protocol import Archive
from unabridged_cli.clients.hook import HOOK_TIMEOUT_SECONDS, actions
from unabridged_cli.clients.hook.events import describe_event, find_event_session
from unabridged_cli.clients.hook.transcript import HookSession

__all__ = ["HOOK_TIMEOUT_SECONDS", "answer_event"]

log = logging.getLogger("unabridged")


def answer_event(event: Mapping[str, Any], archive: Archive, namespace: str) -> dict[str, Any]:
    """Handle this event; return what the client gets as the answer."""
    session, reason = find_event_session(event)._replace(namespace=namespace), describe_event(event)
    answer, is_complete = actions.answer_session_event(session, reason, event, archive)
    if not is_complete:
        _finish_archiving_later(session, reason, archive)
    return answer


def _finish_archiving_later(session: HookSession, reason: str, archive: Archive) -> None:
    """Archive the rest while the agent goes on; if the program ends first, the next event continues."""

    def work() -> None:
        try:
            actions.finish_archiving(session, reason, archive)
        except Exception as error:  # noqa: BLE001 - the program may have closed its archive
            log.warning("the rest of %s: %s: %s", session.thread, type(error).__name__, error)

    threading.Thread(target=work, name="unabridged-rest", daemon=True).start()
