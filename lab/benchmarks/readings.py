"""Blind readings of summaries, kept in `readings.json` without a word of a conversation.

    {"date": "2026-11-20", "readers": ["…"], "writers": ["…"], "seen": false, "most": 2,
     "readings": [{"event": "e1", "letters": {"K": "ours", "M": "LangChain"},
                   "points": {"K": [2, 1, 0], "M": [2, 2, 0]}, "false": {"K": {"invented": 1}, "M": {}},
                   "preferred": ["K"], "how": "clear"}]}

`letters` names the arm of each text, `points` has the marks of each probe, `false` counts false statements by kind,
`seen` says whether the events were seen while the prompt was made. Readers and writers are language models. `mended`
names the kinds of false statements that the library no longer makes: the readings stay as they were.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.figures import figure, percent, table
from benchmarks.parts import Section

READINGS = Path(__file__).with_name("readings.json")
NAME = re.compile(r"[\w .,+:/()-]{1,60}")
"""All that a text in the file may be: a name, no sentence of a conversation."""
KEYS = {"event", "letters", "points", "false", "preferred", "how"}


def load(path: Path = READINGS) -> dict[str, Any] | None:
    """Return the readings; None where there is no file. Raise `ValueError` for what has no place in it."""
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for reading in found["readings"]:
        letters = set(reading["letters"])
        same = letters == set(reading["points"]) == set(reading["false"]) and letters >= set(reading["preferred"])
        if set(reading) != KEYS or not same:
            raise ValueError(f"the reading of {reading.get('event')!r} has other keys or letters than {sorted(KEYS)}")
    if long := [text for text in _texts(found) if not NAME.fullmatch(text)]:
        raise ValueError(f"readings hold names and counts only, not {long[0][:40]!r}")
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each arm that was read: its points, false statements and preferences."""
    texts: dict[str, list[tuple[dict[str, Any], str]]] = {}
    for reading in found["readings"]:
        for letter, arm in reading["letters"].items():
            texts.setdefault(arm, []).append((reading, letter))
    return [_row(arm, listed, found["most"]) for arm, listed in texts.items()]


def _row(arm: str, listed: list[tuple[dict[str, Any], str]], most: int) -> dict[str, Any]:
    kinds: dict[str, int] = {}
    for reading, letter in listed:
        for kind, number in reading["false"][letter].items():
            kinds[kind] = kinds.get(kind, 0) + number
    points = [reading["points"][letter] for reading, letter in listed]
    preferred = [(letter in reading["preferred"]) / len(reading["preferred"] or [letter]) for reading, letter in listed]
    return {
        "arm": arm,
        "probes": figure(sum(marks) / (most * len(marks)) for marks in points),
        "false": sum(kinds.values()) / len(listed),
        "kinds": kinds,
        "preferred": sum(preferred),
        "readings": len(listed),
    }


def sentence(found: dict[str, Any] | None) -> str:
    """Return who read what, in words."""
    if found is None:
        return "there are no blind readings of this version yet, so both columns have dashes."
    events = len({reading["event"] for reading in found["readings"]})
    seen = "were seen" if found["seen"] else "had not been seen"
    count, readers, writers = len(found["readings"]), *(" and ".join(found[name]) for name in ("readers", "writers"))
    return (
        f"from {count} blind readings of {events} events on {found['date']}, by {readers}, of texts by {writers}. "
        f"Readers and writers are language models; the events {seen} while our prompt was made. "
        "What was not read has a dash."
    )


def section(found: dict[str, Any]) -> Section:
    """Return the table."""
    read = (
        [
            row["arm"],
            str(row["readings"]),
            percent(row["probes"]),
            f"{row['false']:.2f}",
            ", ".join(f"{number} {kind}" for kind, number in sorted(row["kinds"].items())) or "none",
            f"{row['preferred']:g} of {row['readings']}",
        ]
        for row in rows(found)
    )
    said = sentence(found)
    mended = f"Mended since, but not read again: {', '.join(kinds)}.\n" if (kinds := found.get("mended")) else ""
    text = f"""{said[:1].upper()}{said[1:]}

For each event a reader writes probes from what happened next, before seeing a text. Then each text, under a random
letter, is marked on each probe with 0 to {found["most"]} points, and its false statements are counted.
Texts by a model have the same room, and each stands for all but the newest 12 messages.
`lab/benchmarks/readings.json` has the points and counts. {mended}
{table(["arm", "readings", "probes answered", "false statements a reading", "of which kind", "preferred"], read)}"""
    return Section("Blind readings", text)
