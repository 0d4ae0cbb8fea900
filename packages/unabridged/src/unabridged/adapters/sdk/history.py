"""What a wrapped client has as `unabridged`: an engine for each wire format, and what was sent last in each thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from unabridged.adapters.kit import Agent, Body, Endpoint, Engine, Newest, Request, current_thread
from unabridged.archive.names import Name, check_name, optional_name
from unabridged.archive.protocol import Archive, Hit, Scope
from unabridged.compactor import Compaction, Compactor
from unabridged.errors import SettingsError
from unabridged.formats import DEFAULT, Format, detect
from unabridged.recall.tools import Tools, tools

log = logging.getLogger("unabridged")

_REMEMBERED = 256
"""So many threads, the newest, are remembered with what was sent in them."""


class History:
    """The record of a wrapped client's conversations: replay, undo, search and read.

    Takes the keywords of `Compactor`. Without `thread`, a call here is about the thread of the context
    (`with unabridged.thread("t1"):`), else about the client's own.
    """

    def __init__(self, thread: Name | None = None, **keywords: Any) -> None:
        self._own_thread = optional_name(thread)
        self._keywords = keywords
        self._lock = threading.RLock()
        self._first = Engine(DEFAULT, **keywords)
        self._engines = {DEFAULT.name: self._first}
        self._sent: Newest[str | None, tuple[Compactor, Compaction]] = Newest(_REMEMBERED)
        self._told = False

    @property
    def thread(self) -> str | None:
        """The thread that a request made here and now belongs to; None for one that has no name."""
        return current_thread() or self._own_thread

    @property
    def archive(self) -> Archive:
        """Where everything goes."""
        return self._first.archive

    # -- for requests -------------------------------------------------------------------------------------------------

    def is_ready(self, endpoint: Endpoint) -> bool:
        """Whether a request of this kind needs no file to be opened."""
        engine = self._engines.get(endpoint.format.name)
        return engine is not None and engine.ready

    def request(self, endpoint: Endpoint, body: Body) -> Request:
        """The request as the engine sees it; what is sent is remembered."""
        tools = endpoint.schemas(body)
        request = self._engine(endpoint.format).request(
            endpoint.conversation(body),
            endpoint.agent(body, tools),
            thread=self.thread,
            system=endpoint.prompt(body),
            tools=tools,
            max_tokens=endpoint.max_tokens(body),
        )
        return replace(request, on_fitted=partial(self._remember, request.thread, request.compactor))

    def leaves_alone(self, endpoint: Endpoint, body: Any) -> bool:
        """Whether there is nothing to fit: no messages, or a conversation that the provider keeps; said once."""
        if not isinstance(body, Mapping) or not body.get(endpoint.messages):
            return True
        kept = endpoint.kept_by(body)
        if kept is not None and not self._told:
            self._told = True
            log.info("requests with %s are sent as they are: the provider keeps that conversation", kept)
        return kept is not None

    def _remember(self, thread: str | None, compactor: Compactor, fitted: Compaction) -> None:
        with self._lock:
            self._sent[thread] = (compactor, fitted)

    def _engine(self, format_: Format) -> Engine:
        with self._lock:
            if format_.name not in self._engines:
                keywords = {**self._keywords, "archive": self._first.archive}
                self._engines[format_.name] = Engine(format_, **keywords)
            return self._engines[format_.name]

    # -- for its owner ------------------------------------------------------------------------------------------------

    def last(self, thread: Name | None = None) -> Compaction | None:
        """The request that was sent last in the thread: its messages, its tokens, its receipt; None before any."""
        found = self._sent.get(self._name_of(thread))
        return found[1] if found is not None else None

    def compactor(self, thread: Name | None = None, messages: Sequence[Any] = ()) -> Compactor:
        """The compactor that served the thread last, else one for messages like these."""
        found = self._sent.get(self._name_of(thread))
        return found[0] if found is not None else self._engine(detect(messages)).compactor_for(Agent())

    def replay(self, messages: list[Any] | None = None, *, thread: Name | None = None) -> list[Any]:
        """The original conversation of what was sent last, or of this list of messages."""
        name = self._name_of(thread)
        given = self._messages(messages, name)
        return self.compactor(name, given).replay(given, thread=name)

    def undo(self, messages: list[Any] | None = None, *, thread: Name | None = None) -> list[Any]:
        """What was sent last, or this list, before its newest compaction, which is taken back."""
        name = self._name_of(thread)
        given = self._messages(messages, name)
        return self.compactor(name, given).undo(given, thread=name)

    def search(self, query: str, *, thread: Name | None = None, limit: int = 10) -> Sequence[Hit]:
        """The archived messages of the thread that match best: literal words, no query syntax."""
        name = self._named(thread)
        return self.compactor(name).search(query, thread=name, limit=limit)

    def read(self, ref: str | int, *, thread: Name | None = None) -> Any:
        """The archived message exactly as it was, by a hit's `ref` or its turn."""
        name = self._named(thread)
        return self.compactor(name).read(ref, thread=name)

    def pin(self, text: str, *, thread: Name | None = None) -> None:
        """Keep a text in every summary turn of the thread, byte for byte, from the next compaction on."""
        self._first.for_records().pin(text, thread=self._named(thread))

    def unpin(self, text: str, *, thread: Name | None = None) -> bool:
        """Take a pin away from the next compaction on; return whether there was one with this text."""
        return self._first.for_records().unpin(text, thread=self._named(thread))

    def pins(self, *, thread: Name | None = None) -> Sequence[str]:
        """Return the texts that are pinned to the thread, oldest first."""
        return self._first.for_records().pins(thread=self._named(thread))

    def recall(self, thread: Name | None = None) -> Tools:
        """`search_history` and `read_history` for the agent of this thread: their schemas, and what they answer."""
        return tools(self.archive, Scope(self._first.namespace, self._named(thread)))

    def close(self) -> None:
        """Let go of the summariser, and of the archive if it was opened here; what was learned is kept."""
        for engine in reversed(self._engines.values()):
            engine.close()

    def _messages(self, messages: list[Any] | None, thread: str | None) -> list[Any]:
        if messages is not None:
            return messages
        sent = self.last(thread)
        if sent is None:
            raise SettingsError(f"nothing was sent in thread {thread!r} yet: pass the messages")
        return sent.messages

    def _name_of(self, thread: Name | None) -> str | None:
        return self.thread if thread is None else check_name(thread)

    def _named(self, thread: Name | None) -> str:
        name = self._name_of(thread)
        if name is None:
            raise SettingsError("name the conversation: thread=, wrap(client, thread=) or `with unabridged.thread(…)`")
        return name
