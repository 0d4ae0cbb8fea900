"""What a person wrote, in flags or a TOML file, as the fields of a `Config`; what can't be one is refused in words."""

from __future__ import annotations

import difflib
import logging
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from unabridged.archive.address import without_credentials
from unabridged.archive.names import check_name
from unabridged.errors import SettingsError
from unabridged.history import DEFAULT
from unabridged.sizes import keep_of, number, trigger_of
from unabridged_gateway.addresses import base_url, host_of
from unabridged_gateway.handling import FIELDS as HANDLING
from unabridged_gateway.handling import read_changes

log = logging.getLogger("unabridged")

FAMILIES: Final = ("openai", "anthropic", "gemini")
SECRET: Final = "UNABRIDGED_GATEWAY_SECRET"  # noqa: S105 - the name of a variable
OPERATOR: Final = "UNABRIDGED_OPERATOR_TOKEN"
Given = dict[str, Any]
"""Fields of a `Config` by their names."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")
_TENANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHARE: Final = re.compile(r"(?:(?:tokens|fraction)=)?[1-9]\d*\.\d+")
"""A share above the whole window, or a number of tokens that is none."""


def read_file(path: Path) -> Given:
    """The fields that the TOML file gives."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"can't read the configuration {path}: {error.strerror or error}") from None
    except ValueError as error:  # tomllib's own, or not UTF-8
        raise SettingsError(f"the configuration {path} is not valid TOML: {error}") from None
    tables = {"upstreams": _upstreams, "tenants": _tenants, "models": _models}
    known = ["upstream", *_FIELDS, *tables]
    fields: Given = {}
    for key, value in table.items():
        label = f"{key} in {path}"
        if key not in known:
            raise SettingsError(f"{label} is no setting of the gateway{_meant(key, known)}")
        fields |= tables[key](label, value) if key in tables else _field(key, label, value)
    if "upstream" in table and "upstreams" in table:
        raise SettingsError(f"{path} has upstream and [upstreams]: keep one, a URL for all or one for each protocol")
    _warn_if_readable(path, table)
    return fields


def read_flags(flags: Mapping[str, Any], namespace: str | None = None) -> Given:
    """The fields that flags give, and the secret from the environment; `namespace` is what the file says of it."""
    fields: Given = {}
    default = flags.get("namespace") or namespace or DEFAULT
    for key, variable in (("secret", SECRET), ("operator", OPERATOR)):
        if variable in os.environ:
            fields |= _field(key, variable, os.environ[variable])
    for key, value in flags.items():
        label = f"--{key.replace('_', '-')}"
        if key == "token":
            texts = [value] if isinstance(value, str) else value
            fields["tokens"] = _by_token(label, [_named(text, default) for text in texts])
        elif key in {"upstream", *_FIELDS}:
            fields |= _field(key, label, value)
        else:
            raise SettingsError(f"{label} is no setting of the gateway{_meant(key, [*_FIELDS, 'upstream', 'token'])}")
    return fields


def _field(key: str, label: str, value: Any) -> Given:
    if key == "upstream":
        return {"upstreams": dict.fromkeys(FAMILIES, base_url(label, _text(label, value)))}
    return {key: _FIELDS[key](label, value)}


def _meant(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, 1)
    return f": did you mean {close[0]}?" if close else f": it knows {', '.join(sorted(known))}"


def _upstreams(label: str, value: Any) -> Given:
    if not isinstance(value, Mapping) or not value:
        raise SettingsError(f"[{label}] must be a table with a URL for each of {', '.join(FAMILIES)}")
    for family in value:
        if family not in FAMILIES:
            raise SettingsError(f"[{label}] knows {', '.join(FAMILIES)}; got {family!r}")
    return {"upstreams": {family: base_url(f"{family} of {label}", _text(label, url)) for family, url in value.items()}}


def _tenants(label: str, value: Any) -> Given:
    if not isinstance(value, Mapping):
        raise SettingsError(f'[{label}] must be a table of names and tokens: alice = "…"')
    own: dict[str, Any] = {}
    tokens: list[tuple[str, str]] = []
    for name, given in value.items():
        told, changes = given, {}
        if isinstance(given, Mapping):
            told = {key: item for key, item in given.items() if key not in HANDLING}
            changes = {key: item for key, item in given.items() if key in HANDLING}
            told = told["token"] if set(told) == {"token"} else told
        tokens += [(name, token) for token in _tokens(f"{name} of {label}", told)]
        own |= {name: read_changes(f"{name} of {label}", changes)} if changes else {}
    return {"tokens": _by_token(label, tokens), "own": own}


def _models(label: str, value: Any) -> Given:
    if not isinstance(value, Mapping):
        raise SettingsError(f'[{label}] must be a table for each model: [models."claude-*"]')
    return {"models": {name: read_changes(f"{name} of {label}", table) for name, table in value.items()}}


def _tokens(label: str, value: Any) -> Iterator[str]:
    """The tokens of one tenant: a text, `{ token_env = "VAR" }`, or a list of these."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and value:
        for item in value:
            yield from _tokens(label, item)
    elif isinstance(value, Mapping) and set(value) == {"token_env"} and isinstance(value["token_env"], str):
        variable = value["token_env"]
        if variable not in os.environ:
            raise SettingsError(f"{label} takes its token from {variable}, which is not in the environment: set it")
        yield os.environ[variable]
    else:  # the value itself is not shown: it may be a token in a wrong place
        raise SettingsError(
            f'{label} must be "token", {{ token_env = "VARIABLE" }}, or a list of these; a table of a tenant may '
            f"also have {', '.join(HANDLING)}"
        )


def _named(text: str, default: str) -> tuple[str, str]:
    """The tenant and the token of `NAME=TOKEN`, or of a token alone, which may end in = itself."""
    name, _, token = text.partition("=")
    return (name, token) if token.strip("=") else (default, text)


def _by_token(label: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Tenants by their tokens; nothing that is said shows a token."""
    tenants: dict[str, str] = {}
    for name, token in pairs:
        if not _TENANT.fullmatch(name):
            raise SettingsError(
                f"{label} names a tenant of {len(name)} characters: use 1 to 64 letters, digits, points, - and _"
            )
        if not _TOKEN.fullmatch(token):
            raise SettingsError(
                f"the token of {name} in {label} has {len(token)} characters: use 16 to 512 of A-Z a-z 0-9 . _ ~ + / = "
                "-, such as the output of `openssl rand -hex 32`"
            )
        if tenants.setdefault(token, name) != name:
            raise SettingsError(f"{label} has the same token for {tenants[token]} and {name}: give each their own")
    return tenants


def _text(label: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise SettingsError(f"{label} must be a text; got {value!r}")
    return value.strip()


def _size(label: str, value: Any) -> int:
    text = value if isinstance(value, str) else str(value) if type(value) is int else ""
    try:
        size = number(text, "a size")
    except SettingsError:
        size = 0
    if size < 1:
        raise SettingsError(f"{label} must be a whole number of at least 1, such as 200000, 200k or 1m; got {value!r}")
    return size


def _port(label: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= 65_535:
        raise SettingsError(f"{label} must be a whole number from 1 to 65,535, or 0 for any free one; got {value!r}")
    return value


def _seconds(label: str, value: Any) -> float:
    if type(value) not in {int, float} or not 0 < value < math.inf:
        raise SettingsError(f"{label} must be a number of seconds above 0, such as 600; got {value!r}")
    return float(value)


def _background(label: str, value: Any) -> float | None:
    if value == "never":
        return None
    if type(value) is not float or not 0 < value < 1:
        raise SettingsError(f"{label} must be a share of the trigger above 0 and below 1, or never; got {value!r}")
    return value


def _conditions(make: Callable[[list[str]], Any], example: str) -> Callable[[str, Any], Any]:
    """A reader of what the command line writes for a trigger or a tail, one or a list."""

    def read(label: str, value: Any) -> Any:
        items = list(value) if isinstance(value, list | tuple) else [value]
        if not items or any(type(item) not in {str, int, float} for item in items):
            raise SettingsError(f"{label} must be {example}, or a list of such; got {value!r}")
        if odd := [item for item in items if _SHARE.fullmatch(str(item).strip())]:
            raise SettingsError(f"{label}: {odd[0]} is at or above the whole window: write {example}")
        try:
            return make([str(item) for item in items])
        except SettingsError as error:
            raise SettingsError(f"{label}: {error}") from None

    return read


def _summariser(label: str, value: Any) -> str:
    text = _text(label, value)
    provider, _, name = text.partition(":")
    if text not in {"upstream", "none"} and not (provider and name):
        raise SettingsError(
            f"{label} must be upstream (the client's own model), none, or provider:name such as openai:gpt-5-mini; "
            f"got {text!r}"
        )
    return text


def _operator(label: str, value: Any) -> tuple[str, ...]:
    return tuple(_by_token(label, (("operator", token) for token in _tokens(label, value))))


def _hosts(label: str, value: Any) -> tuple[str, ...]:
    """Read names without ports: a request may name any."""
    names = value if isinstance(value, list | tuple) else [value]
    for name in names:
        if not isinstance(name, str) or not host_of(name) or host_of(name) != name.lower():
            raise SettingsError(f"{label} must be a list of names such as gateway.example.com; got {name!r}")
    return tuple(name.lower() for name in names)


def _secret(label: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) < 16:
        raise SettingsError(f"{label} must be a text of at least 16 characters: `openssl rand -hex 32` makes one")
    return value


def _fallback(label: str, value: Any) -> str:
    if value not in ("refuse", "credential"):
        raise SettingsError(f"{label} must be refuse or credential; got {value!r}")
    return str(value)


def _log(label: str, value: Any) -> str:
    if value not in ("quiet", "text", "json"):
        raise SettingsError(f"{label} must be quiet, text or json; got {value!r}")
    return str(value)


def _warn_if_readable(path: Path, table: Mapping[str, Any]) -> None:
    """Say that others can read a file with tokens in it; where a file has no such mode, nothing is said."""
    archive = table.get("archive", "")
    tenants = [*table.get("tenants", {}).values(), table.get("operator", {})]
    tokens = [given for given in tenants if not isinstance(given, Mapping) or "token" in given]
    if not (tokens or "secret" in table or without_credentials(archive) != archive):
        return
    if os.name == "posix" and path.stat().st_mode & 0o044:
        log.warning("%s holds secrets, and others on this machine can read it: chmod 600 %s", path, path)


_FIELDS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "host": _text,
    "port": _port,
    "window": _size,
    "trigger": _conditions(trigger_of, "85%, 170k, messages=300 or never"),
    "keep": _conditions(keep_of, "10%, 8k or messages=20"),
    "background": _background,
    "archive": _text,
    "namespace": lambda label, value: check_name(value, label),
    "summariser": _summariser,
    "fallback": _fallback,
    "secret": _secret,
    "max_body": _size,
    "max_decoded": _size,
    "max_head": _size,
    "max_headers": _size,
    "head_timeout": _seconds,
    "hosts": _hosts,
    "operator": _operator,
    **HANDLING,
    "timeout": _seconds,
    "connect_timeout": _seconds,
    "log": _log,
    "concurrency": _size,
}
