"""Compact, undo and replay sessions, and resume them with the real client, which must accept them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from real_clients.clients import LIMIT, Driver, Place, new_id, unabridged
from real_clients.grown import Check
from real_clients.loopback import Loopback, Request, serving
from real_clients.recorded import flat
from real_clients.seeds import Recorded
from unabridged_testing.conversations import refusals

FORMATS = {"claude-code": "anthropic", "codex": "openai-responses", "pi": "anthropic"}
MARK = "[unabridged summary"
TOLD = "[unabridged] "
"""How what our hook tells begins, and the summary that pi takes from it."""


def resume(driver: Driver, place: Place, recorded: Recorded) -> Iterator[Check]:
    """Compact a session, resume it, take that back, resume it again; and take back a compaction of the client's own."""
    for back in ("undo", "replay"):
        session = new_id()
        path = driver.seed(place.home, place.project, session, recorded)
        before = path.read_bytes()
        yield _change(driver, place, session, "compact", "--window", str(LIMIT), "--now")
        yield from _go_on(driver, place, recorded, session, "compact")
        yield _change(driver, place, session, back)
        yield Check(f"{back}: every line from before is there, byte for byte", path.read_bytes().startswith(before))
        yield from _go_on(driver, place, recorded, session, back)
    session = new_id()
    path = driver.seed(place.home, place.project, session, recorded)
    before = path.read_bytes()
    unabridged(place, "install", driver.name)
    yield from _compact_itself(driver, place, recorded, session)
    yield _change(driver, place, session, "undo")
    yield Check("undo: every line from before is there, byte for byte", path.read_bytes().startswith(before))
    yield from _go_on(driver, place, recorded, session, "undo of its own", gone=(_written(recorded), TOLD))


def _written(recorded: Recorded) -> str:
    """Return words from the middle of the recorded summary."""
    return flat(recorded.reply.rpartition("<summary>")[2].partition("</summary>")[0])[:200]


def _compact_itself(driver: Driver, place: Place, recorded: Recorded, session: str) -> Iterator[Check]:
    """Let the client compact, with our hooks."""
    with serving(Loopback(recorded.reply)) as upstream:
        driver.prepare(place, upstream)
        driver.start(place, recorded.prompt, session)
    after = upstream.after_compaction()
    told = flat(after.text()) if after is not None else ""
    yield Check("the client compacts by itself", _written(recorded) in told or not driver.hooks, told[-300:])
    yield Check("it is told what its summary loses", TOLD in told)


def _go_on(
    driver: Driver, place: Place, recorded: Recorded, session: str, after: str, *, gone: Sequence[str] = (MARK,)
) -> Iterator[Check]:
    """Ask the client to go on, and look at the first request it sends: what is `gone` is not in it."""
    with serving(Loopback(recorded.reply)) as upstream:
        driver.prepare(place, upstream)
        done = driver.start(place, recorded.prompt, session)
    yield Check(f"{after}: the client ends well", done.returncode == 0, (done.stderr or done.stdout)[-300:])
    if not upstream.requests:
        yield Check(f"{after}: the client sends something", holds=False)
        return
    sent = upstream.requests[0]
    text = sent.text()
    if after == "compact":
        yield Check("compact: it does not compact again", not upstream.of("compaction"), f"{sent.tokens:,} tokens")
        yield Check("compact: it sends our summary", MARK in text)
    else:
        whole = flat(_first_words(recorded.history))[:300] in flat(text)
        yield Check(f"{after}: it sends the first words again", whole)
        left = [words for words in gone if words in flat(text)]
        yield Check(f"{after}: it sends nothing of the compaction", not left, "; ".join(left))
    yield _legal(driver, after, sent)


def _change(driver: Driver, place: Place, session: str, command: str, *options: str) -> Check:
    """Run our command on the session, in its place, by the beginning of its name."""
    done = unabridged(place, command, f"{driver.name}:{session[:13]}", "--write", *options)
    return Check(f"{command}: ours ends well", done.returncode == 0, (done.stderr or done.stdout)[-300:])


def _first_words(messages: list[Any]) -> str:
    content = messages[0]["content"]
    return content if isinstance(content, str) else next(block["text"] for block in content if block["type"] == "text")


def _legal(driver: Driver, name: str, sent: Request) -> Check:
    turns = [turn for turn in sent.turns() if turn.get("role") != "system"]
    wrong = refusals(FORMATS[driver.name], turns)
    return Check(f"{name}: what it sends is legal", not wrong, "; ".join(wrong)[:300])
