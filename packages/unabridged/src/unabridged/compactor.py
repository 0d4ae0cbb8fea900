"""The public surface: `Compactor` watches conversations, compacts them before they overflow, and returns originals.

The steps of a call are in `engine.call`, those of a compaction in `engine.pipeline`, and how records are found and
taken back is in `history`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, Unpack

from unabridged.archive.names import Name, check_name
from unabridged.archive.opening import log_archive_once, open_or_keep_archive
from unabridged.archive.protocol import DEFAULT_NAMESPACE, Archive, Record
from unabridged.archive_access import ArchiveAccess, make_async
from unabridged.arguments import check_arguments, check_max_tokens
from unabridged.engine.calibrations import StoredCalibration
from unabridged.engine.hooks import Hooks, wrap_origin, wrap_pin, wrap_redact
from unabridged.errors import SettingsError
from unabridged.events import Event, Undone
from unabridged.formats import Format, Message, detect_message_format, get_format
from unabridged.messages import Origin
from unabridged.results import Compaction, Outlook
from unabridged.settings import Limits, Settings, resolve_limits, warn_once
from unabridged.tokens.meter import Meter
from unabridged.tokens.models import choose_window, find_family, find_model_info, warn_of_assumed_window

if TYPE_CHECKING:  # what only a compactor needs is loaded with the first one: importing the package stays cheap
    from unabridged.asking.asker import Asker

__all__ = ["Compaction", "Compactor", "Outlook"]

log = logging.getLogger("unabridged")

Unknown = Literal["raise", "keep"]
"""What `replay` and `undo` do about a summary turn that the archive does not know."""
ASKED_REASON = "asked for"
"""The reason of a compaction that `compact` makes."""
CLOSE_TIMEOUT_SECONDS = 2.0
"""How long `close` waits for a summary that is being made in the background."""


class CallOptions(TypedDict, total=False):
    """Declare the keyword arguments of a call besides its messages."""

    thread: Name | None
    """The name of the conversation; one without a name is known by what it says."""
    namespace: Name | None
    """Whose conversation it is, if not the compactor's own."""
    system: Any
    tools: Any
    max_tokens: int | None
    """The longest answer that the request asks for: at least so much of the window stays free."""


class Compactor(ArchiveAccess):
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
        from unabridged.engine.call import CallRunner  # noqa: PLC0415 - likewise
        from unabridged.engine.clear import find_prices  # noqa: PLC0415 - importing the package stays cheap
        from unabridged.engine.state import HostFunctions, Setup  # noqa: PLC0415 - likewise
        from unabridged.summary.summary_body import build_summary_writer  # noqa: PLC0415 - likewise

        self.settings = settings or Settings()
        known_window = choose_window(agent, window)
        bounds = resolve_limits(self.settings, known_window)
        if known_window is None and not bounds.assumed:  # else the trigger says what the user wants
            warn_of_assumed_window(agent, bounds.window)
        info = find_model_info(agent) if window is None else None
        if info is not None and not info.exact:
            warn_of_assumed_window(agent, bounds.window, info)
        if self.settings.clear is not None and self.settings.clear.payback and not self.settings.recall:
            warn_once(
                "Clear(payback=True) clears tool results below the trigger, and the agent cannot read them again: bind "
                "the recall tools and set Settings(recall=True), or leave payback off"
            )
        self._format = _choose_format(format, model)
        self._namespace = check_name(DEFAULT_NAMESPACE if namespace is None else namespace, "namespace")
        self._owns_archive = archive is None or isinstance(archive, str)
        self._archive = open_or_keep_archive(archive, probe=not self.settings.off)
        self._asker: Asker | None = None
        if any(argument is not None for argument in (model, model_window, fallback, fallback_window)):
            from unabridged.asking.asker import Asker  # noqa: PLC0415 - only callers with a model pay for it

            wait = {"deadline": self.settings.deadline, "cool_down": self.settings.cool_down}
            windows = (model_window, fallback_window)
            self._asker = Asker(model, fallback=fallback, windows=windows, retries=self.settings.retries, **wait)
        new_meter = partial(Meter, model=agent, counter=counter, exact=exact)
        meter = new_meter(family=find_family(agent))  # raises now where the tokenizer is not installed
        self._calibration = StoredCalibration(self._archive, self._namespace, meter.key if agent else None)
        setup = Setup(
            settings=wrap_pin(self.settings),
            limits=bounds,
            named_limits=bounds,
            agent=agent,
            meter=meter,
            calibration=self._calibration.value,
            archive=self._archive,
            archive_name=log_archive_once(self._archive, self._namespace),
            host=HostFunctions(on_event, hooks or Hooks(), wrap_origin(origin), wrap_redact(redact), state),
            summary_writer=build_summary_writer(self._asker, agent),
            prices=find_prices(self.settings.clear, find_model_info(agent)),
            transcripts=transcripts_for(self.settings.transcript, self._archive),
        )
        apart = info is not None and info.answers_apart
        self._runner = CallRunner(setup, self._calibration, self._format, new_meter, answers_apart=apart)

    @property
    def limits(self) -> Limits:
        """Return the settings in tokens for this window, or for the one that the provider's refusals have taught."""
        return self._runner.limits

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
        """Return the conversation as it should be sent now: the very same list, or a shorter, legal one that fits.

        `max_tokens` is the longest answer that the request asks for, where that is more than the reserve.
        """
        scope, answer = self._scope(thread, namespace), check_max_tokens(max_tokens)
        return self._runner.run_steps(self._runner.run_with_answer_reserve(answer, messages, scope, (system, tools)))

    async def afit(self, messages: list[Message], **options: Unpack[CallOptions]) -> Compaction:
        """`fit` without blocking the event loop."""
        return await self._runner.arun_steps(self._make_call_steps(messages, **options))

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
        """Compact now, whatever the size; return None when nothing is gained."""
        scope, answer = self._scope(thread, namespace), check_max_tokens(max_tokens)
        request = (answer, messages, scope, (system, tools))
        done = self._runner.run_steps(self._runner.run_with_answer_reserve(*request, force=True, why=ASKED_REASON))
        return done if done.changed else None

    async def acompact(self, messages: list[Message], **options: Unpack[CallOptions]) -> Compaction | None:
        """`compact` without blocking the event loop."""
        done = await self._runner.arun_steps(self._make_call_steps(messages, **options, why=ASKED_REASON))
        return done if done.changed else None

    def overflowed(self, fitted: Compaction, error: object) -> Compaction:
        """Learn the limit of a provider that said "too long" all the same; return what to send instead, once.

        An error that says something else is raised as it is; a second refusal is `WontFit`, caused by the provider's.
        """
        return self._runner.run_steps(self._make_refusal_steps(fitted, error))

    async def aoverflowed(self, fitted: Compaction, error: object) -> Compaction:
        """`overflowed` without blocking the event loop."""
        return await self._runner.arun_steps(self._make_refusal_steps(fitted, error))

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
        """Return what `fit` would do. Nothing is done, stored or remembered."""
        scope, answer = self._scope(thread, namespace), check_max_tokens(max_tokens)
        return self._runner.preview(answer, messages, scope, (system, tools))

    def observe(self, fitted: Compaction, usage: Any) -> None:
        """Learn from what the provider reported for this request: the SDK's usage object, or the whole response."""
        self._runner.observe(fitted, usage)

    def replay(
        self,
        messages: list[Message],
        *,
        thread: Name | None = None,
        namespace: Name | None = None,
        unknown: Unknown = "raise",
    ) -> list[Message]:
        """Return the original conversation, exactly: every compaction in the list is undone.

        A summary turn that the archive does not know is an `ArchiveError`; with `unknown="keep"` it stays as it is.
        """
        return self._restore_messages(messages, thread, namespace, every=True, unknown=unknown)[0]

    def undo(
        self,
        messages: list[Message],
        *,
        thread: Name | None = None,
        namespace: Name | None = None,
        unknown: Unknown = "raise",
    ) -> list[Message]:
        """Return the list as it was before its newest compaction, and what came since; the same list if there is none.

        A summary turn that the archive does not know is an `ArchiveError`; with `unknown="keep"` it stays as it is.
        """
        from unabridged.history.replay import remember_undone  # noqa: PLC0415 - importing the package stays cheap

        before, records = self._restore_messages(messages, thread, namespace, every=False, unknown=unknown)
        for record in records:
            remember_undone(self._archive, record)
            self._archive.retire(record.scope, record.id)
            self._runner.caches.drop(record.scope)
            self._runner.emit(Undone(record.scope.thread, record.id, namespace=record.scope.namespace))
        return before

    areplay, aundo = make_async(replay), make_async(undo)

    def close(self) -> None:
        """Close the summariser, and the archive if this compactor opened it; what was learned is stored.

        A summary that is being made in the background is dropped, and made again when it is needed.
        """
        self._calibration.save()
        if self._asker is not None:
            self._asker.close()
            self._runner.background.wait_for_all(CLOSE_TIMEOUT_SECONDS)
        if self._owns_archive:
            self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _make_call_steps(
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
        return self._runner.run_with_answer_reserve(answer, messages, scope, (system, tools), force=bool(why), why=why)

    def _make_refusal_steps(self, fitted: Compaction, error: object) -> Generator[Any, Any, Compaction]:
        return self._runner.recover_from_refusal(fitted, error, self._scope(fitted.thread or None, fitted.namespace))

    def _restore_messages(
        self, messages: list[Message], name: Name | None, namespace: Name | None, *, every: bool, unknown: Unknown
    ) -> tuple[list[Message], list[Record]]:
        from unabridged.history.replay import undo_records  # noqa: PLC0415 - importing the package stays cheap

        if unknown not in {"raise", "keep"}:
            raise SettingsError(f'unknown must be "raise" or "keep"; got {unknown!r}')
        scope, format_ = self._scope(name, namespace), self._format or detect_message_format(messages)
        how = {"every": every, "detected": self._format is None, "strict": unknown == "raise"}
        return undo_records(self._archive, scope, messages, format_, **how)


def _choose_format(name: str | Format | None, model: Any) -> Format | None:
    """Return the format of the conversations; that of a provider which compacts by itself where none is named."""
    format_, native = get_format(name) if name is not None else None, getattr(model, "native_format", "")
    if native and format_ is not None and format_.name != native:
        raise SettingsError(
            f"this provider compacts {native} messages, and the format is {format_.name}: leave the format out, or "
            "name another summariser, model="
        )
    return get_format(native) if native else format_
