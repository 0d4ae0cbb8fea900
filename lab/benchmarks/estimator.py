"""Error of the estimator per corpus and family, and its speed. `BENCH_DATA` adds conversations of your own."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toktok import batch_count  # type: ignore[import-untyped]

from unabridged.formats.base import Family
from unabridged.tokens.estimate import estimate

CORPORA = Path(__file__).parents[2] / "tests" / "helpers" / "corpora"
FAMILIES: tuple[Family, ...] = ("openai", "claude", "claude-3")


def run(*, quick: bool = False) -> list[dict[str, Any]]:
    """Return a row per corpus: the error of each family, the error of characters / 4, and megabytes per second."""
    counts = json.loads((CORPORA / "counts.json").read_text(encoding="utf-8"))
    rows = []
    for name, real in counts.items():
        text = (CORPORA / f"{name}.txt").read_text(encoding="utf-8")
        row = {"corpus": name, "characters": len(text)}
        row |= {family: _percent(estimate(text, family) / real[family]) for family in FAMILIES}
        row |= {f"chars/4, {family}": _percent(len(text) / 4 / real[family]) for family in FAMILIES[:2]}
        rows.append(row | {"MB/s": round(speed(text, 100_000 if quick else 1_000_000), 1)})
    if folder := os.environ.get("BENCH_DATA"):
        rows += [_fresh(path) for path in sorted(Path(folder).glob("*.jsonl"))]
    return rows


def speed(text: str, size: int) -> float:
    """Return megabytes of UTF-8 per second of processor time, with the pieces of the text already cached."""
    text *= size // len(text) + 1
    estimate(text, "openai")
    start = time.process_time()
    estimate(text, "openai")
    return len(text.encode()) / (time.process_time() - start) / 1e6


def _fresh(path: Path) -> dict[str, Any]:
    """Return the error against o200k on all texts of a file of conversations, and the spread over single texts."""
    texts = [text for line in path.open(encoding="utf-8") for text in _texts(json.loads(line)) if len(text) >= 200]
    texts = texts[:2_000]
    real = batch_count(texts, "o200k_base", threads=1)
    ratios = sorted(estimate(text, "openai") / count for text, count in zip(texts, real, strict=True))
    total = sum(estimate(text, "openai") for text in texts) / sum(real)
    spread = f"{_percent(ratios[len(ratios) // 100])} to {_percent(ratios[-1 - len(ratios) // 100])}"
    return {"corpus": path.name, "characters": sum(map(len, texts)), "openai": f"{_percent(total)} ({spread})"}


def _texts(value: Any) -> Iterator[str]:
    """Yield every string under a `content`, `text` or `arguments`."""
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str):
                if key in ("content", "text", "arguments"):
                    yield item
            else:
                yield from _texts(item)


def _percent(ratio: float) -> str:
    return f"{ratio - 1:+.0%}"


def main() -> None:
    """Print the rows."""
    for row in run():
        print(" ".join(f"{value!s:>10}" for value in row.values()))


if __name__ == "__main__":
    main()
