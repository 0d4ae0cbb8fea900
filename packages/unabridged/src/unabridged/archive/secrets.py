"""Keys, tokens and passwords in a text: found by their form, so that they can be kept out of a record.

Errs on the side of finding: a form that a known provider gives its keys is one, and so is a value assigned to a name
like `password`, unless it is plainly a placeholder. Hashes, ids and base64 by themselves are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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


def _make_secret_form(kind: str, hint: str, pattern: str) -> _SecretForm:
    return _SecretForm(kind, hint, re.compile(rf"{pattern}(?![A-Za-z0-9_])"))


_SECRET_FORMS: Final = (
    _make_secret_form("anthropic-key", "sk-ant-", r"sk-ant-[a-z]+\d+-[\w-]{20,}"),
    _make_secret_form(
        "openai-key", "sk-", r"sk-(?!ant-)(?:(?:proj|svcacct|admin|or-v1)-)?(?=[\w-]{0,300}\d)[A-Za-z0-9][\w-]{19,}"
    ),
    _make_secret_form("aws-key-id", "AKIA", r"AKIA[A-Z2-7]{16}"),
    _make_secret_form("aws-key-id", "ASIA", r"ASIA[A-Z2-7]{16}"),
    *(_make_secret_form("github-token", f"gh{letter}_", rf"gh{letter}_[A-Za-z0-9]{{36,}}") for letter in "pousr"),
    _make_secret_form("github-token", "github_pat_", r"github_pat_\w{22,}"),
    _make_secret_form("gitlab-token", "glpat-", r"glpat-[\w-]{20,}"),
    _make_secret_form("slack-token", "xox", r"xox[abeoprs]-[A-Za-z0-9-]{10,400}"),
    _make_secret_form("slack-token", "xapp-", r"xapp-\d-[A-Za-z0-9-]{10,400}"),
    _make_secret_form("slack-webhook", "hooks.slack.com", r"https://hooks\.slack\.com/services/[\w/]{20,}"),
    _make_secret_form("google-key", "AIza", r"AIza[\w-]{35}"),
    _make_secret_form("google-token", "ya29.", r"ya29\.[\w-]{20,}"),
    _make_secret_form("google-secret", "GOCSPX-", r"GOCSPX-[\w-]{20,}"),
    _make_secret_form("stripe-key", "sk_", r"sk_(?:live|test)_[A-Za-z0-9]{16,}"),
    _make_secret_form("stripe-key", "rk_", r"rk_(?:live|test)_[A-Za-z0-9]{16,}"),
    _make_secret_form("stripe-secret", "whsec_", r"whsec_[A-Za-z0-9]{24,}"),
    _make_secret_form("huggingface-token", "hf_", r"hf_[A-Za-z0-9]{30,}"),
    _make_secret_form("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _make_secret_form("pypi-token", "pypi-", r"pypi-AgE[\w-]{50,}"),
    _make_secret_form("digitalocean-token", "_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    _make_secret_form("sendgrid-key", "SG.", r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    _make_secret_form("telegram-token", ":AA", r"\d{8,10}:AA[\w-]{33}"),
    _make_secret_form("databricks-token", "dapi", r"dapi[a-f0-9]{32}"),
    _make_secret_form("jwt", "eyJ", r"eyJ[\w-]{8,1000}\.eyJ[\w-]{8,}\.[\w-]{8,}"),
    _SecretForm(
        "private-key",
        "PRIVATE KEY",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?:-(?:--?)?)?(?!-)){0,20000}+"
            r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
            r"|-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[A-Za-z0-9+/=\s\\]{40,}",
            re.DOTALL,
        ),
    ),
    _SecretForm("url-password", "://", re.compile(r"://[^\s:/@\"'<>]{0,100}:([^\s:/@\"'<>]{3,200})@")),
    _SecretForm(
        "authorization", "uthorization", re.compile(r"uthorization\W{1,6}(?i:bearer|basic|token)\s+([\w.~+/=-]{12,})")
    ),
    _SecretForm("authorization", "earer ", re.compile(r"\bBearer\s+([\w.~+/=-]{20,})")),
)
_SECRET_NAME_PATTERN: Final = re.compile(r"(?i:pass(?:word|wd|phrase)|pwd|secret|token|credential|key)")
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
    for found in _SECRET_NAME_PATTERN.finditer(text):
        name, before = found[0].lower(), text[max(0, found.start() - 12) : found.start()].lower().rstrip("_-")
        if name == "key" and not before.endswith(_KEY_KINDS):
            continue
        match = _ASSIGNMENT_PATTERN.match(text, found.end())
        if match is not None and _is_secret(name, match[1], match[2]):
            yield Span(match.start(2), match.end(2), "password" if name.startswith("p") else "secret")


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
