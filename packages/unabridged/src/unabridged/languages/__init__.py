"""Languages, one JSON file each: our own headings, and how a model refuses.

What was said is never translated; only headings and labels follow the conversation. To add a language, add a file: no
code names one, and an entry that it lacks is English's. `en.json` has every entry:

    name                   what the language is called, in English
    common                 its commonest words, by which it is recognised
    words                  our headings and labels
    abbreviations          words with a dot that end no sentence
    refusals, apologies    how a model begins that refuses to write a summary

Refusals and apologies are regular expressions in lower case; a space in one also matches a comma. Those of all
languages are tried at once.
"""

from unabridged.languages.detection import detect_certain_language, detect_language
from unabridged.languages.language_files import (
    collect_phrases,
    fold_case,
    get_labels,
    get_language_name,
    load_language_tables,
    measure_phrase_match,
)  # fmt: skip

__all__ = [
    "collect_phrases", "detect_certain_language", "detect_language", "fold_case", "get_labels", "get_language_name",
    "load_language_tables", "measure_phrase_match",
]  # fmt: skip
