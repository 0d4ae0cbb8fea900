"""The `unabridged` of a wrapped client: an engine for each wire format, and what was sent last in each thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from unabridged.adapters.kit import AGENT_MODEL, Agent, Body, BoundedMapping, Endpoint, Engine, Request, current_thread
from unabridged.archive.names import Name, check_name, optional_name
from unabridged.archive.protocol import Archive, Hit, Scope
from unabridged.compactor import Compaction, Compactor
from unabridged.errors import SettingsError, WontFit
from unabridged.formats import DEFAULT, Format, detect_message_format
from unabridged.recall.tools import Tools, tools

log = logging.getLogger("unabridged")

_MAX_THREADS = 256
"""The newest threads are remembered with what was sent in them."""


class History:
    """The record of a wrapped client's conversations: replay, undo, search and read.

    Takes the keywords of `Compactor`. Without `thread`, a call here is about the thread of the context
    (`with unabridged.thread("t1"):`), else about the client's own. `format_` is that of every message, where there is
    only one.
    """

    def __init__(self, thread: Name | None = None, *, format_: Format | None = None, **keywords: Any) -> None:
        self._own_thread = optional_name(thread)
        self._keywords = keywords
        self._lock = threading.RLock()
        self._format = format_
        self._first_engine = Engine(format_ or DEFAULT, **keywords)
        self._engines = {self._first_engine.format.name: self._first_engine}
        self._sent: BoundedMapping[str | None, tuple[Compactor, Compaction]] = BoundedMapping(_MAX_THREADS)
        self._logged_kept = False

    @property
    def thread(self) -> str | None:
        """Return the thread that a request made here and now belongs to; None for one that has no name."""
        return current_thread() or self._own_thread

    @property
    def archive(self) -> Archive:
        """Return the archive of all conversations."""
        return self._first_engine.archive

    # -- for requests -------------------------------------------------------------------------------------------------

    def is_ready(self, endpoint: Endpoint) -> bool:
        """Return whether a request of this kind needs no file to be opened."""
        engine = self._engines.get(endpoint.format.name)
        return engine is not None and engine.is_ready

    @property
    def is_native(self) -> bool:
        """Return whether the provider compacts by itself."""
        return self._keywords.get("model") is AGENT_MODEL

    def request(self, endpoint: Endpoint, body: Body, own: Any = None, namespace: Name | None = None) -> Request:
        """Return the request as the engine sees it. `own` asks the model that it names.

        What is sent is remembered, unless it belongs to another `namespace`.
        """
        tools = endpoint.read_schemas(body)
        messages, agent = endpoint.read_messages(body), endpoint.agent(body, tools)
        beside = {"system": endpoint.read_system_prompt(body), "tools": tools, "max_tokens": endpoint.max_tokens(body)}
        beside |= {"thread": self.thread, "namespace": namespace, "own": own}
        request = self._engine_for(endpoint.format).request(messages, agent, **beside)
        remember = partial(self._remember, request.thread, request.compactor) if namespace is None else None
        return replace(request, on_fitted=remember, as_host_error=_to_provider_error)

    def is_sent_unchanged(self, endpoint: Endpoint, body: Any) -> bool:
        """Return whether nothing is to be fitted: no messages, or a conversation that the provider keeps."""
        if not isinstance(body, Mapping) or not body.get(endpoint.messages):
            return True
        if (kept := endpoint.find_keeping_field(body)) is not None and not self._logged_kept:
            self._logged_kept = True
            log.info("requests with %s are sent as they are: the provider keeps that conversation", kept)
        return kept is not None

    def _remember(self, thread: str | None, compactor: Compactor, fitted: Compaction) -> None:
        with self._lock:
            self._sent[thread] = (compactor, fitted)

    def _engine_for(self, format_: Format) -> Engine:
        with self._lock:
            if format_.name not in self._engines:
                keywords = {**self._keywords, "archive": self._first_engine.archive}
                self._engines[format_.name] = Engine(format_, **keywords)
            return self._engines[format_.name]

    # -- for its owner ------------------------------------------------------------------------------------------------

    def last(self, thread: Name | None = None) -> Compaction | None:
        """Return the request that was sent last in the thread: messages, tokens and receipt; None before any."""
        last = self._sent.get(self._resolve_thread(thread))
        return last[1] if last is not None else None

    def compactor(self, thread: Name | None = None, messages: Sequence[Any] = ()) -> Compactor:
        """Return the compactor that served the thread last, else one for messages like these."""
        last = self._sent.get(self._resolve_thread(thread))
        if last is not None:
            return last[0]
        return self._engine_for(self._format or detect_message_format(messages)).compactor_for(Agent())

    def replay(self, messages: list[Any] | None = None, *, thread: Name | None = None) -> list[Any]:
        """Return the original conversation of what was sent last, or of this list of messages."""
        name = self._resolve_thread(thread)
        result = self._messages_or_last_sent(messages, name)
        return self.compactor(name, result).replay(result, thread=name)

    def undo(self, messages: list[Any] | None = None, *, thread: Name | None = None) -> list[Any]:
        """Take the newest compaction back; return what was sent last, or this list, as it was before."""
        name = self._resolve_thread(thread)
        result = self._messages_or_last_sent(messages, name)
        return self.compactor(name, result).undo(result, thread=name)

    def search(self, query: str, *, thread: Name | None = None, limit: int = 10) -> Sequence[Hit]:
        """Return the archived messages of the thread that match best: literal words, no query syntax."""
        name = self._require_thread(thread)
        return self.compactor(name).search(query, thread=name, limit=limit)

    def read(self, ref: str | int, *, thread: Name | None = None) -> Any:
        """Return the archived message exactly as it was, by a hit's `ref` or its turn."""
        name = self._require_thread(thread)
        return self.compactor(name).read(ref, thread=name)

    def pin(self, text: str, *, thread: Name | None = None) -> None:
        """Keep a text in every summary turn of the thread, byte for byte, from the next compaction on."""
        self._first_engine.compactor_for_records().pin(text, thread=self._require_thread(thread))

    def unpin(self, text: str, *, thread: Name | None = None) -> bool:
        """Take a pin away from the next compaction on; return whether there was one with this text."""
        return self._first_engine.compactor_for_records().unpin(text, thread=self._require_thread(thread))

    def pins(self, *, thread: Name | None = None) -> Sequence[str]:
        """Return the texts that are pinned to the thread, oldest first."""
        return self._first_engine.compactor_for_records().pins(thread=self._require_thread(thread))

    def recall(self, thread: Name | None = None) -> Tools:
        """Return `search_history` and `read_history` for the agent of this thread: their schemas, and what answers."""
        return tools(self.archive, Scope(self._first_engine.namespace, self._require_thread(thread)))

    def close(self) -> None:
        """Close the summariser, and the archive if it was opened here; what was learned is kept."""
        for engine in reversed(self._engines.values()):
            engine.close()

    def _messages_or_last_sent(self, messages: list[Any] | None, thread: str | None) -> list[Any]:
        if messages is not None:
            return messages
        if (sent := self.last(thread)) is None:
            raise SettingsError(f"nothing was sent in thread {thread!r} yet: pass the messages")
        return sent.messages

    def _resolve_thread(self, thread: Name | None) -> str | None:
        return self.thread if thread is None else check_name(thread)

    def _require_thread(self, thread: Name | None) -> str:
        if (name := self._resolve_thread(thread)) is None:
            raise SettingsError("name the conversation: thread=, wrap(client, thread=) or `with unabridged.thread(…)`")
        return name


def _to_provider_error(wont: WontFit) -> Exception:
    """Return the provider's own error, with what we know of it as a note; `wont` where nothing was sent yet."""
    refusal = wont.__cause__
    if not isinstance(refusal, Exception):
        return wont
    refusal.add_note(f"unabridged: {wont}")
    return refusal
