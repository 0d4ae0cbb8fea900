"""Check the arguments of a `Compactor` when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from unabridged.engine.hooks import Hooks, refuse_unusable_function
from unabridged.errors import SettingsError
from unabridged.formats import FORMATS
from unabridged.settings import Settings


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_archive(value: Any) -> bool:
    methods = (getattr(value, name, None) for name in ("store", "record", "parts", "search"))
    return _is_text(value) or all(map(callable, methods))


def _is_format(value: Any) -> bool:
    return _is_text(value) or callable(getattr(value, "read", None))


_ARGUMENT_CHECKS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "agent": (_is_text, 'the name of a model, such as "gpt-5"'),
    "archive": (_is_archive, 'a URL such as "sqlite:///agent.db", or an archive'),
    "settings": (
        lambda value: isinstance(value, Settings),
        'Settings(...), such as Settings(trigger=("fraction", 0.8))',
    ),
    "format": (_is_format, f"the name of a format ({', '.join(FORMATS)}), or one"),
    "hooks": (lambda value: isinstance(value, Hooks), "Hooks(...)"),
    "state": (callable, "a function of a thread's name that gives a text"),
}


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise `SettingsError` for an argument of a wrong type; others than these are checked where they are used."""
    for name, (fits, what) in _ARGUMENT_CHECKS.items():
        value = arguments[name]
        if value is not None and not fits(value):
            raise SettingsError(f"{name} must be {what}, or left out; got {_describe(value)}")
    for name in ("counter", "on_event", "origin", "redact"):
        refuse_unusable_function(name, arguments[name])
    if not isinstance(arguments["exact"], bool):
        raise SettingsError(f"exact must be True or False; got {_describe(arguments['exact'])}")


def check_max_tokens(value: Any) -> int | None:
    """Return the longest answer that a request asks for; None where it does not say."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    raise SettingsError(f"max_tokens must be a whole number of at least 1, or left out; got {_describe(value)}")


def _describe(value: Any) -> str:
    """Return the kind of a value, and the value where it is short and harmless."""
    kind = type(value).__name__
    is_short = isinstance(value, int | float) or (_is_text(value) and len(value) < 40)
    return f"{kind} {value!r}" if is_short else f"a {kind}"
