"""Keys, tokens and passwords in a text: found by their form, so that they can be kept out of a record.

Errs on the side of finding: a form that a known provider gives its keys is one, and so is a value assigned to a name
like `password`, unless it is plainly a placeholder. Hashes, ids and base64 by themselves are left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple


class Span(NamedTuple):
    """Where a secret stands: text[start:stop], and what kind it is."""

    start: int
    stop: int
    kind: str


class _SecretForm(NamedTuple):
    kind: str
    hint: str
    """Stands in every text that has one: most texts are passed over by looking for it alone."""
    pattern: re.Pattern[str]
    """Group 1, where there is one, is the secret in its context; where there is none, no word goes on around it."""


_TABLE: Final = json.loads(Path(__file__).with_name("secrets.json").read_text(encoding="utf-8"))
"""What providers' keys look like: by kind, the patterns by their hints. Of `keys`, no word goes on around them."""


def _compile_secret_forms(section: str, end: str = "") -> Iterator[_SecretForm]:
    for kind, patterns in _TABLE[section].items():
        for hint, pattern in patterns.items():
            yield _SecretForm(kind, hint, re.compile(pattern + end))


_SECRET_FORMS: Final = (*_compile_secret_forms("keys", end="(?![A-Za-z0-9_])"), *_compile_secret_forms("others"))
_SECRET_NAMES: Final = ("password", "passwd", "passphrase", "pwd", "secret", "token", "credential", "key")
_KEY_KINDS: Final = ("api", "access", "private", "auth", "encryption", "account", "signing")
"""What stands before `key` when it is one."""
_ASSIGNMENT_PATTERN: Final = re.compile(
    r"""(?ix)
    ( [a-z0-9_-]{0,20} ) ["'\\]{0,4} \s{0,3} (?: := | => | [:=] ) \s{0,3} ["'\\]{0,4}
    ( [^\s"'`,;(){}<>\[\]\\]{8,200}+ ) (?!\() """,
)
_METADATA_SUFFIX_PATTERN: Final = re.compile(
    r"(?i)s?[_-](?:count|limit|budget|size|len|length|type|name|id|url|uri|file|path|index|usage|max|min|hash|endpoint).*"
)
"""What is said about a token, and is none: `token_count`."""
_PLACEHOLDER_PATTERN: Final = re.compile(
    r"(?i)\*{3}|x{4}|\.{3}|…|your[_-]|example|placeholder|redacted|changeme|dummy|^\$|\$\{|%\(|^env[.:]|environ|getenv"
    r"|process\.env|config\.|settings\.|secrets\.|^(?:none|null|true|false|undefined|optional|string|required)\b"
)


_LOWER_CASE_TABLE: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def find_secrets(text: str) -> list[Span]:
    """Return where keys, tokens and passwords stand in the text, in order, none overlapping another."""
    found: list[Span] = []
    for span in sorted({*_find_by_form(text), *_find_by_name(text)}, key=lambda span: (span.start, -span.stop)):
        if not found or span.start >= found[-1].stop:
            found.append(span)
    return found


def mask(text: str) -> str:
    """Return the text with every secret replaced by its kind, as in `[openai-key withheld]`."""
    pieces: list[str] = []
    end = 0
    for span in find_secrets(text):
        pieces += [text[end : span.start], f"[{span.kind} withheld]"]
        end = span.stop
    return "".join([*pieces, text[end:]])


def _find_by_form(text: str) -> Iterator[Span]:
    for form in _SECRET_FORMS:
        if form.hint not in text:
            continue
        for match in form.pattern.finditer(text):
            group = form.pattern.groups
            if _is_placeholder(match[1]) if group else _has_word_before(text, match.start()):
                continue
            yield Span(match.start(group), match.end(group), form.kind)


def _has_word_before(text: str, start: int) -> bool:
    return start > 0 and text[start - 1].isascii() and (text[start - 1].isalnum() or text[start - 1] == "_")


def _find_by_name(text: str) -> Iterator[Span]:
    # Lower case letter by letter, so that places stay the same.
    lowered = text.lower() if text.isascii() else text.translate(_LOWER_CASE_TABLE)
    for name in _SECRET_NAMES:
        at = lowered.find(name)
        while at >= 0:
            end = at + len(name)
            before = lowered[max(0, at - 12) : at].rstrip("_-")
            match = _ASSIGNMENT_PATTERN.match(text, end) if name != "key" or before.endswith(_KEY_KINDS) else None
            if match is not None and _is_secret(name, match[1], match[2]):
                yield Span(match.start(2), match.end(2), "password" if name.startswith("p") else "secret")
            at = lowered.find(name, end)


def _is_secret(name: str, rest: str, value: str) -> bool:
    """Return whether this value, assigned to this name and what follows it, is the secret itself."""
    if _METADATA_SUFFIX_PATTERN.fullmatch(rest) or _is_placeholder(value):
        return False
    return name.startswith("p") or _looks_random(value)


def _is_placeholder(value: str) -> bool:
    return bool(_PLACEHOLDER_PATTERN.search(value)) or len(set(value)) < 4


def _looks_random(value: str) -> bool:
    """Return whether it looks like a key: digits among letters, many different ones, no words of code or prose."""
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return len(value) >= 12 and mixed and len(set(value)) >= 8
