"""What a host may do around a compaction: look, change what the summariser is shown, rebuild the list.

    Compacting event -> prepare -> model -> finalize -> callback -> Compacted event

A hook that raises ends this compaction and nothing else: history stays, the error is reported, the run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from unabridged.formats.base import Message


class HookRaised(Exception):  # noqa: N818 - never leaves the engine
    """A hook of the host raised; `stage` is its name, the error its cause."""

    def __init__(self, stage: str, error: Exception) -> None:
        self.stage, self.error = stage, error
        self.reason = f"{stage} raised {type(error).__name__}"
        """What happened without what the error says, for logs and receipts."""
        super().__init__(f"{self.reason}: {error}")


@dataclass(frozen=True, slots=True)
class Hooks:
    """The host's own functions; each may be left out."""

    prepare: Callable[[list[Message]], Sequence[Message]] | None = None
    """Gets what is about to go, returns what the summariser is shown instead."""
    finalize: Callable[[list[Message], list[Message]], list[Message]] | None = None
    """Gets the conversation as it was and as it would be, returns the final one; it is checked like any other."""
    callback: Callable[[tuple[Message, ...], tuple[Message, ...]], object] | None = None
    """Looks at the conversation before and after."""

    def prepared(self, messages: list[Message]) -> list[Message]:
        """What the summariser is shown."""
        return list(_call("prepare", self.prepare, messages)) if self.prepare else messages

    def finalized(self, before: list[Message], after: list[Message]) -> list[Message]:
        """The final list."""
        return list(_call("finalize", self.finalize, list(before), list(after))) if self.finalize else after

    def seen(self, before: Sequence[Message], after: Sequence[Message]) -> None:
        """Show both lists, read-only."""
        if self.callback:
            _call("callback", self.callback, tuple(before), tuple(after))


def _call(stage: str, hook: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return hook(*arguments)
    except Exception as error:
        raise HookRaised(stage, error) from error
