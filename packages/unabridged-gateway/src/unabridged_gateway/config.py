"""How the gateway runs: `Config`, from flags and a TOML file; what could fail later is refused here, in words.

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

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from unabridged.archive.address import without_credentials
from unabridged.errors import SettingsError
from unabridged.history import DEFAULT
from unabridged.settings import Clear, Keep, Settings, Trigger, keeps, limits, triggers
from unabridged_gateway.addresses import is_loopback, reaches_itself
from unabridged_gateway.connections import HeadLimits
from unabridged_gateway.encodings import Limits
from unabridged_gateway.given import read_file, read_flags
from unabridged_gateway.handling import Changes, Handling, changes_for

Family = Literal["openai", "anthropic", "gemini"]
"""A protocol by who made it; the upstream of each may be another."""


@dataclass(frozen=True, slots=True, repr=False)
class Config:
    """How the gateway runs. Immutable; `load_config` makes one."""

    upstreams: Mapping[str, str]
    """The base URL for each family of protocols; a request of a family that has none is refused."""
    host: str = "127.0.0.1"
    port: int = 8484
    """0 for any that is free."""
    window: int | None = None
    """The window in tokens, whatever the model; None for the model's own."""
    trigger: Trigger = Settings().trigger
    keep: Keep | None = Settings().keep
    background: float | None = 0.8
    """The share of the trigger at which a summary is begun in the background; None for never."""
    archive: str | None = None
    namespace: str = DEFAULT
    """Whose conversations these are where no tokens tell."""
    summariser: str = "upstream"
    """`upstream` (the client's own model and credentials), `none`, or `provider:name`."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """The tenant that each gateway token stands for."""
    operator: tuple[str, ...] = ()
    """Tokens that read `/metrics`, which counts the requests of all tenants."""
    hosts: tuple[str, ...] = ()
    """Names that clients may send as the Host, beside those of this machine; with tokens and without names, any."""
    clear: Clear | None = Handling().clear
    pins: tuple[str, ...] = ()
    redact: bool = False
    models: Mapping[str, Changes] = field(default_factory=dict)
    """What models have of these three for themselves, by their names or patterns."""
    own: Mapping[str, Changes] = field(default_factory=dict)
    """What tenants have of them for themselves; it beats what a model has."""
    fallback: Literal["refuse", "credential"] = "refuse"
    """With tokens, a request without one is refused, or its provider's credential stands for its tenant. A tenant of
    this kind is lost with its credential; one that a token names is not."""
    secret: str = ""
    """The key of the hash by which a credential becomes a tenant; the same for all replicas."""
    max_body: int = 64_000_000
    max_decoded: int = 64_000_000
    """Bytes of a request's body as it is sent, and once gzip or zstd are undone."""
    max_head: int = HeadLimits().size
    """Bytes of its request line and headers."""
    max_headers: int = HeadLimits().headers
    head_timeout: float = HeadLimits().seconds
    """Seconds in which all of these must be there."""
    timeout: float = 600.0
    """Seconds without a byte from upstream, and in which a request's body must be there."""
    connect_timeout: float = 10.0
    log: Literal["quiet", "text", "json"] = "quiet"
    """What is logged on standard error: what goes wrong, or a line for each request too."""
    concurrency: int = 256
    """Requests at once; others are told to come back, with 503."""

    def __post_init__(self) -> None:
        for name in ("upstreams", "tokens", "models", "own"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        _check_upstreams(self)
        _check_access(self)
        _check_sizes(self)

    def __repr__(self) -> str:
        shown = {item.name: getattr(self, item.name) for item in fields(self)}
        shown |= {"upstreams": dict(self.upstreams), "tokens": sorted(set(self.tokens.values()))}
        shown |= {"operator": len(self.operator), "models": dict(self.models), "own": dict(self.own)}
        shown |= {"secret": "…" if self.secret else "", "summariser": without_credentials(self.summariser)}
        shown |= {"archive": self.archive and without_credentials(self.archive)}
        return f"Config({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def settings(self) -> Settings:
        """What a compactor is told."""
        return Settings(trigger=self.trigger, keep=self.keep, background=self.background)

    def handling(self, model: str, tenant: str) -> Handling:
        """How conversations of this tenant with this model are handled."""
        every = {"clear": self.clear, "pins": self.pins, "redact": self.redact}
        return Handling(**{**every, **changes_for(self.models, model), **self.own.get(tenant, {})})

    @property
    def limits(self) -> Limits:
        """What the body of a request may take."""
        return Limits(self.max_body, self.max_decoded)

    @property
    def head(self) -> HeadLimits:
        """What the request line and the headers of a request may take."""
        return HeadLimits(self.max_head, self.max_headers, self.head_timeout)


def load_config(path: Path | None = None, **flags: Any) -> Config:
    """The configuration from a file and flags, which beat it; a flag of None was not given.

    A flag has the name of a field. `upstream` is the one for all families, `token` a list of `NAME=TOKEN` or of tokens
    alone, which stand for the tenant `namespace`.
    """
    given = {} if path is None else read_file(path)
    given |= read_flags({name: value for name, value in flags.items() if value is not None}, given.get("namespace"))
    if "upstreams" not in given:
        where = "" if path is None else f', or upstream = "…" in {path}'
        raise SettingsError(f"no upstream is named: give --upstream https://api.openai.com{where}")
    return Config(**given)


def _check_upstreams(config: Config) -> None:
    for family, url in config.upstreams.items():
        if reaches_itself(url, config.host, config.port):
            raise SettingsError(
                f"the upstream for {family}, {url}, is where the gateway listens itself: name the provider's address, "
                f"or another --port than {config.port}"
            )


def _check_sizes(config: Config) -> None:
    """Refuse a trigger that is never reached, and a `keep` that it does not stay above."""
    for condition in triggers(config.trigger):
        share, tokens = condition.get("fraction", 0), condition.get("tokens", 0)
        if share >= 1 or (config.window is not None and tokens >= config.window):
            size = f"{share:.0%} of the window" if share >= 1 else f"{tokens:,} tokens"
            window = "" if config.window is None else f" of {config.window:,} tokens"
            raise SettingsError(
                f"the trigger is {size}, at or above the whole window{window}: write a share below 1, such as 0.85, or "
                "fewer tokens"
            )
    settings = config.settings()
    if config.window is None:
        return
    known = limits(replace(settings, keep=None), config.window)
    lowest = min([known.budget, *(one["tokens"] for one in known.trigger if "tokens" in one)])
    shares = [pair for pair in keeps(config.keep) if pair[0] != "messages"] if config.keep is not None else []
    kept = [int(value * config.window if measure == "fraction" else value) for measure, value in shares]
    if kept and min(kept) >= lowest:
        raise SettingsError(
            f"keep is {min(kept):,} tokens of the window of {config.window:,}, and the trigger {lowest:,}: set a keep "
            "below the trigger"
        )


def _check_access(config: Config) -> None:
    if not config.tokens and not is_loopback(config.host):
        raise SettingsError(
            f"host {config.host!r} is open to other machines, so clients need a token: give --token, or [tenants] in "
            "the configuration; or listen on 127.0.0.1"
        )
    if shared := [config.tokens[token] for token in config.operator if token in config.tokens]:
        raise SettingsError(f"the operator has the token of {shared[0]}: give each their own")
    if config.fallback == "credential" and not config.secret:
        raise SettingsError(
            "fallback = 'credential' needs a secret that all replicas share: set UNABRIDGED_GATEWAY_SECRET to the "
            "output of `openssl rand -hex 32`"
        )
