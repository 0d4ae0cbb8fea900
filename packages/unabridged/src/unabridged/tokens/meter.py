"""Count the tokens of a request: messages with their calls, answers and media, system prompt and tool schemas."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import iscoroutine
from operator import index
from typing import Any

from unabridged.errors import FunctionFailed, NotInstalled, SettingsError
from unabridged.formats.base import Family, Message
from unabridged.formats.fields import as_json, get, to_plain_dict
from unabridged.messages import View
from unabridged.tokens.estimate import ERROR_BOUND, ESTIMATE_VERSION, HIGH, HIGH_UNKNOWN, get_estimator
from unabridged.tokens.media import count_media_tokens
from unabridged.tokens.models import FAMILIES, find_family

TokenCounter = Callable[[list[Message], Any], int]
"""Counts messages and tool schemas, either of which may be missing: `([message], None)`, `([], tools)`."""

# What stands around the texts, in tokens: role marks, names of fields, ids.
_TOKENS_PER_MESSAGE = 6
_TOKENS_PER_CALL = 14
_TOKENS_PER_ANSWER = 10
_TOKENS_PER_TOOL = 12
_SEALED_CHARACTERS_PER_TOKEN = 5
"""Characters of encrypted content a token takes, at most."""


class Meter:
    """Counts one message, or the fixed part of a request. Keeps nothing: who asks twice should remember.

    `counter` replaces the estimate and is given each new message alone, so that a request costs what is new in it.
    `exact` uses OpenAI's own tokenizers; `family` says how text is cut where the model's name does not.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        counter: TokenCounter | None = None,
        exact: bool = False,
        family: Family | None = None,
    ) -> None:
        self.model = (model or "").lower()
        self.family: Family = family or find_family(model)
        self.error = 0.0 if counter or exact else ERROR_BOUND
        """How far below the truth it may be, as a share of the truth."""
        self.high = 1.0 if counter or exact else HIGH_UNKNOWN if self.family == "unknown" else HIGH
        """How many times the truth it may be."""
        self._counter = counter
        self._exact = _load_exact_tokenizer(model, self.family) if exact and counter is None else None
        self._count = self._exact or get_estimator(self.family)

    @property
    def key(self) -> str:
        """Return a key of the way it counts and the model: reports about one say nothing about another."""
        ways = {"counter": self._counter, "exact": self._exact}
        how = next((name for name, count in ways.items() if count is not None), f"estimate-{ESTIMATE_VERSION}")
        return f"{how}/{self.family}/{self.model}"

    def message(self, view: View, raw: Message = None) -> int:
        """Count everything in one message, and what stands around it; `raw` is the caller's own object, if any."""
        if self._counter is not None and raw is not None:
            return _call_counter(self._counter, [raw], None)
        tokens = _TOKENS_PER_MESSAGE + self._count(view.text)
        for call in view.calls:
            tokens += _TOKENS_PER_CALL + self._count(call.name) + self._count(call.arguments)
        for answer in view.answers:
            tokens += _TOKENS_PER_ANSWER + self._count(answer.text)
        for media in view.media:
            tokens += count_media_tokens(media, self.model, self.family) + self._count(media.name)
        for text in (*view.inserted, *view.attached):
            tokens += self._count(text)
        for thought in view.reasoning:  # the text may be only a summary of what is sealed, so the larger counts
            tokens += max(self._count(thought.text), len(thought.signature) // _SEALED_CHARACTERS_PER_TOKEN)
        return tokens + view.sealed // _SEALED_CHARACTERS_PER_TOKEN

    def text(self, text: str) -> int:
        """Count a text alone; given to a `counter` as the one message of a user."""
        if self._counter is not None:
            return _call_counter(self._counter, [{"role": "user", "content": text}], None) if text else 0
        return self._count(text)

    def overhead(self, system: Any, tools: Any) -> int:
        """Count the system prompt (a text, or blocks of it) and the tool schemas (anything that JSON can show)."""
        listed = _to_list(tools)
        if self._counter is not None:
            prompt = [{"role": "system", "content": system}] if system else []
            return _call_counter(self._counter, prompt, tools) if prompt or listed else 0
        tokens = sum(_TOKENS_PER_MESSAGE + self._count(_read_prompt_text(block)) for block in _to_list(system))
        tokens += FAMILIES[self.family].tools if listed else 0
        return tokens + sum(_TOKENS_PER_TOOL + self._count(_to_schema_text(tool)) for tool in listed)


def _call_counter(counter: TokenCounter, messages: list[Message], tools: Any) -> int:
    """Return the number that the caller's counter returns; raise `FunctionFailed` when it is no number of tokens."""
    try:
        answer: Any = counter(messages, tools)
    except Exception as error:
        raise FunctionFailed("counter", f"raised {type(error).__name__}: {error}") from error
    try:
        tokens = index(answer)
    except TypeError:
        tokens = -1
        if iscoroutine(answer):
            answer.close()
    if tokens < 0:
        raise FunctionFailed("counter", f"must return a whole number of tokens, 0 or more; got {answer!r:.60}")
    return tokens


def _load_exact_tokenizer(model: str | None, family: Family) -> Callable[[str], int]:
    """Return a function that counts with OpenAI's own tokenizer; raise `SettingsError` for other models."""
    vocabulary = FAMILIES[family].vocabulary
    if not vocabulary:
        raise SettingsError(
            f"exact=True knows the tokenizers of OpenAI's models only, and the model is {model!r}: "
            "leave it out to estimate, or give a counter"
        )
    try:
        batch_count = import_module("toktok").batch_count
    except ImportError as error:
        raise NotInstalled("exact=True", "unabridged[exact]", error) from error

    def count(text: str) -> int:
        try:
            return int(batch_count([text], vocabulary, threads=1)[0])
        except UnicodeEncodeError:  # half a surrogate pair: the provider sees a replacement character
            return count(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))

    return count


def _to_list(value: Any) -> list[Any]:
    """Return several, one or none, as a list."""
    if value is None or value == "":
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _read_prompt_text(block: Any) -> str:
    """Return the text of one block of a system prompt; a block of another kind as JSON."""
    if isinstance(block, str):
        return block
    text = get(block, "text") or get(block, "content")
    return text if isinstance(text, str) else _to_schema_text(block)


def _to_schema_text(value: Any) -> str:
    """Return anything as the JSON a provider is shown, or the nearest to it."""
    try:
        return as_json(to_plain_dict(value))
    except (TypeError, ValueError, RecursionError):
        return str(value)
