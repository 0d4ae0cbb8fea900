"""The engine as an adapter uses it: one archive, one compactor for each model of the framework's, one `Request` a call.

    engine = Engine(FORMAT, archive="sqlite:///agent.db", window=200_000)
    request = engine.request(messages, Agent(model.name), thread="t1", system=system, tools=tools)
    sent = run(request.exchange(lambda messages: client.create(messages=messages)))     # or: await arun(...)

`exchange` fits what is sent, learns from the usage that the response reports, and sends once more, shorter, when the
provider says that it is too long. For streams there is `kit.streams`.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, NoReturn, TypeVar

from unabridged.adapters.kit.applied_records import apply_recorded_compactions
from unabridged.adapters.kit.bounded_mapping import BoundedMapping
from unabridged.adapters.kit.context import set_temporarily
from unabridged.adapters.kit.events import add_collected_event
from unabridged.adapters.kit.own_model import AGENT_MODEL, AgentsModel, OwnModel, set_own_model
from unabridged.adapters.kit.sync_async import Steps, call_host, call_in_thread, call_method, is_in_event_loop
from unabridged.archive import open_archive
from unabridged.archive.names import Name, check_name, optional_name
from unabridged.archive.protocol import DEFAULT_NAMESPACE, Archive, Scope
from unabridged.compactor import Compaction, Compactor
from unabridged.errors import WontFit
from unabridged.events import combine_listeners
from unabridged.formats import Format
from unabridged.settings import FALLBACK_WINDOW, Settings

R = TypeVar("R")

_host_values: ContextVar[Any] = ContextVar("unabridged_host_values", default=None)
_COMPACTOR_KEYWORDS = frozenset(inspect.signature(Compactor).parameters) - {"format"}
_MAX_COMPACTORS = 256
"""Models with a compactor, the newest of them: names may come from anybody, and the archive has what one learned."""


class Agent(NamedTuple):
    """The model that reads a conversation, as far as the framework knows it, and whether it has the recall tools.

    Its name gives window, prices, tokenizer and the rule for thinking blocks, unless the framework knows the window.
    """

    name: str | None = None
    window: int | None = None
    recall: bool = False


class Engine:
    """A compactor for each model, made when first needed; one archive for all.

    Takes the keywords of `Compactor`; its `agent` and `window` beat what the framework says of its model, and `model`
    may be `AGENT_MODEL`: then each request's own model writes the summaries. `host_state` gets the `values` of the
    request that is compacted, where it has any, and says in a text what a summary turn should show of them. The archive
    is opened now, so that a wrong one is refused now; in an event loop, which must not wait for a disk, when needed.
    """

    agents_model: ClassVar[type[AgentsModel]] = AgentsModel
    """The class of the summariser that `AGENT_MODEL` stands for."""

    def __init__(
        self,
        format_: Format,
        *,
        archive: str | Archive | None = None,
        namespace: Name | None = None,
        host_state: Callable[[Any], Any] | None = None,
        **keywords: Any,
    ) -> None:
        if host_state is not None:
            keywords["state"] = lambda _: None if (values := current_host_values()) is None else host_state(values)
        if unknown := sorted(set(keywords) - _COMPACTOR_KEYWORDS):
            raise TypeError(f"unexpected argument {unknown[0]!r}: choose from those of Compactor")
        self.format = format_
        self.namespace = check_name(DEFAULT_NAMESPACE if namespace is None else namespace, "namespace")
        self._keywords = {**keywords, "on_event": combine_listeners(add_collected_event, keywords.get("on_event"))}
        self._archive_argument = archive
        self._archive: Archive | None = None
        self._compactors: BoundedMapping[Agent, Compactor] = BoundedMapping(_MAX_COMPACTORS)
        self._lock = threading.RLock()
        if not is_in_event_loop():
            self.start()

    def start(self) -> None:
        """Open the archive and make the first compactor, which raises what is wrong with the keywords."""
        self.compactor_for_records()

    def compactor_for_records(self) -> Compactor:
        """Return a compactor for replay and undo, which need no model's window: not knowing one is no warning."""
        is_named = self._keywords.get("agent") or self._keywords.get("window")
        return self.compactor_for(Agent(window=None if is_named else FALLBACK_WINDOW))

    def make_compactor(self, agent: Agent) -> Compactor:
        """Return a new compactor for this model, on `self.archive`."""
        keywords = {**self._keywords, "agent": self._keywords.get("agent") or agent.name}
        keywords["window"] = keywords.get("window") or agent.window
        keywords["settings"] = self.settings_for(agent)
        if keywords.get("model") is AGENT_MODEL:
            keywords["model"] = self.agents_model(keywords["agent"])
        return Compactor(archive=self.archive, namespace=self.namespace, format=self.format, **keywords)

    def settings_for(self, agent: Agent) -> Settings | None:
        """Return the settings for this model; None for the defaults."""
        settings: Settings | None = self._keywords.get("settings")
        return replace(settings or Settings(), recall=True) if agent.recall else settings

    @property
    def is_off(self) -> bool:
        """Return whether compaction is turned off: lists stay as they are."""
        settings = self._keywords.get("settings")
        return settings is not None and settings.off

    @property
    def archive(self) -> Archive:
        """Return the archive of all compactors, opened when first needed."""
        with self._lock:
            if self._archive is None:
                archive = self._archive_argument
                self._archive = open_archive(archive) if archive is None or isinstance(archive, str) else archive
            return self._archive

    @property
    def is_ready(self) -> bool:
        """Return whether the next request needs no file to be opened."""
        return bool(self._compactors)

    def is_ready_for(self, agent: Agent) -> bool:
        """Return whether a request to this model can be made without reading the archive."""
        return agent in self._compactors

    def compactor_for(self, agent: Agent) -> Compactor:
        """Return the compactor for this model."""
        with self._lock:
            compactor = self._compactors.get(agent)
        if compactor is None:  # without the lock: what was learned of a model is read from the archive
            compactor = self.make_compactor(agent)
        with self._lock:
            self._compactors[agent] = compactor = self._compactors.get(agent) or compactor
            return compactor

    def request(
        self,
        messages: list[Any],
        agent: Agent,
        *,
        thread: Name | None = None,
        namespace: Name | None = None,
        system: Any = None,
        tools: Any = None,
        values: Any = None,
        own: OwnModel | None = None,
        max_tokens: int | None = None,
    ) -> Request:
        """Return one request to this model, before it is sent; `values` goes to the host's state function.

        `own` asks this very model, for an engine whose `model` is `AGENT_MODEL`; `max_tokens` is the longest answer
        that the request asks for.
        """
        name, space = optional_name(thread), optional_name(namespace, "namespace")
        more: dict[str, Any] = {"namespace": space, "values": values, "own": own, "max_tokens": max_tokens}
        return Request(self.compactor_for(agent), messages, name, system, tools, **more)

    def scope(self, thread: Name | None, namespace: Name | None = None) -> Scope | None:
        """Return where a conversation of this name is kept; None for one without a name."""
        space = optional_name(namespace, "namespace") or self.namespace
        return None if thread is None else Scope(space, check_name(thread))

    def restore(self, method: str, messages: list[Any], thread: Name) -> Steps[list[Any]]:
        """Return the original conversation (`replay`), or what is sent without its newest compaction (`undo`).

        For hosts that keep their list whole: `messages` are that list, or what a model was sent and what came since.
        """
        scope = self.scope(thread)
        if method == "undo" and scope is not None:
            messages = yield call_in_thread(apply_recorded_compactions, self.archive, scope, messages, self.format)
        compactor = yield call_in_thread(self.compactor_for_records)
        earlier: list[Any] = yield call_method(compactor, method, messages, thread=thread)
        return earlier

    def close(self) -> None:
        """Close the compactors, and the archive if it was opened here."""
        for compactor in self._compactors.values():
            compactor.close()
        if self._archive is not None and self._archive is not self._archive_argument:
            self._archive.close()


class PinMethods:
    """Gives an adapter `pin`, `unpin` and `pins`, which go to its `engine`."""

    engine: Engine

    def pin(self, text: str, *, thread: Name, namespace: Name | None = None) -> None:
        """Keep a text in every summary turn of the thread, byte for byte, from the next compaction on."""
        self.engine.compactor_for_records().pin(text, thread=thread, namespace=namespace)

    def unpin(self, text: str, *, thread: Name, namespace: Name | None = None) -> bool:
        """Take a pin away from the next compaction on; return whether there was one with this text."""
        return self.engine.compactor_for_records().unpin(text, thread=thread, namespace=namespace)

    def pins(self, *, thread: Name, namespace: Name | None = None) -> Sequence[str]:
        """Return the texts that are pinned to the thread, oldest first."""
        return self.engine.compactor_for_records().pins(thread=thread, namespace=namespace)


class ExchangeResult(NamedTuple, Generic[R]):
    """A request as it was sent, and its response."""

    fitted: Compaction
    response: R


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a model: these messages of this thread, as they should be sent; `force` compacts anyway."""

    compactor: Compactor
    messages: list[Any]
    thread: str | None = None
    system: Any = None
    tools: Any = None
    force: bool = False
    values: Any = None
    namespace: str | None = None
    on_fitted: Callable[[Compaction], object] | None = None
    """Called with each compaction that is sent."""
    own: OwnModel | None = None
    """Asks the model that the request goes to."""
    max_tokens: int | None = None
    """The longest answer that it asks for."""
    as_host_error: Callable[[WontFit], Exception] | None = None
    """Makes the host's own error of one that says that nothing fits; its `__cause__` is what the provider said."""

    @property
    def compactor_options(self) -> dict[str, Any]:
        """Return what goes to the compactor beside the messages."""
        named = {"thread": self.thread, "namespace": self.namespace, "system": self.system, "tools": self.tools}
        return named if self.max_tokens is None else {**named, "max_tokens": self.max_tokens}

    def fit(self) -> Steps[Compaction]:
        """Return the messages as they should be sent."""
        try:
            with set_host_values(self.values), set_own_model(self.own):
                done: Compaction | None = yield call_method(
                    self.compactor, "compact" if self.force else "fit", self.messages, **self.compactor_options
                )
        except WontFit as wont:
            self._raise_wont_fit(wont, wont.__cause__)
        same = Compaction(self.messages, changed=False, tokens_before=0, tokens_after=0, thread=self.thread or "")
        return self._notify_fitted(done or same)

    def shorten(self, fitted: Compaction, error: Any) -> Steps[Compaction]:
        """Return what to send in place of a request that was refused as too long.

        An `error` that says something else is raised as it is, and so is one after which nothing can be made shorter.
        """
        refusal = error if isinstance(error, BaseException) else None
        try:
            with set_host_values(self.values), set_own_model(self.own):
                shorter: Compaction = yield call_method(self.compactor, "overflowed", fitted, error)
        except WontFit as wont:
            self._raise_wont_fit(wont, refusal)
        if not shorter.changed and refusal is not None:
            raise refusal
        return self._notify_fitted(shorter)

    def _raise_wont_fit(self, wont: WontFit, cause: BaseException | None) -> NoReturn:
        wont.__cause__ = cause
        error = wont if self.as_host_error is None else self.as_host_error(wont)
        raise error from error.__cause__

    def _notify_fitted(self, fitted: Compaction) -> Compaction:
        if self.on_fitted is not None:
            self.on_fitted(fitted)
        return fitted

    def observe(self, fitted: Compaction, report: Any) -> None:
        """Learn from what the response reports: a usage object, or the response that holds one."""
        if report is not None:
            self.compactor.observe(fitted, report)

    def exchange(self, send: Callable[[list[Any]], Any]) -> Steps[ExchangeResult[Any]]:
        """Send what fits and return it with the response; once more, shorter, when the provider says it is too long."""
        fitted = yield from self.fit()
        try:
            response = yield call_host(send, fitted.messages)
        except Exception as error:  # noqa: BLE001 - what is no overflow is raised again
            fitted = yield from self.shorten(fitted, error)
            response = yield call_host(send, fitted.messages)
        self.observe(fitted, response)
        return ExchangeResult(fitted, response)


def set_host_values(values: Any) -> AbstractContextManager[Any]:
    """Set the host's values that a compaction inside the `with` block may show in its summary."""
    return set_temporarily(_host_values, values)


def current_host_values() -> Any:
    """Return the host's state that a compaction may show; None outside of one."""
    return _host_values.get()


def with_pins(settings: Any, must_stay: Callable[[Any], bool]) -> Any:
    """Return the settings, with messages that must stay pinned too; what are no settings as it is, to be refused."""
    settings = Settings() if settings is None else settings
    if not isinstance(settings, Settings):
        return settings
    own = settings.pin
    return replace(settings, pin=lambda message: must_stay(message) or (own is not None and own(message)))
