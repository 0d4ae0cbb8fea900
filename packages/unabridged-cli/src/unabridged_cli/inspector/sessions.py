"""Sessions of coding agents: whose a thread is, and where its client compacted it itself.

The hooks copy a session line by line, so its thread has every message and no compaction of ours. What the client did is
in the facts of each copy (`clients/hook/session_copy.py`), and in the client's summaries, which are among the messages.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from unabridged.archive.protocol import Archive, Scope
from unabridged.tokens.estimate import estimate
from unabridged_cli.clients.hook.session_copy import COPY_KIND, SessionFacts, read_session_facts
from unabridged_cli.clients.registry import CLIENTS
from unabridged_cli.clients.session_lookup import is_session_name
from unabridged_cli.clients.threads import session_thread_of

WORDS_CHARACTERS: Final = 120
"""Characters of what a person said first."""
_RECORDS_READ: Final = 40
"""Records that are looked at for the newest copy; others stand between."""
_FIRST_TURNS: Final = ((0, 4), (4, 16), (16, 64))
"""Turns in which a person's first words are looked for: few at first, for a tool's answer may be long."""


def describe_session(archive: Archive, scope: Scope) -> dict[str, Any] | None:
    """Return client, session and project of a thread that the hooks made; None for any other."""
    facts = _find_session_facts(archive, scope)
    if facts is None:
        return None
    client, _, session = session_thread_of(scope.thread).partition(":")
    own = session_thread_of(scope.thread) == scope.thread
    return {
        "client": CLIENTS[client].title, "session": session, "project": facts.project, "own": own,
        "compactions": len(facts.compactions) if own else None,
    }  # fmt: skip


def _find_session_facts(archive: Archive, scope: Scope) -> SessionFacts | None:
    if not is_session_name(scope.thread):
        return None
    records = archive.newest(Scope(scope.namespace, session_thread_of(scope.thread)))
    newest = next((record for record in islice(records, _RECORDS_READ) if record.kind == COPY_KIND), None)
    return None if newest is None else read_session_facts(newest)


def read_first_words(archive: Archive, scope: Scope) -> str:
    """Return how the thread's first message of a person begins; empty when there is none near its beginning."""
    for first, last in _FIRST_TURNS:
        for part in archive.parts(scope, first, last):
            if part.origin == "person" and (words := " ".join(part.text[: 4 * WORDS_CHARACTERS].split())):
                return words if len(words) <= WORDS_CHARACTERS else f"{words[: WORDS_CHARACTERS - 1]}…"
    return ""


def describe_thread_briefly(archive: Archive, scope: Scope) -> dict[str, Any]:
    """Return what tells a thread from others wherever it is named: first words, session, and when it was used last."""
    session, used = describe_session(archive, scope), archive.newest_time(scope)
    return {"words": read_first_words(archive, scope), "session": session, "used": used}


def estimate_client_compactions(archive: Archive, scope: Scope) -> tuple[list[dict[str, Any]], int]:
    """Return the client's own compactions with estimated tokens before and after each, and the tokens at the end.

    The client's prompt and tools are not counted, and nothing but the summary is taken to have stayed. `turn` is the
    length of the conversation with the summary, which stands at `summary`.
    """
    facts = _find_session_facts(archive, scope) or SessionFacts()
    times = {int(turn or 0): time for turn, time in facts.compactions}
    compactions: list[dict[str, Any]] = []
    tokens = 0
    for part in archive.parts(scope):
        size = estimate(part.text)
        if part.turn in times:
            compactions.append(_build_compaction_row(part.turn, times.pop(part.turn), tokens, size))
            tokens = 0
        tokens += size
    return compactions, tokens


def _build_compaction_row(turn: int, created: float | None, before: int, after: int) -> dict[str, Any]:
    return {
        "id": "", "kind": "summary", "client": True, "created": created, "turn": turn + 1, "summary": turn,
        "before": before, "after": after, "reason": "", "summariser": "", "limits": None,
    }  # fmt: skip
