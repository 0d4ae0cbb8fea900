"""The page's scripts are joined into one: a name at the top of one file is taken in all of them."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files

DECLARATION = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)


def test_no_two_scripts_declare_the_same_name() -> None:
    web = files("unabridged_cli.inspector").joinpath("web")
    names = [
        name
        for path in web.iterdir()
        if path.name.endswith(".js")
        for name in DECLARATION.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(names) > 50
    assert [name for name, times in Counter(names).items() if times > 1] == []
