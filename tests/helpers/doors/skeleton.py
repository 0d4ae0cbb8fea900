"""The door of the made-up framework on the page about adapters, whose code is run from the page."""

from __future__ import annotations

import re
import sys
from types import ModuleType

from places import ROOT

PAGE = ROOT / "docs" / "adapters.md"
MODULES = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
"""The code on the page, by the name of each file."""


def load(name: str) -> ModuleType:
    """A file of the page as a module, which the next one can import."""
    if name not in sys.modules:
        module = sys.modules[name] = ModuleType(name)
        exec(compile(MODULES[name], f"{PAGE.name}: {name}.py", "exec"), vars(module))  # noqa: S102 - that is the test
    return sys.modules[name]


DOOR = [load(name) for name in MODULES][-1].TinyDoor()
