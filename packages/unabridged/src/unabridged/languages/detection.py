"""Detect which language a text is in: by its script, and where several languages share one by its commonest words.

Code, paths, addresses and quotations are left out of account: they are in no language, or in another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache

from unabridged.languages import load_language_tables
from unabridged.text_cache import cache_by_text

_SCRIPT_PATTERNS = {
    "ko": re.compile(r"[\uac00-\ud7af\u1100-\u11ff]"),
    "cyrillic": re.compile(r"[\u0400-\u052f]"),
    "arabic": re.compile(r"[\u0600-\u06ff\u0750-\u077f]"),
    "hebrew": re.compile(r"[\u0590-\u05ff]"),
    "greek": re.compile(r"[\u0370-\u03ff]"),
    "devanagari": re.compile(r"[\u0900-\u097f]"),
    "thai": re.compile(r"[\u0e00-\u0e7f]"),
}
"""Scripts of one language, or of several that are not distinguished."""
_HAN_PATTERN = re.compile(r"[\u3400-\u9fff]")
_KANA_PATTERN = re.compile(r"[\u3040-\u30ff]")
_LETTER_PATTERN = re.compile(r"[^\W\d_]")
_WORD_PATTERN = re.compile(r"(?<![\w'\u2019./\\-])[^\W\d_]+(?![\w/\\(=])")
_CODE_PATTERN = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|\"[^\"\n]{0,300}\"|\u201c[^\u201d\n]{0,300}\u201d", re.DOTALL
)
_SAMPLE_CHARACTERS = 20_000
"""Characters that are read, a quarter of them of one text at most."""


def detect_language(texts: Iterable[str]) -> str:
    """Return the language most of these texts are in, by its code; "" when nothing shows it, of as many the earlier.

    Each counts once, however long: somebody who pastes a page in another language goes on in their own.
    """
    votes, read = Counter[str](), 0
    for text in texts:
        sample = text[: _SAMPLE_CHARACTERS // 4]
        code, _ = _detect_sample_language(sample)
        votes[code] += code != ""
        read += len(sample)
        if read >= _SAMPLE_CHARACTERS:
            break
    return max(votes, key=votes.__getitem__, default="")


def detect_certain_language(texts: Iterable[str]) -> str:
    """Return the language, or the script, that these texts taken together are in; "" in doubt.

    Read from all over the texts: what is refused for its language is refused on this evidence.
    """
    read = [text[: _SAMPLE_CHARACTERS // 4] for text in texts]
    step = max(1, sum(map(len, read)) // _SAMPLE_CHARACTERS)
    code, certain = _detect_sample_language("\n".join(read[::step]))
    return code if certain else ""


@cache_by_text
def _detect_sample_language(sample: str) -> tuple[str, bool]:
    """Return the most likely language, and whether it is certain."""
    sample = _CODE_PATTERN.sub(" ", sample)
    letters, han, kana = (len(pattern.findall(sample)) for pattern in (_LETTER_PATTERN, _HAN_PATTERN, _KANA_PATTERN))
    # A sign says what a whole word says elsewhere: where they are a sixth of the letters they are most of the text.
    if letters and (han + kana) * 6 >= letters:
        return "ja" if kana * 8 >= han + kana else "zh", letters >= 8
    words = [word.lower() for word in _WORD_PATTERN.findall(sample)]
    for name, script in _SCRIPT_PATTERNS.items():
        if letters and len(script.findall(sample)) * 3 >= letters:
            # A file whose commonest words are in this script tells its language; else the script is all that is known.
            known = {code: common for code, common in _load_common_words().items() if script.search("".join(common))}
            return max(known, key=lambda code: sum(word in known[code] for word in words), default=name), letters >= 8
    tally = Counter({code: sum(word in common for word in words) for code, common in _load_common_words().items()})
    (best, most), (_, second) = tally.most_common(2)
    enough = len(words) >= 8 and most >= 4 and most * 8 >= len(words)
    return best if most else "", enough and most >= 1.4 * second and (han + kana) * 20 < letters


@cache
def _load_common_words() -> dict[str, frozenset[str]]:
    """Return the commonest words by language; languages with headings of ours first, in case nothing decides."""
    tables = load_language_tables()
    known = {code: frozenset(table["common"].split()) for code, table in tables.items() if "common" in table}
    return dict(sorted(known.items(), key=lambda item: "words" not in tables[item[0]]))
