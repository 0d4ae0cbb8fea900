"""What every compaction of one `Compactor` shares: settings, limits, the meter, the archive, the host's functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from unabridged.archive.protocol import Archive, Scope
from unabridged.compaction.hooks import Hooks
from unabridged.compaction.host_state import Provider
from unabridged.compaction.trigger import trigger_reason
from unabridged.events import Event
from unabridged.formats import Format, Message
from unabridged.formats.base import ThinkingRule
from unabridged.intent import NOTHING, Facts, with_origins
from unabridged.languages import labels
from unabridged.legal import Finding, check_views
from unabridged.legal.reasoning import reasoning_rule
from unabridged.measure.calibrate import Calibration
from unabridged.measure.meter import Meter
from unabridged.messages import Origin, View
from unabridged.settings import Limits, Prices, Settings
from unabridged.summarise.writing import Writers, render_pins


@dataclass(frozen=True, slots=True)
class Setup:
    """The dependencies of the pipeline, for one format."""

    settings: Settings
    limits: Limits
    named_limits: Limits
    """The limits as the settings have them, whatever a provider has taught since: records are found by these."""
    agent: str | None
    meter: Meter
    calibration: Calibration
    archive: Archive
    archive_name: str
    origin: Callable[[Message], Origin | None] | None
    emit: Callable[[Event], None]
    hooks: Hooks
    writers: Writers
    prices: Prices | None
    redact: Callable[[str], str]
    host_state: Provider | None = None

    def tokens(self, estimate: int) -> int:
        """An estimate in the provider's own tokens, as far as its reports have taught us."""
        return round(estimate * self.calibration.factor)

    def fits(self, estimate: int) -> bool:
        """Whether a request of this size is within the budget, as far as we can tell."""
        return self.tokens(estimate) <= self.limits.budget

    @property
    def limit(self) -> int:
        """What a request must stay within: the budget in the meter's tokens, less what the meter may be off by."""
        return int(self.limits.budget / self.calibration.factor / (1 + self.meter.error))

    @property
    def target(self) -> int:
        """What a request should stay below: the trigger, in the meter's tokens."""
        return min(int(self.limits.target / self.calibration.factor), self.limit)

    def trigger_reason(self, estimate: int, messages: int) -> str | None:
        """Why a request of this size is to be compacted; None below the trigger."""
        return trigger_reason(self.limits, self.tokens(estimate), messages, over=estimate > self.limit)

    def size(self, format_: Format, message: Message) -> int:
        """What the message takes, as the meter counts."""
        return self.meter.message(format_.read(message), message)

    def read(
        self, messages: Sequence[Message], format_: Format, known: Sequence[View] | None = None, facts: Facts = NOTHING
    ) -> list[View]:
        """The views of a list with every turn's origin: as the caller says, else by rule."""
        views = list(known) if known is not None else [format_.read(message) for message in messages]
        return with_origins(views, facts, [self.origin(message) for message in messages] if self.origin else ())

    def thinking(self, format_: Format) -> ThinkingRule:
        """What the agent demands of thinking in its history."""
        return reasoning_rule(self.agent, format_)

    def check(self, views: Sequence[View], format_: Format, *, pending: bool) -> list[Finding]:
        """What the provider would refuse of these views."""
        return check_views(views, model=self.agent, format=format_, pending=pending)

    def front(self, language: str) -> str:
        """What stands before the summary itself: how to read what went, where the agent can, and the host's pins."""
        hint = labels(language)["recall"] if self.settings.recall else ""
        return "\n\n".join(part for part in (hint, render_pins(self.settings.pins)) if part)

    def seed(self, scope: Scope, format_: Format) -> str:
        """What besides the messages shapes the result: another window or keep must not pick up this record."""
        bounds, settings = self.named_limits, self.settings
        shape = [*scope, format_.name, self.agent or "", bounds.window, bounds.budget]
        shape += [str(bounds.keep_tokens), str(bounds.keep_messages), bounds.summary]
        shape += [f"aim {bounds.aim}"] * (bounds.aim is not None)
        shape += [list(settings.pins)] * bool(settings.pins)
        shape += [f"without {sorted(settings.without)}"] * bool(settings.without)
        shape += ["recall"] * settings.recall
        return json.dumps(shape)
