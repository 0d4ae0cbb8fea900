"""The hook inside a program that runs the agent itself: for the adapter of the Claude Agent SDK."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from unabridged.archive.protocol import Archive
from unabridged_cli.clients.hook import LONGEST, around, rest
from unabridged_cli.clients.hook.events import as_context, find_source, reason_of
from unabridged_cli.clients.hook.transcript import Source

__all__ = ["LONGEST", "answer_event"]

log = logging.getLogger("unabridged")


def answer_event(event: Mapping[str, Any], archive: Archive, namespace: str) -> dict[str, Any]:
    """Do what the hook does at this event; return what the client gets as the answer."""
    source, reason = find_source(event)._replace(namespace=namespace), reason_of(event)
    name, compacted = event["hook_event_name"], event.get("source") == "compact"
    whole, said = True, dict[str, Any]()
    if name == "PreCompact":
        whole = around.archive_session(source, reason, around.BEFORE, archive)
    elif name == "PostCompact":
        around.check_summary(source, reason, event.get("compact_summary"), archive)
    elif name == "SessionStart":
        text, whole = around.tell_context(source, reason, archive, compacted=compacted)
        said = as_context(text)
    if not whole:
        _do_rest(source, reason, archive)
    return said


def _do_rest(source: Source, reason: str, archive: Archive) -> None:
    """Do what there was no time for while the agent goes on; if the program ends first, the next event goes on."""

    def work() -> None:
        try:
            rest.do_rest(source, reason, archive)
        except Exception as error:  # noqa: BLE001 - the program may have closed its archive
            log.warning("the rest of %s: %s: %s", source.thread, type(error).__name__, error)

    threading.Thread(target=work, name="unabridged-rest", daemon=True).start()
