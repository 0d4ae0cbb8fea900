"""One thread over its turns: its compactions in order, and its messages by page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Part, Record, Scope
from unabridged.archive.references import make_reference
from unabridged.errors import UnabridgedError
from unabridged.events import COMPACTION_KINDS, receipt_from_dict
from unabridged.formats import detect_message_format
from unabridged.marks import find_summary_turn_id
from unabridged.messages import View
from unabridged.recall.excerpts import split_by_voice
from unabridged_cli.inspector import sessions
from unabridged_cli.inspector.listing import NotInArchive, thread_id

MAX_RECORDS: Final = 2_000
"""Compactions of one thread that are shown at once: the newest."""
PREVIEW_CHARACTERS: Final = 280
"""Characters of a message in a list."""
MESSAGE_CHARACTERS: Final = 400_000
"""Characters of one message in the page: `unabridged read` shows more."""


def describe_thread(archive: Archive, scope: Scope, count: int = MAX_RECORDS) -> dict[str, Any]:
    """Return the thread with its newest compactions that count, oldest first, and the records beside them."""
    contents = next(iter(archive.holdings(scope.namespace, [scope.thread])), None)
    if contents is None:
        raise NotInArchive("this thread is not in the archive any more: it was forgotten since it was listed")
    shortly = sessions.describe_thread_briefly(archive, scope)
    session = shortly["session"]
    count = MAX_RECORDS if session else min(count, MAX_RECORDS)
    newest = list(islice(archive.newest(scope), count + 1))
    records = newest[:count][::-1]
    own = describe_records(list(filter(is_compaction, records)))
    clients, tokens = sessions.estimate_client_compactions(archive, scope) if session and session["own"] else ([], 0)
    return {
        "id": thread_id(scope),
        "namespace": scope.namespace,
        "name": scope.thread,
        **shortly,
        "messages": contents.messages,
        "bytes": contents.size,
        "turns": max([contents.turns, *(record["turn"] for record in own)]),
        "tokens": tokens,
        "count": sum(number for kind, number in contents.kinds.items() if kind in COMPACTION_KINDS) + len(clients),
        "compactions": [*own, *clients],
        "others": [_describe_other_record(record) for record in records if not is_compaction(record)],
        "more": len(newest) > len(records),
        "limits": records[-1].data.get("limits") if records else None,
    }


def is_compaction(record: Record) -> bool:
    """Return whether the record changed a list, and says how: what another program stored may lack that."""
    return record.kind in COMPACTION_KINDS and {"receipt", "turns", "next_turn"} <= record.data.keys()


def describe_records(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return what a chart and a list show of each compaction; `turn` is the length of the conversation then."""
    found: list[dict[str, Any]] = []
    for record in records:
        receipt = receipt_from_dict(record.data["receipt"])
        new = max(0, receipt.messages_after - len(record.data["turns"]))
        turn = max(record.data["next_turn"] + new, found[-1]["turn"] if found else 1)
        which = {"id": record.id, "kind": record.kind, "created": record.created, "turn": turn}
        tokens = {"before": receipt.tokens_before, "after": receipt.tokens_after}
        messages = {"messages_before": receipt.messages_before, "messages_after": receipt.messages_after}
        how = {"reason": receipt.reason, "summariser": receipt.summariser, "cost": receipt.cost}
        found.append(which | tokens | messages | how | {"prior": record.prior, "limits": record.data.get("limits")})
    return found


def _describe_other_record(record: Record) -> dict[str, Any]:
    reason = record.data.get("receipt", {}).get("reason", "")
    return {"id": record.id, "kind": record.kind, "created": record.created, "reason": reason}


def read_parts_by_hash(archive: Archive, scope: Scope, hashes: Sequence[str]) -> list[Part]:
    """Return the thread's messages with these hashes, in this order, as far as they are there; the turn is -1."""
    bodies = archive.bodies(scope, hashes)
    found: list[Part] = []
    for name in dict.fromkeys(hashes):
        if name in bodies:
            view = read_view(bodies[name])
            origin = view.origin if view and not find_summary_turn_id(view) else "summary"
            role, text = (view.role, view.whole_text()) if view else ("unknown", "")
            found.append(Part(name, bodies[name], -1, role, origin, text))
    return found


def read_view(body: bytes) -> View | None:
    """Return what a stored message says; None where it can't be read here."""
    try:
        message = codec.decode(body)
        return detect_message_format([message]).read(message)
    except (UnabridgedError, TypeError, ValueError, AttributeError, LookupError):
        return None


def read_message(archive: Archive, scope: Scope, turn: int, name: str) -> dict[str, Any] | None:
    """Return one message whole, piece by piece and each with whose words it is; None where the archive has it not."""
    if turn >= 0:
        parts = [part for part in archive.parts(scope, turn, turn + 1) if not name or part.hash == name]
    else:
        parts = read_parts_by_hash(archive, scope, [name])
    if not parts:
        return None
    return {**describe_message(scope, parts[0], MESSAGE_CHARACTERS), "versions": len(parts)}


def describe_message(scope: Scope, part: Part, room: int) -> dict[str, Any]:
    """Return a message as `describe_briefly` does, with so many characters of what it says, piece by piece."""
    pieces: list[dict[str, Any]] = []
    for piece in split_by_voice(part):
        pieces.append({"whose": piece.whose, "text": piece.text[:room], "length": len(piece.text)})
        room = max(0, room - len(piece.text))
    return {**describe_briefly(scope, part), "pieces": pieces}


def describe_briefly(scope: Scope, part: Part) -> dict[str, Any]:
    """Return the beginning of a message, and how it is found; one that a compaction put in has no turn."""
    view = read_view(part.body) if part.turn < 0 else None
    ref = make_reference(scope, part.turn, part.hash) if part.turn >= 0 else None
    is_summary = view is not None and find_summary_turn_id(view) is not None
    text = " ".join(part.text[: 4 * PREVIEW_CHARACTERS].split())[:PREVIEW_CHARACTERS]
    which = {"turn": part.turn, "hash": part.hash, "ref": ref, "role": part.role, "origin": part.origin}
    return which | {"length": len(part.text), "summary": is_summary, "text": text}
