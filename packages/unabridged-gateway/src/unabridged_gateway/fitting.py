"""Conversations on their way to a provider: fitted before, learned from after. A request never fails for our sake."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from unabridged.adapters.kit import Engine, Newest, Request, Steps, arun, longest, tell_both
from unabridged.archive import Archive, open_archive
from unabridged.compactor import Compaction, Compactor
from unabridged.errors import ArchiveError, UnabridgedError, WontFit
from unabridged.events import Compacted, Event, Failed
from unabridged.formats import Format
from unabridged.settings import Limits, limits
from unabridged_gateway.handling import Handling
from unabridged_gateway.protocols import Protocol

if TYPE_CHECKING:
    from unabridged_gateway.bodies import JsonBody
    from unabridged_gateway.config import Config

log = logging.getLogger("unabridged.gateway")

_BY_REFERENCE = re.compile(
    rb'"[cdfipv][aimnort](?:age(?:_url)?|put_(?:image|file)|line_?[dD]ata|em_reference|cument|le(?:_?[dD]ata)?|deo|'
    rb'ompt|evious_response_id|nversation|ched_?[cC]ontent|mpaction(?:_trigger)?)"'
)
"""Names in a body beside which something may stand whose tokens its length does not tell: image, image_url,
input_image, input_file, inline_data, item_reference, document, file, file_data, video, prompt, previous_response_id,
conversation, cached_content, compaction, compaction_trigger. Their first two letters are looked at first: most names
end there, and this is done for every request. Within a text a quotation mark is escaped, so that no text has them."""

_ASKED = re.compile(rb'"max_?(?:completion_|output_|Output)?[tT]okens"\s{0,9}:\s{0,9}(\d{1,12})')
"""How long an answer a body asks for, whatever its protocol."""

_UNRECORDED = "the archive fails: compacted without a record"


class Fitted(NamedTuple):
    """What is sent."""

    request: Request
    """Whom to tell what came of it."""
    compaction: Compaction
    note: str = ""
    """Why it is not what it should be."""


class Overruled(NamedTuple):
    """A setting that the window of a model does not allow."""

    setting: Literal["trigger", "keep"]
    words: str


def overruled(known: Limits) -> Overruled | None:
    """Return what of the settings does not hold in this window; None where all does."""
    bounds = [condition["tokens"] for condition in known.trigger if "tokens" in condition]
    if bounds and not known.assumed and min(bounds) >= known.window:
        words = f"the trigger is {min(bounds):,} tokens and the window {known.window:,}"
        return Overruled("trigger", f"{words}: compacted at {known.budget:,}")
    return Overruled("keep", known.note) if known.note else None


class Engines:
    """An engine for each wire format and each way to handle conversations, on one archive."""

    def __init__(
        self,
        config: Config,
        summariser: Any = None,
        on_event: Any = None,
        on_overruled: Callable[[str, Overruled], object] = lambda *_: None,
    ) -> None:
        self._config = config
        self._settings = replace(config.settings(), transcript=False)  # its clients run elsewhere
        self._upstreams = config.upstreams
        self._window, self._model = config.window, summariser
        self.health = Health()
        self._on_event = tell_both(self.health.on_event, on_event)
        self.archive = self._open(config.archive)
        self._engines: dict[tuple[str, Handling], Engine] = {}
        self._on_overruled = on_overruled
        self._overruled: Newest[str, bool] = Newest()
        """Models of which it was said."""
        self._lock = threading.Lock()
        self._surely = self._length_that_fits()

    def fits_by_length(self, data: bytes) -> bool:
        """Whether the body can't be above the trigger, whatever it says: no text has more tokens than bytes."""
        if len(data) > self._surely or _BY_REFERENCE.search(data) is not None:
            return False
        asked = longest(int(found) for found in _ASKED.findall(data))
        return asked is None or len(data) + asked <= (self._window or 0)

    async def request(
        self, protocol: Protocol, path: str, body: JsonBody, messages: list[Any], thread: str | None, **more: Any
    ) -> Request:
        """The request as the engine sees it; `more`: whose it is, and whom to ask for a summary."""
        endpoint = protocol.endpoint
        tools = endpoint.schemas(body)
        agent = protocol.agent(path, body, tools)
        handling = self._config.handling(agent.name or "", more.get("namespace") or "")
        engine = self._engine(endpoint.format, protocol.family, handling)
        if not engine.is_ready_for(agent):
            await asyncio.to_thread(engine.compactor_for, agent)
        return engine.request(
            messages, agent, thread=thread, system=endpoint.prompt(body), tools=tools,
            max_tokens=endpoint.max_tokens(body), **more,
        )  # fmt: skip

    def overruled(self, request: Request, model: str) -> str:
        """Return what of the settings this model's window does not allow, "" for nothing; it is told once a model."""
        if self._window is not None:
            return ""  # then it was refused at the start
        found = overruled(request.compactor.limits)
        if found is None:
            return ""
        if model not in self._overruled:
            self._overruled[model] = True
            self._on_overruled(model, found)
        return found.words

    async def fit(self, request: Request) -> Fitted:
        """What should be sent: as it came where it can't be fitted, since the provider may take it."""
        try:
            return Fitted(request, await arun(request.fit()))
        except ArchiveError as error:
            self.health.tell(str(error))
            spare = self._without_archive(request)
            return await self._try(spare, spare.fit(), _UNRECORDED) or _as_it_came(request, _UNRECORDED)
        except UnabridgedError as error:
            log.warning("a request goes on as it came: %s", _loggable(error))
            return _as_it_came(request, f"{type(error).__name__}: {error}")
        except Exception as error:
            log.exception("a request goes on as it came")
            return _as_it_came(request, f"{type(error).__name__} while it was fitted")

    async def compact(self, request: Request) -> Compaction | None:
        """The conversation, compacted now, whatever its size; None where that can't be done."""
        done = await self.fit(replace(request, force=True))
        return None if done.note else done.compaction

    async def shorten(self, request: Request, fitted: Compaction, error: Any) -> Fitted | None:
        """What to send in place of a request that was refused as too long; None where nothing shorter can be made."""
        refusal = Refusal(error)
        try:
            return Fitted(request, await arun(request.shorten(fitted, refusal)))
        except Refusal:
            return None
        except ArchiveError as failed:
            self.health.tell(str(failed))
            spare = self._without_archive(request)
            return await self._try(spare, spare.shorten(fitted, refusal), _UNRECORDED)
        except UnabridgedError as wont:
            log.warning("a refused request can't be made shorter: %s", _loggable(wont))
            return None
        except Exception:
            log.exception("a refused request can't be made shorter")
            return None

    async def _try(self, request: Request, steps: Steps[Compaction], note: str) -> Fitted | None:
        """What comes of these steps without the archive; None where nothing does."""
        try:
            made = await arun(steps)
        except Refusal:
            return None
        except UnabridgedError as error:
            log.warning("a request goes on as it came: %s", _loggable(error))
            return None
        except Exception:
            log.exception("a request goes on as it came")
            return None
        # There is no such record, and no thread that a record named.
        return Fitted(request, replace(made, receipt=None, thread=request.thread or ""), note)

    def _without_archive(self, request: Request) -> Request:
        """The request, to be compacted by rule and recorded nowhere: its client has all of it, and sends it again.

        Each is compacted from the beginning. When the archive is back, what goes is recorded as ever.
        """
        handling = self._config.handling(request.values.model, request.namespace or "")
        compactor = Compactor(
            archive="memory:", agent=request.values.model or None, window=self._window, redact=handling.redactor,
            format=request.values.protocol.endpoint.format,
            settings=replace(handling.apply(self._settings), background=None),
        )  # fmt: skip
        return replace(request, compactor=compactor)

    def what_is_missing(self) -> str:
        """What keeps compactions from being recorded, in words; "" for nothing."""
        try:
            self.archive.remember("upstream", "ready", {})
        except UnabridgedError as error:
            self.health.tell(str(error))
            return str(error)
        self.health.tell("")
        return ""

    def close(self) -> None:
        """Let go of the archive."""
        for engine in self._engines.values():
            engine.close()
        self.archive.close()

    def _open(self, url: str | None) -> Archive:
        """The archive. A file that can't be used is an `ArchiveError` now; a server may come up later."""
        try:
            return open_archive(url)
        except ArchiveError as error:
            if url is None or not url.startswith("postgres"):
                raise
            self.health.tell(str(error))
            return open_archive(url, probe=False)

    def _engine(self, format_: Format, family: str, handling: Handling) -> Engine:
        """The engine for a format; what usage teaches is kept under the upstream's name, conversations under whose."""
        key = (format_.name, handling)
        with self._lock:
            if key not in self._engines:
                self._engines[key] = Engine(
                    format_, model=self._model, archive=self.archive, settings=handling.apply(self._settings),
                    window=self._window, redact=handling.redactor, on_event=self._on_event,
                    namespace=f"upstream {self._upstreams[family]}",
                )  # fmt: skip
            return self._engines[key]

    def _length_that_fits(self) -> int:
        """The most bytes that are below every trigger; 0 where the window is the model's, or messages are counted."""
        if self._window is None:
            return 0
        known = limits(self._settings, self._window)
        bounds = [condition.get("tokens", 0) for condition in known.trigger]
        return min([known.budget, *bounds])


class Health:
    """Whether the archive answers, as the log tells it: what is wrong once, and that it is over."""

    def __init__(self) -> None:
        self._said = ""

    def tell(self, wrong: str) -> None:
        """Say what is wrong with the archive, unless that was the last that was said; "" for nothing."""
        before, self._said = self._said, wrong
        if wrong and not before:
            log.warning(
                "the archive fails: %s Requests go on, and nothing is recorded; said once until it is well", wrong
            )
        elif before and not wrong:
            log.warning("the archive is well again")

    def on_event(self, event: Event) -> None:
        """A compaction that was recorded, or could not be, tells how the archive is."""
        if isinstance(event, Compacted):
            self.tell("")
        elif isinstance(event, Failed) and event.stage == "archive":
            self.tell(str(event.error))


class Refusal(Exception):  # noqa: N818 - what a provider says, not an error of ours
    """A provider's error as it stands in its answer."""

    def __init__(self, body: Any) -> None:
        super().__init__("the provider refused the request")
        self.body = body


def _loggable(error: UnabridgedError) -> str:
    """What a log may say of an error: its words, unless they may quote a message."""
    said = isinstance(error, WontFit | ArchiveError)
    return f"{type(error).__name__}: {error}" if said else type(error).__name__


def _as_it_came(request: Request, note: str) -> Fitted:
    same = Compaction(
        request.messages, changed=False, tokens_before=0, tokens_after=0, thread=request.thread or "",
        fixed=(request.system, request.tools), namespace=request.namespace,
    )  # fmt: skip
    return Fitted(request, same, note)
