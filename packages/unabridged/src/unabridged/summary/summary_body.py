"""The body of a summary turn: who writes it, and the ledger and people's own words where no model does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from unabridged.asking.ask import AskFailed
from unabridged.asking.asker import Asker
from unabridged.settings import Limits, Settings
from unabridged.summary.actions import find_tool_uses, is_todo_tool
from unabridged.summary.body_ledger import build_ledger, write_body
from unabridged.summary.brief import Brief, LivePrompt, Summariser, SummaryBody
from unabridged.text_tools import wrap_in_fence
from unabridged.tokens.models import find_model_info

PINS_HEADING = "## Pinned (verbatim, always holds)"


@dataclass(frozen=True, slots=True)
class SummaryWriter:
    """The model that is asked, if any; `own` says that it is the agent's own, so that its cached prompt can be used."""

    asker: Asker | None = None
    own: bool = False

    @property
    def has_model(self) -> bool:
        """Return whether a model writes: there is one, and it is known now."""
        return self.asker is not None and not self.asker.missing_model_reason

    @property
    def native_provider(self) -> str:
        """Return the provider that compacts by itself, and whose blocks may stand in a list; "" where none does."""
        return self.asker.native_provider if self.asker is not None else ""

    def build_summariser(
        self, settings: Settings, limits: Limits, live: LivePrompt | None, format_name: str, factor: float = 1.0
    ) -> Summariser | None:
        """Return how to ask now; None without a model, or where none is known.

        `factor` is what the agent's provider taught about the meter; it holds for the summariser if that is the agent.
        Raise `SummaryFailed` while a model that failed is left alone.
        """
        if self.asker is None or self.asker.missing_model_reason:
            return None
        if (seconds := self.asker.seconds_until_ready) > 0:
            raise AskFailed("cool-down", self.asker.describe_cool_down(seconds))
        # A prompt of the caller's own may not keep a model from going on with its task behind the live conversation.
        suffix = self.own and settings.instruction is None if settings.suffix is None else settings.suffix
        window = self.asker.window or limits.window
        return Summariser(
            window=int(window / factor) if suffix else window,
            name=self.asker.name,
            instruction=settings.instruction,
            max_input=settings.max_input,
            reserve=settings.summary_reserve,
            live=live if suffix and self.asker.can_continue_live(format_name) else None,
            learn_window=self.asker.learn_window,
        )

    def write_by_rule(self, brief: Brief) -> SummaryBody:
        """Return the body without a model; the receipt and the log say why where one was named and none is known."""
        written = write_by_rule(brief)
        if self.asker is None or not (why := self.asker.missing_model_reason):
            return written
        self.asker.warn_of_missing_model()
        return replace(written, notes=(f"model-free: {why}", *written.notes))


def build_summary_writer(asker: Asker | None, agent: str | None) -> SummaryWriter:
    """Return the writer with this model, which may be the agent's own."""
    if asker is None:
        return SummaryWriter()
    summariser, own = find_model_info(asker.name), find_model_info(agent)
    return SummaryWriter(asker, own=summariser is not None and own is not None and summariser.name == own.name)


def write_by_rule(brief: Brief, prose: str = "") -> SummaryBody:
    """Return the whole body without a model; `prose` says what was done, or where that stands."""
    stay, views = [turn for turn, _ in brief.following], [view for _, view in brief.following]
    later = [use.action for use in find_tool_uses(views, stay) if not is_todo_tool(use.action.tool)]
    options = {"later": later, "without": brief.without}
    return write_body(brief, build_ledger(brief), brief.limits.budget, prose=prose, **options)


def render_pins(pins: Sequence[str]) -> str:
    """Return the host's pinned strings as a part of the summary turn, each byte for byte; "" without any."""
    return "\n".join([PINS_HEADING, *(wrap_in_fence(pin) for pin in pins)]) if pins else ""
