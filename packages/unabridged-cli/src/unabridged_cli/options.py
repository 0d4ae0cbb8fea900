"""What the commands share: their common options, ages, and files."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from unabridged.errors import SettingsError
from unabridged.formats import FORMATS
from unabridged.sessions import KINDS, LoadedFile, load
from unabridged.sizes import parse_size
from unabridged_cli.screen import escape_control_characters, format_count, print_notice, show_progress

FORMAT_NAMES = ", ".join((*FORMATS, *KINDS))

File = Annotated[
    Path,
    typer.Argument(
        help="JSON or JSON Lines of messages, or a session of Claude Code, Codex CLI or pi; - for standard input.",
        readable=False,  # who reads it says why it can't be read, in one line
    ),
]
FileOrSession = Annotated[
    Path,
    typer.Argument(
        help="JSON or JSON Lines of messages, or a session of Claude Code, Codex CLI or pi: its file, or its name from "
        "`sessions` such as claude-code:3f2a, where the beginning of an id is enough; - for standard input.",
        readable=False,
        metavar="FILE|CLIENT:ID",
    ),
]
EventSource = Annotated[
    str,
    typer.Argument(
        help="A session file, a file of events that a program writes, or the address of a gateway.", metavar="SOURCE"
    ),
]
_OUT_OPTION = typer.Option("--out", "-o", help="Where the result goes; never the file that was read.", readable=False)
Out = Annotated[Path | None, _OUT_OPTION]
RequiredOut = Annotated[Path, _OUT_OPTION]
Write = Annotated[
    bool,
    typer.Option("--write", help="Write the session that CLIENT:ID names in its place, while its client is closed."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON, and nothing else.")]
FormatName = Annotated[
    str | None, typer.Option("--format", help=f"Read the file as this, whatever it looks like: {FORMAT_NAMES}.")
]
ConversationChoice = Annotated[
    str | None, typer.Option("--which", help="Which of several conversations in the file: index from 0, or id.")
]
MaxSize = Annotated[str, typer.Option("--max-size", help="A larger file is refused unread: 500m, 2g.")]
Window = Annotated[
    str | None, typer.Option(help="The window in tokens: 32768, 32k, 1m. Default: the model's, or 32,768.")
]
ModelName = Annotated[
    str | None,
    typer.Option("--model", help="The model that reads the conversation: window, tokens, prices. Default: the file's."),
]
Pending = Annotated[
    bool, typer.Option("--pending", help="The last round is still running: its missing results are no fault.")
]
ArchiveUrl = Annotated[
    str | None,
    typer.Option(
        "--archive",
        envvar="UNABRIDGED_ARCHIVE",
        help="sqlite:///agent.db, sqlite:////absolute/agent.db, dir:folder, dir:///absolute/folder or postgresql://… "
        "Default: in the user's data folder.",
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        envvar="UNABRIDGED_NAMESPACE",
        help="Whose conversations these are. Unnamed: `default`, and what is not there is looked for in the others.",
    ),
]
_THREAD_HELP = "The conversation's name in the archive; of claude-code:3f2a the beginning is enough."
ThreadName = Annotated[str | None, typer.Option("--thread", help=_THREAD_HELP)]
ThreadArgument = Annotated[str, typer.Argument(help=_THREAD_HELP)]
AssumeYes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

MAX_SIZE = "1g"

_AGE_PATTERN = re.compile(r"(\d+)\s*([hdwmy])", re.IGNORECASE)
_UNIT_SECONDS = {"h": 3_600, "d": 86_400, "w": 7 * 86_400, "m": 30 * 86_400, "y": 365 * 86_400}


def parse_age(text: str) -> int:
    """Return 36h, 90d, 12w, 6m or 2y in seconds."""
    match = _AGE_PATTERN.fullmatch(text.strip())
    if match is None:
        raise SettingsError(f"can't read an age of {text!r}: write 36h, 90d, 12w, 6m or 2y")
    return int(match[1]) * _UNIT_SECONDS[match[2].lower()]


def load_file(
    file: Path, format_: str | None, which: str | None, max_size: str, *, keep_lines: bool = False
) -> LoadedFile:
    """Return the conversation in the file, read with a progress bar; warn of what is odd about it."""
    max_bytes = parse_size(max_size, "a size")
    path = _save_stdin(max_bytes) if is_stdin(file) else file
    with show_progress(f"reading {escape_control_characters(path.name)}") as progress:
        how: dict[str, Any] = {"format": format_, "which": parse_index_or_id(which), "keep_lines": keep_lines}
        loaded = load(path, max_size=max_bytes, progress=progress, **how)
    for warning in loaded.warnings[:3]:
        print_notice(f"{file}: {warning}")
    if len(loaded.warnings) > 3:
        print_notice(f"{file}: {format_count(len(loaded.warnings) - 3, 'more line')} like that")
    return loaded


def parse_index_or_id(which: str | None) -> int | str | None:
    """Return which of several conversations is meant: its index where a number was given, else its id."""
    return int(which) if which is not None and which.isdecimal() else which


def is_stdin(file: Path) -> bool:
    """Return whether `-` stands for the file: what comes in on standard input."""
    return file == Path("-")


def _save_stdin(max_bytes: int) -> Path:
    """Write standard input to a file, for its owner alone, gone when the program ends; return its path."""
    data = sys.stdin.buffer.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise SettingsError(f"standard input has more than {max_bytes:,} bytes: raise --max-size")
    folder = Path(tempfile.mkdtemp(prefix="unabridged-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "stdin"
    path.write_bytes(data)
    return path


def require_writable(out: Path, file: Path) -> None:
    """Raise `SettingsError` for a path that can't be written, before anything is paid for."""
    folder = out.resolve().parent
    if not folder.is_dir():
        raise SettingsError(f"can't write {out}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise SettingsError(f"can't write {out}: no permission to write in {folder}")
    if out.is_dir():
        raise SettingsError(f"can't write {out}: it is a folder; name a file in it")
    if out.exists() and file.exists() and out.samefile(file):
        raise SettingsError(f"{out} is the file that is read, which is never changed: name another one to write")


def is_on_command_line(context: typer.Context, parameter: str) -> bool:
    """Return whether the option was given on the command line, not by the environment or a default."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"
