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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from unabridged.adapters.kit.events import collect_event, tell_both
from unabridged.adapters.kit.newest import Newest
from unabridged.adapters.kit.own_model import AGENT_MODEL, AgentsModel, OwnModel, with_own_model
from unabridged.adapters.kit.steps import Steps, hosts, in_event_loop, method
from unabridged.archive import open_archive
from unabridged.archive.names import Name, check_name, optional_name
from unabridged.archive.protocol import Archive, Scope
from unabridged.compactor import Compaction, Compactor
from unabridged.errors import WontFit
from unabridged.formats import Format
from unabridged.history import DEFAULT
from unabridged.settings import FALLBACK_WINDOW, Settings

R = TypeVar("R")

_VALUES: ContextVar[Any] = ContextVar("unabridged_host_values", default=None)
_KEYWORDS = frozenset(inspect.signature(Compactor).parameters) - {"format"}


_MODELS = 256
"""Models with a compactor, the newest of them: names may come from anybody, and what one knew is in the archive."""


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
    may be `AGENT_MODEL`: then each request's own model writes the summaries. The archive is opened now, so that a wrong
    one is told now; in an event loop, which must not wait for a disk, when it is needed.
    """

    def __init__(
        self, format_: Format, *, archive: str | Archive | None = None, namespace: Name | None = None, **keywords: Any
    ) -> None:
        if unknown := sorted(set(keywords) - _KEYWORDS):
            raise TypeError(f"unexpected argument {unknown[0]!r}: choose from those of Compactor")
        self.format = format_
        self.namespace = check_name(DEFAULT if namespace is None else namespace, "namespace")
        self._keywords = {**keywords, "on_event": tell_both(collect_event, keywords.get("on_event"))}
        self._given = archive
        self._archive: Archive | None = None
        self._made: Newest[Agent, Compactor] = Newest(_MODELS)
        self._lock = threading.RLock()
        if not in_event_loop():
            self.start()

    def start(self) -> None:
        """Open the archive and make the compactor that is known so far: what is wrong with the keywords is told."""
        self.for_records()

    def for_records(self) -> Compactor:
        """A compactor for what needs no model's window, replay and undo: that none is known yet is no warning."""
        known = self._keywords.get("agent") or self._keywords.get("window")
        return self.compactor_for(Agent(window=None if known else FALLBACK_WINDOW))

    def make(self, agent: Agent) -> Compactor:
        """A compactor for this model, on `self.archive`."""
        keywords = dict(self._keywords)
        keywords["agent"] = keywords.get("agent") or agent.name
        keywords["window"] = keywords.get("window") or agent.window
        if keywords.get("model") is AGENT_MODEL:
            keywords["model"] = AgentsModel(keywords["agent"])
        if agent.recall:
            keywords["settings"] = replace(keywords.get("settings") or Settings(), recall=True)
        return Compactor(archive=self.archive, namespace=self.namespace, format=self.format, **keywords)

    @property
    def off(self) -> bool:
        """Whether nothing is to be changed."""
        settings = self._keywords.get("settings")
        return settings is not None and settings.off

    @property
    def archive(self) -> Archive:
        """Where everything goes."""
        with self._lock:
            if self._archive is None:
                given = self._given
                self._archive = open_archive(given) if given is None or isinstance(given, str) else given
            return self._archive

    @property
    def ready(self) -> bool:
        """Whether the next question needs no file to be opened."""
        return bool(self._made)

    def is_ready_for(self, agent: Agent) -> bool:
        """Whether a request to this model can be made without asking the archive."""
        return agent in self._made

    def compactor_for(self, agent: Agent) -> Compactor:
        """The compactor for this model."""
        with self._lock:
            found = self._made.get(agent)
        if found is None:  # without the lock: what is learned of a model is read from the archive
            found = self.make(agent)
        with self._lock:
            self._made[agent] = found = self._made.get(agent) or found
            return found

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
        """One request to this model, before it is sent; `values` is what the host's state function is asked about.

        `own` asks this very model, for an engine whose `model` is `AGENT_MODEL`; `max_tokens` is the longest answer
        that the request asks for.
        """
        name, space = optional_name(thread), optional_name(namespace, "namespace")
        return Request(
            self.compactor_for(agent), messages, name, system, tools, namespace=space, values=values, own=own,
            max_tokens=max_tokens,
        )  # fmt: skip

    def scope(self, thread: Name | None, namespace: Name | None = None) -> Scope | None:
        """Where a conversation of this name is kept; None for one without a name."""
        space = optional_name(namespace, "namespace") or self.namespace
        return None if thread is None else Scope(space, check_name(thread))

    def close(self) -> None:
        """Let go of the archive, if it was opened here."""
        for compactor in self._made.values():
            compactor.close()
        if self._archive is not None and self._archive is not self._given:
            self._archive.close()


class Exchanged(NamedTuple, Generic[R]):
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
    """Is told what is sent, each time."""
    own: OwnModel | None = None
    """Asks the model that the request goes to."""
    max_tokens: int | None = None
    """The longest answer that it asks for."""

    @property
    def named(self) -> dict[str, Any]:
        """What goes to the compactor beside the messages."""
        named = {"thread": self.thread, "namespace": self.namespace, "system": self.system, "tools": self.tools}
        return named if self.max_tokens is None else {**named, "max_tokens": self.max_tokens}

    def fit(self) -> Steps[Compaction]:
        """The messages as they should be sent."""
        with about(self.values), with_own_model(self.own):
            done: Compaction | None = yield method(
                self.compactor, "compact" if self.force else "fit", self.messages, **self.named
            )
        same = Compaction(self.messages, changed=False, tokens_before=0, tokens_after=0, thread=self.thread or "")
        return self._told(done or same)

    def shorten(self, fitted: Compaction, error: Any) -> Steps[Compaction]:
        """What to send in place of a request that was refused as too long; `error` itself where nothing is shorter.

        An error that says something else is raised as it is.
        """
        try:
            with about(self.values), with_own_model(self.own):
                again: Compaction = yield method(self.compactor, "overflowed", fitted, error)
        except WontFit as wont:
            raise wont from (error if isinstance(error, BaseException) else None)
        if not again.changed and isinstance(error, BaseException):
            raise error
        return self._told(again)

    def _told(self, fitted: Compaction) -> Compaction:
        if self.on_fitted is not None:
            self.on_fitted(fitted)
        return fitted

    def observe(self, fitted: Compaction, report: Any) -> None:
        """Learn from what the response reports: a usage object, or the response that holds one."""
        if report is not None:
            self.compactor.observe(fitted, report)

    def exchange(self, send: Callable[[list[Any]], Any]) -> Steps[Exchanged[Any]]:
        """Send what fits; when the provider says it is too long all the same, once more, shorter."""
        fitted = yield from self.fit()
        try:
            response = yield hosts(send, fitted.messages)
        except Exception as error:  # noqa: BLE001 - what is no overflow is raised again
            fitted = yield from self.shorten(fitted, error)
            response = yield hosts(send, fitted.messages)
        self.observe(fitted, response)
        return Exchanged(fitted, response)


@contextmanager
def about(values: Any) -> Iterator[None]:
    """Within, this is the state of the host's that a compaction tells of."""
    token = _VALUES.set(values)
    try:
        yield
    finally:
        _VALUES.reset(token)


def current_values() -> Any:
    """The state of the host's that a compaction tells of; None outside of one."""
    return _VALUES.get()
