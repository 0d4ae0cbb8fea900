"""Messages that are no messages of their format: a role that it does not have, or a field that is not there.

Nobody but their author can say what was meant, so nothing is mended here. A compaction leaves them as they are: a
server that is compatible with a provider may take more than the provider does.
"""

from __future__ import annotations

from collections.abc import Iterator

from unabridged.formats.base import Finding, Outgoing
from unabridged.formats.fields import get

UNREPAIRABLE_RULES = frozenset({"empty-conversation", "unknown-role", "missing-field", "system-unsupported"})
"""The rules whose faults `repair` can't mend."""


def find_malformed(outgoing: Outgoing) -> Iterator[Finding]:
    """Find every message with an unknown role or without a field that its format requires."""
    format_ = outgoing.format
    for index, message in enumerate(outgoing.messages or ()):
        if format_.roles and not format_.takes_role(message):
            known = ", ".join(sorted(role for role in format_.roles if role))
            said = f"message {index} has the role {get(message, 'role')!r}, which {format_.name} does not know"
            yield Finding("unknown-role", index, f"{said}: give it one of {known}")
        if missing := ", ".join(format_.missing(message)):
            yield Finding("missing-field", index, f"message {index} is without {missing}: fill that in")
