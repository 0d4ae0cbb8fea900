"""The parts of the comparison. Each has `measure(bench)`, which gives plain values, and `section(result)`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Section:
    """A part's section of the page: its title, its text in Markdown, and its plots by file name."""

    title: str
    text: str
    plots: dict[str, str] = field(default_factory=dict)
    recorded: bool = True
    """Whether it was measured on the conversations that were given."""
