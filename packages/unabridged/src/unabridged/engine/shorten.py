"""Shorten a message that is too large: its bulk is cut down to head and tail around a note."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from unabridged.formats.base import Format, Message, Slot
from unabridged.marks import find_shortening_note
from unabridged.messages import View
from unabridged.text_tools import Count, cut_middle, find_common_cap, map_strings


@dataclass(frozen=True, slots=True)
class Shortener:
    """How messages are cut down around this note; beside `is_signed` reasoning less of the model's own turn.

    A piece is a text, a tool's answer, or the strings in a call's arguments. What stands beside signed reasoning in the
    model's own turn (arguments, what the provider's tools gave) is never touched.
    """

    format: Format
    count: Count
    note: str
    is_signed: bool = False
    earlier: Collection[str] = ()
    """The records that shortened the message before: their notes still give its first size."""

    def shorten(self, message: Message, view: View, size: int, tokens: int) -> Message:
        """Return the message, of so large a `size`, with its largest pieces cut down to about `tokens` together.

        Images and files that take more than half of what there is become a note.
        """
        sizes: dict[tuple[Slot, str], int] = {}

        def weigh(slot: Slot, text: str) -> str:
            if slot.kind != "media":
                sizes[slot, text] = self.count(text)
            return text

        self.format.edit(message, weigh)
        rest = size - sum(sizes.values())  # framing, thinking and media
        drop_media = bool(view.media) and rest > tokens // 2
        if drop_media:
            rest = self.count(self.note) * len(view.media)
        cap = find_common_cap(list(sizes.values()), max(0, tokens - rest))
        return self.shorten_pieces(message, cap, media=drop_media)

    def shorten_pieces(self, message: Message, cap: int, *, media: bool = True) -> Message:
        """Return the message with every piece cut down to about `cap` tokens; with `media`, those become notes."""

        def cut(slot: Slot, text: str) -> str:
            if slot.kind == "media":
                return self.note.format(tokens="an unknown number of") if media else text
            if slot.kind in {"call", "attached"} and self.is_signed:
                return text
            if slot.kind == "call":
                return self._shorten_arguments(text, cap) if self.count(text) > cap else text
            return self._shorten_text(text, cap)

        return self.format.edit(message, cut)

    def _shorten_text(self, text: str, cap: int) -> str:
        return cut_middle(text, cap, self.count, self.note, find_shortening_note(text, self.earlier))

    def _shorten_arguments(self, arguments: str, tokens: int) -> str:
        """Return the arguments, still JSON: their keys stay, and long strings in them are cut down.

        What is nested deeper than can be followed is cut down as a whole.
        """
        leaves: list[int] = []
        try:
            value = json.loads(arguments)
            map_strings(value, lambda text: leaves.append(self.count(text)))
            cap = find_common_cap(leaves, max(0, tokens - (self.count(arguments) - sum(leaves))))
            short = json.dumps(map_strings(value, lambda text: self._shorten_text(text, cap)), ensure_ascii=False)
        except (ValueError, RecursionError):
            return json.dumps({"shortened": self._shorten_text(arguments, tokens)}, ensure_ascii=False)
        return short if self.count(short) < self.count(arguments) else arguments
