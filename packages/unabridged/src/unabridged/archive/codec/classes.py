"""Find classes by name: which an archive may bring back as themselves, and which only as data.

A body may come from anyone. So a class is found in two places only: modules of `ALLOWED_PREFIXES`, which hold the SDKs'
own messages and do nothing when they are imported, and the classes that this process has written itself. No other
module is ever imported and no other class made, whatever a body names.
"""

from __future__ import annotations

import importlib
import json
import logging
import re
import sys
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

log = logging.getLogger("unabridged")

ALLOWED_PREFIXES: Final[set[str]] = {
    *("anthropic.types", "anthropic.lib.streaming", "openai.types", "openai.lib._parsing", "openai.lib.streaming"),
    *("google.genai.types", "langchain_core.messages", "langchain_core.documents"),
    *("pydantic_ai._deferred", "pydantic_ai.messages", "pydantic_ai.usage"),
}
"""The modules, with all below them, whose classes may be restored. `allow` adds to it."""

_STANDARD_KINDS: Final = (type(None), bool, str, int, float, dict, list)
_STANDARD_CLASSES: Final = {f"builtins:{kind.__name__}": kind for kind in _STANDARD_KINDS}
"""What a generic class may be of, beside classes that are restored."""
_MAX_REPORTED: Final = 256
_MEMORY_ADDRESS_PATTERN: Final = re.compile(r" at 0x[0-9a-fA-F]+")

_classes_by_name: Final[WeakValueDictionary[str, type]] = WeakValueDictionary()
_reported_names: Final[set[str]] = set()


def allow(prefix: str) -> None:
    """Allow objects of this module's classes (`"my_app.messages"`) to be restored where they were not written.

    The module is imported when an archive names a class of it: an archive itself can never widen the list.
    """
    ALLOWED_PREFIXES.add(prefix.rstrip("."))


def register_class_name(kind: type) -> Any:
    """Return the class by module and name, a generic one by its origin and arguments, and remember it as written here.

    Of two classes of one name (made by the same function, say) the one that was written last is remembered.
    """
    name: Any = f"{kind.__module__}:{kind.__qualname__}"
    generic = kind.__dict__.get("__pydantic_generic_metadata__") or {}
    if generic.get("origin") is not None:
        name = [register_class_name(generic["origin"]), [_argument_name(argument) for argument in generic["args"]]]
    _classes_by_name[json.dumps(name)] = kind
    return name


def find_class(name: Any) -> type | None:
    """Return the class of that name; of a generic one with unknown arguments its origin; None where only data is left.

    What is not that very class is reported in the log, once for each name.
    """
    try:
        kind = _find_allowed_class(name)
    except LookupError:
        report_substitute(name, "plain data")
        return None
    return kind if isinstance(kind, type) else None


def report_substitute(name: Any, substitute: str) -> None:
    """Log once that what the archive holds of this class comes back as something else."""
    shown = (name if isinstance(name, str) else json.dumps(name))[:200].replace(":", ".")
    if shown in _reported_names or len(_reported_names) >= _MAX_REPORTED:
        return
    _reported_names.add(shown)
    log.warning(
        "archived objects of class %s come back as %s: the class is neither one of the SDKs' messages nor written by "
        "this process. If it is yours, call unabridged.archive.codec.allow with its module when the program starts.",
        shown,
        substitute,
    )


def _argument_name(argument: Any) -> Any:
    if argument is None:
        return None
    if isinstance(argument, type) and not hasattr(argument, "__origin__"):
        return register_class_name(argument)
    if isinstance(argument, TypeVar):
        return f"{argument.__module__}:{argument.__name__}"
    return f"typing:{_MEMORY_ADDRESS_PATTERN.sub('', repr(argument))}"


def _find_allowed_class(name: Any) -> Any:
    """Return the class or type variable of this name if this process wrote it or its module is allowed."""
    if name is None:
        return None
    if (written := _classes_by_name.get(json.dumps(name))) is not None:
        return written
    if isinstance(name, list):
        return _find_generic_class(*name)
    if name in _STANDARD_CLASSES:
        return _STANDARD_CLASSES[name]
    module, _, path = str(name).partition(":")
    if isinstance(variable := getattr(sys.modules.get(module), path, None), TypeVar):
        return variable
    if not any(module == prefix or module.startswith(f"{prefix}.") for prefix in ALLOWED_PREFIXES):
        raise LookupError(name)
    try:
        found: Any = importlib.import_module(module)
        for attribute in path.split("."):
            found = vars(found)[attribute]
    except Exception as error:  # not installed, or of another version: what is stored is still data
        raise LookupError(name) from error
    if not isinstance(found, type) or found.__module__ != module:
        raise LookupError(name)
    return found


def _find_generic_class(origin: Any, arguments: list[Any]) -> Any:
    base = _find_allowed_class(origin)
    try:
        items = tuple(_find_allowed_class(argument) for argument in arguments)
        return base[items[0] if len(items) == 1 else items]
    except Exception:  # noqa: BLE001 - whatever keeps the very class from being made, its origin is there
        report_substitute([origin, arguments], f"plain {base.__qualname__}")
        return base
