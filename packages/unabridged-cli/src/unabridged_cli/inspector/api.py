"""What the page may ask, and what it may have done: names and arguments in, plain JSON out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from unabridged.archive.address import hide_credentials
from unabridged.archive.protocol import Archive, Scope
from unabridged.errors import SettingsError, UnabridgedError
from unabridged.recall import lookup
from unabridged_cli.archives import render_messages
from unabridged_cli.inspector import changes, compactions, search, threads, trial
from unabridged_cli.inspector.listing import ThreadListing
from unabridged_cli.inspector.live import LiveFeed

PAGE_ROWS: Final = 300
"""Rows of one answer."""
_MAX_ARGUMENT_CHARACTERS: Final = 1_000
Arguments = Mapping[str, str]


class NotAllowed(UnabridgedError):  # noqa: N818 - no error of the library ends with Error but the base
    """Raised for a change where the inspector was started to look only."""


class Download(NamedTuple):
    """A file for the browser to keep."""

    body: bytes
    kind: str
    headers: dict[str, str]


class Api:
    """The archive as the page sees it."""

    def __init__(self, archive: Archive, *, write: bool, follow: str | None = None) -> None:
        self._archive = archive
        self._write = write
        self._feed = None if follow is None else LiveFeed(follow)
        self._listing = ThreadListing(archive)
        self._changes = changes.PendingChanges()
        self._exports = changes.PendingChanges()
        self._last_search: tuple[str, lookup.ThreadSearch] = "", lookup.ThreadSearch("")
        """The last search over all threads, for the next page of its results."""

    def get(self, name: str, arguments: Arguments) -> Any:
        """Return the answer of this name; nothing changes by it."""
        answers = {
            "archive": self._describe_archive, "threads": self._list_threads, "thread": self._describe_thread,
            "record": self._describe_record,
            "context": self._describe_context, "messages": self._list_messages, "put-in": self._list_inserted_messages,
            "message": self._read_message,
            "search": self._search, "trial": self._run_trial, "export": self._export_thread,
            "live": self._read_live,
        }  # fmt: skip
        if name not in answers:
            raise SettingsError("there is no such question")
        return answers[name](arguments)

    def post(self, name: str, arguments: Arguments) -> dict[str, Any]:
        """Return a confirmation question for a change, or carry the change out once it is confirmed."""
        if name == "answer":
            done = self._changes.confirm(arguments.get("word", ""))
            self._listing.forget()
            return done
        if name == "export":
            return self._ask_export(arguments)
        plans = {"undo": changes.plan_undo, "forget": changes.plan_forget}
        if name not in plans:
            raise SettingsError("there is no such thing to do")
        if not self._write:
            raise NotAllowed(f"{name} changes the archive, and this page only looks: start it with --write")
        return self._changes.add(*plans[name](self._archive, self._find_scope(arguments)))

    def _describe_archive(self, _: Arguments) -> dict[str, Any]:
        spaces = self._listing.namespaces()
        return {
            "archive": hide_credentials(self._archive.url), "write": self._write, "live": self._feed is not None,
            "namespaces": spaces, "threads": sum(space["threads"] for space in spaces),
        }  # fmt: skip

    def _list_threads(self, arguments: Arguments) -> dict[str, Any]:
        first, count = _parse_number(arguments, "first", 0), min(_parse_number(arguments, "count", 60), PAGE_ROWS)
        contains = arguments.get("contains", "")[:_MAX_ARGUMENT_CHARACTERS]
        namespace, order = arguments.get("namespace", ""), arguments.get("order", "used")
        return self._listing.read_page(namespace, order, contains, first, count)

    def _describe_thread(self, arguments: Arguments) -> dict[str, Any]:
        count = max(1, _parse_number(arguments, "newest", threads.MAX_RECORDS))
        return threads.describe_thread(self._archive, self._find_scope(arguments), count)

    def _describe_record(self, arguments: Arguments) -> dict[str, Any]:
        return compactions.describe_compaction(self._archive, self._find_scope(arguments), arguments.get("record", ""))

    def _describe_context(self, arguments: Arguments) -> dict[str, Any]:
        scope, record_id = self._find_scope(arguments), arguments.get("record", "")
        return compactions.describe_context_after(self._archive, scope, record_id)

    def _list_messages(self, arguments: Arguments) -> dict[str, Any]:
        first = _parse_number(arguments, "first", 0)
        last = min(_parse_number(arguments, "last", first + PAGE_ROWS), first + PAGE_ROWS)
        scope = self._find_scope(arguments)
        return {"messages": [threads.describe_briefly(scope, part) for part in self._archive.parts(scope, first, last)]}

    def _list_inserted_messages(self, arguments: Arguments) -> dict[str, Any]:
        scope, hashes = self._find_scope(arguments), arguments.get("hashes", "").split(",")[:PAGE_ROWS]
        parts = threads.read_parts_by_hash(self._archive, scope, hashes)
        return {"messages": [threads.describe_briefly(scope, part) for part in parts]}

    def _read_message(self, arguments: Arguments) -> dict[str, Any]:
        turn, name = _parse_number(arguments, "turn", -1), arguments.get("hash", "")
        return {"message": threads.read_message(self._archive, self._find_scope(arguments), turn, name)}

    def _search(self, arguments: Arguments) -> dict[str, Any]:
        query, first = arguments.get("query", "")[:_MAX_ARGUMENT_CHARACTERS], _parse_number(arguments, "first", 0)
        if arguments.get("thread"):
            in_thread = lookup.ThreadSearch(query, [self._find_scope(arguments)])
            return search.search_threads(self._archive, in_thread, first, limit=20)
        last_query, matches = self._last_search
        if first == 0 or last_query != query:
            matches = lookup.find_threads(self._archive, self._archive.namespaces(), query)
            self._last_search = query, matches
        return search.search_threads(self._archive, matches, first)

    def _run_trial(self, arguments: Arguments) -> dict[str, Any]:
        texts = (arguments.get(name, "")[:_MAX_ARGUMENT_CHARACTERS] for name in ("window", "trigger", "keep"))
        return trial.run_trial(self._archive, self._find_scope(arguments), *texts)

    def _read_live(self, arguments: Arguments) -> dict[str, Any]:
        if self._feed is None:
            raise SettingsError("nothing is followed: start the inspector with --follow SOURCE")
        return self._feed.read(_parse_number(arguments, "version", -1))

    def _ask_export(self, arguments: Arguments) -> dict[str, Any]:
        """Return the question whether the messages may leave the archive as a file, and the word for `export`."""
        scope, layout = self._find_scope(arguments), arguments.get("layout", "messages")
        contents = next(iter(self._archive.holdings(scope.namespace, [scope.thread])), None)
        if contents is None:
            raise SettingsError("there is nothing of this thread in the archive")
        question = (
            f"Save {contents.messages:,} messages of this thread to a file, in the clear? Whoever can read the file "
            "can read them; forgetting the thread does not remove it."
        )
        return self._exports.add(question, lambda: {"scope": scope, "as_text": layout == "text"})

    def _export_thread(self, arguments: Arguments) -> Download:
        chosen = self._exports.confirm(arguments.get("word", ""))
        parts = self._archive.parts(chosen["scope"])
        body = "".join(render_messages(parts, as_text=chosen["as_text"])).encode("utf-8", "replace")
        name = "thread.txt" if chosen["as_text"] else "thread.jsonl"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Download(body, "application/octet-stream", headers)

    def _find_scope(self, arguments: Arguments) -> Scope:
        return self._listing.find_scope(arguments.get("thread", ""))


def _parse_number(arguments: Arguments, name: str, default: int) -> int:
    try:
        return max(-1, min(int(arguments.get(name, default)), 10**9))
    except ValueError as error:
        raise SettingsError(f"{name} is no number: {arguments[name][:40]!r}") from error
