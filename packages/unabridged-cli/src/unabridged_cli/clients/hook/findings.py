"""What was found about a client's summary, given to the model when the client next takes a text."""

from __future__ import annotations

from typing import Final

from unabridged.archive.protocol import Archive
from unabridged_cli.clients.hook.session_copy import find_newest_record, read_position, store_record
from unabridged_cli.clients.hook.transcript import HookSession

CLAIMS_KIND: Final = "claims"
"""The kind of a record of findings, or of that the model was told."""
CERTAIN_PREFIX: Final = "the summary quotes the user with words that nobody said: "
"""How a finding begins that is certain."""


def report_certain_findings(archive: Archive, session: HookSession) -> str:
    """Return the certain findings about the newest summary as a text for the model, and record that they were given."""
    record = find_newest_record(archive, session, CLAIMS_KIND)
    notes = record.data["receipt"]["notes"] if record is not None else ()
    certain = [note for note in notes if note.startswith(CERTAIN_PREFIX)]
    if record is None or not certain:
        return ""
    reason, made_of = f"told what {record.id} found", f"told {record.id}"
    store_record(archive, session, CLAIMS_KIND, read_position(record), reason=reason, made_of=made_of)
    return "[unabridged] " + "; ".join(certain)
