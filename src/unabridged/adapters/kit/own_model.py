"""The agent's own model as the writer of summaries, for adapters that are given no other."""

from __future__ import annotations

from enum import Enum
from typing import Final


class _Default(Enum):
    AGENT_MODEL = "the agent's own model"

    def __repr__(self) -> str:
        return self.name


AGENT_MODEL: Final = _Default.AGENT_MODEL
"""The default of an adapter's `model`: the model that the request goes to. None is something else: no model at all."""
