"""Which files a text names, one entry a file however its path is written, and how paths are shown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate, chain

from unabridged.ledger.entries import Deed, File, fade
from unabridged.ledger.shell import has_extension
from unabridged.text_cache import remembered
from unabridged.text_tools import neutral

_SYSTEM = frozenset({"/tmp", "/var", "/usr", "/home", "/root", "/opt", "/etc", "/Users", "/private"})  # noqa: S108 - names only
_PATH = re.compile(r"(?<![\w./~+-])[\w.~+-]{0,80}+/[\w./@+-]{2,240}+")
_FILE_NAME = re.compile(r"(?<![\w./@~+-])[\w@+-][\w.@+-]{0,80}\.[A-Za-z]\w{0,6}(?![\w/(])")


@remembered
def find_paths(text: str, *, by_name: bool) -> frozenset[str]:
    """The paths in a text; with `by_name` also file names without a folder."""
    paths = {clean_path(path) for path in set(_PATH.findall(text))}
    found = {path for path in paths if path and "//" not in path and has_extension(path) and path.count("/") < 20}
    if by_name:
        found |= {name for name in set(_FILE_NAME.findall(text)) if has_extension(name)}
    return frozenset(found)


def clean_path(path: str) -> str:
    """A path without the marks of the sentence around it."""
    path = path.strip("'\"`,;:()[]<> ").rstrip(".")
    while path.startswith(("./", "../")):
        path = path.partition("/")[2]
    return path if len(path) <= 260 and "$" not in path and path.strip("/.-") and path[-1] != "-" else ""


def unite_files(files: Iterable[File]) -> tuple[File, ...]:
    """One entry a file: `theme.ts` and `/home/me/src/theme.ts` are the same when nothing speaks against it."""
    files = list(files)
    known = {file.path for file in files}
    by_base: dict[str, list[File]] = {}
    for file in sorted(files, key=lambda file: (-len(file.path), file.path)):
        if file.path[:2] in {"a/", "b/"} and file.path[2:] in known:  # the two sides of a diff
            file = replace(file, path=file.path[2:])  # noqa: PLW2901 - the same file by its own name
        alike = by_base.setdefault(file.path.rstrip("/").rpartition("/")[2], [])
        owners = [i for i, other in enumerate(alike) if f"/{other.path}".endswith(f"/{file.path}")]
        owners.sort(key=lambda i: -alike[i].weight)
        # With several candidates, one that is far more in use than the others is meant.
        if owners and (len(owners) == 1 or alike[owners[0]].weight > 3 * alike[owners[1]].weight):
            alike[owners[0]] = _together(alike[owners[0]], file)
        else:
            alike.append(file)
    return tuple(sorted(chain(*by_base.values()), key=lambda file: (file.turn, file.path)))


def _together(one: File, other: File) -> File:
    """Both entries under the first one's path; what was done last stands last."""
    deeds: dict[Deed, int] = {}
    for file in sorted((one, other), key=lambda file: file.turn):
        for deed, number in file.deeds:
            deeds[deed] = deeds.pop(deed, 0) + number
    turn = max(one.turn, other.turn)
    weight = sum(fade(file.weight, turn - file.turn) for file in (one, other))
    return File(one.path, turn, weight, tuple(deeds.items()))


def shown_path(path: str, root: str) -> str:
    """A path as it is shown: below the common root without it."""
    return neutral(path.removeprefix(root + "/") if root else path)


def common_root(paths: Iterable[str]) -> str:
    """The folder that the work is in, when it is worth leaving out; "" when there is none.

    Where the same folders are named both with and without it, it is what stands before them; else the deepest folder
    that nearly all absolute paths are in.
    """
    folders = [path.rpartition("/")[0] for path in paths]
    known = {folder for folder in folders if folder and folder[0] not in "/~"}
    absolute = [folder for folder in folders if folder.startswith("/")]
    above = [(root, folder) for folder in absolute for root in accumulate(folder.split("/"), "{}/{}".format)]
    before = Counter(root for root, folder in above if folder[len(root) + 1 :] in known)
    counted = Counter(root for root, _ in above)
    nearly_all = [root for root, number in counted.items() if number > 2 and number * 5 >= len(absolute) * 4]
    root = max(before, key=lambda root: (before[root], root), default=max(nearly_all, key=len, default=""))
    return root if root not in _SYSTEM else ""
