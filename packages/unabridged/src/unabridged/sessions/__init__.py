"""Conversations as files: plain JSON and JSON Lines, and the sessions of Claude Code, Codex CLI and pi.

Reading order: `loaded` (what comes out), `files` (load and save, and which client's file it is), `document` (plain
files), `claude_code`, `codex` and `pi` (a client each: `owns_line`, `read` lines into a conversation, `append` lines
behind them), `text` (lines and bytes).
"""

from unabridged.sessions.files import MAX_SIZE, load, save, write_whole
from unabridged.sessions.loaded import KINDS, Kind, Loaded, Reported, SessionFileError

__all__ = ["KINDS", "MAX_SIZE", "Kind", "Loaded", "Reported", "SessionFileError", "load", "save", "write_whole"]
