"""One object of every class that the SDKs define: found by walking their packages, built from their own annotations."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import pkgutil
import sys
import types
import typing
import warnings
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import pydantic
import typing_extensions

DEEPEST = 2
"""Levels of objects inside objects."""
_LEAVES: dict[Any, Any] = {
    str: "a text",
    int: 7,
    float: 0.5,
    bool: True,
    bytes: b"\x00\xff",
    datetime: datetime(2024, 5, 1, 12, tzinfo=UTC),
    date: date(2024, 5, 1),
    timedelta: timedelta(seconds=5),
    Decimal: Decimal("0.10"),
    Any: {"any": [1, None, {"deep": "x"}]},
    object: {"an": "object"},
    dict: {"k": "v"},
    list: ["item"],
    tuple: ("item",),
    set: {"item"},
    type(None): None,
    pydantic.BaseModel: {"some": "model"},
}
_LISTS = ("list", "List", "Sequence", "Iterable", "SequenceNotStr", "Collection")


def modules_under(package: str) -> Iterator[types.ModuleType]:
    """The package and every module in it."""
    root = importlib.import_module(package)
    yield root
    for found in pkgutil.walk_packages(getattr(root, "__path__", ()), f"{package}."):
        yield importlib.import_module(found.name)


def classes_of(package: str) -> list[type]:
    """Every model, dataclass, enum and typed dict that the package defines or hands out by a name of its own."""
    found: dict[type, None] = {}
    for module in modules_under(package):
        names = {*vars(module), *getattr(module, "__all__", ())}
        for name in sorted(names):
            kind = getattr(module, name, None)
            if inspect.isclass(kind) and kind.__module__.startswith(package) and _is_data(kind):
                found[kind] = None
    return list(found)


def _is_data(kind: type) -> bool:
    if issubclass(kind, enum.Enum):
        return len(kind) > 0
    return (
        issubclass(kind, pydantic.BaseModel) or dataclasses.is_dataclass(kind) or typing_extensions.is_typeddict(kind)
    )


def members_of(union: Any) -> list[Any]:
    """The classes that a union of the SDK names, those of unions inside it too."""
    if get_origin(union) in {typing.Annotated, typing_extensions.Annotated}:
        return members_of(get_args(union)[0])
    if get_origin(union) in {Union, types.UnionType}:
        return [kind for member in get_args(union) for kind in members_of(member)]
    return [union]


def build(kind: Any, level: int = 0) -> Any:
    """An object of the class with a plausible value in every field, one of a provider's own beside them."""
    if issubclass(kind, enum.Enum):
        return next(iter(kind))
    if issubclass(kind, pydantic.BaseModel):
        return _build_model(kind, level)
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, level)
    hints = typing_extensions.get_type_hints(kind)
    return {name: value_for(hint, level, kind) for name, hint in hints.items()}


def _build_model(kind: Any, level: int) -> Any:
    fields = kind.model_fields
    chosen = [name for at, name in enumerate(fields) if level < DEEPEST and (fields[name].is_required() or at % 4 < 3)]
    values = {name: value_for(fields[name].annotation, level, kind) for name in chosen}
    if kind.model_config.get("extra") == "allow":
        values["providers_own"] = {"x": [1, "y"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fields that are deprecated
        return kind.model_construct(**values)


def _build_dataclass(kind: Any, level: int) -> Any:
    try:
        hints = typing_extensions.get_type_hints(kind)
    except NameError:
        hints = {}
    values = {}
    for field in dataclasses.fields(kind):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if field.init and required:
            values[field.name] = value_for(hints.get(field.name, str), level, kind)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # classes that are deprecated
            return kind(**values)
    except (TypeError, ValueError, RuntimeError):  # its constructor wants more than plausible values
        made = object.__new__(kind)
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            object.__setattr__(made, field.name, field.default)
        elif field.default_factory is not dataclasses.MISSING:
            object.__setattr__(made, field.name, field.default_factory())
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def value_for(hint: Any, level: int, owner: Any) -> Any:  # noqa: C901, PLR0911 - one line for each kind of annotation
    """A plausible value for what the annotation says."""
    if isinstance(hint, TypeVar):
        return value_for(hint.__bound__ or (hint.__constraints__ or (str,))[0], level, owner)
    if isinstance(hint, str | typing.ForwardRef):
        name = hint if isinstance(hint, str) else hint.__forward_arg__
        return value_for(vars(sys.modules[owner.__module__]).get(name, str), level, owner)
    if isinstance(hint, typing_extensions.TypeAliasType | typing.NewType):
        return value_for(getattr(hint, "__value__", None) or getattr(hint, "__supertype__", str), level, owner)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is None:
        return _plain_value(hint, level)
    if origin is Literal:
        return arguments[0]
    if origin in {Union, types.UnionType}:
        chosen = [argument for argument in arguments if argument is not type(None)]
        return value_for(chosen[0], level, owner) if level < DEEPEST else None
    if getattr(origin, "__name__", "") in _LISTS:
        return [value_for(arguments[0], level, owner)] if arguments else []
    if origin is tuple:
        return tuple(value_for(argument, level, owner) for argument in arguments if argument is not ...)
    if inspect.isclass(origin) and issubclass(origin, typing.Mapping):
        return {"key": value_for(arguments[1], level, owner)}
    if inspect.isclass(origin) and _is_data(origin):
        return build(origin, level + 1)
    return value_for(arguments[0], level, owner) if arguments else "a text"


def _plain_value(hint: Any, level: int) -> Any:
    if hint in _LEAVES:
        return _LEAVES[hint]
    if inspect.isclass(hint) and _is_data(hint):
        return build(hint, level + 1) if level < DEEPEST else None
    return "a text"


def state(value: Any) -> Any:
    """All that is in the value, with the class of everything: what must be the same."""
    if isinstance(value, pydantic.BaseModel):
        beside = (value.model_extra, value.__pydantic_private__, value.model_fields_set)
        return type(value), {name: state(item) for name, item in value.__dict__.items()}, state(beside)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
        return type(value), {name: state(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return type(value), [(key, state(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [state(item) for item in value]
    return type(value), value
