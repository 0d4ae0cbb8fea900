"""Plugin and install beside each other: each event is answered once, and the tools are offered once.

A client with both calls two hooks at each event, with the same JSON. The first one leaves a note and answers; the other
one takes the note away and does nothing. Which of them is first does not matter.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from unabridged_cli.clients.client import Environ
from unabridged_cli.clients.hook.background import lock_file
from unabridged_cli.clients.hook.log import log_file_path

PLUGIN_VARIABLE: Final = "UNABRIDGED_PLUGIN"
"""Set by the plugin for what it starts."""
_PAIR_SECONDS: Final = 60.0
"""How long a note counts: a client starts the hooks of an event together, and gives each 30 s at most."""


def is_first_hook(event: bytes, environ: Environ) -> bool:
    """Return whether this hook has to answer the event: the other one, of the plugin or the install, has not yet."""
    sources = ("plugin", "install") if environ.get(PLUGIN_VARIABLE) else ("install", "plugin")
    folder = log_file_path(environ).with_name("answered")
    own, other = (folder / f"{sha256(event).hexdigest()[:32]}.{source}" for source in sources)
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_file(folder / "notes.lock", wait=True):
            _remove_old_notes(folder)
            if other.exists():
                other.unlink()
                return False
            own.touch(mode=0o600)
    except OSError:  # better twice than not at all
        pass
    return True


def _remove_old_notes(folder: Path) -> None:
    for note in (*folder.glob("*.plugin"), *folder.glob("*.install")):
        with suppress(OSError):
            if time.time() - note.stat().st_mtime > _PAIR_SECONDS:
                note.unlink()


def is_served_by_install(environ: Mapping[str, str]) -> bool:
    """Return whether this is the plugin's server in Claude Code, and the user's configuration starts one as well.

    Codex starts only one server of a name.
    """
    if not (environ.get(PLUGIN_VARIABLE) and environ.get("CLAUDECODE")):
        return False
    from unabridged_cli.clients import configure  # noqa: PLC0415 - a hook needs neither
    from unabridged_cli.clients.registry import CLIENTS  # noqa: PLC0415 - a hook needs neither

    entries = CLIENTS["claude-code"].entries(environ, None)
    servers = (configure.read_entry_status(entry) for entry in entries if entry.what == "MCP server")
    return any(server.state == "installed" and server.can_start_program for server in servers)
