"""Pass headers on: to the upstream what the client sent, to the client what the upstream answered.

What concerns one connection only is dropped on both sides. While nothing in a body has to change it goes on as it came,
so its `content-encoding` does too. An answer is passed on as it comes, with its own; where the gateway reads along, for
usage, it asks for an answer that is not encoded, and elsewhere for what the client asked.

The HTTP client must add nothing of its own: it sends none of `UNADDED_HEADERS` by itself, and has no jar for cookies
(one tenant's would be sent with another's request), no redirects and no decoding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from unabridged_gateway.refusals import RequestRefused
from unabridged_gateway.request_body import RawHeaders
from unabridged_gateway.tenants import CREDENTIAL_HEADERS, split_token

UNADDED_HEADERS: Final = frozenset({"accept", "accept-encoding", "content-type", "user-agent"})
"""Headers that aiohttp sets where a request has none."""
_CONNECTION_HEADERS: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
    b"transfer-encoding", b"upgrade",
})  # fmt: skip
_ROUTING_HEADERS: Final = frozenset({b"forwarded", b"via", b"x-real-ip"})
"""What load balancers before us say of the client's address: not the provider's business."""
_REBUILT_HEADERS: Final = frozenset({b"host", b"content-length", b"expect"})
_OWN_PREFIX: Final = b"x-unabridged-"
_NOT_TO_UPSTREAM: Final = _CONNECTION_HEADERS | _ROUTING_HEADERS | _REBUILT_HEADERS
_NOT_TO_CLIENT: Final = _CONNECTION_HEADERS | {b"alt-svc"}

_NAME_PATTERN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_CONTROL_CHARACTER_PATTERN: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def to_upstream(
    headers: RawHeaders, tokens: Mapping[str, str], *, encoded: bool = True, watched: bool = False
) -> list[tuple[str, str]]:
    """Return a request's headers for the upstream; raise `RequestRefused` where one can't be passed on unchanged.

    `encoded` says that the body goes on as it came; `watched`, that the gateway has to read the answer.
    """
    passed: list[tuple[str, str]] = []
    dropped = {"content-encoding"} if not encoded else set()
    if watched:
        dropped.add("accept-encoding")
    for name, value in headers:
        passed_name = _find_upstream_name(name)
        if passed_name is None:
            if name == b"connection":
                dropped.update(listed.decode("latin-1") for listed in _parse_connection_header(value))
            continue
        if tokens and name in CREDENTIAL_HEADERS:
            tenant, value = split_token(tokens, value)  # noqa: PLW2901 - the rest of it is what goes on
            if tenant is not None and not value:
                continue
        passed.append((passed_name, _decode_header_value(passed_name, value)))
    if dropped:
        passed = [pair for pair in passed if pair[0] not in dropped]
    if watched:
        passed.append(("accept-encoding", "identity"))
    return passed


def to_client(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """Return an answer's headers for the client; what could break them into two is left out."""
    passed: list[tuple[bytes, bytes]] = []
    dropped: set[bytes] = set()
    for name, value in headers:
        passed_name = _find_client_name(name)
        if passed_name == b"connection":
            dropped.update(_parse_connection_header(value))
        elif passed_name == b"transfer-encoding":
            dropped.add(b"content-length")  # which says nothing where both are there
        elif passed_name is not None and not _CONTROL_CHARACTER_PATTERN.search(value):
            passed.append((passed_name, value))
    return [pair for pair in passed if pair[0] not in dropped] if dropped else passed


def _parse_connection_header(value: bytes) -> set[bytes]:
    """Return the headers that `connection` says are of this connection only."""
    return {token.strip().lower() for token in value.split(b",")}


@lru_cache(1_024)  # the same few names come with every request
def _find_upstream_name(name: bytes) -> str | None:
    """Return the header's name for the upstream; None for one that it does not get."""
    if name in _NOT_TO_UPSTREAM or name.startswith((_OWN_PREFIX, b"x-forwarded-")):
        return None
    if not _NAME_PATTERN.fullmatch(name):
        raise RequestRefused(400, "a header has a name that can't be sent on: use letters, digits and -")
    return name.decode()


@lru_cache(1_024)
def _find_client_name(name: bytes) -> bytes | None:
    """Return the header's name for the client; None for one that is ours to set, or leads around the gateway.

    The two that say how the message is framed, and so what else is dropped, have their names too.
    """
    lower = name.lower()
    if lower in {b"connection", b"transfer-encoding"}:
        return lower
    return (
        None
        if lower in _NOT_TO_CLIENT or lower.startswith(_OWN_PREFIX) or not _NAME_PATTERN.fullmatch(lower)
        else lower
    )


def _decode_header_value(name: str, value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise RequestRefused(400, f"the header {name} is not UTF-8, so it can't be sent on unchanged") from None
    if not text.isprintable() and _CONTROL_CHARACTER_PATTERN.search(value):
        raise RequestRefused(400, f"the header {name} has a control character in it: leave it out")
    return text
