"""Anthropic Messages: `wire` reads, makes and edits them, `rules` says what is refused and mends it."""

from __future__ import annotations

from unabridged.formats.anthropic.rules import claude_version
from unabridged.formats.anthropic.wire import Anthropic

__all__ = ["Anthropic", "claude_version"]
