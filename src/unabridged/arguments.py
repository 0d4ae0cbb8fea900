"""The arguments of a `Compactor`, each of the kind it must be: what is not is said when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from unabridged.compaction.hooks import Hooks
from unabridged.errors import SettingsError
from unabridged.formats import FORMATS
from unabridged.settings import Settings


def _named(value: Any) -> bool:
    return isinstance(value, str)


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda value: all(callable(getattr(value, name, None)) for name in names)


_KINDS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "agent": (_named, 'the name of a model, such as "gpt-5"'),
    "archive": (
        lambda value: _named(value) or _has("store", "record", "parts", "search")(value),
        'a URL such as "sqlite:///agent.db", or an archive',
    ),
    "settings": (
        lambda value: isinstance(value, Settings),
        'Settings(...), such as Settings(trigger=("fraction", 0.8))',
    ),
    "namespace": (_named, "a text"),
    "format": (
        lambda value: _named(value) or _has("read")(value),
        f"the name of a format ({', '.join(FORMATS)}), or one",
    ),
    "counter": (callable, "a function of messages and tools that gives a number of tokens"),
    "origin": (callable, "a function of a message that says whose words it is"),
    "on_event": (callable, "a function of an event"),
    "hooks": (lambda value: isinstance(value, Hooks), "Hooks(...)"),
    "redact": (callable, "a function of a text that gives a text"),
    "state": (callable, "a function of a thread's name that gives a text"),
}


def check_arguments(given: Mapping[str, Any]) -> None:
    """Refuse an argument of a wrong type; others than these are checked where they are used."""
    for name, (fits, what) in _KINDS.items():
        value = given[name]
        if value is not None and not fits(value):
            raise SettingsError(f"{name} must be {what}, or left out; got {_shown(value)}")
    if not isinstance(given["exact"], bool):
        raise SettingsError(f"exact must be True or False; got {_shown(given['exact'])}")


def _shown(value: Any) -> str:
    """The kind of a value, and the value where it is short and harmless."""
    kind = type(value).__name__
    return f"{kind} {value!r}" if isinstance(value, int | float) or (_named(value) and len(value) < 40) else f"a {kind}"
