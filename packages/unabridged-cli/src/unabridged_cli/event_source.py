"""Follow events as they come: of a session file, of a gateway, or of a file that `unabridged.live` writes.

Every event is a JSON object, as `unabridged.events.describe_sizes` makes them. Of a session file each change is a
`fitted` event, with the tokens by speaker beside the sizes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from unabridged.errors import SettingsError
from unabridged.sessions import LoadedFile, SessionFileError, load
from unabridged.settings import FALLBACK_WINDOW
from unabridged.tokens.models import find_model_info
from unabridged_corpus.weigh import weigh_conversation

EventData = dict[str, Any]
TOKEN_VARIABLE: Final = "UNABRIDGED_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable
PROBLEM: Final = "problem"
"""The `event` of a source that can't be read for now; its `words` say why."""
_MAX_LINE_CHARACTERS: Final = 65_536
_HEAD_BYTES: Final = 200
"""The beginning of a file of events, by which one that was begun anew is recognised: times stand in it."""
_ANSWER_SECONDS: Final = 60
"""A gateway sends an empty line before so much time has passed."""


class SessionReading(NamedTuple):
    """How a session file is read and measured."""

    load: Callable[[Path], LoadedFile] = load
    model: str | None = None
    window: int | None = None
    trigger: float = 0.85


def follow_events(
    source: str, *, interval: float = 1.0, once: bool = False, reading: SessionReading | None = None
) -> Iterator[EventData]:
    """Yield the events of a source: what there is, then each as it comes; with `once`, only what there is."""
    if source.startswith(("http://", "https://")):
        if once:
            raise SettingsError("a gateway has no end that --once could wait for: name a file, or leave it out")
        return _follow_gateway(_build_request(source.rstrip("/")), interval)
    path = Path(source)
    if _is_event_file(path):
        return _follow_event_file(path, interval, once=once)
    looks = _follow_session(path, partial(_measure_session, path, reading or SessionReading()), interval)
    return iter([next(looks)]) if once else looks


# -- a file of `unabridged.live` --------------------------------------------------------------------------------------


def parse_event(line: str | bytes) -> EventData | None:
    """Return the event that stands in a line; None for anything else."""
    with suppress(ValueError):
        data = json.loads(line)
        if isinstance(data, dict) and isinstance(data.get("event"), str) and isinstance(data.get("thread"), str):
            return data
    return None


def _is_event_file(path: Path) -> bool:
    """Return whether the file is of `unabridged.live`: one without a line yet is, for it was just begun."""
    try:
        with path.open("rb") as file:
            first = file.readline(_MAX_LINE_CHARACTERS)
    except OSError:
        return False  # who loads it as a session says why
    return (not first and path.suffix == ".jsonl") or parse_event(first) is not None


def _follow_event_file(path: Path, interval: float, *, once: bool) -> Iterator[EventData]:
    position, head, begun = 0, b"", b""
    while True:
        with suppress(OSError), path.open("rb") as file:  # one that is gone for a moment is waited for
            new_head = file.read(_HEAD_BYTES)
            if not new_head.startswith(head) or os.fstat(file.fileno()).st_size < position:  # begun anew
                position, begun = 0, b""
            head = new_head
            file.seek(position)
            for line in file:
                position += len(line)
                begun += line
                if begun.endswith(b"\n"):
                    event, begun = parse_event(begun), b""
                    if event is not None:
                        yield event
        if once:
            return
        time.sleep(interval)


# -- a gateway --------------------------------------------------------------------------------------------------------


def _follow_gateway(request: Request, interval: float) -> Iterator[EventData]:
    url, was_open = request.full_url.removesuffix("/events"), False
    while True:
        try:
            with urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310 - http or https, see above
                was_open = True
                yield from filter(None, map(parse_event, answer))
            words = "the gateway ended the stream"
        except (OSError, ValueError) as error:
            words = _explain_failure(url, error)
            if not was_open:
                raise SettingsError(words) from error
        yield {"event": PROBLEM, "thread": "", "words": words}
        time.sleep(max(interval, 1.0))


def _build_request(url: str) -> Request:
    token = os.environ.get(TOKEN_VARIABLE, "")
    return Request(f"{url}/events", headers={"x-unabridged-token": token} if token else {})  # noqa: S310 - as above


def _explain_failure(url: str, error: Exception) -> str:
    if isinstance(error, HTTPError):
        remedy = f": set {TOKEN_VARIABLE} to a tenant's or an operator's token" if error.code in {401, 403} else ""
        return f"{url} answered {error.code}{remedy}"
    reason = error.reason if isinstance(error, URLError) else error
    return f"{url} can't be read ({reason}): is the gateway running?"


# -- a session file ---------------------------------------------------------------------------------------------------


def _measure_session(path: Path, reading: SessionReading) -> EventData:
    loaded = reading.load(path)
    agent = reading.model or loaded.model
    info = find_model_info(agent)
    weight = weigh_conversation(loaded, agent, loaded.messages)
    window = reading.window or (info.window if info else FALLBACK_WINDOW)
    return {
        "time": round(time.time(), 3), "event": "fitted", "namespace": "", "thread": path.name,
        "tokens_before": weight.total, "tokens_after": weight.total, "messages": len(loaded.messages),
        "window": window, "budget": window, "trigger": round(reading.trigger * window), "agent": agent or "",
        "shares": {name: share.tokens for name, share in weight.shares.items()},
    }  # fmt: skip


def _follow_session(path: Path, measure: Callable[[], EventData], interval: float) -> Iterator[EventData]:
    """Yield the size now, and after each change. A file that can't be read is an error at first only."""
    stamp, started = _read_file_stamp(path), time.monotonic()
    event = measure()
    while True:
        pause = max(interval, time.monotonic() - started)  # a large file is not looked at all the time
        yield event
        while _read_file_stamp(path) in {stamp, None}:  # one that is gone for a moment is waited for
            time.sleep(pause)
        stamp, started = _read_file_stamp(path), time.monotonic()
        try:
            event = measure()
        except (SessionFileError, OSError) as error:
            event = {"event": PROBLEM, "thread": path.name, "words": str(error)}


def _read_file_stamp(path: Path) -> tuple[int, int] | None:
    try:
        info = path.stat()
    except OSError:
        return None
    return (info.st_size, info.st_mtime_ns)
