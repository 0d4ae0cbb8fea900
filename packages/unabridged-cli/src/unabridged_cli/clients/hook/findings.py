"""What was found about a client's summary, told to the model when the client next takes a text."""

from __future__ import annotations

from typing import Final

from unabridged.archive.protocol import Archive
from unabridged_cli.clients.hook.copying import keep, newest_record
from unabridged_cli.clients.hook.transcript import Place, Source

CLAIMS: Final = "claims"
"""The kind of a record of what was found, or of that it was told."""
CERTAIN: Final = "the summary quotes the user with words that nobody said: "
"""How a finding begins that is certain."""


def take_certain(archive: Archive, source: Source) -> str:
    """What the model has to know of the newest summary; said once."""
    record = newest_record(archive, source, CLAIMS)
    notes = record.data["receipt"]["notes"] if record is not None else ()
    certain = [note for note in notes if note.startswith(CERTAIN)]
    if record is None or not certain:
        return ""
    place = Place.of(record.data.get("place"))
    keep(archive, source, CLAIMS, place, reason=f"told what {record.id} found", of=f"told {record.id}")
    return "[unabridged] " + "; ".join(certain)
