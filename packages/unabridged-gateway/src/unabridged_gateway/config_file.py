"""Parse flags and TOML into a `Config`; raise `SettingsError` for anything else.

upstream = "https://api.anthropic.com"      # or one a protocol: [upstreams] openai, anthropic, gemini
window = "200k"                             # trigger, keep, window as the command line writes them
archive = "postgresql://gateway@db/unabridged"

[tenants]                                   # whose conversations: the token that a client sends names them
alice = "a token of 16 characters or more"
build = { token_env = "BUILD_TOKEN" }
carol = ["the old token", "the new token"]  # both are taken while it is rotated

[models."claude-*"]                         # clearing, pins and redaction, for a model; in [tenants.alice] for a tenant
redact = true
"""

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

from unabridged.archive.address import hide_credentials
from unabridged.archive.names import check_name
from unabridged.archive.protocol import DEFAULT_NAMESPACE
from unabridged.errors import SettingsError
from unabridged.settings import Clear
from unabridged.sizes import keep_from_texts, parse_size, trigger_from_texts
from unabridged_gateway.addresses import parse_base_url, parse_host_header
from unabridged_gateway.config import Config, build_config

log = logging.getLogger("unabridged")

PROTOCOL_FAMILIES: Final = ("openai", "anthropic", "gemini")
"""Protocols by who made them; the upstream of each may be another."""
SECRET_VARIABLE: Final = "UNABRIDGED_GATEWAY_SECRET"  # noqa: S105 - the name of a variable
OPERATOR_VARIABLE: Final = "UNABRIDGED_OPERATOR_TOKEN"
SettingReader = Callable[[str, Any], Any]
"""Checks and converts one value; the text before it says in errors where it was written."""

_TOKEN_PATTERN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")
_TENANT_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHARE_ABOVE_ONE_PATTERN: Final = re.compile(r"(?:(?:tokens|fraction)=)?[1-9]\d*\.\d+")
"""A share above the whole window, or a number of tokens that is none."""
_CLEAR_KEYS: Final = ("keep_rounds", "minimum", "include", "exclude")


def load_config(path: Path | None = None, **flags: Any) -> Config:
    """Return the configuration from a file and flags, which beat it; a flag of None is left out.

    A flag has the name of a key of the file. `upstream` is the one for all families, `token` a list of `NAME=TOKEN` or
    of tokens alone, which stand for the tenant `namespace`.
    """
    settings = {} if path is None else _read_file(path)
    settings |= _read_flags({name: value for name, value in flags.items() if value is not None}, settings)
    if "upstreams" not in settings:
        where = "" if path is None else f', or upstream = "…" in {path}'
        raise SettingsError(f"no upstream is named: give --upstream https://api.openai.com{where}")
    return build_config(**settings)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"can't read the configuration {path}: {error.strerror or error}") from None
    except ValueError as error:  # tomllib's own, or not UTF-8
        raise SettingsError(f"the configuration {path} is not valid TOML: {error}") from None
    tables = {"upstreams": _read_upstreams, "tenants": _read_tenants, "models": _read_models}
    settings: dict[str, Any] = {}
    for key, value in table.items():
        label = f"{key} in {path}"
        settings |= tables[key](label, value) if key in tables else _read_setting(key, label, value, tables)
    if "upstream" in table and "upstreams" in table:
        raise SettingsError(f"{path} has upstream and [upstreams]: keep one, a URL for all or one for each protocol")
    _warn_if_readable(path, table)
    return settings


def _read_flags(flags: Mapping[str, Any], from_file: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of these flags, and the secrets of the environment."""
    settings: dict[str, Any] = {}
    namespace = flags.get("namespace") or from_file.get("namespace") or DEFAULT_NAMESPACE
    for key, variable in (("secret", SECRET_VARIABLE), ("operator", OPERATOR_VARIABLE)):
        if variable in os.environ:
            settings |= _read_setting(key, variable, os.environ[variable])
    for key, value in flags.items():
        label = f"--{key.replace('_', '-')}"
        if key == "token":
            texts = [value] if isinstance(value, str) else value
            settings["tokens"] = _read_tokens(label, [_split_tenant(text, namespace) for text in texts])
        else:
            settings |= _read_setting(key, label, value, ("token",))
    return settings


def _read_setting(key: str, label: str, value: Any, other_keys: Iterable[str] = ()) -> dict[str, Any]:
    if key == "upstream":
        return {"upstreams": dict.fromkeys(PROTOCOL_FAMILIES, parse_base_url(label, _read_text(label, value)))}
    if key in _SETTING_READERS:
        return {key: _SETTING_READERS[key](label, value)}
    known = sorted(["upstream", *_SETTING_READERS, *other_keys])
    close = difflib.get_close_matches(key, known, 1)
    remedy = f"did you mean {close[0]}?" if close else f"it knows {', '.join(known)}"
    raise SettingsError(f"{label} is no setting of the gateway: {remedy}")


def _read_upstreams(label: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not value:
        raise SettingsError(f"[{label}] must be a table with a URL for each of {', '.join(PROTOCOL_FAMILIES)}")
    for family in value:
        if family not in PROTOCOL_FAMILIES:
            raise SettingsError(f"[{label}] knows {', '.join(PROTOCOL_FAMILIES)}; got {family!r}")
    texts = {family: _read_text(f"{family} of {label}", url) for family, url in value.items()}
    return {"upstreams": {family: parse_base_url(f"{family} of {label}", url) for family, url in texts.items()}}


def _read_tenants(label: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingsError(f'[{label}] must be a table of names and tokens: alice = "…"')
    own: dict[str, Any] = {}
    tokens: list[tuple[str, str]] = []
    for name, tenant in value.items():
        token = tenant
        if isinstance(tenant, Mapping):
            changes = {key: item for key, item in tenant.items() if key in _HANDLING_READERS}
            own |= {name: _read_handling(f"{name} of {label}", changes)} if changes else {}
            token = {key: item for key, item in tenant.items() if key not in changes}
            token = token["token"] if set(token) == {"token"} else token
        tokens += [(name, text) for text in _read_token_list(f"{name} of {label}", token)]
    return {"tokens": _read_tokens(label, tokens), "own": own}


def _read_models(label: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingsError(f'[{label}] must be a table for each model: [models."claude-*"]')
    return {"models": {name: _read_handling(f"{name} of {label}", table) for name, table in value.items()}}


def _read_handling(label: str, table: Any) -> dict[str, Any]:
    keys = ", ".join(_HANDLING_READERS)
    if not isinstance(table, Mapping):
        raise SettingsError(f"[{label}] must be a table with {keys}")
    for key in table:
        if key not in _HANDLING_READERS:
            raise SettingsError(f"[{label}] knows {keys}; got {key!r}")
    return {key: _HANDLING_READERS[key](f"{key} of {label}", value) for key, value in table.items()}


def _read_token_list(label: str, value: Any) -> Iterator[str]:
    """Yield the tokens of one tenant: a text, `{ token_env = "VAR" }`, or a list of these."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and value:
        for item in value:
            yield from _read_token_list(label, item)
    elif isinstance(value, Mapping) and set(value) == {"token_env"} and isinstance(value["token_env"], str):
        variable = value["token_env"]
        if variable not in os.environ:
            raise SettingsError(f"{label} takes its token from {variable}, which is not in the environment: set it")
        yield os.environ[variable]
    else:  # the value itself is not shown: it may be a token in a wrong place
        raise SettingsError(
            f'{label} must be "token", {{ token_env = "VARIABLE" }}, or a list of these; a table of a tenant may '
            f"also have {', '.join(_HANDLING_READERS)}"
        )


def _split_tenant(text: str, default: str) -> tuple[str, str]:
    """Return the tenant and the token of `NAME=TOKEN`, or of a token alone, which may end in = itself."""
    name, _, token = text.partition("=")
    return (name, token) if token.strip("=") else (default, text)


def _read_tokens(label: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the tenants by their tokens; no error shows a token."""
    tenants: dict[str, str] = {}
    for name, token in pairs:
        if not _TENANT_PATTERN.fullmatch(name):
            raise SettingsError(
                f"{label} names a tenant of {len(name)} characters: use 1 to 64 letters, digits, points, - and _"
            )
        if not _TOKEN_PATTERN.fullmatch(token):
            raise SettingsError(
                f"the token of {name} in {label} has {len(token)} characters: use 16 to 512 of A-Z a-z 0-9 . _ ~ + / = "
                "-, such as the output of `openssl rand -hex 32`"
            )
        if tenants.setdefault(token, name) != name:
            raise SettingsError(f"{label} has the same token for {tenants[token]} and {name}: give each their own")
    return tenants


def _build_reader(is_valid: Callable[[Any], bool], expected: str, convert: Callable[[Any], Any]) -> SettingReader:
    """Return the reader of values that are valid in this way."""

    def read(label: str, value: Any) -> Any:
        if not is_valid(value):
            raise SettingsError(f"{label} must be {expected}; got {value!r}")
        return convert(value)

    return read


def _build_choice_reader(*values: str) -> SettingReader:
    return _build_reader(lambda value: value in values, f"{', '.join(values[:-1])} or {values[-1]}", str)


def _build_condition_reader(parse: Callable[[list[str]], Any], example: str) -> SettingReader:
    """Return the reader of a trigger or a tail as the command line writes them, one or a list."""

    def read(label: str, value: Any) -> Any:
        items = list(value) if isinstance(value, list | tuple) else [value]
        if not items or any(type(item) not in {str, int, float} for item in items):
            raise SettingsError(f"{label} must be {example}, or a list of such; got {value!r}")
        if odd := [item for item in items if _SHARE_ABOVE_ONE_PATTERN.fullmatch(str(item).strip())]:
            raise SettingsError(f"{label}: {odd[0]} is at or above the whole window: write {example}")
        try:
            return parse([str(item) for item in items])
        except SettingsError as error:
            raise SettingsError(f"{label}: {error}") from None

    return read


def _read_size(label: str, value: Any) -> int:
    text = value if isinstance(value, str) else str(value) if type(value) is int else ""
    try:
        size = parse_size(text, "a size")
    except SettingsError:
        size = 0
    if size < 1:
        raise SettingsError(f"{label} must be a whole number of at least 1, such as 200000, 200k or 1m; got {value!r}")
    return size


def _read_summariser(label: str, value: Any) -> str:
    text: str = _read_text(label, value)
    provider, _, name = text.partition(":")
    if text not in {"upstream", "native", "none"} and not (provider and name):
        raise SettingsError(
            f"{label} must be upstream (the client's own model), native (its provider's own compaction), none, or "
            f"provider:name such as openai:gpt-5-mini; got {text!r}"
        )
    return text


def _read_operator(label: str, value: Any) -> tuple[str, ...]:
    return tuple(_read_tokens(label, (("operator", token) for token in _read_token_list(label, value))))


def _read_hosts(label: str, value: Any) -> tuple[str, ...]:
    """Return names without ports: a request may name any."""
    names = value if isinstance(value, list | tuple) else [value]
    for name in names:
        if not isinstance(name, str) or not parse_host_header(name) or parse_host_header(name) != name.lower():
            raise SettingsError(f"{label} must be a list of names such as gateway.example.com; got {name!r}")
    return tuple(name.lower() for name in names)


def _read_secret(label: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) < 16:
        raise SettingsError(f"{label} must be a text of at least 16 characters: `openssl rand -hex 32` makes one")
    return value


def _read_clear(label: str, value: Any) -> Clear | None:
    if isinstance(value, bool):
        return Clear() if value else None
    if not isinstance(value, Mapping) or not set(value) <= {*_CLEAR_KEYS}:
        raise SettingsError(f"{label} must be true, false, or a table with {', '.join(_CLEAR_KEYS)}; got {value!r}")
    lists = {key: _read_texts(f"{key} of {label}", value[key]) for key in ("include", "exclude") if key in value}
    try:
        return Clear(**{**value, **lists})
    except SettingsError as error:
        raise SettingsError(f"{label}: {error}") from None


def _warn_if_readable(path: Path, table: Mapping[str, Any]) -> None:
    """Warn of a file with tokens in it that others can read, where files have such a mode."""
    archive = table.get("archive", "")
    holders = [*table.get("tenants", {}).values(), table.get("operator", {})]
    has_tokens = any(not isinstance(holder, Mapping) or "token" in holder for holder in holders)
    if not (has_tokens or "secret" in table or hide_credentials(archive) != archive):
        return
    if os.name == "posix" and path.stat().st_mode & 0o044:
        log.warning("%s holds secrets, and others on this machine can read it: chmod 600 %s", path, path)


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(text, str) and text.strip() for text in value)


_read_text = _build_reader(lambda value: isinstance(value, str) and bool(value.strip()), "a text", str.strip)
_read_texts = _build_reader(_is_list_of_texts, "a list of texts", tuple)
_read_seconds = _build_reader(
    lambda value: type(value) in {int, float} and 0 < value < math.inf,
    "a number of seconds above 0, such as 600",
    float,
)
_HANDLING_READERS: Final[Mapping[str, SettingReader]] = {
    "clear": _read_clear,
    "pins": _read_texts,
    "redact": _build_reader(lambda value: isinstance(value, bool), "true or false", bool),
    "summariser": _read_summariser,
}
_SETTING_READERS: Final[Mapping[str, SettingReader]] = {
    **dict.fromkeys(("host", "archive"), _read_text),
    **dict.fromkeys(("window", "max_body", "max_decoded", "max_head", "max_headers", "concurrency"), _read_size),
    **dict.fromkeys(("timeout", "connect_timeout", "head_timeout"), _read_seconds),
    "port": _build_reader(
        lambda value: type(value) is int and 0 <= value <= 65_535,
        "a whole number from 1 to 65,535, or 0 for any free one",
        int,
    ),
    "trigger": _build_condition_reader(trigger_from_texts, "85%, 170k, messages=300 or never"),
    "keep": _build_condition_reader(keep_from_texts, "10%, 8k or messages=20"),
    "background": _build_reader(
        lambda value: value == "never" or (type(value) is float and 0 < value < 1),
        "a share of the trigger above 0 and below 1, or never",
        lambda value: None if value == "never" else value,
    ),
    "namespace": lambda label, value: check_name(value, label),
    "fallback": _build_choice_reader("refuse", "credential"),
    "secret": _read_secret,
    "hosts": _read_hosts,
    "operator": _read_operator,
    **_HANDLING_READERS,
    "log": _build_choice_reader("quiet", "text", "json"),
}
