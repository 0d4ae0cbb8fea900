"""How conversations are handled beside their size: clearing, pins, redaction; for all, for a model, for a tenant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final

from unabridged.archive.secrets import mask
from unabridged.errors import SettingsError
from unabridged.settings import Clear, Settings


@dataclass(frozen=True, slots=True)
class Handling:
    """What is cleared, what stands in every summary, and what is kept out of summaries and of the search index."""

    clear: Clear | None = Settings().clear
    pins: tuple[str, ...] = ()
    redact: bool = False

    def apply(self, settings: Settings) -> Settings:
        """Return the settings with what this says of them."""
        return replace(settings, clear=self.clear, pins=self.pins)

    @property
    def redactor(self) -> Callable[[str], str] | None:
        """The function that masks secrets; None where they stay."""
        return mask if self.redact else None


Changes = Mapping[str, Any]
"""Fields of a `Handling` that a model or a tenant has for itself."""


def changes_for(by_model: Mapping[str, Changes], model: str) -> Changes:
    """Return what is set for this model: under its own name, else under the first pattern that it matches."""
    if model in by_model:
        return by_model[model]
    return next((changes for pattern, changes in by_model.items() if fnmatchcase(model, pattern)), {})


def read_changes(label: str, table: Any) -> dict[str, Any]:
    """Return the fields that a table of the configuration sets."""
    if not isinstance(table, Mapping):
        raise SettingsError(f"[{label}] must be a table with {', '.join(FIELDS)}")
    for key in table:
        if key not in FIELDS:
            raise SettingsError(f"[{label}] knows {', '.join(FIELDS)}; got {key!r}")
    return {key: FIELDS[key](f"{key} of {label}", value) for key, value in table.items()}


def _clear(label: str, value: Any) -> Clear | None:
    if isinstance(value, bool):
        return Clear() if value else None
    known = ("keep_rounds", "minimum", "include", "exclude")
    if not isinstance(value, Mapping) or not set(value) <= {*known}:
        raise SettingsError(f"{label} must be true, false, or a table with {', '.join(known)}; got {value!r}")
    lists = {key: _texts(f"{key} of {label}", value[key]) for key in ("include", "exclude") if key in value}
    try:
        return Clear(**{**value, **lists})
    except SettingsError as error:
        raise SettingsError(f"{label}: {error}") from None


def _texts(label: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) and text.strip() for text in value):
        raise SettingsError(f"{label} must be a list of texts; got {value!r}")
    return tuple(value)


def _redact(label: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise SettingsError(f"{label} must be true or false; got {value!r}")
    return value


FIELDS: Final[Mapping[str, Callable[[str, Any], Any]]] = {"clear": _clear, "pins": _texts, "redact": _redact}
"""How each field of a `Handling` is read."""
