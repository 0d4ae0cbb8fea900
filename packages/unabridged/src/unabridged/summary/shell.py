"""Read what a shell command does to which files. A reader of commands, not a shell: it runs nothing, never fails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from unabridged.summary.ledger import Deed

MAX_COMMAND_CHARACTERS = 20_000
"""Characters of a command that are read; what comes after is what it feeds to a program."""

_HEREDOC_PATTERN = re.compile(r"(?ms)<<-?\s*+(['\"]?)(\w++)\1(?P<rest>[^\n]{0,1000})\n.*?(?:^[ \t\r]*+\2[ \t\r]*+$|\Z)")
_EDIT_COMMAND_PATTERN = re.compile(r"\A(\s*(?:edit|insert|append|str_replace)\b[^\n]*)\n.*\Z", re.DOTALL)
_QUOTED_PATTERN = re.compile(r"'[^']*+(?:'|\Z)|\"(?:[^\"\\]|\\(?:.|\Z))*+(?:\"|\Z)", re.DOTALL)
_COMMAND_END_PATTERN = re.compile(r"&&|\|\||[;|\n]|&(?!\d|>)")
_REDIRECT_PATTERN = re.compile(r"(?:^|[^<>&\d])\d?(>>?)\s*([^\s&|;<>()]+)")
_PYTHON_WRITE_PATTERN = re.compile(
    r"open\(\s*[rbuf]*(['\"])([^'\"\n]+)\1\s*,\s*(?:mode\s*=\s*)?['\"][wax]|Path\(['\"]([^'\"\n]+)['\"]\)\.write_"
)
_WORD_PATTERN = re.compile(r"(?:'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|[^\s'\"])+")
_PATH_PATTERN = re.compile(r"\A(?!-)(?!\w+://)(?:[\w.@+~-]*+/)*[\w.@+-]*[\w@+-]/?\Z")


_EXTENSION_PATTERN = re.compile(r"/[^/]*\w\.[A-Za-z]\w{0,6}\Z")
_ASSIGNMENT_PATTERN = re.compile(r"\A\w+=\S*\Z")

TOOL_TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("tools.json").read_text(encoding="utf-8"))
"""What is known of programs and tools by name: their deeds; `quiet` ones that say nothing of a file, `patterns` whose
quoted words are no files, `plain` ones that say no more than their deed and their file, the `editor` of the open file.
Of a file named without its folder the `extensions`: what often is something else (`django.conf`) is not among them."""


def load_words(kind: str) -> frozenset[str]:
    """Return the words of this kind in the table."""
    return frozenset(TOOL_TABLE[kind].split())


def load_deeds(kind: str) -> dict[str, Deed]:
    """Return the deed of each word of this kind in the table."""
    return {word: deed for deed, words in TOOL_TABLE[kind].items() for word in words.split()}


_EXTENSIONS, _WRAPPERS, _QUIET = map(load_words, ("extensions", "wrappers", "quiet"))
_PATTERNS, _PLAIN, EDITOR = map(load_words, ("patterns", "plain", "editor"))
PROGRAM_DEEDS, _GIT = map(load_deeds, ("programs", "git"))
"""The deeds of programs that are known, and of the commands of git."""
_DEEDS_BY_STRENGTH: tuple[Deed, ...] = ("list", "read", "search", "fetch", "run", "move", "change", "create", "delete")


class Effect(NamedTuple):
    """What a call or a command does: its strongest deed, what a reader wants to see of it, the files it touches."""

    deed: Deed
    target: str
    """Of a command the line, without what it feeds to a program and without changes of directory."""
    touched: tuple[tuple[str, Deed], ...]
    wrote: str
    """All that the model wrote for it."""
    gist: str = ""
    """What it puts into a file or feeds to a program."""


def read_command(text: str) -> Effect:
    """Return the deeds of a command line, the files they went to, and the line that is shown."""
    body = text[:MAX_COMMAND_CHARACTERS].strip().replace("\\\n", " ")
    line = _EDIT_COMMAND_PATTERN.sub(r"\1", _HEREDOC_PATTERN.sub(lambda found: f"<<\u2026{found['rest']}", body))
    masked = _QUOTED_PATTERN.sub(lambda found: "\x00" * len(found[0]), line)
    touched, deeds = dict[str, Deed](), list[Deed | None]()
    pieces: list[str] = []
    start = 0
    for stop, resume in [*(found.span() for found in _COMMAND_END_PATTERN.finditer(masked)), (len(line), len(line))]:
        piece = line[start:stop].strip()
        deeds.append(_read_piece(line[start:stop], masked[start:stop], touched))
        if piece and not line[start:stop].lstrip().startswith(("source ", "export ", "#")):
            mark = line[stop:resume].strip()
            pieces.append(piece + (f" {mark}" if mark and mark != ";" else ";"))
        start = resume
    for found in _PYTHON_WRITE_PATTERN.finditer(body):
        touched[found[2] or found[3]] = "change"
        deeds.append("change")
    strongest = _find_strongest(*deeds)
    target = " ".join(pieces).strip("&|; ") or line
    if len(touched) == len(pieces) == 1 and strongest != "change" and target.split()[0] in _PLAIN:
        (target,) = touched
    return Effect(strongest, target, tuple(touched.items()), text, _find_fed_text(body))


def _find_fed_text(text: str) -> str:
    if found := _HEREDOC_PATTERN.search(text):
        return found[0].partition("\n")[2].rpartition("\n")[0]
    return text.partition("\n")[2] if _EDIT_COMMAND_PATTERN.match(text) else ""


def _read_piece(piece: str, masked: str, touched: dict[str, Deed]) -> Deed | None:
    """Return the deed of one simple command; add the files it went to to `touched`."""
    words = [word for word in _WORD_PATTERN.findall(piece[:4_000]) if word]
    while words and (words[0] in _WRAPPERS or _ASSIGNMENT_PATTERN.match(words[0]) or words[0].lstrip("-").isdigit()):
        words.pop(0)
    program = words[0].rpartition("/")[2].strip("'\"(") if words else ""
    deed = _find_program_deed(program, words)
    found = dict.fromkeys(_find_file_arguments(program, words, deed), deed) if deed else {}
    if program in {"cp", "rsync"}:
        found.update(dict.fromkeys([*found][:-1], "read"))
    written = dict(_find_redirections(piece, masked))
    for path, done in {**found, **written}.items():
        touched[path] = _find_strongest(touched.get(path), done)
    return _find_strongest(*written.values()) if written and (deed is None or program == "cat") else deed


def _find_redirections(piece: str, masked: str) -> Iterator[tuple[str, Deed]]:
    """Yield the files that output is redirected to. Quoted text is masked: a `>` in it redirects nothing."""
    for found in _REDIRECT_PATTERN.finditer(masked):
        path = piece[found.start(2) : found.end(2)].strip("'\"")
        if path and not path.startswith(("/dev/", "&", "\x00")):
            yield path, "create" if found[1] == ">" else "change"


def _find_file_arguments(program: str, words: list[str], deed: Deed) -> Iterator[str]:
    """Yield the words that name files; a script that is run by its path is one of them."""
    for word in words if deed == "run" else words[1:]:
        path = word.strip("'\"(),:")
        branch = program == "git" and not has_extension(path)
        if looks_like_path(path) and not branch and not (program in _PATTERNS and word[0] in "'\""):
            yield path


def _find_program_deed(program: str, words: list[str]) -> Deed | None:
    if not program or program in _QUIET or program.startswith("#"):
        return None
    if program in {"sed", "perl"}:
        return "change" if any(word.startswith("-") and "i" in word[:4] for word in words[1:3]) else "read"
    if program == "tee":
        return "change" if "-a" in words else "create"
    if program == "git" and len(words) > 1:
        return _GIT.get(words[1], "run")
    return PROGRAM_DEEDS.get(program, "run")


def _find_strongest(*deeds: Deed | None) -> Deed:
    return max(filter(None, deeds), key=_DEEDS_BY_STRENGTH.index, default="run")


def looks_like_path(word: str) -> bool:
    """Return whether a word names a file or a folder by its form: it has a folder, or a name with an extension."""
    if len(word) < 3 or len(word) > 260 or not _PATH_PATTERN.match(word):
        return False
    return "/" in word.strip("/") or word.startswith(("/", "~/", "./")) or has_extension(word)


def has_extension(word: str) -> bool:
    """Return whether the word ends like the name of a file; without a folder, like one of a common kind."""
    if _EXTENSION_PATTERN.search(word):
        return True
    stem, dot, extension = word.rpartition(".")
    return bool(dot and stem) and extension.lower() in _EXTENSIONS
