"""Fit conversations on their way to a provider; where that fails, the request goes on as it came."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from unabridged.adapters.kit import BoundedMapping, Engine, Request, Steps, arun, combine_listeners
from unabridged.archive import Archive, open_archive
from unabridged.compactor import Compaction, Compactor
from unabridged.errors import ArchiveError, UnabridgedError, WontFit
from unabridged.events import Compacted, Event, Failed, wants_every_call
from unabridged.formats import Format
from unabridged.settings import Limits, resolve_limits
from unabridged_gateway.body_scan import BodyScanner, Connection
from unabridged_gateway.protocols import Protocol
from unabridged_gateway.refusals import ProviderRefusal
from unabridged_gateway.summariser import ClientModel

if TYPE_CHECKING:
    from unabridged_gateway.config import Config, Handling
    from unabridged_gateway.json_body import JsonBody

log = logging.getLogger("unabridged.gateway")


class LengthLimits(NamedTuple):
    """What a body's length is compared with."""

    fitting_bytes: int
    """The most bytes below every trigger; 0 where messages are counted."""
    window: int


class FittedRequest(NamedTuple):
    """A request with the conversation that is sent."""

    request: Request
    """Takes the report of what came of it."""
    compaction: Compaction
    note: str = ""
    """Why it is not what it should be."""


class OverruledSetting(NamedTuple):
    """A setting that the window of a model does not allow."""

    setting: Literal["trigger", "keep"]
    words: str


class Engines:
    """An engine for each wire format and each way to handle conversations, on one archive."""

    def __init__(
        self,
        config: Config,
        on_event: Any = None,
        on_overruled: Callable[[str, OverruledSetting], object] = lambda *_: None,
    ) -> None:
        self._config = config.compaction
        self._settings = replace(self._config.settings, transcript=False)  # its clients run elsewhere
        self._urls = config.upstreams.urls
        self._summarisers = {name: ClientModel(config.upstreams, name) for name in ("upstream", "native")}
        self.health = ArchiveHealth()
        self._on_event = combine_listeners(self.health.on_event, on_event)
        self.archive = self._open_archive(self._config.archive)
        self._engines: dict[tuple[str, Handling], Engine] = {}
        self._on_overruled = on_overruled
        self._models_warned_of: BoundedMapping[str, bool] = BoundedMapping()
        self._lock = threading.Lock()
        self._scanner = BodyScanner()
        window = self._config.window
        self._named_limits = None if window is None else _build_length_limits(resolve_limits(self._settings, window))
        self._most_fitting_bytes = 0 if self._named_limits is None else self._named_limits.fitting_bytes
        """For any model that was asked so far."""
        self._compactors: BoundedMapping[tuple[str, str], Compactor] = BoundedMapping(1_024)
        """The newest of each tenant and model, which knows the model's window. Only the event loop uses it."""

    def fits_by_length(
        self, data: bytes, tenant: str, model_in_path: str | None = None, connection: Connection | None = None
    ) -> bool:
        """Return whether the body can't be above the trigger, whatever it says: no text has more tokens than bytes.

        The first request to a model says no where the window is the model's, and so does every one that may name two.
        """
        if wants_every_call(self._on_event):  # somebody follows the sizes, live
            return False
        if len(data) > self._most_fitting_bytes or (found := self._scanner.scan(data, connection)) is None:
            return False
        models = found.models if model_in_path is None else (*found.models, model_in_path)
        limits = self._named_limits or self._find_length_limits(tenant, models)
        if limits is None or len(data) > limits.fitting_bytes:
            return False
        return not found.answer_tokens or len(data) + found.answer_tokens <= limits.window

    async def request(
        self, protocol: Protocol, path: str, body: JsonBody, messages: list[Any], thread: str | None, **more: Any
    ) -> Request:
        """Return the request as the engine sees it; `more`: whose it is, and whom to ask for a summary."""
        endpoint = protocol.endpoint
        tools = endpoint.read_schemas(body)
        agent = protocol.agent(path, body, tools)
        handling = self._config.find_handling(agent.name or "", more.get("namespace") or "")
        engine = self._find_engine(endpoint.format, protocol.family, handling)
        if not engine.is_ready_for(agent):
            await asyncio.to_thread(engine.compactor_for, agent)
        request = engine.request(
            messages, agent, thread=thread, system=endpoint.read_system_prompt(body), tools=tools,
            max_tokens=endpoint.max_tokens(body), **more,
        )  # fmt: skip
        if self._named_limits is None and agent.name:
            self._remember_compactor(more.get("namespace") or "", agent.name, request.compactor)
        return request

    def find_overruled_setting(self, request: Request, model: str) -> str:
        """Return which setting this model's window rules out, "" for none; report it once for each model."""
        if self._config.window is not None:
            return ""  # then it was refused at the start
        known = request.compactor.limits
        bounds = [condition["tokens"] for condition in known.trigger if "tokens" in condition]
        overruled = OverruledSetting("keep", known.note)
        if bounds and not known.assumed and min(bounds) >= known.window:
            words = f"the trigger is {min(bounds):,} tokens and the window {known.window:,}"
            overruled = OverruledSetting("trigger", f"{words}: compacted at {known.budget:,}")
        if overruled.words and model not in self._models_warned_of:
            self._models_warned_of[model] = True
            self._on_overruled(model, overruled)
        return overruled.words

    async def fit(self, request: Request) -> FittedRequest:
        """Return what should be sent: as it came where it can't be fitted, since the provider may take it."""
        done = await self._run_or_explain(request, Request.fit, "a request goes on as it came")
        if not isinstance(done, str):
            return done
        same = Compaction(
            request.messages, changed=False, tokens_before=0, tokens_after=0, thread=request.thread or "",
            fixed=(request.system, request.tools), namespace=request.namespace,
        )  # fmt: skip
        return FittedRequest(request, same, done)

    async def compact(self, request: Request) -> Compaction | None:
        """Return the conversation compacted now, whatever its size; None where that can't be done."""
        done = await self.fit(replace(request, force=True))
        return None if done.note else done.compaction

    async def shorten(self, request: Request, fitted: Compaction, error: Any) -> FittedRequest | None:
        """Return what to send in place of a request refused as too long; None where nothing shorter can be made."""
        refusal = ProviderRefusal(error)
        failure = "a refused request can't be made shorter"
        done = await self._run_or_explain(request, lambda request: request.shorten(fitted, refusal), failure)
        return None if isinstance(done, str) else done

    async def _run_or_explain(
        self, request: Request, begin: Callable[[Request], Steps[Compaction]], failure: str
    ) -> FittedRequest | str:
        """Run these steps, without the archive if it fails; return the fitted request, or why there is none."""
        note = ""
        try:
            try:
                compaction = await arun(begin(request))
            except ArchiveError as error:
                self.health.report(str(error))
                note, request = "the archive fails: compacted without a record", self._without_archive(request)
                # There is no such record, and no thread that a record named.
                compaction = replace(await arun(begin(request)), receipt=None, thread=request.thread or "")
        except ProviderRefusal:
            return note
        except UnabridgedError as error:
            log.warning("%s: %s", failure, _describe_for_log(error))
            return note or f"{type(error).__name__}: {error}"
        except Exception as error:
            log.exception(failure)
            return note or f"{type(error).__name__} while it was fitted"
        return FittedRequest(request, compaction, note)

    def _without_archive(self, request: Request) -> Request:
        """Return the request with a compactor that records nothing, for use while the archive fails.

        The client keeps the conversation and sends it again, so each request is compacted from the beginning.
        """
        handling = self._config.find_handling(request.values.model, request.namespace or "")
        compactor = Compactor(
            archive="memory:", agent=request.values.model or None, window=self._config.window, redact=handling.redactor,
            format=request.values.protocol.endpoint.format,
            settings=replace(handling.apply(self._settings), background=None),
        )  # fmt: skip
        return replace(request, compactor=compactor)

    def probe_archive(self) -> str:
        """Return what keeps compactions from being recorded, in words; "" for nothing."""
        try:
            self.archive.remember("upstream", "ready", {})
        except UnabridgedError as error:
            self.health.report(str(error))
            return str(error)
        self.health.report("")
        return ""

    def close(self) -> None:
        """Close the engines and the archive."""
        for engine in self._engines.values():
            engine.close()
        self.archive.close()

    def _open_archive(self, url: str | None) -> Archive:
        """Return the archive. A file that can't be used is an `ArchiveError` now; a server may come up later."""
        try:
            return open_archive(url)
        except ArchiveError as error:
            if url is None or not url.startswith("postgres"):
                raise
            self.health.report(str(error))
            return open_archive(url, probe=False)

    def _find_engine(self, format_: Format, family: str, handling: Handling) -> Engine:
        """Return the engine for a format; what usage teaches is kept under the name of the upstream."""
        key = (format_.name, handling)
        with self._lock:
            if key not in self._engines:
                name = handling.summariser
                model = None if name == "none" else self._summarisers.get(name, name)
                self._engines[key] = Engine(
                    format_, model=model, archive=self.archive, settings=handling.apply(self._settings),
                    window=self._config.window, redact=handling.redactor, on_event=self._on_event,
                    namespace=f"upstream {self._urls[family]}",
                )  # fmt: skip
            return self._engines[key]

    def _remember_compactor(self, tenant: str, model: str, compactor: Compactor) -> None:
        """Remember which compactor knows this model's window."""
        self._compactors[tenant, model] = compactor
        self._most_fitting_bytes = max(self._most_fitting_bytes, _build_length_limits(compactor.limits).fitting_bytes)

    def _find_length_limits(self, tenant: str, models: Sequence[str]) -> LengthLimits | None:
        """Return the limits of the model that is named; None for one not asked before, or with an overruled setting."""
        model = models[0] if len(models) == 1 else ""
        compactor = None if model in self._models_warned_of else self._compactors.get((tenant, model))
        return None if compactor is None else _build_length_limits(compactor.limits)


class ArchiveHealth:
    """Whether the archive answers: what is wrong is logged once, and so is that it is over."""

    def __init__(self) -> None:
        self._problem = ""

    def report(self, problem: str) -> None:
        """Log what is wrong with the archive, unless something was before; "" for nothing."""
        before, self._problem = self._problem, problem
        if problem and not before:
            log.warning(
                "the archive fails: %s Requests go on, and nothing is recorded; said once until it is well", problem
            )
        elif before and not problem:
            log.warning("the archive is well again")

    def on_event(self, event: Event) -> None:
        """Learn how the archive is from a compaction that was recorded, or could not be."""
        if isinstance(event, Compacted):
            self.report("")
        elif isinstance(event, Failed) and event.stage == "archive":
            self.report(str(event.error))


def _build_length_limits(limits: Limits) -> LengthLimits:
    bounds = [condition.get("tokens", 0) for condition in limits.trigger]
    return LengthLimits(min([limits.budget, *bounds]), limits.window)


def _describe_for_log(error: UnabridgedError) -> str:
    """Return what of an error may be logged: its type, and its text unless that may quote a message."""
    may_show = isinstance(error, WontFit | ArchiveError)
    return f"{type(error).__name__}: {error}" if may_show else type(error).__name__
