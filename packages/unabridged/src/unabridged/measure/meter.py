"""Tokens of the whole request: every message with its calls, answers and media, the system prompt, the tool schemas."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import iscoroutine
from operator import index
from typing import Any

from unabridged.errors import FunctionFailed, NotInstalled, SettingsError
from unabridged.formats.base import Family, Message, Texts
from unabridged.formats.fields import as_json, get, plain
from unabridged.measure.estimate import BOUND, HIGH, HIGH_UNKNOWN, VERSION, estimate
from unabridged.measure.media import media_tokens
from unabridged.measure.models import FAMILIES, family_of
from unabridged.messages import Reasoning, View

Counter = Callable[[list[Message], Any], int]
"""Counts messages and tool schemas, either of which may be missing: `([message], None)`, `([], tools)`."""

# What stands around the texts, in tokens: role marks, names of fields, ids.
_MESSAGE = 6
_CALL = 14
_ANSWER = 10
_TOOL = 12
_SEALED = 5
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
        counter: Counter | None = None,
        exact: bool = False,
        family: Family | None = None,
    ) -> None:
        self.model = (model or "").lower()
        self.family: Family = family or family_of(model)
        self.error = 0.0 if counter or exact else BOUND
        """How far below the truth it may be, as a share of the truth."""
        self.high = 1.0 if counter or exact else HIGH_UNKNOWN if self.family == "unknown" else HIGH
        """How many times the truth it may be."""
        self._counter = counter
        self._exact = _exact_tokenizer(model, self.family) if exact and counter is None else None

    @property
    def key(self) -> str:
        """The way it counts and the model: what reports taught about one key says nothing about another."""
        how = "counter" if self._counter is not None else "exact" if self._exact is not None else f"estimate-{VERSION}"
        return f"{how}/{self.family}/{self.model}"

    def message(self, view: View, raw: Message = None) -> int:
        """Everything in one message, and what stands around it. `raw` is the caller's own object, if there is one."""
        if self._counter is not None and raw is not None:
            return _ask(self._counter, [raw], None)
        written = tuple(text for call in view.calls for text in (call.name, call.arguments))
        tokens = self._plain((view.text, written, tuple(answer.text for answer in view.answers)))
        for media in view.media:
            tokens += media_tokens(media, self.model, self.family) + self._count(media.name)
        tokens += sum(map(self._count, (*view.inserted, *view.attached))) + view.sealed // _SEALED
        return tokens + sum(map(self._thinking, view.reasoning))

    def plain(self, texts: Texts, raw: Message) -> int:
        """The same of a plain message, by its texts alone: what `message` says of its view."""
        return _ask(self._counter, [raw], None) if self._counter is not None else self._plain(texts)

    def _plain(self, texts: Texts) -> int:
        text, calls, answers = texts
        tokens = _MESSAGE + self._count(text) if text else _MESSAGE
        for written in calls:
            tokens += _CALL // 2 + self._count(written)
        for answer in answers:
            tokens += _ANSWER + self._count(answer)
        return tokens

    def text(self, text: str) -> int:
        """A text alone; given to a `counter` as the one message of a user."""
        if self._counter is not None:
            return _ask(self._counter, [{"role": "user", "content": text}], None) if text else 0
        return self._count(text)

    def overhead(self, system: Any, tools: Any) -> int:
        """The system prompt (a text, or blocks of it) and the tool schemas (anything that JSON can show)."""
        listed = _as_list(tools)
        if self._counter is not None:
            prompt = [{"role": "system", "content": system}] if system else []
            return _ask(self._counter, prompt, tools) if prompt or listed else 0
        tokens = sum(_MESSAGE + self._count(_prompt_text(block)) for block in _as_list(system))
        if listed:
            tokens += FAMILIES[self.family].tools + sum(_TOOL + self._count(_schema_text(tool)) for tool in listed)
        return tokens

    def _count(self, text: str) -> int:
        if self._exact is None:
            return estimate(text, self.family)
        return self._exact(text) if text else 0

    def _thinking(self, reasoning: Reasoning) -> int:
        """The tokens of a thought: the text may be only a summary of what is sealed, so the larger counts."""
        return max(self._count(reasoning.text), len(reasoning.signature) // _SEALED)


def _ask(counter: Counter, messages: list[Message], tools: Any) -> int:
    """The caller's count, checked: a wrong number here would surface far away."""
    try:
        told: Any = counter(messages, tools)
    except Exception as error:
        raise FunctionFailed("counter", f"raised {type(error).__name__}: {error}") from error
    try:
        tokens = index(told)
    except TypeError:
        tokens = -1
        if iscoroutine(told):
            told.close()
    if tokens < 0:
        raise FunctionFailed("counter", f"must return a whole number of tokens, 0 or more; got {told!r:.60}")
    return tokens


def _exact_tokenizer(model: str | None, family: Family) -> Callable[[str], int]:
    """OpenAI's own count; refused at once where it would not be exact."""
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
            whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            return int(batch_count([whole], vocabulary, threads=1)[0])

    return count


def _as_list(value: Any) -> list[Any]:
    """Several, one or none, as a list."""
    if value is None or value == "":
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _prompt_text(block: Any) -> str:
    """The text of one block of a system prompt; a block of another kind as JSON."""
    if isinstance(block, str):
        return block
    text = get(block, "text") or get(block, "content")
    return text if isinstance(text, str) else _schema_text(block)


def _schema_text(value: Any) -> str:
    """Anything as the JSON a provider is shown, or the nearest to it."""
    try:
        return as_json(plain(value))
    except (TypeError, ValueError, RecursionError):
        return str(value)
