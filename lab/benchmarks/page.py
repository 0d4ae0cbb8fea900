"""Write `docs/benchmarks.md` from the kept results: one table at the top, then a section for each part."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.bench import RESULTS, WINDOW
from benchmarks.driver import ROOT
from benchmarks.figures import NONE, table, times
from benchmarks.parts import Section
from benchmarks.parts.overhead import MIDDLE, relative

PARTS = (
    "tasks", "cost", "legality", "survival", "originals", "needs", "wait", "overhead", "callers", "adapters", "scale",
)  # fmt: skip
PAGE = ROOT / "docs" / "benchmarks.md"
SOURCES = (
    ("coding_text", "coding runs as text: actions and observations", "SWE-agent's trajectories", "SWE-agent/SWE-agent"),
    ("coding_tools", "coding runs with tool calls", "mini-swe-agent's trajectories", "SWE-agent/mini-swe-agent"),
    (
        "coding_sessions_anthropic",
        "long interactive sessions, aborted turns included",
        "pi's fixtures",
        "badlogic/pi-mono",
    ),
    ("service_tools", "an airline's service desk", "tau-bench's trajectories", "sierra-research/tau-bench"),
    ("long_chat_qa", "months of chat, questions and evidence (CC BY-NC 4.0)", "LoCoMo", "snap-research/locomo"),
)
"""The public data: file, what it is, whose it is, where it is on GitHub. All MIT but the last."""


def write_page(results: Path = RESULTS, page: Path = PAGE) -> Path:
    """Write the page and its plots; of parts that were not measured here, what the page has of them stays."""
    found = {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name in PARTS
        if (path := results / f"{name}.json").exists()
    }
    plots = page.parent / page.stem
    plots.mkdir(parents=True, exist_ok=True)
    head, stood = earlier(page)
    sections = dict(stood)
    for name, result in found.items():
        section = section_of(name, found)
        for file, svg in section.plots.items():
            (plots / file).write_text(svg, encoding="utf-8")
        sections[name] = rendered(name, section, result, plots.name)
    missing = [name for name in PARTS if name not in found]
    newer = [name for name in found if sections[name] != stood.get(name)]
    head = note_newer_sections(head, newer) if head and missing else opening(found, missing)  # its table is of one run
    shown = [sections[name] for name in PARTS if name in sections]
    page.write_text("\n\n".join([head, *shown]).rstrip() + "\n", encoding="utf-8")
    return page


def earlier(page: Path) -> tuple[str, dict[str, str]]:
    """Return the head of the existing page and the section of each part, keyed by the command under its title."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    sections: dict[str, str] = {}
    for section in re.split(r"\n(?=## )", text):
        if named := re.match(r"## [^\n]+\n\n`python -m benchmarks (\w+)", section):
            sections[named[1]] = section.strip()
    first = next(iter(sections.values()), "")
    return (text[: text.index(first)].strip() if first else ""), sections


def note_newer_sections(head: str, newer: list[str]) -> str:
    """Return the head of an earlier run, with a note of the sections that are newer than its table."""
    said = re.search(rf"{_NEWER}([^\n]+)\.\n\n", head)
    names = {*newer, *(said[1].split(", ") if said else ())}
    before, table_, rest = (head.replace(said[0], "") if said else head).partition("\n|")
    listed = ", ".join(name for name in PARTS if name in names)
    return f"{before}\n{_NEWER}{listed}.\n{table_}{rest}" if names else head


def section_of(name: str, found: dict[str, Any]) -> Section:
    """Return the section of a part; the section on cost includes needs-next where both were measured."""
    module = importlib.import_module(f"benchmarks.parts.{name}")
    section: Section = (
        module.section(found[name], found.get("needs")) if name == "cost" else module.section(found[name])
    )
    return section


def rendered(name: str, section: Section, result: dict[str, Any], folder: str) -> str:
    """Return a section as Markdown, with its command and its plots."""
    about = result["about"]
    flags = " --data FOLDER" if section.recorded and "held-out" in about["source"] else ""
    command = f"python -m benchmarks {name}{flags}{' --quick' if about['quick'] else ''}"
    images = "\n\n".join(f"![{section.title}]({folder}/{file})" for file in section.plots)
    on = f": {about['source']}." if section.recorded else ", on conversations made up for it."
    return f"## {section.title}\n\n`{command}`{on}\n\n{images}\n\n{section.text}"


def opening(found: dict[str, Any], missing: list[str]) -> str:
    """Return the head of the page: what it is about, the summary table, and how to repeat the run."""
    nothing = {"source": "nothing was measured yet", "seed": 0, "python": "", "machine": "", "versions": {}}
    about: dict[str, Any] = next(iter(found.values()))["about"] if found else nothing
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    sources = ([f"`{f}.jsonl`", what, f"[{whose}](https://github.com/{repo})"] for f, what, whose, repo in SOURCES)
    left_out = f"\nNot measured in this run: {', '.join(missing)}.\n" if missing else ""
    return f"""# Benchmarks

<!-- Generated by `make bench`. Don't edit: change lab/benchmarks/ and run it again. -->

This project and its peers, in the same run, on the same conversations, with the same summariser.
{about["source"][:1].upper()}{about["source"][1:]}.
{left_out}
{top(found)}

More is better where the arrow points up, less where it points down.
*Needs next*: of the files and names the agent is about to use, the share it can still read in a
{WINDOW // 1000}k window. *Cost*: of a whole run with a provider's prompt cache, summaries included; sending
everything is 1. *Refused*: requests that a provider would refuse, or that are over the window, in windows of
4k to 32k. *Faults survived*: of {_faults(found)} ways a summariser can fail. *Overhead*: the check at each turn
below the trigger with {MIDDLE:,} messages, relative to ours. What each means exactly, with intervals, is below.
**ours** is the default, which asks no model and changes nothing below the trigger; *clearing early* clears old tool
results there (`Clear(payback=True)`); the other two write their summaries with a model, at the turn that needs one or
before, in the background. Peers are triggered at 85 % of the window, like ours.

{losses(found)}

## Repeat it

`make bench BENCH_DATA=FOLDER` (under half an hour on two cores), `make bench QUICK=1` (under three minutes once the
environments of the peers exist), or one part alone with the command in its section. {_took(found)}Settings are chosen
on the even conversations of each file and reported on the odd ones; intervals are 95 % bootstrap intervals by
conversation. Seed {about["seed"]}, Python {about["python"]}, {about["machine"]}; {versions}.
Peers run in environments of their own under `.bench/`; adding one takes a file of under 60 lines: see
`lab/benchmarks/README.md`.

{table(["file", "what", "from"], sources, "---")}

Any folder of `.jsonl` files will do: one conversation a line with `messages` in OpenAI's or Anthropic's form, and
where there are any, `questions` with the `evidence` ids of messages."""


def _took(found: dict[str, Any]) -> str:
    """Return how long this run took, or "" when part of it was kept from an earlier run."""
    if not found or any(result["about"].get("reused", True) for result in found.values()):
        return ""
    minutes = {name: result["took"] / 60 for name, result in found.items()}
    parts = ", ".join(f"{name} {value:.1f}" for name, value in minutes.items())
    return f"This run took {sum(minutes.values()):.0f} minutes ({parts}). "


def summary(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return, for each arm, the numbers of the top table that were measured and apply."""
    here = [row for row in found.get("needs", {}).get("windows", ()) if row["window"] == WINDOW]
    costs = [row for row in found.get("cost", {}).get("rows", ()) if row["window"] == WINDOW]
    columns: dict[str, dict[str, Any]] = {
        "needs": {row["arm"]: row["needs"] for row in here},
        "cost": {row["arm"]: row["cached"] for row in costs},
        "refused": {row["arm"]: row["recorded"]["any"] for row in found.get("legality", {}).get("rows", ())},
        "survived": {row["arm"]: row["survived"] for row in found.get("survival", {}).get("rows", ())},
    }
    if "overhead" in found:
        columns["overhead"] = {arm: (value,) for arm, value in relative(found["overhead"]).items()}
    arms = dict.fromkeys(arm for name in ("needs", "cost", "refused", "survived") for arm in columns[name])
    return {arm: {name: of[arm][0] for name, of in columns.items() if of.get(arm)} for arm in arms}


def top(found: dict[str, Any]) -> str:
    """Return the table at the top of the page."""
    none = set(found.get("survival", {}).get("none", ()))

    def row(arm: str, figures: dict[str, float]) -> list[str]:
        cost, overhead = figures.get("cost"), figures.get("overhead")
        name = f"**{arm}**" if arm.startswith("ours") else arm
        survived = "no model" if arm in none else _share(figures.get("survived"))
        return [
            name,
            _share(figures.get("needs")),
            NONE if cost is None else f"{cost:.2f}",
            _share(figures.get("refused")),
            survived,
            NONE if overhead is None else times(overhead),
        ]

    heads = ["", "needs next \u2191", "cost \u2193", "refused \u2193", "faults survived \u2191", "overhead \u2193"]
    arms = summary(found)
    order = sorted(arms, key=lambda arm: (not arm.startswith("ours"), 0 if _ours(arm) else -arms[arm].get("needs", 0)))
    return table(heads, (row(arm, arms[arm]) for arm in order))


def losses(found: dict[str, Any]) -> str:
    """Say in words where a peer is ahead of our default, so that the reader need not look for it."""
    arms = summary(found)
    own = arms.get("ours", {})
    said = []
    for arm, figures in arms.items():
        if _ours(arm):
            continue
        ahead, behind = [], []
        for name, better in (("needs", 1), ("cost", -1), ("refused", -1)):
            theirs, mine = figures.get(name), own.get(name)
            if theirs is None or mine is None:
                continue
            if (mine - theirs) * better > CLOSE:
                behind.append(_WORDS[name])
            elif (theirs - mine) * better > CLOSE:
                unit = f"{theirs:.2f} to {mine:.2f}" if name == "cost" else f"{_share(theirs)} to {_share(mine)}"
                ahead.append(f"{_WORDS[name]} ({unit})")
        theirs = figures.get("overhead")
        if theirs is not None and theirs < 1:
            ahead.append(f"overhead ({times(theirs)})")
        if ahead:
            also = f"; behind in {', '.join(behind)}" if behind else ""
            said.append(f"- **{arm}** is ahead of our default in {', '.join(ahead)}{also}.")
    first = "In the table above, a peer is ahead of our default:\n\n" + "\n".join(said)
    if not said:
        first = "In the table above, no peer is ahead of our default in any column."
    further = list_peers_ahead(found)
    further = f"In the sections below, one is:\n\n{further}" if further else ""
    return "\n\n".join(["## Where a peer is ahead", first, *filter(None, [compare_cost_and_needs(found), further])])


def compare_cost_and_needs(found: dict[str, Any]) -> str:
    """Return cost and needs-next side by side, in every window, since neither says enough alone."""
    needs = {(row["arm"], row["window"]): row["needs"] for row in found.get("needs", {}).get("windows", ())}
    costs = {(row["arm"], row["window"]): row["cached"] for row in found.get("cost", {}).get("rows", ())}
    both, lines = [], []
    for window in sorted({window for _, window in costs}):
        if not needs.get(("ours", window)) or not costs.get(("ours", window)):
            continue
        mine = needs["ours", window][0], costs["ours", window][0]
        for arm in dict.fromkeys(arm for arm, _ in costs if not _ours(arm)):
            if not needs.get((arm, window)) or not costs.get((arm, window)):
                continue
            theirs = needs[arm, window][0], costs[arm, window][0]
            if theirs[1] < mine[1] - CLOSE:
                less = theirs[0] < mine[0] - CLOSE
                paid = ", and pays for that with what it forgets" if less else ""
                lines.append(
                    f"- {window // 1000}k: {arm} costs {theirs[1]:.2f} and ours {mine[1]:.2f}{paid}: it holds "
                    f"{_share(theirs[0])} of what is needed next, ours {_share(mine[0])}."
                )
                both += [] if less else [f"{arm} at {window // 1000}k"]
    if not costs or not needs:
        return ""
    verdict = (
        f"Ahead of our default in needs next and cost together: {', '.join(both)}."
        if both
        else "In no window is a peer ahead of our default in needs next and cost together."
    )
    if not lines:
        return verdict
    cheaper = "Cheaper than our default, with what it holds beside it (a shorter request is always cheaper to send):"
    return f"{verdict} {cheaper}\n\n" + "\n".join(lines)


def list_peers_ahead(found: dict[str, Any]) -> str:
    """Return a summary of the sections below: the best peer wherever one is ahead of ours."""
    columns: list[tuple[str, str, dict[str, Any], int, str]] = []
    rows = found.get("needs", {}).get("windows", ())
    for window in sorted({row["window"] for row in rows} - {WINDOW}):
        of = {row["arm"]: row["needs"] for row in rows if row["window"] == window}
        columns.append((f"needs next in a window of {window // 1000}k", "ours", of, 1, "%"))
    here = [row for row in rows if row["window"] == WINDOW]
    for name, word in (("people", "people's words kept verbatim"), ("evidence", "evidence for questions about a chat")):
        columns.append((word, "ours", {row["arm"]: row[name] for row in here if row["arm"] != "raw"}, 1, "%"))
    costs = found.get("cost", {}).get("rows", ())
    for arm in ("ours, with a model", "ours, in the background"):
        for window in sorted({row["window"] for row in costs}):
            of = {row["arm"]: row["cached"] for row in costs if row["window"] == window}
            columns.append((f"cost beside **{arm}**, {window // 1000}k", arm, of, -1, ""))
    waits = found.get("wait", {}).get("rows", ())
    own = {row["arm"]: row["mean"] for row in waits if row["arm"] != "raw"}
    columns.append(("own work a turn, in milliseconds", "ours", own, -1, ""))
    columns += [
        (f"turns that wait, beside **{arm}**", arm, {row["arm"]: row["waits"] for row in waits}, -1, "%")
        for arm in ("ours, with a model", "ours, in the background")
    ]
    checks = [row for row in found.get("overhead", {}).get("rows", ()) if row.get("held") is not None]
    held = {row["arm"]: [max(row["held"], 0.0)] for row in checks}
    columns.append(("bytes held for a message between two calls", "ours", held, -1, "bytes"))
    lines = []
    for word, mine, of, sign, unit in columns:
        theirs = {arm: value[0] for arm, value in of.items() if value and not _ours(arm)}
        if not theirs or not of.get(mine):
            continue
        best = max(theirs, key=lambda arm, theirs=theirs, sign=sign: sign * theirs[arm])  # type: ignore[misc]
        if sign * (theirs[best] - of[mine][0]) > CLOSE:
            both = theirs[best], of[mine][0]
            shown = [_share(v) if unit == "%" else f"{v:,.0f}" if unit else f"{v:.2f}" for v in both]
            lines.append(f"- {word}: {best} {shown[0]}, ours {shown[1]}")
    return "\n".join(lines)


def _ours(arm: str) -> bool:
    return arm.startswith("ours")


def _share(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.1f} %"


_NEWER = "Measured again since the table below, each in its own section: "
CLOSE = 0.0005
"""Smaller differences are none."""
_WORDS = {"needs": "needs next", "cost": "cost", "refused": "requests refused"}


def _faults(found: dict[str, Any]) -> int:
    rows = found.get("survival", {}).get("rows", ())
    return len(rows[0]["cells"]) if rows else 0
