"""Repeat recorded compactions with a real client, and measure what its context kept and lost.

The conversation is seeded as a session of the client, at the size it had; asked to go on, the client compacts by itself
and gets the summary that was written then. Once it is alone, once with our hooks; all else is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from real_clients.clients import Driver, Place, new_id, unabridged
from real_clients.loopback import Loopback, Request, serving
from real_clients.seeds import Recorded, result_text
from unabridged.archive import open_archive
from unabridged.archive.protocol import Archive, Scope
from unabridged.authorship import assign_origins, remove_host_words
from unabridged.formats import FORMATS
from unabridged.recall.lookup import search
from unabridged_corpus.evaluate.score import NeedsScore, count_held_needs, find_needs

NAMESPACE = "default"
NOTHING = NeedsScore(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a context should have after the compaction: every message of a person, word for word."""

    people: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one client had after one compaction."""

    name: str
    client: str
    ours: bool
    exit: int
    tokens: int = 0
    """Of the first request after the compaction, all of it."""
    needs: NeedsScore = NOTHING
    people: tuple[int, int] = (0, 0)
    """Messages of people that stand there word for word, and of how many."""
    archived: tuple[int, int] = (0, 0)
    found: tuple[int, int] = (0, 0)
    """Of what is needed and no longer stands there: how much our search gives back."""
    lost: tuple[str, ...] = field(repr=False, default=())
    """The messages of people that no longer stand there word for word, and what is needed."""
    trouble: str = ""


_WANTED: dict[str, Wanted] = {}


def wanted_of(recorded: Recorded) -> Wanted:
    """Return every message of a person, equal ones once, without what the host added to them."""
    if recorded.name in _WANTED:
        return _WANTED[recorded.name]
    views = assign_origins([FORMATS["anthropic"].read(message) for message in recorded.messages])
    said = [remove_host_words(view.text).strip() for view in views if view.origin == "person"]
    _WANTED[recorded.name] = Wanted(tuple(dict.fromkeys(filter(None, said))))
    return _WANTED[recorded.name]


def play(driver: Driver, place: Place, recorded: Recorded, *, ours: bool) -> Outcome:
    """Let the client continue the conversation past its limit, and measure its next request."""
    with serving(Loopback(recorded.reply)) as upstream:
        driver.prepare(place, upstream)
        trouble = _install(driver, place) if ours else ""
        session = new_id()
        driver.seed(place.home, place.project, session, recorded)
        done = driver.start(place, recorded.prompt, session)
        found = Outcome(recorded.name, driver.name, ours, done.returncode, trouble=trouble)
        after = upstream.after_compaction()
        if after is None:
            found = replace(found, trouble=trouble or "the client did not compact: there was too little it could take")
        if after is None and not upstream.of("turn"):
            return replace(found, trouble=f"the client sent nothing: {(done.stderr or done.stdout)[-300:]}")
        found = replace(found, **_measured(recorded, after or upstream.of("turn")[0]))
        if after is None or not ours:
            return found
        return replace(found, **_recorded(place, f"{driver.name}:{session}", recorded, after))


def _install(driver: Driver, place: Place) -> str:
    done = unabridged(place, "install", driver.name)
    return f"install: {done.stderr[-300:]}" if done.returncode else ""


def _measured(recorded: Recorded, request: Request) -> dict[str, Any]:
    """Measure what the request holds of what is needed next, and of what people wrote, word for word."""
    text, wanted = request.text(), wanted_of(recorded)
    said = flat(text)
    lost = [words for words in wanted.people if flat(words) not in said]
    return {
        "tokens": request.tokens,
        "needs": count_held_needs(text, find_needs(recorded.messages, recorded.post)),
        "people": (len(wanted.people) - len(lost), len(wanted.people)),
        "lost": (*lost, *_missing(recorded, text)),
    }


def _missing(recorded: Recorded, text: str) -> list[str]:
    """Return the file names and identifiers that are needed next and are not in the text."""
    needed = find_needs(recorded.messages, recorded.post)
    names = [*(path.rpartition("/")[2] for path in needed.files), *needed.names]
    return sorted(name for name in names if name not in text)


def flat(text: str) -> str:
    """Return the text with each run of white space and quote marks as one space, so that line breaks do not matter."""
    return re.sub(r"[\s>]+", " ", text).strip()


def _recorded(place: Place, thread: str, recorded: Recorded, sent: Request) -> dict[str, Any]:
    """Return how many texts and results of the session the archive has word for word, and what a search there finds."""
    said, missing = list(_said(recorded.history)), _missing(recorded, sent.text())
    if not place.archive.is_file():
        return {"archived": (0, len(said)), "found": (0, len(missing))}
    archive, scope = open_archive(f"sqlite:///{place.archive}"), Scope(NAMESPACE, thread)
    try:
        kept = "\n".join(part.text for part in archive.parts(scope))
        found = sum(_finds(archive, scope, name) for name in missing)
    finally:
        archive.close()
    return {"archived": (sum(text in kept for text in said), len(said)), "found": (found, len(missing))}


def _finds(archive: Archive, scope: Scope, name: str) -> bool:
    """Return whether a search for the name, as the tools do it, returns a place that has it."""
    return any(name in result.excerpt for result in search(archive, scope, name).results)


def _said(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    for message in messages:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            text = block["text"] if block["type"] == "text" else ""
            text = result_text(block) if block["type"] == "tool_result" else text
            if text.strip():
                yield text
