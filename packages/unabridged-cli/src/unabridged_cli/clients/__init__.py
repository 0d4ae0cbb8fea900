"""Coding agents on this machine: Claude Code, Codex, pi and opencode.

Reading order: `client` (what each of them is), then a module a client, all of them in `registry`; `hook`, which they
call around a compaction. Only the standard library is needed here, and nothing but `hook` reads a conversation: that is
`unabridged.sessions`. A hook that a client waits for loads no `registry`.
"""
