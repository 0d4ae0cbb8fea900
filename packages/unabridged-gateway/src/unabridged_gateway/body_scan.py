"""Find what a body names beside its texts, without parsing it: whether its length bounds its tokens, and its model."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from unabridged.adapters.kit import BoundedMapping
from unabridged_gateway.json_body import count_common_bytes

_PATTERN: Final = re.compile(
    rb'"(?:[cdfipv][aimnort](?:age(?:_url)?|put_(?:image|file)|line_?[dD]ata|em_reference|cument|le(?:_?[dD]ata)?|deo|'
    rb'ompt|evious_response_id|nversation|ched_?[cC]ontent|mpaction(?:_trigger)?)"'
    rb'|m(?:ax_?(?:completion_|output_|Output)?[tT]okens"\s{0,9}:\s{0,9}(\d{1,12})|odel"\s{0,9}:\s{0,9}"([^"\\]{1,100})"))'
)
"""Names in a body beside which something may stand whose tokens its length does not tell: image, image_url,
input_image, input_file, inline_data, item_reference, document, file, file_data, video, prompt, previous_response_id,
conversation, cached_content, compaction, compaction_trigger. Their first two letters are looked at first: most names
end there. Within a text a quotation mark is escaped, so that no text has them.

The groups are the longest answer that a body asks for, whatever its protocol, and its model: one scan finds all."""

_LONGEST_MATCH: Final = 160
"""Bytes; no match is longer."""
_MAX_REMEMBERED_BYTES: Final = 256_000
_MAX_CONNECTIONS: Final = 64
Connection = tuple[str, int]


class _FieldMatch(NamedTuple):
    """A number of tokens or a model; with neither, something whose tokens the length does not tell."""

    start: int
    tokens: bytes | None
    model: bytes | None


class BodyScan(NamedTuple):
    """What a body names beside its texts."""

    answer_tokens: int
    """The longest answer that it asks for; 0 where it asks for none."""
    models: tuple[str, ...]
    """Each value of a field "model", of which some may stand deeper in the body."""


class BodyScanner:
    """Scans bodies: where one begins like the one before on its connection, only what is new.

    A client sends its conversation again with each request, and this is done for every request.
    """

    def __init__(self) -> None:
        self._last: BoundedMapping[Connection, tuple[bytes, list[_FieldMatch]]] = BoundedMapping(_MAX_CONNECTIONS)
        """The newest body of each connection, and what was found in it."""

    def scan(self, data: bytes, connection: Connection | None) -> BodyScan | None:
        """Return what the body names; None where it has something whose tokens its length does not tell."""
        last: tuple[bytes, list[_FieldMatch]] = (b"", [])
        if connection:
            last = self._last.get(connection, last)
        start = max(0, count_common_bytes(last[0], data) - _LONGEST_MATCH)
        matches = [match for match in last[1] if match.start < start]
        matches += [_FieldMatch(found.start(), *found.groups()) for found in _PATTERN.finditer(data, start)]
        if connection and len(data) <= _MAX_REMEMBERED_BYTES:
            self._last[connection] = data, matches
        if any(match.tokens is None and match.model is None for match in matches):
            return None
        models = tuple(match.model.decode("utf-8", "replace") for match in matches if match.model)
        return BodyScan(max((int(match.tokens) for match in matches if match.tokens), default=0), models)
