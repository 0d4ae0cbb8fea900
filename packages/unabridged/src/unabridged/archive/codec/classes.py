"""Classes by their names: which an archive may bring back as themselves, and which only as data.

A body may come from anyone. So a class is looked for in two places alone: the modules of `ALLOWED`, which hold the
SDKs' own messages and do nothing when they are imported, and the classes that this process has written itself. No
other module is ever imported, no other class made, whatever a body names.
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

TAG: Final = "$unabridged"
"""The key that marks what plain JSON can't say; a caller's dict that has it is written as pairs."""

DEEPEST: Final = 120
"""Levels of nesting that can be read back from deep inside any caller's stack."""

LARGEST: Final = 1 << 1024
"""Whole numbers from here on are written in hexadecimal: the interpreter limits how many decimal digits it reads."""

ALLOWED: Final[set[str]] = {
    "openai.types",
    "openai.lib._parsing",
    "openai.lib.streaming",
    "anthropic.types",
    "anthropic.lib.streaming",
    "google.genai.types",
    "langchain_core.messages",
    "langchain_core.documents",
    "pydantic_ai._deferred",
    "pydantic_ai.messages",
    "pydantic_ai.usage",
}
"""The modules, with all below them, whose classes may be restored. `allow` adds to it."""

PLAIN: Final = {kind.__name__: kind for kind in (type(None), bool, str, int, float, dict, list)}
"""What a generic class may be of, beside classes that are restored."""

_STANDARD: Final = {"collections:OrderedDict", "collections:Counter"}
_MOST_TOLD: Final = 256
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")

_written: Final[WeakValueDictionary[str, type]] = WeakValueDictionary()
_told: Final[set[str]] = set()


def allow(prefix: str) -> None:
    """Let objects of classes under this module (`"my_app.messages"`) be restored in a process that did not write them.

    The module is imported when an archive names a class of it: an archive itself can never widen the list.
    """
    ALLOWED.add(prefix.rstrip("."))


def name_of(kind: type) -> Any:
    """The class by module and name, a generic one by its origin and arguments. It is remembered as this process's own.

    Of two classes of one name (made by the same function, say) the one that was written last is remembered.
    """
    generic = kind.__dict__.get("__pydantic_generic_metadata__") or {}
    if generic.get("origin") is not None:
        named: Any = [name_of(generic["origin"]), [_argument_name(argument) for argument in generic["args"]]]
    else:
        named = f"{kind.__module__}:{kind.__qualname__}"
    _written[json.dumps(named)] = kind
    return named


def find(named: Any) -> type | None:
    """The class of that name; of a generic one whose arguments are not known, its origin; None where only data is left.

    What is not the very class is said in the log, once for each name.
    """
    if isinstance(named, list):
        return _written.get(json.dumps(named)) or _find_generic(*named)
    kind = _find_class(named)
    if kind is None:
        tell(named, "plain data")
    return kind


def _find_generic(origin: Any, arguments: list[Any]) -> type | None:
    base = find(origin)
    if base is None:
        return None
    try:
        items = tuple(_argument(argument) for argument in arguments)
        made: Any = base[items[0] if len(items) == 1 else items]  # type: ignore[index]
    except Exception:  # noqa: BLE001 - whatever keeps the very class from being made, its origin is there
        tell([origin, arguments], f"plain {base.__qualname__}")
        return base
    return made if isinstance(made, type) else base


def tell(named: Any, instead: str) -> None:
    """Say in the log, once, that what the archive holds of this class comes back as something else."""
    spelled = named if isinstance(named, str) else json.dumps(named)
    spelled = spelled[:200].replace(":", ".")
    if spelled in _told or len(_told) >= _MOST_TOLD:
        return
    _told.add(spelled)
    log.warning(
        "archived objects of class %s come back as %s: the class is neither one of the SDKs' messages nor written by "
        "this process. If it is yours, call unabridged.archive.codec.allow with its module when the program starts.",
        spelled,
        instead,
    )


def _argument_name(argument: Any) -> Any:
    if argument is None:
        return None
    if isinstance(argument, type) and not hasattr(argument, "__origin__"):
        return f"builtins:{argument.__name__}" if argument in PLAIN.values() else name_of(argument)
    if isinstance(argument, TypeVar):
        return f"{argument.__module__}:{argument.__name__}"
    return f"typing:{_ADDRESS.sub('', repr(argument))}"


def _argument(named: Any) -> Any:
    """What a generic class is of; a LookupError where that is not known here."""
    if named is None:
        return None
    if isinstance(named, str) and named.startswith("builtins:"):
        return PLAIN[named.removeprefix("builtins:")]
    found = find(named) if isinstance(named, list) else _find_class(named) or _type_variable(named)
    if found is None:
        raise LookupError(named)
    return found


def _find_class(named: Any) -> type | None:
    """The class of this name, if this process wrote it or its module is allowed."""
    if not isinstance(named, str):
        return None
    written = _written.get(json.dumps(named))
    if written is not None:
        return written
    module, _, path = named.partition(":")
    if named not in _STANDARD and not any(module == prefix or module.startswith(f"{prefix}.") for prefix in ALLOWED):
        return None
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = vars(found)[name]
    except Exception:  # noqa: BLE001 - not installed, or of another version: what is stored is still data
        return None
    return found if isinstance(found, type) and found.__module__ == module else None


def _type_variable(named: str) -> TypeVar | None:
    """The type variable of this name, of a module that is imported already."""
    module, _, name = named.partition(":")
    found = getattr(sys.modules.get(module), "__dict__", {}).get(name)
    return found if isinstance(found, TypeVar) else None
