"""Addresses as they may be shown: in a receipt, an event, a record, a log, an error, on a screen.

Wherever a URL goes that anyone might read, it goes through `hide_credentials`. Where a password stands unescaped, so
that nobody can say where it ends, too much is left out rather than too little.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import unquote

from unabridged.errors import SettingsError

HIDDEN_VALUE: Final = "…"
_SCHEMES_WITH_USER: Final = ("postgresql", "postgres")
"""Schemes whose user is a name; in others it may be a token by itself."""
_SECRET_NAME_PATTERN: Final = re.compile(r"(?i)pass|pwd|secret|token|key|credential|auth|sig")
_FOLDER_PREFIX: Final = "dir:"
_DRIVE_PATTERN: Final = re.compile(r"/+(?=[A-Za-z]:)")
_SETTING_PATTERN: Final = re.compile(r"""([\w%.-]{1,60})(\s{0,3}=\s{0,3})('(?:[^'\\]|\\.)*'?|[^\s&;]*)""")


def is_on_server(url: str) -> bool:
    """Return whether the archive is a server's, so that processes on other machines may write to it too."""
    return url.startswith(("postgres:", "postgresql:"))


def folder_from_url(url: str, *, windows: bool = os.name == "nt") -> str:
    """Return the folder that a `dir:` URL names, with slashes as in a file URL; one with a host is a `SettingsError`.

    `dir:///tmp/x` is /tmp/x (on Windows `dir:///C:/x` is C:/x), `dir:x` and `dir:a/b` are in the working folder.
    """
    path = url.removeprefix(_FOLDER_PREFIX)
    if path.startswith("//"):
        path = path[2:]
        if not path.startswith("/"):
            named = hide_credentials(url).removeprefix(f"{_FOLDER_PREFIX}//") or "folder"
            raise SettingsError(
                f"archive={hide_credentials(url)!r} has two slashes: write dir:{named} for a folder in the working "
                f"folder, or dir:///{named} for the absolute path /{named}."
            )
    if windows:
        drive = _DRIVE_PATTERN.match(path)
        return path[drive.end() :] if drive else path
    return f"/{path.lstrip('/')}" if path.startswith("/") else path


def folder_url(path: PurePath) -> str:
    """Return the `dir:` URL of a folder: of a relative path one that is relative to the working folder."""
    text = path.as_posix()
    if path.drive and not text.startswith("/"):
        text = f"/{text}"
    return f"{_FOLDER_PREFIX}//{text}" if text.startswith("/") else f"{_FOLDER_PREFIX}{text}"


def hide_credentials(address: str) -> str:
    """Return the URL, or libpq's `host=… password=…`, without passwords, tokens and keys."""
    scheme, found, rest = address.partition("://")
    if found:
        return _hide_secret_settings(f"{scheme}://{_hide_user(scheme.lower(), rest)}")
    before, at, after = address.rpartition("@")
    hides = bool(at) and ":" in before and "=" not in before and not address.startswith(_FOLDER_PREFIX)
    return _hide_secret_settings(f"{HIDDEN_VALUE}@{after}" if hides else address)


def hide_secrets(text: str, secrets: Collection[str]) -> str:
    """Return the text with none of these in it."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN_VALUE)
    return text


def scrub_error(error: BaseException, secrets: Collection[str]) -> None:
    """Take these out of what the error says, and what every error behind it says: they all end up in a log."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        if (found := waiting.pop()) is not None and id(found) not in seen:
            seen.add(id(found))
            found.args = tuple(hide_secrets(item, secrets) if isinstance(item, str) else item for item in found.args)
            waiting += [found.__cause__, found.__context__]


def scrub_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a record keeps, with the archive's address as it may be shown."""
    receipt = data.get("receipt")
    if not isinstance(receipt, Mapping) or not isinstance(receipt.get("archive"), str):
        return dict(data)
    return {**data, "receipt": {**receipt, "archive": hide_credentials(receipt["archive"])}}


def _hide_user(scheme: str, rest: str) -> str:
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    # With a password, all up to the last @ of the whole may be of it: nobody can say of one that is not escaped.
    end = len(rest) if ":" in authority.partition("@")[0] else len(authority)
    if "@" not in rest[:end]:
        return rest
    user, _, host = rest[:end].rpartition("@")
    name = user.partition(":")[0]
    keeps = scheme.endswith(_SCHEMES_WITH_USER)
    return f"{name if keeps else HIDDEN_VALUE}@{host}{rest[end:]}"


def _hide_secret_settings(address: str) -> str:
    return _SETTING_PATTERN.sub(_hide_secret_value, address) if "=" in address else address


def _hide_secret_value(found: re.Match[str]) -> str:
    name, equals, value = found.groups()
    return f"{name}{equals}{HIDDEN_VALUE}" if value and _SECRET_NAME_PATTERN.search(unquote(name)) else found[0]
