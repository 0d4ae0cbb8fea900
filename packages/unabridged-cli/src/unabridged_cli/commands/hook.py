"""`hook`: what coding agents call around a compaction. Only for the help: `unabridged/__main__.py` runs it directly."""

from __future__ import annotations

from unabridged_cli.clients.hook import main


def hook() -> None:
    """Answer a coding agent's hook: JSON on standard input, the answer as JSON on standard output, or nothing.

    unabridged install sets it up; nobody has to type it. PreCompact: what is new in the session is archived.
    SessionStart after a compaction: the context gets what people said word for word, the pins and the files changed.
    PostCompact: the summary is compared with the record. SessionStart and SessionEnd: a process of its own archives the
    sessions of the project that grew. Nothing is done in a folder with a file .unabridged-ignore, or below one.
    Whatever goes wrong, the exit code is 0 and the log says why: ~/.local/state/unabridged/hook.log. The archive is the
    one that UNABRIDGED_ARCHIVE names.
    """
    main()
