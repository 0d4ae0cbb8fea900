"""A tool for agents of Strands."""

from __future__ import annotations

from strands import tool


@tool
def report(number: int) -> str:
    """A long report."""
    return f"report {number}: " + "nothing of note, the pumps run. " * 40
