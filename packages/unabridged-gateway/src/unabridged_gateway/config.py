"""The settings of a gateway: `Config`, in groups, checked as a whole when it is made; `config_file.py` reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Literal

from unabridged.archive.address import hide_credentials
from unabridged.archive.protocol import DEFAULT_NAMESPACE
from unabridged.archive.secrets import mask
from unabridged.errors import SettingsError
from unabridged.settings import Clear, Keep, Settings, Trigger, parse_keep, parse_trigger, resolve_limits
from unabridged_cli.mcp_server import is_loopback
from unabridged_gateway.addresses import is_own_address


@dataclass(frozen=True, slots=True)
class Handling:
    """Who summarises, what is cleared and what is kept, and what is kept out of summaries and of the search index."""

    clear: Clear | None = Settings().clear
    pins: tuple[str, ...] = ()
    redact: bool = False
    summariser: str = field(default="upstream", repr=False)
    """`upstream` (the client's own model and credentials), `native` (the same, by the provider's own compaction),
    `none`, or `provider:name`."""

    def apply(self, settings: Settings) -> Settings:
        """Return the settings with this clearing and these pins."""
        return replace(settings, clear=self.clear, pins=self.pins)

    @property
    def redactor(self) -> Callable[[str], str] | None:
        """Return the function that masks secrets; None where they stay."""
        return mask if self.redact else None


HandlingChanges = Mapping[str, Any]
"""Fields of a `Handling` that a model or a tenant has for itself."""


@dataclass(frozen=True, slots=True)
class ListeningConfig:
    """Where the gateway listens, and the most that requests may take."""

    host: str = "127.0.0.1"
    port: int = 8484
    """0 for any that is free."""
    hosts: tuple[str, ...] = ()
    """Names that clients may send as the Host, beside those of this machine; with tokens and without names, any."""
    max_body: int = 64_000_000
    max_decoded: int = 64_000_000
    """Bytes of a request's body as it is sent, and once gzip or zstd are undone."""
    max_head: int = 64_000
    """Bytes of its request line and headers; trailers and the frames of chunks may take as much."""
    max_headers: int = 200
    head_timeout: float = 10.0
    """Seconds in which all of these must be there, from the first byte on; on a new connection from its beginning."""
    concurrency: int = 256
    """Requests at once; others are asked to come back, with 503."""


@dataclass(frozen=True, slots=True)
class UpstreamConfig:
    """The providers, and how long they are waited for."""

    urls: Mapping[str, str]
    """The base URL for each family of protocols; a request of a family that has none is refused."""
    timeout: float = 600.0
    """Seconds without a byte from upstream, and in which a request's body must be there."""
    connect_timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class CompactionConfig(Handling):
    """When and how conversations are compacted, and where they are recorded."""

    window: int | None = None
    """The window in tokens, whatever the model; None for the model's own."""
    trigger: Trigger = Settings().trigger
    keep: Keep | None = Settings().keep
    background: float | None = 0.8
    """The share of the trigger at which a summary is begun in the background; None for never."""
    archive: str | None = field(default=None, repr=False)
    models: Mapping[str, HandlingChanges] = field(default_factory=dict)
    """The clearing, pins, redaction and summariser that models have for themselves, by their names or patterns."""
    own: Mapping[str, HandlingChanges] = field(default_factory=dict)
    """Those that tenants have for themselves, which beat a model's."""

    def __post_init__(self) -> None:
        self._check_trigger()
        self._check_keep()

    @property
    def settings(self) -> Settings:
        """Return the settings of the compactors."""
        return Settings(trigger=self.trigger, keep=self.keep, background=self.background)

    def find_handling(self, model: str, tenant: str) -> Handling:
        """Return how conversations of this tenant with this model are handled.

        A model has what is set under its own name, else under the first pattern that it matches.
        """
        matching = (changes for pattern, changes in self.models.items() if fnmatchcase(model, pattern))
        for_model = self.models[model] if model in self.models else next(matching, {})
        every = {item.name: getattr(self, item.name) for item in fields(Handling)}
        return Handling(**{**every, **for_model, **self.own.get(tenant, {})})

    def _check_trigger(self) -> None:
        """Raise `SettingsError` for a trigger that is never reached."""
        for condition in parse_trigger(self.trigger):
            share, tokens = condition.get("fraction", 0), condition.get("tokens", 0)
            if share >= 1 or (self.window is not None and tokens >= self.window):
                size = f"{share:.0%} of the window" if share >= 1 else f"{tokens:,} tokens"
                window = "" if self.window is None else f" of {self.window:,} tokens"
                raise SettingsError(
                    f"the trigger is {size}, at or above the whole window{window}: write a share below 1, such as "
                    "0.85, or fewer tokens"
                )

    def _check_keep(self) -> None:
        """Raise `SettingsError` for a `keep` that the trigger is not above."""
        settings = self.settings
        if self.window is None:
            return
        bounds = resolve_limits(replace(settings, keep=None), self.window)
        lowest = min([bounds.budget, *(condition["tokens"] for condition in bounds.trigger if "tokens" in condition)])
        shares = [pair for pair in parse_keep(self.keep) if pair[0] != "messages"] if self.keep is not None else []
        kept = [int(value * self.window if measure == "fraction" else value) for measure, value in shares]
        if kept and min(kept) >= lowest:
            raise SettingsError(
                f"keep is {min(kept):,} tokens of the window of {self.window:,}, and the trigger {lowest:,}: set a "
                "keep below the trigger"
            )


@dataclass(frozen=True, slots=True)
class TenantConfig:
    """Whose conversations these are, and who may read the figures of all."""

    namespace: str = DEFAULT_NAMESPACE
    """The namespace of conversations where no tokens are configured."""
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The tenant that each gateway token stands for."""
    operator: tuple[str, ...] = field(default=(), repr=False)
    """Tokens that read `/metrics`, which counts the requests of all tenants."""
    fallback: Literal["refuse", "credential"] = "refuse"
    """With tokens, a request without one is refused, or its provider's credential stands for its tenant. A tenant of
    this kind is lost with its credential; one that a token names is not."""
    secret: str = field(default="", repr=False)
    """The key of the hash by which a credential becomes a tenant; the same for all replicas."""

    def __post_init__(self) -> None:
        if shared := [self.tokens[token] for token in self.operator if token in self.tokens]:
            raise SettingsError(f"the operator has the token of {shared[0]}: give each their own")
        if self.fallback == "credential" and not self.secret:
            raise SettingsError(
                "fallback = 'credential' needs a secret that all replicas share: set UNABRIDGED_GATEWAY_SECRET to the "
                "output of `openssl rand -hex 32`"
            )
        if self.fallback == "credential" and not self.tokens:
            raise SettingsError(
                "fallback = 'credential' is for requests without a token beside those with one, and no token is "
                "configured, so all would share one namespace: give --token or [tenants]"
            )


@dataclass(frozen=True, slots=True, repr=False)
class Config:
    """How a gateway runs. Immutable; `config_file.load_config` makes one from flags and a file."""

    listening: ListeningConfig
    upstreams: UpstreamConfig
    compaction: CompactionConfig
    tenants: TenantConfig
    log: Literal["quiet", "text", "json"] = "quiet"
    """What is logged on standard error: what goes wrong, or a line for each request too."""

    def __post_init__(self) -> None:
        mappings = (
            (self.upstreams, "urls"),
            (self.compaction, "models"),
            (self.compaction, "own"),
            (self.tenants, "tokens"),
        )
        for group, name in mappings:
            object.__setattr__(group, name, MappingProxyType(dict(getattr(group, name))))
        host, port = self.listening.host, self.listening.port
        for family, url in self.upstreams.urls.items():
            if is_own_address(url, host, port):
                raise SettingsError(
                    f"the upstream for {family}, {url}, is where the gateway listens itself: name the provider's "
                    f"address, or another --port than {port}"
                )
        if not self.tenants.tokens and not is_loopback(host):
            raise SettingsError(
                f"host {host!r} is open to other machines, so clients need a token: give --token, or [tenants] in "
                "the configuration; or listen on 127.0.0.1"
            )

    def __repr__(self) -> str:
        names, archive = sorted(set(self.tenants.tokens.values())), self.compaction.archive
        shown = f"tenants={names}, archive={archive and hide_credentials(archive)!r}, log={self.log!r}"
        return f"Config({self.listening}, {self.upstreams}, {self.compaction}, {self.tenants}, {shown})"


def build_config(upstreams: Mapping[str, str], **settings: Any) -> Config:
    """Return the configuration with these settings, each under the name that the file has for it."""
    settings["urls"] = upstreams
    groups: dict[str, type[Any]] = {
        "listening": ListeningConfig, "upstreams": UpstreamConfig, "compaction": CompactionConfig,
        "tenants": TenantConfig,
    }  # fmt: skip
    group_configs = {
        name: kind(**{item.name: settings.pop(item.name) for item in fields(kind) if item.name in settings})
        for name, kind in groups.items()
    }
    return Config(**group_configs, **settings)
