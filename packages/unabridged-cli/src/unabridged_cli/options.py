"""What the commands share: their common options, how ages are written, and files."""

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
from unabridged.sessions import KINDS, Loaded, load
from unabridged.sizes import number
from unabridged_cli.screen import number_of, reading, tell

NAMES = ", ".join((*FORMATS, *KINDS))

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
_OUT = typer.Option("--out", "-o", help="Where the result goes; never the file that was read.", readable=False)
Out = Annotated[Path | None, _OUT]
RequiredOut = Annotated[Path, _OUT]
Write = Annotated[
    bool,
    typer.Option("--write", help="Write the session that CLIENT:ID names in its place, while its client is closed."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON, and nothing else.")]
FormatName = Annotated[
    str | None, typer.Option("--format", help=f"Read the file as this, whatever it looks like: {NAMES}.")
]
Which = Annotated[
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
ThreadName = Annotated[
    str | None,
    typer.Option(
        "--thread", help="The conversation's name in the archive; of claude-code:3f2a the beginning is enough."
    ),
]
ThreadArgument = Annotated[
    str, typer.Argument(help="The conversation's name in the archive; of claude-code:3f2a the beginning is enough.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

MAX_SIZE = "1g"

_AGE = re.compile(r"(\d+)\s*([hdwmy])", re.IGNORECASE)
_SECONDS = {"h": 3_600, "d": 86_400, "w": 7 * 86_400, "m": 30 * 86_400, "y": 365 * 86_400}


def age(text: str) -> int:
    """36h, 90d, 12w, 6m or 2y in seconds."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise SettingsError(f"can't read an age of {text!r}: write 36h, 90d, 12w, 6m or 2y")
    return int(match[1]) * _SECONDS[match[2].lower()]


def load_file(file: Path, format_: str | None, which: str | None, max_size: str, *, keep_lines: bool = False) -> Loaded:
    """The conversation in the file, read with a progress bar; what is odd about it is said."""
    most = number(max_size, "a size")
    path = from_stdin(most) if is_stdin(file) else file
    with reading(path) as progress:
        how: dict[str, Any] = {"format": format_, "which": index_or_id(which), "keep_lines": keep_lines}
        loaded = load(path, max_size=most, progress=progress, **how)
    for warning in loaded.warnings[:3]:
        tell(f"{file}: {warning}")
    if len(loaded.warnings) > 3:
        tell(f"{file}: {number_of(len(loaded.warnings) - 3, 'more line')} like that")
    return loaded


def index_or_id(which: str | None) -> int | str | None:
    """Which of several conversations: its index where a number was given, else its id."""
    return int(which) if which is not None and which.isdecimal() else which


def is_stdin(file: Path) -> bool:
    """Whether `-` stands for the file: what comes in on standard input."""
    return file == Path("-")


def from_stdin(most: int) -> Path:
    """Standard input as a file of its own, for its owner alone, gone when the program ends."""
    data = sys.stdin.buffer.read(most + 1)
    if len(data) > most:
        raise SettingsError(f"standard input has more than {most:,} bytes: raise --max-size")
    folder = Path(tempfile.mkdtemp(prefix="unabridged-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "stdin"
    path.write_bytes(data)
    return path


def writable(out: Path, file: Path) -> None:
    """Refuse a place that can't be written, before anything is paid for."""
    folder = out.resolve().parent
    if not folder.is_dir():
        raise SettingsError(f"can't write {out}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise SettingsError(f"can't write {out}: no permission to write in {folder}")
    if out.is_dir():
        raise SettingsError(f"can't write {out}: it is a folder; name a file in it")
    if out.exists() and file.exists() and out.samefile(file):
        raise SettingsError(f"{out} is the file that is read, which is never changed: name another one to write")


def is_typed(context: typer.Context, parameter: str) -> bool:
    """Whether the person wrote the option on the command line: it is not from the environment, and no default."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"
