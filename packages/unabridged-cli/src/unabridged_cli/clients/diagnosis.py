"""What `unabridged doctor` checks of this machine: the archive, settings, and programs, which are really started."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from unabridged import __version__
from unabridged.archive.names import check_name
from unabridged.archive.opening import open_archive
from unabridged.archive.protocol import DEFAULT_NAMESPACE, Scope
from unabridged.errors import UnabridgedError
from unabridged_cli.clients.client import CodingAgent, Environ
from unabridged_cli.clients.hook.log import log_file_path
from unabridged_cli.clients.ignore_file import find_ignore_file
from unabridged_cli.clients.once import PLUGIN_VARIABLE

SERVER: Final = "MCP server"
INSTALL_SERVER: Final = "pip install 'unabridged[mcp]', in the environment of the program"
_START_SECONDS: Final = 60.0
"""How long a program may take to answer."""
_ARCHIVE_WAIT_SECONDS: Final = 5.0
"""How long to wait for another writer, as a hook does."""


class Diagnosis(NamedTuple):
    """One thing that was checked: of which client (empty: of all), what was found, and the remedy if it is wrong."""

    client: str
    what: str
    found: str
    remedy: str = ""


# -- what all clients share --------------------------------------------------------------------------------------------


def check_machine(environ: Environ, folder: Path) -> Iterator[Diagnosis]:
    """Check the archive, the settings and the folder in which hooks take notes."""
    yield _check_archive(environ)
    name = environ.get("UNABRIDGED_NAMESPACE", DEFAULT_NAMESPACE)
    try:
        check_name(name, "namespace")
    except UnabridgedError as error:
        yield Diagnosis("", "settings", str(error), "set UNABRIDGED_NAMESPACE to a name, or remove it")
    state = log_file_path(environ).parent
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=state):
            yield Diagnosis("", "notes", f"hooks can write in {state}")
    except OSError as error:
        yield Diagnosis("", "notes", f"hooks can't write in {state}: {error.strerror}", "make that folder writable")
    if (ignore_file := find_ignore_file(folder)) is not None:
        yield Diagnosis("", "project", f"nothing of {folder} is archived: {ignore_file} keeps it out")


def _check_archive(environ: Environ) -> Diagnosis:
    """Check that the archive can be read and written; what is written is taken back."""
    scope = Scope(DEFAULT_NAMESPACE, "unabridged-doctor")
    try:
        archive = open_archive(environ.get("UNABRIDGED_ARCHIVE") or None, wait=_ARCHIVE_WAIT_SECONDS)
        try:
            if archive.lease(scope, "doctor", 1.0):
                archive.release(scope, "doctor")
            count = len(archive.threads(DEFAULT_NAMESPACE))
            return Diagnosis("", "archive", f"{archive.url} can be read and written; threads in it: {count:,}")
        finally:
            archive.close()
    except (UnabridgedError, OSError) as error:
        return Diagnosis("", "archive", str(error), "mend it, or name another with UNABRIDGED_ARCHIVE")


# -- programs ----------------------------------------------------------------------------------------------------------


def check_program(program: str, agent: CodingAgent, environ: Environ) -> Diagnosis:
    """Check that a client can start this program, and that it is of this version."""
    path = shutil.which(program, path=environ.get("PATH"))
    again = f"unabridged install {agent.name}"
    if path is None:
        by_path = "put its folder on the PATH that the client is started with, or pip install 'unabridged[mcp]'"
        missing = f"{program} is not on the PATH" if program == "unabridged" else f"{program} is gone"
        return Diagnosis(agent.name, "program", missing, by_path if program == "unabridged" else again)
    try:
        done = subprocess.run(  # noqa: S603 - the program that the client starts
            [path, "--version"], env=environ, capture_output=True, text=True, timeout=_START_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Diagnosis(agent.name, "program", f"{path} does not start: {error}", f"install it anew, then {again}")
    said = done.stdout.strip()
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return Diagnosis(agent.name, "program", f"{path} does not start: {why}", f"install it anew, then {again}")
    if said != __version__:
        what = f"{path} is version {said[:40]}, and this is {__version__}"
        return Diagnosis(agent.name, "program", what, f"install one of them in both places, then {again}")
    return Diagnosis(agent.name, "program", f"{path} starts, version {said}")


def check_server(program: str, agent: CodingAgent, environ: Environ) -> Diagnosis:
    """Start the MCP server as a client does, and check that it offers the search."""
    path = shutil.which(program, path=environ.get("PATH")) or program
    try:
        tools, why = _list_tools([path, "mcp"], {**environ, PLUGIN_VARIABLE: ""})
    except OSError as error:
        tools, why = [], str(error)
    if "search_history" in tools:
        return Diagnosis(agent.name, SERVER, f"`{path} mcp` answers, with {len(tools)} tools")
    return Diagnosis(agent.name, SERVER, f"`{path} mcp` does not answer: {why or 'it says nothing'}", INSTALL_SERVER)


def _list_tools(command: Sequence[str], environ: Mapping[str, str]) -> tuple[list[str], str]:
    """Return the tools that an MCP server offers over stdio, by name, and its last line on standard error."""
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "doctor", "version": "1"}}
    asked = (
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
    )
    pipe, tools = subprocess.PIPE, list[str]()
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe, stderr=errors) as server,  # noqa: S603 - likewise
    ):
        assert server.stdin is not None and server.stdout is not None  # noqa: S101, PT018 - they are pipes
        timer = threading.Timer(_START_SECONDS, server.kill)
        timer.start()
        try:
            for message in asked:
                server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            server.stdin.flush()
            for line in server.stdout:
                answer = json.loads(line)
                if answer.get("id") == 2:
                    tools = [tool["name"] for tool in answer.get("result", {}).get("tools", ())]
                    break
        except (OSError, ValueError):  # it has ended, or it is no server
            pass
        finally:
            timer.cancel()
            server.kill()
        server.wait()
        errors.seek(0)
        return tools, (errors.read().decode("utf-8", "replace").strip().splitlines() or [""])[-1][:300]
