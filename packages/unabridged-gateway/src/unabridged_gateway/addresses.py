"""Check the addresses where a gateway listens, and those to which it passes requests on."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from unabridged.archive.address import hide_credentials
from unabridged.errors import SettingsError
from unabridged_cli.mcp_server import is_loopback

_VERSION_PATTERN = re.compile(r"/v\d\w*$")
_EXAMPLE_URL = "https://api.openai.com"
_HOST_PATTERN = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:\[\]@/]+?)\.?(?::\d{0,5})?")
"""A Host header in lower case: a name or an address, and a port."""


def parse_base_url(label: str, url: str) -> str:
    """Return the upstream's URL, to which a client's path is appended; `label` says in errors where it was written."""
    shown = hide_credentials(re.split(r"[?#]", url)[0])
    if re.search(r"[\s\x00-\x1f\x7f\\]", url):
        raise SettingsError(f"{label} has a space, a backslash or a control character in it: {shown!r}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"{label} is not a URL: {shown!r}, {error}. Write one such as {_EXAMPLE_URL}") from None
    where = f"{parts.hostname or ''}{'' if port is None else f':{port}'}"
    if parts.scheme.lower() not in {"http", "https"} or not parts.hostname:
        raise SettingsError(
            f"{label} must be a URL with http:// or https:// and a host, such as {_EXAMPLE_URL}; got {shown!r}"
        )
    _refuse_extras(label, parts, where)
    path = parts.path.rstrip("/")
    if found := _VERSION_PATTERN.search(path):
        raise SettingsError(f"{label} ends in {found[0]}, which clients send themselves: leave it out of {shown}")
    return f"{parts.scheme.lower()}://{parts.netloc}{path}"


def _refuse_extras(label: str, parts: SplitResult, where: str) -> None:
    """Refuse what a base URL has no place for, without repeating it: it may be a secret."""
    if "@" in parts.netloc:
        raise SettingsError(
            f"{label} has credentials before {where}: leave them out; clients send their own, and they are forwarded"
        )
    if parts.query or parts.fragment:
        raise SettingsError(f"{label} has a query or a fragment behind {where}{parts.path}: leave it out")


@lru_cache(256)
def parse_host_header(header: str) -> str:
    """Return the name or the address of a Host header, without its port and in lower case; "" where there is none."""
    found = _HOST_PATTERN.fullmatch(header.strip().lower())
    return found[1] if found else ""


@lru_cache(256)
def is_local_host_name(host: str) -> bool:
    """Return whether this Host header can only mean this machine (`localhost` or a loopback address), without DNS."""
    if host.startswith("["):
        return host[1:-1] != "" and is_loopback(host[1:-1])
    return host == "localhost" or host.endswith(".localhost") or (host[:1].isdigit() and is_loopback(host))


def is_own_address(url: str, host: str, port: int) -> bool:
    """Return whether the upstream is the gateway itself, so that a request would go in a circle."""
    parts = urlsplit(url)
    name = parts.hostname or ""
    upstream_port = parts.port or (443 if parts.scheme == "https" else 80)
    is_here = name == host or (is_loopback(name) and (is_loopback(host) or host in {"", "0.0.0.0", "::"}))  # noqa: S104
    return port != 0 and upstream_port == port and is_here
