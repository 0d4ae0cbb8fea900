"""The program: all commands, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import sys
from collections import UserDict
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from inspect import getdoc
from io import TextIOWrapper
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from unabridged import __version__
from unabridged.errors import IllegalConversation, UnabridgedError, WontFit
from unabridged_cli.screen import fail

EXIT_CODES = {
    0: "done",
    1: "the conversation can't be made to fit or be mended, a provider would refuse it, the archive is damaged, "
    "or its copy differs",
    2: "wrong input: the message says what to do",
    130: "interrupted; there is no half-written file",
}

_COMMAND_ALIASES = {"repair": "unabridged check FILE --repair -o OUT"}
"""What people type, and which command does it."""
ENTRY_POINT_GROUP = "unabridged.commands"
"""The group of entry points by which other distributions add a command: each names a click command."""
EXTERNAL_COMMAND_PACKAGES = {"gateway": "unabridged[gateway]"}
"""Commands of other distributions, and what installs them."""


class _CommandRow(NamedTuple):
    """A command that is not imported yet: its panel in the help, its function as MODULE.NAME, and an example."""

    panel: str
    function: str
    example: str


class _CommandTable(UserDict[str, Any]):
    """Commands by name, each imported when it is asked for, so that none waits for what the others need."""

    def __getitem__(self, key: str) -> Any:
        found = super().__getitem__(key)
        if isinstance(found, _CommandRow):
            module, name = found.function.split(".")
            function = getattr(import_module(f"unabridged_cli.commands.{module}"), name)
            found = self.data[key] = make_command(function, found.panel, found.example)
        return found


_TABLES: Mapping[str, _CommandTable] = {"": _CommandTable(), "corpus": _CommandTable(), "archive": _CommandTable()}
"""The commands of the program and of each of its groups."""


class _UntypedFlagsMixin:
    """Removes the value placeholder of boolean flags from the help text."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, as the help shows them."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc] # of the command that this is mixed into
        for parameter in params:
            if getattr(parameter, "is_flag", False) and parameter.metavar is None:
                parameter.metavar = ""
        return params


class _Command(_UntypedFlagsMixin, TyperCommand):
    """A command."""


class _Group(_UntypedFlagsMixin, TyperGroup):
    """A command that has commands of its own: those of its table."""

    def __init__(self, *, name: str, commands: Mapping[str, Any], **options: Any) -> None:
        super().__init__(name=name, **options)
        self.commands: MutableMapping[str, Any] = _TABLES[name]
        self.commands.update(commands)

    def list_commands(self, _: Any) -> list[str]:
        """Return the names of its commands, without importing them."""
        return list(self.commands)


class _ProgramGroup(_Group):
    """The whole program: its commands, and those that other distributions add by entry points."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands; the entry points are looked up for the help only."""
        return [*super().list_commands(ctx), *sorted(entry.name for entry in entry_points(group=ENTRY_POINT_GROUP))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name, or None."""
        command = super().get_command(ctx, cmd_name)
        if command is None and (entries := entry_points(group=ENTRY_POINT_GROUP, name=cmd_name)):
            command = next(iter(entries)).load()
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name; say which one does it where there is none of that name."""
        if args and args[0] in _COMMAND_ALIASES and args[0] not in self.commands:
            fail(f"there is no command {args[0]!r}: say {_COMMAND_ALIASES[args[0]]}", 2)
        if args and args[0] in EXTERNAL_COMMAND_PACKAGES and self.get_command(ctx, args[0]) is None:
            fail(f"the command {args[0]!r} is not installed: pip install '{EXTERNAL_COMMAND_PACKAGES[args[0]]}'", 2)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_ProgramGroup,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Keep an agent's conversation inside its model's window, and lose nothing on the way.",
    epilog="Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + ".",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _accept_global_options(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Keep an agent's conversation inside its model's window, and lose nothing on the way."""


def _add_commands(panel: str, *commands: tuple[str, str]) -> None:
    """Add commands to the program or to a group: the function of each, and an example from which its name is read."""
    for function, example in commands:
        group, name = _read_name(example)
        _TABLES[group][name] = _CommandRow(panel, function, example)


def _read_name(example: str) -> tuple[str, str]:
    """Return the group of the example's command, which is empty for most, and its name."""
    _, first, *rest = example.split()
    return (first, rest[0]) if first in _TABLES else ("", first)


def make_command(command: Callable[..., None], panel: str, example: str) -> Any:
    """Return a function with typer's annotations as a command that an entry point of `unabridged.commands` may name."""
    text = "\n\n".join(" ".join(text.split()) for text in (getdoc(command) or "").split("\n\n"))
    shown: dict[str, Any] = {"help": text, "epilog": f"Example: {example}", "rich_help_panel": panel}
    info = CommandInfo(name=_read_name(example)[1], cls=_Command, callback=command, **shown)
    return get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode="rich")


def _add_group(name: str, panel: str, promise: str) -> None:
    """Add a command group to the program; its commands are those of its table."""
    group = typer.Typer(cls=_Group, no_args_is_help=True, rich_markup_mode="rich", help=promise)
    app.add_typer(group, name=name, rich_help_panel=panel)


_add_group("corpus", "Session files", "Many sessions at once, on this machine or on a Ray cluster.")
_add_group("archive", "The record", "Whole archives: one copied into another, a bucket swept.")
_add_commands(
    "Session files",
    ("compact.compact", "unabridged compact session.json --window 32k -o shorter.json"),
    ("explain.explain", "unabridged explain session.json --window 32k"),
    ("measure.measure", "unabridged measure session.jsonl --model claude-opus-5-5"),
    ("check.check", "unabridged check session.jsonl --repair -o mended.jsonl"),
    ("watch.watch", "unabridged watch ~/.claude/projects/my-project/session.jsonl"),
    ("evaluate.evaluate", "unabridged eval sessions/ --budget 1k,3k --plot recall.svg"),
)
_add_commands(
    "Over a whole corpus",
    ("corpus.compact", "unabridged corpus compact sessions/ shorter/ --window 32k --jobs 8"),
    ("corpus.check", "unabridged corpus check 'sessions/**/*.jsonl' checked/"),
    ("corpus.repair", "unabridged corpus repair sessions/ mended/"),
    ("corpus.measure", "unabridged corpus measure sessions.parquet measured/"),
    ("corpus.evaluate", "unabridged corpus eval sessions/ scores/ --budget 1k --arm unabridged"),
)
_add_commands(
    "The record",
    ("inspector.inspect", "unabridged inspect --open"),
    ("records.threads", "unabridged threads --archive sqlite:///agent.db"),
    ("records.show", "unabridged show my-thread --html my-thread.html"),
    ("records.search", "unabridged search 'invoice 4711' --thread my-thread"),
    ("records.read", "unabridged read 12 --thread my-thread"),
    ("records.verify", "unabridged verify --archive sqlite:///agent.db"),
    ("pins.pin", "unabridged pin 'Never push to main.' --thread my-thread"),
    ("pins.unpin", "unabridged unpin 'Never push to main.' --thread my-thread"),
    ("pins.pins", "unabridged pins --thread my-thread"),
    ("restore.replay", "unabridged replay shorter.json -o whole.json"),
    ("restore.undo", "unabridged undo shorter.json -o before.json"),
    ("restore.export", "unabridged export my-thread --as text -o my-thread.txt"),
    ("forget.forget", "unabridged forget --namespace tenant-7 --older-than 30d"),
    ("forget.prune", "unabridged prune --older-than 90d"),
)
_add_commands(
    "Whole archives",
    ("archive_copy.copy", "unabridged archive copy sqlite:///agent.db postgresql://user@host/database"),
    ("archive_copy.sweep", "unabridged archive sweep --archive 'sqlite:///agent.db?bodies=s3://bucket/prefix'"),
)
_add_commands(
    "Coding agents",
    ("clients.install", "unabridged install claude-code --dry-run"),
    ("clients.uninstall", "unabridged uninstall codex"),
    ("clients.status", "unabridged status"),
    ("doctor.doctor", "unabridged doctor claude-code"),
    ("hook.hook", "unabridged hook < event.json"),
    ("sessions.sessions", "unabridged sessions claude-code --project ."),
)
_add_commands("Serving", ("serve.mcp", "unabridged mcp --archive sqlite:///agent.db --thread my-thread"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command, and end with its exit code. Never a traceback for what a user can mend."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that can't show a letter shows a question mark instead
            stream.reconfigure(errors="replace")
    try:
        app(args=None if arguments is None else list(arguments), prog_name="unabridged")
    except (WontFit, IllegalConversation) as error:
        fail(str(error), 1)
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads on
        raise SystemExit(0) from None
    except (UnabridgedError, OSError) as error:
        fail(str(error), 2)
    except MemoryError:
        fail("there is not enough memory for this file: split it, or free some", 2)
    except KeyboardInterrupt:
        fail("interrupted", 130)
