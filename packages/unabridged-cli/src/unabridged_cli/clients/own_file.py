"""A file that is ours alone in a client's folder: an extension or a plugin, made from a template."""

from __future__ import annotations

import json
import re
from pathlib import Path

from unabridged_cli.clients.client import ConfigEntry

OWN_FILE_MARK = "// made by `unabridged install`"
"""How a file of our own begins: without it, it is somebody's."""
_PROGRAM_LINE_PATTERN = re.compile(r'^const PROGRAM = ("(?:[^"\\\n]|\\.)*")', re.MULTILINE)


class OwnFileEntry(ConfigEntry):
    """A file of our own, made from a template that begins with the mark and names the program as `"__PROGRAM__"`."""

    def __init__(self, path: Path, what: str, template: str, project: Path | None) -> None:
        super().__init__(path, what)
        scope = "` takes it away" if project is None else " --scope project` takes it away"
        self._template = template.replace("` takes it away", scope, 1)

    def add(self, text: str, program: str) -> str:
        """Return our file; where there is one, it stays."""
        return text or self._template.replace('"__PROGRAM__"', json.dumps(program, ensure_ascii=False))

    def remove(self, text: str, before: str) -> str:
        """Return nothing for a file of ours."""
        del before
        return "" if text.startswith(OWN_FILE_MARK) else text

    def program(self, text: str) -> str | None:
        """Return the program that our file names."""
        found = _PROGRAM_LINE_PATTERN.search(text) if text.startswith(OWN_FILE_MARK) else None
        try:
            return str(json.loads(found[1])) if found else None
        except ValueError:  # somebody wrote into it
            return None

    def is_up_to_date(self, text: str, program: str) -> bool:
        """Return whether this is our file as this version writes it."""
        return text == self.add("", program)
