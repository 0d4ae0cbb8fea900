"""Who writes the prose of summary turns: a model, asked rarely and never trusted blindly; or nobody."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unabridged.errors import SummaryFailed
from unabridged.measure.models import model_info
from unabridged.summarise.writing import Asked, Told, Written, with_model

if TYPE_CHECKING:
    from unabridged.asking.ask import Ask, Reply
    from unabridged.asking.asker import Asker
    from unabridged.compaction.state import Job
    from unabridged.settings import Limits, Settings


OTHERWISE = "While the request fits, history stays as it is; else the summary is model-free"


@dataclass(frozen=True, slots=True)
class Writers:
    """The model that is asked, if any; `own` says that it is the agent's own, so that its cached prompt can be used."""

    asker: Asker | None = None
    own: bool = False

    def asked(self, job: Job, settings: Settings, limits: Limits, kept: int, factor: float = 1.0) -> Asked | None:
        """How to ask now; None without a model. `SummaryFailed` while a model that failed is left alone.

        `factor` is what the agent's provider taught about the meter; it holds for the summariser if that is the agent.
        """
        if self.asker is None:
            return None
        if (seconds := self.asker.rest_left) > 0:
            raise SummaryFailed(self.asker.resting(seconds))
        info = model_info(self.asker.name)
        suffix = self.own if settings.suffix is None else settings.suffix
        live = None
        if suffix and self.asker.takes_live(job.format.name):
            from unabridged.summarise.chunking import Live  # noqa: PLC0415 - only callers with a model pay for it

            tail = sum(job.sizes[len(job.sizes) - kept :])
            live = Live(job.messages, job.estimate, job.system, job.tools, kept, tail)
        window = self.asker.window or limits.window
        return Asked(
            window=int(window / factor) if suffix else window,
            name=self.asker.name,
            instruction=settings.instruction,
            max_input=settings.max_input,
            live=live,
            price=(lambda i, o: (i * info.input + o * info.output) / 1e6)
            if info and info.input
            else lambda _i, _o: None,
        )

    def write(self, told: Told, asked: Asked) -> Generator[Ask, Reply, Written]:
        """The body with a model's prose; a model whose replies were no good is left alone for a while.

        A failure says what it cost, and is logged, once in a row.
        """
        from unabridged.asking.ask import AskFailed, Rejected  # noqa: PLC0415 - only callers with a model pay for it

        try:
            written = yield from with_model(told, asked)
        except SummaryFailed as failed:
            failed.cost = asked.priced(failed.cost)
            if self.asker is not None and isinstance(failed, Rejected):
                self.asker.rest()
            if self.asker is not None and not (isinstance(failed, AskFailed) and failed.why == "cancelled"):
                self.asker.warn(None, failed, OTHERWISE)
            raise
        if self.asker is not None:
            self.asker.well()
        return written


def writers_for(asker: Asker | None, agent: str | None) -> Writers:
    """The writers with this model, which may be the agent's own."""
    if asker is None:
        return Writers()
    known, own = model_info(asker.name), model_info(agent)
    return Writers(asker, own=known is not None and own is not None and known.name == own.name)
