"""Conversations on their way to a provider: fitted before, learned from after. A request never fails for our sake."""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unabridged.adapters.kit import Engine, Request, arun
from unabridged.archive import open_archive
from unabridged.compactor import Compaction
from unabridged.errors import ArchiveError, UnabridgedError, WontFit
from unabridged.formats import Format
from unabridged.gateway.protocols import Protocol
from unabridged.settings import limits

if TYPE_CHECKING:
    from unabridged.gateway.bodies import JsonBody
    from unabridged.gateway.config import Config

log = logging.getLogger("unabridged.gateway")

_BY_REFERENCE = re.compile(
    rb'"(?:i(?:mage(?:_url)?|nput_(?:image|file)|nline_?[dD]ata|tem_reference)|document|file(?:_?[dD]ata)?|video|'
    rb'pr(?:ompt|evious_response_id)|conversation|cached_?[cC]ontent|compaction(?:_trigger)?)"'
)
"""Names in a body beside which something may stand whose tokens its length does not tell. Within a text a quotation
mark is escaped, so that no text has them."""


class Engines:
    """An engine for each wire format, on one archive."""

    def __init__(self, config: Config, summariser: Any = None, on_event: Any = None) -> None:
        self._settings, self._upstreams = config.settings(), config.upstreams
        self._window, self._model, self._on_event = config.window, summariser, on_event
        self.archive = open_archive(config.archive)
        self._engines: dict[str, Engine] = {}
        self._lock = threading.Lock()
        self._surely = self._length_that_fits()

    def fits_by_length(self, data: bytes) -> bool:
        """Whether the body can't be above the trigger, whatever it says: no text has more tokens than bytes."""
        return len(data) <= self._surely and _BY_REFERENCE.search(data) is None

    def request(
        self, protocol: Protocol, path: str, body: JsonBody, messages: list[Any], thread: str | None, **more: Any
    ) -> Request:
        """The request as the engine sees it; `more`: whose it is, and whom to ask for a summary."""
        endpoint = protocol.endpoint
        tools = endpoint.schemas(body)
        engine = self._engine(endpoint.format, protocol.family)
        agent = protocol.agent(path, body, tools)
        return engine.request(messages, agent, thread=thread, system=endpoint.prompt(body), tools=tools, **more)

    async def fit(self, request: Request) -> tuple[Compaction, str]:
        """What should be sent, and a note: as it came where it can't be fitted: the provider may take it."""
        try:
            return await arun(request.fit()), ""
        except UnabridgedError as error:
            log.warning("a request goes on as it came: %s", _loggable(error))
            told = "the gateway's log says how" if isinstance(error, ArchiveError) else str(error)
            return _as_it_came(request), f"{type(error).__name__}: {told}"
        except Exception as error:
            log.exception("a request goes on as it came")
            return _as_it_came(request), f"{type(error).__name__} while it was fitted"

    async def compact(self, request: Request) -> Compaction | None:
        """The conversation, compacted now, whatever its size; None where that can't be done."""
        fitted, note = await self.fit(replace(request, force=True))
        return None if note else fitted

    async def shorten(self, request: Request, fitted: Compaction, error: Any) -> Compaction | None:
        """What to send in place of a request that was refused as too long; None where nothing shorter can be made."""
        try:
            return await arun(request.shorten(fitted, Refusal(error)))
        except Refusal:
            return None
        except UnabridgedError as wont:
            log.warning("a refused request can't be made shorter: %s", _loggable(wont))
            return None
        except Exception:
            log.exception("a refused request can't be made shorter")
            return None

    def what_is_missing(self) -> str:
        """What keeps requests from being fitted, in words; "" for nothing."""
        try:
            self.archive.remembered("upstream", "ready")
        except UnabridgedError as error:
            return str(error)
        return ""

    def close(self) -> None:
        """Let go of the archive."""
        for engine in self._engines.values():
            engine.close()
        self.archive.close()

    def _engine(self, format_: Format, family: str) -> Engine:
        """The engine for a format; what usage teaches is kept under the upstream's name, conversations under whose."""
        with self._lock:
            if format_.name not in self._engines:
                self._engines[format_.name] = Engine(
                    format_, model=self._model, archive=self.archive, settings=self._settings, window=self._window,
                    on_event=self._on_event, namespace=f"upstream {self._upstreams[family]}",
                )  # fmt: skip
            return self._engines[format_.name]

    def _length_that_fits(self) -> int:
        """The most bytes that are below every trigger; 0 where the window is the model's, or messages are counted."""
        if self._window is None:
            return 0
        known = limits(self._settings, self._window)
        bounds = [condition.get("tokens", 0) for condition in known.trigger]
        return min([known.budget, *bounds])


class Refusal(Exception):  # noqa: N818 - what a provider says, not an error of ours
    """A provider's error as it stands in its answer."""

    def __init__(self, body: Any) -> None:
        super().__init__("the provider refused the request")
        self.body = body


def _loggable(error: UnabridgedError) -> str:
    """What a log may say of an error: its words, unless they may quote a message."""
    said = isinstance(error, WontFit | ArchiveError)
    return f"{type(error).__name__}: {error}" if said else type(error).__name__


def _as_it_came(request: Request) -> Compaction:
    return Compaction(request.messages, changed=False, tokens_before=0, tokens_after=0, thread=request.thread or "")
