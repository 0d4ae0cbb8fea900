"""Which files a text names, one entry a file however its path is written, and how paths are shown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from unabridged.ledger.entries import HALF_LIFE, Deed, File
from unabridged.ledger.shell import has_extension
from unabridged.text_cache import remembered
from unabridged.text_tools import neutral

_SYSTEM = frozenset({"/tmp", "/var", "/usr", "/home", "/root", "/opt", "/etc", "/Users", "/private"})  # noqa: S108 - names only
_FOREIGN = ("/usr/", "/opt/", "/var/", "/tmp/", "/etc/")  # noqa: S108 - names only
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
    return path if len(path) <= 260 else ""


def unite_files(files: Iterable[File]) -> tuple[File, ...]:
    """One entry a file: `theme.ts` and `/home/me/src/theme.ts` are the same when nothing speaks against it."""
    by_base: dict[str, list[File]] = {}
    files = list(files)
    known = {file.path for file in files}
    for file in files:
        if file.path[:2] in {"a/", "b/"} and file.path[2:] in known:  # the two sides of a diff
            file = replace(file, path=file.path[2:])  # noqa: PLW2901 - the same file by its own name
        by_base.setdefault(file.path.rstrip("/").rpartition("/")[2], []).append(file)
    kept: list[File] = []
    for group in by_base.values():
        longest_first = sorted(group, key=lambda file: (-len(file.path), file.path))
        heads: list[File] = []
        for file in longest_first:
            owners = [
                i for i, head in enumerate(heads) if head.path == file.path or head.path.endswith("/" + file.path)
            ]
            owners.sort(key=lambda i: (-heads[i].weight, heads[i].path))
            # With several candidates, one that is far more in use than the others is meant.
            if owners and (len(owners) == 1 or heads[owners[0]].weight > 3 * heads[owners[1]].weight):
                heads[owners[0]] = _together(heads[owners[0]], file)
            else:
                heads.append(file)
        kept += heads
    return tuple(sorted(kept, key=lambda file: (file.turn, file.path)))


def _together(one: File, other: File) -> File:
    """Both entries under the first one's path; what was done last stands last."""
    deeds: dict[Deed, int] = {}
    for file in sorted((one, other), key=lambda file: file.turn):
        for deed, number in file.deeds:
            deeds[deed] = deeds.pop(deed, 0) + number
    turn = max(one.turn, other.turn)
    weight = sum(file.weight * 0.5 ** ((turn - file.turn) / HALF_LIFE) for file in (one, other))
    return File(one.path, turn, weight, tuple(deeds.items()))


def unite_shown(files: Iterable[File], root: str) -> list[File]:
    """One entry for what is shown alike: a path with its root and without; the later one's path."""
    found: dict[str, File] = {}
    for file in sorted(files, key=lambda file: (file.turn, file.path)):
        shown = shown_path(file.path, root)
        known = found.get(shown)
        found[shown] = replace(_together(file, known), weight=file.weight + known.weight) if known else file
    return list(found.values())


def shared_folders(paths: Sequence[str]) -> dict[str, int]:
    """Folders that hold two or more of these files, in the order of their best one: worth a line of their own."""
    folders = [path.rpartition("/")[0] for path in paths]
    numbers = Counter(folder for folder in folders if folder)
    shared = dict.fromkeys(folder for folder in folders if numbers[folder] > 1)
    return {folder: place for place, folder in enumerate(shared)}


def shown_path(path: str, root: str) -> str:
    """A path as it is shown: below the common root without it."""
    return neutral(path.removeprefix(root + "/") if root else path)


def common_root(paths: Iterable[str]) -> str:
    """The folder that the work is in, when it is worth leaving out; "" when there is none.

    Where the same folders are named both with and without it, it is what stands before them; else the deepest folder
    that nearly all absolute paths are in.
    """
    paths = list(paths)
    absolute = [path.split("/") for path in paths if path.startswith("/")]
    tops = {path.partition("/")[0] for path in paths if not path.startswith(("/", "~")) and "/" in path}
    folders = {path.rpartition("/")[0] for path in paths if not path.startswith(("/", "~")) and "/" in path}
    roots = Counter(
        "/".join(parts[: _split(parts, tops, folders)]) for parts in absolute if tops.intersection(parts[2:-1])
    )
    known = {root: number for root, number in roots.items() if root and root not in _SYSTEM}
    if known:
        inside = {root: sum(path.startswith(root + "/") for path in paths) for root in known}
        root = max(known, key=lambda root: (inside[root], known[root], root))
        if inside[root] > 1 or (len(known) == 1 and not root.startswith(_FOREIGN)):
            return root
    return _deepest([parts[:-1] for parts in absolute])


def _split(parts: Sequence[str], tops: Collection[str], folders: Collection[str]) -> int:
    """Where an absolute path goes on as one that is known without its root: in a known folder, else in any."""
    places = [i for i, part in enumerate(parts[:-1]) if i > 1 and part in tops]
    return next((i for i in places if "/".join(parts[i:-1]) in folders), places[0])


def _deepest(folders: list[list[str]]) -> str:
    root: list[str] = []
    inside = folders
    while len(inside) >= 3:
        steps = Counter(folder[len(root)] for folder in inside if len(folder) > len(root))
        step, number = max(steps.items(), key=lambda item: (item[1], item[0]), default=("", 0))
        if number * 5 < len(folders) * 4:
            break
        root.append(step)
        inside = [folder for folder in inside if len(folder) >= len(root) and folder[len(root) - 1] == step]
    found = "/".join(root)
    return found if len(root) > 1 and found not in _SYSTEM else ""
