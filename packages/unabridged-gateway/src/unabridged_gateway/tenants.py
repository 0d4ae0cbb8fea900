"""Find whose a request is: the namespace of its conversations, by the gateway token that the client sends.

    x-unabridged-token: TOKEN              in a header of its own
    authorization: Bearer TOKEN:sk-…       before the provider's credential, which is forwarded without it; so too in
    x-api-key: TOKEN:sk-…                  x-goog-api-key and api-key, for clients where only the key can be set

Claude Code sends the header with `ANTHROPIC_CUSTOM_HEADERS="x-unabridged-token: TOKEN"`, Codex with
`http_headers = { "x-unabridged-token" = "TOKEN" }` of its provider. A token never stands in a path or a query: those
are logged by whatever lies between. Alone, `Bearer TOKEN` is for an upstream that wants no credential.

A tenant that a token names keeps its conversations when the provider's key is rotated, and when its token is, while
both are in the configuration. One that `fallback = "credential"` makes of a key is another with the next key.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from unabridged_cli.mcp_server import is_loopback
from unabridged_gateway.config import TenantConfig
from unabridged_gateway.config_file import OPERATOR_VARIABLE
from unabridged_gateway.refusals import RequestRefused
from unabridged_gateway.request_body import RawHeaders

TOKEN_HEADER: Final = b"x-unabridged-token"
CREDENTIAL_HEADERS: Final = (b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key")
"""Headers in which providers are sent their keys."""

_REMEDY: Final = "send the header x-unabridged-token: TOKEN, or put TOKEN: before the provider's key"


def find_tenant(config: TenantConfig, headers: RawHeaders, peer: str | None) -> str:
    """Return the namespace of a request's conversations; raise `RequestRefused` where nobody can say.

    `peer` is the address it came from, None for a socket without one. Without tokens there is one tenant, whom only
    this machine reaches.
    """
    if not config.tokens:
        if peer is not None and not is_loopback(peer):
            raise RequestRefused(
                401, "this gateway has no tokens, so it serves its own machine only: configure [tenants]"
            )
        return config.namespace
    own, credentials = _find_tokens(headers)
    if own is not None:
        tenant = _find_tenant_by_token(config.tokens, own)
        if tenant is None:
            raise RequestRefused(401, f"the gateway does not know this token: {_REMEDY}")
        return tenant
    for credential in credentials:
        tenant, _ = split_token(config.tokens, credential)
        if tenant is not None:
            return tenant
    if config.fallback == "credential" and credentials:
        return _hash_credential(credentials[0], config.secret)
    raise RequestRefused(401, f"this gateway needs a token of its own beside the provider's key: {_REMEDY}")


def require_operator(config: TenantConfig, headers: RawHeaders, peer: str | None) -> None:
    """Raise `RequestRefused` for who may not read figures of all tenants: with tokens configured, all but operators."""
    if not (config.tokens or config.operator):
        find_tenant(config, headers, peer)
        return
    own, credentials = _find_tokens(headers)
    tokens = [*([] if own is None else [own]), *(value.rpartition(b" ")[2] for value in credentials)]
    operators = dict.fromkeys(config.operator, "operator")
    if any(_find_tenant_by_token(operators, token) for token in tokens):
        return
    variable = OPERATOR_VARIABLE
    remedy = f"send {variable}'s value" if config.operator else f"set operator in the configuration, or {variable}"
    is_tenant = any(_find_tenant_by_token(config.tokens, token) for token in tokens)
    raise RequestRefused(403 if is_tenant else 401, f"figures of all tenants need an operator's token: {remedy}")


def find_reader(config: TenantConfig, headers: RawHeaders, peer: str | None) -> str | None:
    """Return the tenant whose figures the client may read; None for an operator, who reads those of all."""
    try:
        require_operator(config, headers, peer)
    except RequestRefused:
        return find_tenant(config, headers, peer)
    return None


def split_token(tokens: Mapping[str, str], value: bytes) -> tuple[str | None, bytes]:
    """Return the tenant whose token is in a credential's header, and the value without it; None, and all of it."""
    scheme, space, rest = value.rpartition(b" ")
    token, _, credential = rest.partition(b":")
    tenant = _find_tenant_by_token(tokens, token)
    if tenant is None:
        return None, value
    return tenant, scheme + space + credential if credential else b""


def _find_tokens(headers: RawHeaders) -> tuple[bytes | None, list[bytes]]:
    """Return the token in its own header, and the credentials, in the order of `CREDENTIAL_HEADERS`."""
    own: bytes | None = None
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name == TOKEN_HEADER and own is None:
            own = value.strip()
        elif name in CREDENTIAL_HEADERS and value.strip():
            found.setdefault(name, value.strip())
    return own, [found[name] for name in CREDENTIAL_HEADERS if name in found]


def _find_tenant_by_token(tokens: Mapping[str, str], sent: bytes) -> str | None:
    """Return the tenant whose token this is, compared in constant time; None without one."""
    matching = [tenant for token, tenant in tokens.items() if hmac.compare_digest(token.encode(), sent)]
    return matching[-1] if matching else None


def _hash_credential(credential: bytes, secret: str) -> str:
    """Return a namespace that tells nothing of the credential; its colon keeps it apart from every name of a tenant."""
    key = blake2b(secret.encode()).digest()
    return f"credential:{blake2b(credential.rpartition(b' ')[2], key=key, digest_size=16).hexdigest()}"
