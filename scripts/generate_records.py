"""Make `src/unabridged/intent/records.json`: what each word says of a text, learned from `tests/lists/records`.

    .venv/bin/python scripts/generate_records.py            # writes the table
    .venv/bin/python scripts/generate_records.py --tell     # and says how it does on writers it has not seen

Every file there is by another writer: `records` are what systems wrote of conversations, `others` what people write or
paste. The weight of a word is the logarithm of how much more often it stands in records than the share of these among
the texts of its language would have it. It must stand in the texts of several writers, or it tells of a topic. To say
how well that works, each writer is left out in turn; one who wrote a single kind, in a language of few, is hard then.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

from unabridged.intent.records import ALIKE, traits_of, weigh
from unabridged.languages import sure_language

ROOT = Path(__file__).parent.parent
LISTS, TABLE = ROOT / "tests" / "lists", ROOT / "src" / "unabridged" / "intent" / "records.json"
KINDS = ("records", "others")
WRITERS, DOUBT, LEAST = 2, 1.5, 0.45
"""Writers who must use a trait; texts of either kind that are added to those it stands in, so that few prove little;
the weight below which it says nothing."""


class Text(NamedTuple):
    """The words of a text, and the language it is in."""

    words: set[str]
    language: str


Writer = dict[str, list[Text]]
"""The texts by kind."""


def main() -> None:
    """Write the table, and say how well it does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tell", action="store_true", help="say how it does on each writer when it has not seen them")
    tell = parser.parse_args().tell
    writers = read_writers()
    TABLE.write_text(table(learn(writers)), encoding="utf-8")
    texts = sum(len(writer[kind]) for writer in writers.values() for kind in KINDS)
    print(f"{TABLE.name}: from {texts:,} texts by {len(writers)} writers")
    for name in writers if tell else ():
        right = {kind: unseen(writers, name, kind) for kind in KINDS if writers[name][kind]}
        print(f"{name:14}", ", ".join(f"{kind} {sum(found)} of {len(found)}" for kind, found in right.items()))


def read_writers() -> dict[str, Writer]:
    """All texts, by who wrote them."""
    paths = sorted((LISTS / "records").glob("*.json"))
    writers = {path.stem: _writer(json.loads(path.read_text(encoding="utf-8"))) for path in paths}
    first = json.loads((LISTS / "foreign_summaries.json").read_text(encoding="utf-8"))
    planted = [text for kind in ("known", "unknown", "missed") for text in first[kind].values()]
    records = [text.replace("{claim}", "").replace("{task}", "") for text in planted]
    return {**writers, "first": _writer({"records": records, "others": [*first["people"], *first["logs"]]})}


def learn(writers: dict[str, Writer]) -> dict[str, float]:
    """The weight of every word that enough writers use."""
    stands, chance, used = {kind: Counter[str]() for kind in KINDS}, defaultdict[str, float](float), Counter[str]()
    languages = {kind: Counter(text.language for writer in writers.values() for text in writer[kind]) for kind in KINDS}
    for writer in writers.values():
        for kind in KINDS:
            for words, language in writer[kind]:
                share = languages["records"][language] / sum(counts[language] for counts in languages.values())
                stands[kind].update(words)
                for word in words:
                    chance[word] += share
        used.update({word for kind in KINDS for text in writer[kind] for word in text.words})

    def weight(word: str) -> float:
        records, others = (stands[kind][word] for kind in KINDS)
        odds = (records + DOUBT) / (others + DOUBT)
        return math.log(odds * (records + others - chance[word] + DOUBT) / (chance[word] + DOUBT))

    weights = {word: weight(word) for word, number in used.items() if number >= WRITERS}
    return {word: found for word, found in weights.items() if abs(found) >= LEAST}


def unseen(writers: dict[str, Writer], name: str, kind: str) -> list[bool]:
    """Of each text of this writer, whether it is taken for what it is by what the others teach."""
    weights = learn({other: writer for other, writer in writers.items() if other != name})
    found = [weigh(text.words, weights) >= ALIKE for text in writers[name][kind]]
    return [record == (kind == "records") for record in found]


def table(weights: dict[str, float]) -> str:
    """The file: the words of each weight, in tenths."""
    rows = defaultdict[int, list[str]](list)
    for word, weight in sorted(weights.items()):
        rows[round(10 * weight)].append(word)
    lines = (f'"{tenths}": {json.dumps(" ".join(rows[tenths]), ensure_ascii=False)}' for tenths in sorted(rows))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _writer(told: dict[str, list[str]]) -> Writer:
    return {kind: [Text(traits_of(text), sure_language([text])) for text in told.get(kind, [])] for kind in KINDS}


if __name__ == "__main__":
    main()
