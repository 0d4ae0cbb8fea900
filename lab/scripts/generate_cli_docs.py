"""Write `docs/cli.md` from the commands themselves; a test compares the two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import Any

import typer

from unabridged_cli.app import EXIT_CODES, app

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"

HEAD = """\
# The command line

<!-- made by lab/scripts/generate_cli_docs.py: change the commands, not this page -->

For a person with a session file that is too long, or broken, and for a look into the record.

- The file that is read is never changed; a result goes to `-o`, whole or not at all. Only `--write` changes a client's
  session in its place.
- In a pipe, and with `NO_COLOR`, there are no colours and no progress bars; `--json` prints one JSON document and
  nothing else. What is for the person goes to standard error.
- Sizes: `32768`, `32k`, `1.5m`; 1k is 1,000. Indices of messages count from 0, as `check` and `measure` give them.
- `-` in the place of a file is standard input.
- Programs and the command line keep their conversations in the namespace `default` unless another is named. Without
  `--namespace`, `threads` and `search` go over all, and a thread that is not in `default` is looked for in the others.
- A conversation's thread is found by the compactions that stand in it; a new one is named after its file and folder.
- `unabridged --install-completion` sets up the shell's completion.

`inspect` shows the record in a browser, `show --html` one thread of it in one file: [how to look](inspect.md).

![A thread in the inspector](images/inspect-thread.png)
"""


def page() -> str:
    """Return the whole reference."""
    return "\n".join([HEAD, *_exit_codes(), *_environment(), *_commands()])


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes\n\n| code | meaning |\n| --- | --- |"
    yield from (f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    yield ""


def _environment() -> Iterator[str]:
    yield "## Environment\n\n| variable | stands for |\n| --- | --- |"
    found = {str(p.envvar): p.opts[0] for command in _tree().values() for p in command.params if p.envvar}
    yield from (f"| `{name}` | `{option}` |" for name, option in sorted(found.items()))
    yield "| `NO_COLOR` | no colours |\n"


def _tree() -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    found: dict[str, Any] = {}
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        inside = getattr(command, "commands", None)
        found |= {name: command} if inside is None else {f"{name} {one}": inside[one] for one in inside}
    return found


def _commands() -> Iterator[str]:
    for name, command in _tree().items():
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        needed = [p for p in command.params if p.param_type_name == "option" and p.required]
        usage = " ".join(_name(p) if p.required else f"[{_name(p)}]" for p in arguments)
        usage += "".join(f" {p.opts[0]} {p.name.rstrip('_').upper()}" for p in needed)
        yield f"## {name}\n\n```text\nunabridged {name} {usage}".rstrip() + " [OPTIONS]\n```\n"
        yield from (f"{fill(text, 120, break_on_hyphens=False)}\n" for text in command.help.split("\n\n"))
        yield f"`{command.epilog.removeprefix('Example: ')}`\n"
        yield "| option | meaning |\n| --- | --- |"
        yield from (_row(parameter) for parameter in command.params)
        yield ""


def _name(argument: Any) -> str:
    """Return the placeholder of the argument."""
    return str(argument.metavar or argument.name.upper())


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = f"`{_name(parameter)}`".replace("|", "\\|")
    else:
        names = ", ".join(f"`{name}`" for name in parameter.opts)
    notes = [str(parameter.help or "")]
    if parameter.default not in (None, False, ()) and parameter.param_type_name == "option":
        notes.append(f"Default: {parameter.default}.")
    return f"| {names} | {' '.join(notes)} |".replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name}: {len(_tree())} commands")
