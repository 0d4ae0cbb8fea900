"""Files and names on the page: each name beside the file it was used in, those most likely needed first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from unabridged.ledger.entries import Deed, File, Ledger, Name
from unabridged.ledger.page import Line, Page, Section
from unabridged.ledger.ranking import file_rank, files_by_rank, name_rank, names_by_rank
from unabridged.texts import neutral

T = TypeVar("T")

TIMES = "\u00d7"
_ALONE, _SEEN = "\x00names", "\x00seen"
_SYSTEM = frozenset({"/tmp", "/var", "/usr", "/home", "/root", "/opt", "/etc", "/Users", "/private"})  # noqa: S108 - names only
_FOREIGN = ("/usr/", "/opt/", "/var/", "/tmp/", "/etc/")  # noqa: S108 - names only
_MANY, _LAST = 1e7, 1e14
_NOISE = 0.02
"""The rank, on a page of a thousand tokens, of a name not worth its place: it stood once in a list of a thousand."""
_SEVERAL = 3
"""Names that a tool has a line of its own for."""
_CHANGES: tuple[Deed, ...] = ("delete", "move", "create", "change")
_TOLD: tuple[Deed, ...] = ("run", "read", "attach")
_TOLD_ORDER = {
    deed: place for place, deed in enumerate(("create", "change", "move", "run", "read", "attach", "delete"))
}
"""What is said of a file; that it turned up in a search or a listing is not worth the words."""


class Shelf:
    """The two sections in which files and names stand. Names are bought one by one."""

    def __init__(self, ledger: Ledger, labels: Mapping[str, str], page: Page, without: Collection[str] = ()) -> None:
        self._labels, self._page, self._end = labels, page, ledger.end
        self._root = common_root(file.path for file in ledger.files)
        files = _distinct(ledger.files, self._root)
        heading = labels["files"] + (f" ({neutral(self._root)}/…)" if self._root else "")
        self._shown = page.section(heading, iter(()))
        self._others = page.section(labels["names"], iter(()))
        self._homes = _by_base(files)
        self._tools = _sources(ledger)
        self._noise = _NOISE * (1_000 / max(page.budget, 1_000)) ** 1.5
        ranked = files_by_rank(files, ledger.end)
        self._files = _Queue([] if "files" in without else ranked)
        self._names = _Queue([] if "names" in without else names_by_rank(ledger))
        self._folders = _shared_folders(
            [shown_path(file.path, self._root) for file in ranked[: max(8, page.budget // 20)]]
        )

    def files(self, share: float, least: float = 0.0) -> None:
        """Fill in files ranked at least so high, those of one folder under it; of those only seen just the name."""
        stop = self._page.left - int(self._page.budget * share)
        while (file := self._files.next) is not None and self._page.left > stop:
            if file_rank(file, self._end) < least or not self._show(file):
                return
            self._files.advance()

    def _show(self, file: File) -> bool:
        path = shown_path(file.path, self._root)
        folder, _, base = path.rpartition("/")
        place = self._folders.get(folder, -1)
        deeds = [_told(deed, number, self._labels) for deed, number in _main(file.deeds)]
        if place < 0:
            if not deeds:
                return self._attach(self._shown, Line(_LAST, f"- {self._labels['mention']}:", _SEEN), f" {path}")
            line = Line(-file.turn, f"- {path} ({', '.join(deeds)})", key=file.path)
            return self._page.add(self._shown, line, self._page.left)
        if not base:  # the folder itself, which has its line
            return True
        head = Line(place * _MANY, f"- {folder}/", key=folder + "/")
        if not deeds:
            return self._attach(self._shown, head, f" {base}")
        line = Line(place * _MANY + 1 - file.turn / _MANY, f"  - {base} ({', '.join(deeds)})", key=file.path)
        return self._begin(self._shown, head, line.text) and self._page.add(self._shown, line, self._page.left)

    def names(self, share: float, least: float = 0.0) -> None:
        """Fill in names, ranked at least so high, that do not stand on the page.

        What stood once in a long list is not worth its place, however much room there is.
        """
        stop = self._page.left - int(self._page.budget * share)
        while (name := self._names.next) is not None and self._page.left > stop:
            if name_rank(name, self._end) < max(least, self._noise):
                return
            if name.text not in self._page.words:
                if not self._put(name):
                    return
                self._page.words.add(name.text)
            self._names.advance()

    def left_out(self) -> list[str]:
        """What found no place."""
        return [
            f"{len(queue)} {kind}" for queue, kind in ((self._files, "files"), (self._names, "names")) if len(queue)
        ]

    def _put(self, name: Name) -> bool:
        """Beside its file when that is shown, else among the other names."""
        text = f" {neutral(name.text)}"
        path = self._home(name.home)
        if path and not path.endswith("/") and any(line.key == path for line in self._shown.lines):
            return self._page.attach(path, text if self._page.attached(path) else f":{text}")
        if name.home in self._tools:
            place = self._tools.index(name.home) - len(self._tools)
            return self._attach(self._others, Line(place, f"- {neutral(name.home)}:", name.home), text)
        return self._attach(self._others, Line(0.0, "-", _ALONE), text)

    def _attach(self, section: Section, line: Line, text: str) -> bool:
        return self._begin(section, line, text) and self._page.attach(line.key, text)

    def _begin(self, section: Section, line: Line, text: str) -> bool:
        """Make sure that the line is there, when the text that is to follow it is affordable too."""
        if any(shown.key == line.key for shown in section.lines):
            return True
        return self._page.add(section, line, self._page.left - self._page.count(text))

    def _home(self, home: str) -> str:
        if not home:
            return ""
        known = self._homes.get(home.rstrip("/").rpartition("/")[2], ())
        return next((path for path in known if f"/{path}".endswith("/" + home) or home.endswith("/" + path)), "")


class _Queue(Generic[T]):
    """Entries in order of rank, with a look at the next one."""

    def __init__(self, entries: Sequence[T]) -> None:
        self._entries, self._place = entries, 0

    @property
    def next(self) -> T | None:
        return self._entries[self._place] if self._place < len(self._entries) else None

    def advance(self) -> None:
        self._place += 1

    def __len__(self) -> int:
        return len(self._entries) - self._place


def _distinct(files: Iterable[File], root: str) -> list[File]:
    """One entry for what is shown alike: a path with its root and without."""
    found: dict[str, File] = {}
    for file in sorted(files, key=lambda file: (file.turn, file.path)):
        shown = shown_path(file.path, root)
        known = found.get(shown)
        if known is not None:
            deeds = dict(known.deeds)
            for deed, number in file.deeds:
                deeds[deed] = deeds.pop(deed, 0) + number
            file = replace(file, weight=known.weight + file.weight, deeds=tuple(deeds.items()))  # noqa: PLW2901 - both in one
        found[shown] = file
    return list(found.values())


def _sources(ledger: Ledger) -> list[str]:
    """The tools that several names came from, where names come from tools; the last one used last."""
    numbers = Counter(name.home for name in ledger.names if name.home)
    used = dict.fromkeys(action.tool for action in reversed(ledger.actions))
    return [tool for tool in reversed(used) if numbers[tool] >= _SEVERAL]


def _told(deed: Deed, number: int, labels: Mapping[str, str]) -> str:
    return labels[deed] + (f" {TIMES}{number}" if number > 1 else "")


def _main(deeds: Sequence[tuple[Deed, int]]) -> list[tuple[Deed, int]]:
    """The two deeds that tell most: the last that changed the file before the others. One made anew is not deleted."""
    changed = [entry for entry in deeds if entry[0] in _CHANGES]
    rest = sorted(
        changed[:-1] + [entry for entry in deeds if entry[0] in _TOLD], key=lambda entry: _TOLD_ORDER[entry[0]]
    )
    return [*changed[-1:], *(entry for entry in rest if entry[0] != "delete")][:2]


def _shared_folders(paths: Sequence[str]) -> dict[str, int]:
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


def _by_base(files: Iterable[File]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for file in files:
        found.setdefault(file.path.rstrip("/").rpartition("/")[2], []).append(file.path)
    return found
