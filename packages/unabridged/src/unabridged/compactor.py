"""The public surface: `Compactor` watches conversations, compacts them before they overflow, and gives back originals.

A call's way is in `runtime.calls`, a compaction's steps are in `compaction.pipeline`, and how records are found and
taken back is in `history`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, Unpack

from unabridged.archive.names import Name, check_name
from unabridged.archive.opening import announce, archive_of
from unabridged.archive.protocol import Archive, Record
from unabridged.archive_access import Access, unblocked
from unabridged.arguments import check_arguments, check_max_tokens
from unabridged.compaction.hooks import Hooks, check_origin, check_pin, check_redact
from unabridged.errors import SettingsError
from unabridged.events import Event, Undone
from unabridged.formats import Format, Message, detect, format_named
from unabridged.history import DEFAULT
from unabridged.measure.meter import Meter
from unabridged.measure.models import family_of, model_info, warn_of_assumed_window, window_for
from unabridged.messages import Origin
from unabridged.outcome import Compaction, Outlook
from unabridged.runtime.learned import Learned
from unabridged.settings import Limits, Settings, limits, warn_once

if TYPE_CHECKING:  # what only a compactor needs is loaded with the first one: importing the package stays cheap
    from unabridged.asking.asker import Asker

__all__ = ["Compaction", "Compactor", "Outlook"]

log = logging.getLogger("unabridged")

Unknown = Literal["raise", "keep"]
"""What `replay` and `undo` do about a summary turn that the archive does not know."""
ASKED = "asked for"
CLOSING = 2.0
"""Seconds that work in the background has to come to an end when nobody waits for its summary any more."""


class Options(TypedDict, total=False):
    """What a call may say besides its messages."""

    thread: Name | None
    """The name of the conversation; one without a name is known by what it says."""
    namespace: Name | None
    """Whose conversation it is, if not the compactor's own."""
    system: Any
    tools: Any
    max_tokens: int | None
    """The longest answer that the request asks for: at least so much of the window stays free."""


class Compactor(Access):
    """Keeps conversations inside the window and every original in the archive. One serves any number of threads.

    `model` writes the summaries: a callable (`str -> str` or `Ask -> Reply`, sync or async), a `"provider:name"`
    string, or None for model-free; `fallback` is asked when it fails. `model_window` and `fallback_window` are what
    these two take, in tokens, where their names do not tell (else what the agent does). `agent` names the model that
    reads the conversation: it gives the window, the tokenizer family, the prices and the rule for thinking blocks.
    `redact` is run over what a summary turn says and what search sees (`unabridged.archive.secrets.mask` finds keys and
    tokens). `state` is asked at each compaction, with the thread's name, for the host's own state: a text, or an
    awaitable.
    `namespace` says whose conversations these are; every method takes another one for its call, so that one compactor
    serves any number of tenants. No read or search crosses a namespace.
    """

    def __init__(
        self,
        model: Any = None,
        *,
        model_window: int | None = None,
        fallback: Any = None,
        fallback_window: int | None = None,
        agent: str | None = None,
        window: int | None = None,
        archive: str | Archive | None = None,
        settings: Settings | None = None,
        namespace: Name | None = None,
        format: str | Format | None = None,  # noqa: A002 - the word every part uses for it
        counter: Callable[[list[Message], Any], int] | None = None,
        exact: bool = False,
        origin: Callable[[Message], Origin | None] | None = None,
        on_event: Callable[[Event], object] | None = None,
        hooks: Hooks | None = None,
        redact: Callable[[str], str] | None = None,
        state: Callable[[str], Any] | None = None,
    ) -> None:
        check_arguments(locals())
        from unabridged.archive.transcripts import transcripts_for  # noqa: PLC0415 - importing the package stays cheap
        from unabridged.compaction.clear import prices_for  # noqa: PLC0415 - importing the package stays cheap
        from unabridged.compaction.state import Setup  # noqa: PLC0415 - likewise
        from unabridged.runtime.calls import Calls  # noqa: PLC0415 - likewise
        from unabridged.summarise.summary_body import writers_for  # noqa: PLC0415 - likewise

        self.settings = settings or Settings()
        known = window_for(agent, window)
        bounds = limits(self.settings, known)
        if known is None and not bounds.assumed:  # else the trigger says what the user wants
            warn_of_assumed_window(agent, bounds.window)
        info = model_info(agent) if window is None else None
        if info is not None and not info.exact:
            warn_of_assumed_window(agent, bounds.window, info)
        if self.settings.clear is not None and self.settings.clear.payback and not self.settings.recall:
            warn_once(
                "Clear(payback=True) clears tool results below the trigger, and the agent cannot read them again: bind "
                "the recall tools and set Settings(recall=True), or leave payback off"
            )
        self._format = format_named(format) if format is not None else None
        self._namespace = check_name(DEFAULT if namespace is None else namespace, "namespace")
        self._on_event = on_event
        self._owned = archive is None or isinstance(archive, str)
        self._archive = archive_of(archive, probe=not self.settings.off)
        self._asker: Asker | None = None
        if any(given is not None for given in (model, model_window, fallback, fallback_window)):
            from unabridged.asking.asker import asker_for  # noqa: PLC0415 - only callers with a model pay for it

            self._asker = asker_for(model, fallback, (model_window, fallback_window), self.settings)
        new_meter = partial(Meter, model=agent, counter=counter, exact=exact)
        meter = new_meter(family=family_of(agent))  # a tokenizer that is not installed is said now
        self._learned = Learned(self._archive, self._namespace, meter.key if agent else None)
        setup = Setup(
            settings=check_pin(self.settings),
            limits=bounds,
            named_limits=bounds,
            agent=agent,
            meter=meter,
            calibration=self._learned.calibration,
            archive=self._archive,
            archive_name=announce(self._archive, self._namespace),
            origin=check_origin(origin),
            emit=self._emit,
            hooks=hooks or Hooks(),
            writers=writers_for(self._asker, agent),
            prices=prices_for(self.settings.clear, model_info(agent)),
            redact=check_redact(redact),
            host_state=state,
            transcripts=transcripts_for(self.settings.transcript, self._archive),
        )
        apart = info is not None and info.answers_apart
        self._calls = Calls(setup, self._learned, self._format, new_meter, answers_apart=apart)

    @property
    def limits(self) -> Limits:
        """The settings in tokens for this window, as far as the provider has not taught otherwise."""
        return self._calls.limits

    def fit(
        self,
        messages: list[Message],
        *,
        thread: Name | None = None,
        namespace: Name | None = None,
        system: Any = None,
        tools: Any = None,
        max_tokens: int | None = None,
    ) -> Compaction:
        """The conversation as it should be sent now: the very same list, or a shorter one that is legal and fits.

        `max_tokens` is the longest answer that the request asks for, where that is more than the reserve.
        """
        scope, answer = self._scope(thread, namespace), check_max_tokens(max_tokens)
        return self._calls.drive(self._calls.run_leaving(answer, messages, scope, (system, tools)))

    async def afit(self, messages: list[Message], **options: Unpack[Options]) -> Compaction:
        """`fit` without blocking the event loop."""
        return await self._calls.adrive(self._run(messages, **options))

    def compact(
        self,
        messages: list[Message],
        *,
        thread: Name | None = None,
        namespace: Name | None = None,
        system: Any = None,
        tools: Any = None,
        max_tokens: int | None = None,
    ) -> Compaction | None:
        """Compact now, whatever the size; None when nothing is gained."""
        scope, answer = self._scope(thread, namespace), check_max_tokens(max_tokens)
        steps = self._calls.run_leaving(answer, messages, scope, (system, tools), force=True, why=ASKED)
        done = self._calls.drive(steps)
        return done if done.changed else None

    async def acompact(self, messages: list[Message], **options: Unpack[Options]) -> Compaction | None:
        """`compact` without blocking the event loop."""
        done = await self._calls.adrive(self._run(messages, **options, why=ASKED))
        return done if done.changed else None

    def overflowed(self, fitted: Compaction, error: object) -> Compaction:
        """The provider said "too long" all the same: its limit is learned, and this is to be sent instead, once.

        What says something else is raised as it is; a second refusal is `WontFit`, with the provider's as its cause.
        """
        return self._calls.drive(self._refused(fitted, error))

    async def aoverflowed(self, fitted: Compaction, error: object) -> Compaction:
        """`overflowed` without blocking the event loop."""
        return await self._calls.adrive(self._refused(fitted, error))

    def cancel(self) -> None:
        """Stop waiting for the summariser, in every thread, at once; late answers are ignored."""
        if self._asker is not None:
            self._asker.cancel()

    def plan(
        self,
        messages: list[Message],
        *,
        thread: Name | None = None,
        namespace: Name | None = None,
        system: Any = None,
        tools: Any = None,
        max_tokens: int | None = None,
    ) -> Outlook:
        """What `fit` would do with it. Nothing is done, stored or remembered."""
        scope, answer = self._scope(thread, namespace), check_max_tokens(max_tokens)
        return self._calls.plan(answer, messages, scope, (system, tools))

    def observe(self, fitted: Compaction, usage: Any) -> None:
        """Learn from what the provider reported for this request: the SDK's usage object, or the whole response."""
        self._calls.observe(fitted, usage)

    def replay(
        self,
        messages: list[Message],
        *,
        thread: Name | None = None,
        namespace: Name | None = None,
        unknown: Unknown = "raise",
    ) -> list[Message]:
        """The original conversation, exactly: every compaction that stands in the list is taken back.

        A summary turn that the archive does not know is an `ArchiveError`; with `unknown="keep"` it stays as it is.
        """
        return self._take_back(messages, thread, namespace, every=True, unknown=unknown)[0]

    def undo(
        self,
        messages: list[Message],
        *,
        thread: Name | None = None,
        namespace: Name | None = None,
        unknown: Unknown = "raise",
    ) -> list[Message]:
        """The list as it was before its newest compaction, and what came since; the same list if there is none.

        A summary turn that the archive does not know is an `ArchiveError`; with `unknown="keep"` it stays as it is.
        """
        from unabridged.history.replay import note_undone  # noqa: PLC0415 - importing the package stays cheap

        before, records = self._take_back(messages, thread, namespace, every=False, unknown=unknown)
        for record in records:
            note_undone(self._archive, record)
            self._archive.retire(record.scope, record.id)
            self._calls.threads.drop(record.scope)
            self._emit(Undone(record.scope.thread, record.id, namespace=record.scope.namespace))
        return before

    areplay, aundo = unblocked(replay), unblocked(undo)

    def close(self) -> None:
        """Let go of the summariser, and of the archive if this compactor opened it; what was learned is kept.

        A summary that is being made in the background is dropped, and made again when it is needed.
        """
        self._learned.keep()
        if self._asker is not None:
            self._asker.close()
            self._calls.background.wait_for_all(CLOSING)
        if self._owned:
            self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _run(
        self,
        messages: list[Message],
        *,
        thread: Name | None = None,
        namespace: Name | None = None,
        system: Any = None,
        tools: Any = None,
        max_tokens: int | None = None,
        why: str = "",
    ) -> Generator[Any, Any, Compaction]:
        scope, answer = self._scope(thread, namespace), check_max_tokens(max_tokens)
        return self._calls.run_leaving(answer, messages, scope, (system, tools), force=bool(why), why=why)

    def _refused(self, fitted: Compaction, error: object) -> Generator[Any, Any, Compaction]:
        return self._calls.refused(fitted, error, self._scope(fitted.thread or None, fitted.namespace))

    def _take_back(
        self, messages: list[Message], name: Name | None, namespace: Name | None, *, every: bool, unknown: Unknown
    ) -> tuple[list[Message], list[Record]]:
        from unabridged.history.replay import take_back  # noqa: PLC0415 - importing the package stays cheap

        if unknown not in {"raise", "keep"}:
            raise SettingsError(f'unknown must be "raise" or "keep"; got {unknown!r}')
        return take_back(
            self._archive,
            self._scope(name, namespace),
            messages,
            self._format or detect(messages),
            every=every,
            detected=self._format is None,
            strict=unknown == "raise",
        )

    def _emit(self, event: Event) -> None:
        """Tell the host; a host that raises is logged, never obeyed."""
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception:
            log.exception("on_event raised for %s", type(event).__name__)
