"""What we know of each language, one JSON file each: our own headings, and the phrases that tell what people mean.

What was said is never translated; only headings and labels follow the conversation. To add a language, add a file: no
code names one, and an entry that it lacks is English's. `en.json` has every entry:

    name        what the language is called, in English
    common      its commonest words, by which it is told from others
    words       our headings and labels
    all others  phrases that people and models use, by what they do

A phrase is written in lower case: `a|b` are two words for one place, `…` is a short gap, a `*` at the end leaves a word
open. Phrases of all languages are looked for at once, because people mix them.
"""

from unabridged.languages.detection import WITHOUT_SPACES, detect, sure_language
from unabridged.languages.matching import (
    EASTERN,
    eastern_words,
    folded,
    labels,
    language_name,
    phrases,
    tables,
    vocabulary,
)

__all__ = [
    "EASTERN", "WITHOUT_SPACES", "detect", "eastern_words", "folded", "labels", "language_name", "phrases",
    "sure_language", "tables", "vocabulary",
]  # fmt: skip
