"""What the page may ask, and what it may have done: names and arguments in, plain JSON out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from unabridged.archive.address import without_credentials
from unabridged.archive.protocol import Archive, Scope
from unabridged.errors import SettingsError, UnabridgedError
from unabridged.recall import lookup
from unabridged_cli.inspector import changes, compactions, finding, threads, trial
from unabridged_cli.inspector.listing import Listing

PAGE: Final = 300
"""Rows of one answer."""
_LONGEST: Final = 1_000
Asked = Mapping[str, str]


class NotAllowed(UnabridgedError):  # noqa: N818 - the others are called so, too
    """Refused: the inspector was started to look only."""


class Download(NamedTuple):
    """A file for the browser to keep."""

    body: bytes
    kind: str
    headers: dict[str, str]


class Api:
    """The archive as the page sees it."""

    def __init__(self, archive: Archive, *, write: bool) -> None:
        self._archive = archive
        self._write = write
        self._listing = Listing(archive)
        self._changes = changes.Asked()
        self._exports = changes.Asked()
        self._held: tuple[str, lookup.Across] = "", lookup.Across("")
        """The last search over all threads: its next page asks for the rest of the same threads."""

    def warm_up(self) -> None:
        """Read the list of threads while the browser starts; what goes wrong is told when it is asked for."""
        with suppress(UnabridgedError):
            self._listing.newest_first()

    def get(self, name: str, asked: Asked) -> Any:
        """What is asked for by this name; nothing changes by it."""
        answers = {
            "archive": self._about, "threads": self._threads, "thread": self._thread, "record": self._record,
            "context": self._context, "messages": self._messages, "put-in": self._put_in, "message": self._message,
            "search": self._search, "trial": self._trial, "export": self._export,
        }  # fmt: skip
        if name not in answers:
            raise SettingsError("there is no such question")
        return answers[name](asked)

    def post(self, name: str, asked: Asked) -> dict[str, Any]:
        """Ask for something to be done: told at first, done when the word for it comes back."""
        if name == "answer":
            done = self._changes.answer(asked.get("word", ""))
            self._listing.forget()
            return done
        if name == "export":
            return self._ask_export(asked)
        works = {"undo": changes.undo, "forget": changes.forget}
        if name not in works:
            raise SettingsError("there is no such thing to do")
        if not self._write:
            raise NotAllowed(f"{name} changes the archive, and this page only looks: start it with --write")
        return self._changes.ask(*works[name](self._archive, self._scope(asked)))

    def _about(self, _: Asked) -> dict[str, Any]:
        spaces = self._listing.namespaces()
        return {
            "archive": without_credentials(self._archive.url), "write": self._write,
            "namespaces": spaces, "threads": sum(space["threads"] for space in spaces),
        }  # fmt: skip

    def _threads(self, asked: Asked) -> dict[str, Any]:
        first, count = _whole(asked, "first", 0), min(_whole(asked, "count", 60), PAGE)
        contains = asked.get("contains", "")[:_LONGEST]
        return self._listing.page(asked.get("namespace", ""), asked.get("order", "used"), contains, first, count)

    def _thread(self, asked: Asked) -> dict[str, Any]:
        return threads.describe(
            self._archive, self._scope(asked), max(1, _whole(asked, "newest", threads.MOST_RECORDS))
        )

    def _record(self, asked: Asked) -> dict[str, Any]:
        return compactions.describe(self._archive, self._scope(asked), asked.get("record", ""))

    def _context(self, asked: Asked) -> dict[str, Any]:
        return compactions.context_after(self._archive, self._scope(asked), asked.get("record", ""))

    def _messages(self, asked: Asked) -> dict[str, Any]:
        first = _whole(asked, "first", 0)
        last = min(_whole(asked, "last", first + PAGE), first + PAGE)
        return {"messages": threads.list_messages(self._archive, self._scope(asked), first, last)}

    def _put_in(self, asked: Asked) -> dict[str, Any]:
        hashes = asked.get("hashes", "").split(",")[:PAGE]
        return {"messages": threads.list_put_in(self._archive, self._scope(asked), hashes)}

    def _message(self, asked: Asked) -> dict[str, Any]:
        turn = _whole(asked, "turn", -1)
        return {"message": threads.read_message(self._archive, self._scope(asked), turn, asked.get("hash", ""))}

    def _search(self, asked: Asked) -> dict[str, Any]:
        query, first = asked.get("query", "")[:_LONGEST], _whole(asked, "first", 0)
        if asked.get("thread"):
            return finding.search(self._archive, lookup.Across(query, [self._scope(asked)]), first, limit=20)
        asked_before, held = self._held
        if first == 0 or asked_before != query:
            held = finding.threads_with(self._archive, query)
            self._held = query, held
        return finding.search(self._archive, held, first)

    def _trial(self, asked: Asked) -> dict[str, Any]:
        wanted = (asked.get(name, "")[:_LONGEST] for name in ("window", "trigger", "keep"))
        return trial.run(self._archive, self._scope(asked), *wanted)

    def _ask_export(self, asked: Asked) -> dict[str, Any]:
        """Ask whether the thread's messages may leave the archive as a file; the word is what `export` takes."""
        scope, layout = self._scope(asked), asked.get("layout", "messages")
        held = next(iter(self._archive.holdings(scope.namespace, [scope.thread])), None)
        if held is None:
            raise SettingsError("there is nothing of this thread in the archive")
        question = (
            f"Save {held.messages:,} messages of this thread to a file, in the clear? Whoever can read the file can "
            "read them; forgetting the thread does not remove it."
        )
        return self._exports.ask(question, lambda: {"scope": scope, "layout": layout})

    def _export(self, asked: Asked) -> Download:
        wanted = self._exports.answer(asked.get("word", ""))
        layout = wanted["layout"]
        body = "".join(changes.export(self._archive, wanted["scope"], layout)).encode("utf-8", "replace")
        name = "thread.txt" if layout == "text" else "thread.jsonl"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Download(body, "application/octet-stream", headers)

    def _scope(self, asked: Asked) -> Scope:
        return self._listing.find(asked.get("thread", ""))


def _whole(asked: Asked, name: str, default: int) -> int:
    try:
        return max(-1, min(int(asked.get(name, default)), 10**9))
    except ValueError as error:
        raise SettingsError(f"{name} is no number: {asked[name][:40]!r}") from error
