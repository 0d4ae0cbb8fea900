"""The command line in this process: what it prints, and how it ends."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

from places import HELPERS, ROOT
from unabridged_cli.app import main

SESSION = ROOT / "examples" / "coding_session.json"
DESK = ROOT / "examples" / "service_desk.json"
SESSION_FILES = sorted((HELPERS / "session_files").glob("*.jsonl"))


class Ran(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, which is one JSON document."""
        return json.loads(self.out)

    @property
    def line(self) -> str:
        """The one line on standard error."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        return lines[0]


def run(*arguments: str | Path) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as ended:
            code = ended.code or 0
    assert "Traceback" not in err.getvalue(), err.getvalue()
    return Ran(code, out.getvalue(), err.getvalue())
