"""Sessions of coding agents: whose a thread is, and where its client compacted it itself.

The hooks copy a session line by line, so its thread has every message and no compaction of ours. What the client did is
told by what each copy notes (`clients/hook/copying.py`), and by the client's summaries, which stand among the messages.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final, NamedTuple

from unabridged.archive.protocol import Archive, Scope
from unabridged.measure.estimate import estimate
from unabridged_cli.clients import CLIENTS
from unabridged_cli.clients.found import names_a_client
from unabridged_cli.clients.hook.copying import COPY, Session, session_facts
from unabridged_cli.clients.threads import session_of

WORDS: Final = 120
"""Characters of what a person said first."""
_LOOK_AT: Final = 40
"""Records that are looked at for the newest copy; others stand between."""
_BEGINNING: Final = ((0, 4), (4, 16), (16, 64))
"""Turns in which a person's first words are looked for: few at first, for a tool's answer may be long."""


class Course(NamedTuple):
    """How a session's context grew: the client's compactions, and the tokens at the end, both estimated."""

    compactions: list[dict[str, Any]]
    tokens: int


def describe(archive: Archive, scope: Scope) -> dict[str, Any] | None:
    """Client, session and project of a thread that the hooks made; None for any other."""
    facts = _facts(archive, scope)
    if facts is None:
        return None
    client, _, session = session_of(scope.thread).partition(":")
    own = session_of(scope.thread) == scope.thread
    return {
        "client": CLIENTS[client].title, "session": session, "project": facts.project, "own": own,
        "compactions": len(facts.compactions) if own else None,
    }  # fmt: skip


def _facts(archive: Archive, scope: Scope) -> Session | None:
    if not names_a_client(scope.thread):
        return None
    records = archive.newest(Scope(scope.namespace, session_of(scope.thread)))
    newest = next((record for record in islice(records, _LOOK_AT) if record.kind == COPY), None)
    return None if newest is None else session_facts(newest)


def first_words(archive: Archive, scope: Scope) -> str:
    """How the first message of a person begins that the thread has; empty when there is none near its beginning."""
    for first, last in _BEGINNING:
        for part in archive.parts(scope, first, last):
            if part.origin == "person" and (words := " ".join(part.text[: 4 * WORDS].split())):
                return words if len(words) <= WORDS else f"{words[: WORDS - 1]}…"
    return ""


def describe_shortly(archive: Archive, scope: Scope) -> dict[str, Any]:
    """What tells a thread from others wherever it is named: first words, session, and when it was used last."""
    session, used = describe(archive, scope), archive.newest_time(scope)
    return {"words": first_words(archive, scope), "session": session, "used": used}


def course(archive: Archive, scope: Scope) -> Course:
    """The client's compactions with their turns, and about how many tokens the context had before and after.

    Tokens are estimated from the texts, without the client's own prompt and tools, and as if nothing but the summary
    had stayed. `turn` is the length of the conversation with the summary, which stands at `summary`.
    """
    facts = _facts(archive, scope) or Session()
    times = {int(turn or 0): time for turn, time in facts.compactions}
    found: list[dict[str, Any]] = []
    tokens = 0
    for part in archive.parts(scope):
        size = estimate(part.text)
        if part.turn in times:
            found.append(_told(part.turn, times.pop(part.turn), tokens, size))
            tokens = 0
        tokens += size
    return Course(found, tokens)


def _told(turn: int, created: float | None, before: int, after: int) -> dict[str, Any]:
    return {
        "id": "", "kind": "summary", "client": True, "created": created, "turn": turn + 1, "summary": turn,
        "before": before, "after": after, "reason": "", "summariser": "", "limits": None,
    }  # fmt: skip
