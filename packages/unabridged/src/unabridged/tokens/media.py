"""Count the tokens of an image, a sound or a document: by the provider's rule, never by the length of its base64."""

from __future__ import annotations

import base64
import binascii
import re
from math import ceil, sqrt
from struct import unpack
from typing import NamedTuple

from unabridged.formats.base import Family
from unabridged.messages import Media
from unabridged.tokens.estimate import estimate
from unabridged.tokens.models import FAMILIES, PatchRule

PixelSize = tuple[int, int]
"""Width and height in pixels."""


class _TileRule(NamedTuple):
    """OpenAI before GPT-5.2: a fixed price, and one for each 512-pixel tile when the detail is not low."""

    base: int
    tile: int


_TOKENS_PER_PAGE = 3_000
"""A page of a PDF: Claude and OpenAI read its text and look at its picture."""
_ASSUMED_PAGES = 10
"""Assumed for a PDF that is only referred to."""
_MAX_PAGES = 600
_BYTES_PER_PAGE = 20_000
"""Bytes a page takes in a PDF that hides its page count."""

_TEXT_TYPE_PATTERN = re.compile(r"text/|application/(json|xml|yaml|x-)")

_ASSUMED_SECONDS = 300
"""Assumed for a recording that is only referred to."""

_TOKENS_PER_SECOND_OF_VIDEO = 300
_IMAGE_TOKENS_BY_DETAIL = {"low": 280, "medium": 560, "high": 1_120, "ultra_high": 2_240}
"""Tokens of an image to Gemini from 3 on, by its resolution setting; unset is high."""
_GEMINI_TILE_TOKENS = 258

_IMAGE_HEADER_BYTES = 96 * 1024
"""Where the size of an image stands at the latest: behind a JPEG's thumbnail."""


def count_media_tokens(media: Media, model: str, family: Family) -> int:
    """Return the tokens that the provider of this model charges; the most it may where the size can't be read."""
    if media.kind == "image":
        return _count_image_tokens(media, model, family)
    if media.kind == "document":
        return _count_document_tokens(media, model, family)
    each = FAMILIES[family].second if media.kind == "audio" else _TOKENS_PER_SECOND_OF_VIDEO
    return ceil(_count_seconds(media) * each) + 1


def read_image_size(source: str) -> PixelSize | None:
    """Return width and height of a PNG, JPEG, GIF or WebP, from the head of its base64; None for anything else."""
    data = _decode_head(source, _IMAGE_HEADER_BYTES)
    size: PixelSize | None = None
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        size = unpack(">II", data[16:24])
    elif data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        size = unpack("<HH", data[6:10])
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP" and len(data) >= 30:
        size = _read_webp_size(data)
    elif data.startswith(b"\xff\xd8"):
        size = _read_jpeg_size(data)
    return size if size is not None and min(size) > 0 else None


# -- images --------------------------------------------------------------------------------------------------------


_GOOGLE_PATTERN = re.compile(r"gemini|gemma")
_GOOGLE_TILED_PATTERN = re.compile(r"gemini-[12]\b|gemma")
"""Those that see an image by tiles of 768 pixels; the others have one price an image, by its resolution setting."""


def _count_image_tokens(media: Media, model: str, family: Family) -> int:
    if _GOOGLE_PATTERN.search(model):
        return _count_google_image_tokens(media, model)
    rule = FAMILIES[family].image or _find_openai_rule(media, model)
    if isinstance(rule, _TileRule):
        return _count_tile_tokens(read_image_size(media.source), rule, low=media.detail == "low")
    return _count_patch_tokens(read_image_size(media.source), rule)


def _find_openai_rule(media: Media, model: str) -> PatchRule | _TileRule:
    # GPT-5.4 and later see an image as it is unless told otherwise.
    newest = PatchRule(32, {"low": 256, "high": 2_500}.get(media.detail, 10_000), each=1.2, longest=6_000)
    return next((rule for pattern, rule in _OPENAI_RULES if pattern.search(model)), newest)


_OPENAI_RULES: tuple[tuple[re.Pattern[str], PatchRule | _TileRule], ...] = (
    (re.compile(r"gpt-4o-mini"), _TileRule(2_833, 5_667)),
    (re.compile(r"gpt-(4\.1|5(\.\d+)?)-mini"), PatchRule(32, 1_536, each=1.62)),
    (re.compile(r"gpt-(4\.1|5(\.\d+)?)-nano"), PatchRule(32, 1_536, each=2.46)),
    (re.compile(r"o4-mini"), PatchRule(32, 1_536, each=1.72)),
    (re.compile(r"gpt-4|chatgpt"), _TileRule(85, 170)),
    (re.compile(r"\bo[13]\b"), _TileRule(75, 150)),
    (re.compile(r"computer-use"), _TileRule(65, 129)),
    (re.compile(r"gpt-5(\.1)?(?![.\d])"), _TileRule(70, 140)),
    (re.compile(r"gpt-5\.[23](?!\d)"), PatchRule(32, 1_536, each=1.2)),
)
"""Patterns of names, and how their models see images; the first that fits counts."""


def _count_patch_tokens(size: PixelSize | None, rule: PatchRule) -> int:
    if size is None:
        return ceil(rule.most * rule.each)
    width, height = size
    shrink = min(1.0, rule.longest / max(size), sqrt(rule.most * rule.side**2 / (width * height)))
    columns, rows = ceil(width * shrink / rule.side), ceil(height * shrink / rule.side)
    return ceil(min(columns * rows, rule.most) * rule.each)


def _count_tile_tokens(size: PixelSize | None, rule: _TileRule, *, low: bool) -> int:
    if low:
        return rule.base
    if size is None:
        return rule.base + 8 * rule.tile  # 2,048 x 768, the most that is looked at
    shrink = min(1.0, 2_048 / max(size))
    shrink *= min(1.0, 768 / (min(size) * shrink))
    return rule.base + ceil(size[0] * shrink / 512) * ceil(size[1] * shrink / 512) * rule.tile


def _count_google_image_tokens(media: Media, model: str) -> int:
    if not _GOOGLE_TILED_PATTERN.search(model):
        return _IMAGE_TOKENS_BY_DETAIL.get(media.detail, _IMAGE_TOKENS_BY_DETAIL["high"])
    size = read_image_size(media.source)
    if size is None:
        return 12 * _GEMINI_TILE_TOKENS
    tiles = 1 if max(size) <= 384 else ceil(size[0] / 768) * ceil(size[1] / 768)
    return tiles * _GEMINI_TILE_TOKENS


# -- documents and recordings ----------------------------------------------------------------------------------------


def _count_document_tokens(media: Media, model: str, family: Family) -> int:
    source, is_text = media.source, _TEXT_TYPE_PATTERN.match(media.mime)
    if is_text and _is_base64(source):
        return estimate(_decode_head(source, len(source)).decode("utf-8", "replace"), family)
    # The content itself as plain text, and not an address, an id or base64.
    if is_text or (not media.mime and not _is_base64(source) and any(sign.isspace() for sign in source)):
        return estimate(source, family)
    google = re.search(r"gemini(-[12]\b)?", model)
    return _count_pages(media.source) * ((_GEMINI_TILE_TOKENS if google[1] else 560) if google else _TOKENS_PER_PAGE)


def _count_pages(source: str) -> int:
    """Return how many pages a PDF in base64 has: as it says itself, else by its bytes."""
    if not _is_base64(source):
        return _ASSUMED_PAGES
    data = _decode_head(source, len(source))
    pages = len(re.findall(rb"/Type\s*/Page(?![a-zA-Z])", data))
    counts = [int(count) for count in re.findall(rb"/Count\s+(\d{1,5})\b", data)]
    pages = max([pages, *counts]) or ceil(len(data) / _BYTES_PER_PAGE)
    return max(1, min(pages, _MAX_PAGES))


def _count_seconds(media: Media) -> float:
    """Return how long a recording lasts, rather too long: by a WAV's header, else by its bytes at a low bit rate."""
    if not _is_base64(media.source):
        return _ASSUMED_SECONDS
    size = len(media.source) * 3 // 4
    head = _decode_head(media.source, 64)
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE" and (rate := int.from_bytes(head[28:32], "little")):
        return size / rate
    return size / (4_000 if media.kind == "audio" else 60_000)


# -- reading base64 --------------------------------------------------------------------------------------------------


def _is_base64(source: str) -> bool:
    """Return whether the source is the content itself, in base64, and not where it can be found."""
    if source.startswith("data:"):
        return True
    return len(source) > 64 and re.fullmatch(r"[A-Za-z0-9+/_\-\r\n]+={0,2}", source[:4096]) is not None


def _decode_head(source: str, size: int) -> bytes:
    """Return the first bytes of what is encoded; nothing when it is not base64."""
    if source.startswith("data:"):
        source = source.partition(",")[2]
    text = source[: size * 3 // 2].replace("\r", "").replace("\n", "")
    try:
        return base64.b64decode(text[: len(text) // 4 * 4], altchars=b"-_" if "-" in text or "_" in text else None)
    except (binascii.Error, ValueError):
        return b""


def _read_webp_size(data: bytes) -> PixelSize:
    if data[12:16] == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if data[12:16] == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = unpack("<HH", data[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _read_jpeg_size(data: bytes) -> PixelSize | None:
    """Return the size in a JPEG's frame header; None where there is none."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = unpack(">HH", data[at + 5 : at + 9])
            return width, height
        alone = marker == 0xFF or 0xD0 <= marker <= 0xD7 or marker == 0x01
        at += 1 if marker == 0xFF else 2 if alone else 2 + int.from_bytes(data[at + 2 : at + 4])
    return None
