"""Write `docs/benchmarks.md` and the table of the README from the stored results."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import readings
from benchmarks.bench import STORED, WINDOW
from benchmarks.driver import ROOT
from benchmarks.figures import NONE, table, thousands
from benchmarks.parts import Section
from benchmarks.parts.overhead import MIDDLE
from benchmarks.parts.tasks import WINDOWS

PARTS = (
    "tasks", "cost", "legality", "survival", "originals", "needs", "wait", "overhead", "callers", "adapters", "scale",
)  # fmt: skip
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
FIRST, LAST = "<!-- Written by `make bench`, from here -->", "<!-- to here -->"
SHOWN = {
    "ours": "**unabridged**, without a model",
    "ours, with a model": "**unabridged**, with a model",
    "langmem": "langmem",
    "LangChain, untrimmed": "LangChain, `trim_tokens_to_summarize=None`",
    "LangChain": "LangChain, its defaults",
}
"""The rows of the README, and their names there."""
SOURCES = (
    ("coding_text", "coding runs as text: actions and observations", "SWE-agent's trajectories", "SWE-agent/SWE-agent"),
    ("coding_tools", "coding runs with tool calls", "mini-swe-agent's trajectories", "SWE-agent/mini-swe-agent"),
    (
        "coding_sessions_anthropic",
        "long interactive sessions, aborted turns included",
        "pi's fixtures",
        "badlogic/pi-mono",
    ),
    ("coding_compactions", "coding sessions up to a compaction of their own", "Entire's transcripts", "entireio/cli"),
    ("service_tools", "an airline's service desk", "tau-bench's trajectories", "sierra-research/tau-bench"),
    ("long_chat_qa", "months of chat, questions and evidence (CC BY-NC 4.0)", "LoCoMo", "snap-research/locomo"),
)
"""The public data: file, what it is, whose it is, where it is on GitHub. All MIT but the last."""


class Column(NamedTuple):
    """One column of the tables at the top: how its values are shown, and which are better."""

    name: str
    """What it is called in a sentence."""
    head: str
    better: int
    """1 where more is better, -1 where less is."""
    shown: str
    """How a value is formatted; `%` for a share."""

    def show(self, value: float | None) -> str:
        """Return a value as text; a dash where there is none."""
        if value is None:
            return NONE
        return f"{100 * value:.1f} %" if self.shown == "%" else f"{value:{self.shown}}"


COLUMNS = {
    **{
        f"tokens {w}": Column(f"tokens per task at {w // 1000}k", f"tokens per task, {w // 1000}k \u2193", -1, ",.1f")
        for w in WINDOWS
    },
    "probes": Column("probes answered", "probes answered \u2191", 1, "%"),
    "false": Column("false statements", "false statements \u2193", -1, ".2f"),
    "preferred": Column("preferred by readers", "preferred \u2191", 1, "%"),
    "cost": Column("cost of a run", "cost \u2193", -1, ".2f"),
    "refused": Column("requests refused", "refused \u2193", -1, "%"),
    "survived": Column("faults survived", "faults survived \u2191", 1, "%"),
    "back": Column("originals that can be had back", "originals back \u2191", 1, "%"),
    "check": Column("the check below the trigger, in \u00b5s", "check, \u00b5s \u2193", -1, ",.0f"),
    "compaction": Column("a compaction, in ms", "compaction, ms \u2193", -1, ",.0f"),
    "waits": Column("turns that wait", "turns that wait \u2193", -1, "%"),
    "names": Column("names still in context", "names still in context \u2191", 1, "%"),
}
TOP = tuple(name for name in COLUMNS if not name.startswith("tokens"))
Figures = dict[str, dict[str, float]]
"""Of each arm the value of each column that was measured and applies."""


def write_page(results: Path = STORED, page: Path = PAGE, readme: Path | None = None) -> Path:
    """Write the page and its plots, and the README's table where its path is given."""
    found = read_results(results)
    plots = page.parent / page.stem
    plots.mkdir(parents=True, exist_ok=True)
    shown = [opening(found)]
    if found.get("readings"):
        shown.append("## Blind readings\n\n" + readings.section(found["readings"]).text)
    for name in PARTS:
        if name in found:
            section = importlib.import_module(f"benchmarks.parts.{name}").section(found[name])
            for file, svg in section.plots.items():
                (plots / file).write_text(svg, encoding="utf-8")
            shown.append(rendered(name, section, found[name], plots.name))
    page.write_text("\n\n".join(shown).rstrip() + "\n", encoding="utf-8")
    if readme is not None:
        readme.write_text(replace_table(readme.read_text(encoding="utf-8"), found), encoding="utf-8")
    return page


def read_results(folder: Path) -> dict[str, Any]:
    """Return the stored result of each part, and the readings where there are any."""
    paths = {name: folder / f"{name}.json" for name in PARTS}
    found = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}
    return {**found, "readings": readings.load(folder.parent / "readings.json")}


def rendered(name: str, section: Section, result: dict[str, Any], folder: str) -> str:
    """Return a section as Markdown, with its command and its plots."""
    about = result["about"]
    flags = " --data FOLDER" if section.recorded and "held-out" in about["source"] else ""
    command = f"python -m benchmarks {name}{flags}{' --quick' if about['quick'] else ''}"
    images = "".join(f"![{section.title}]({folder}/{file})\n\n" for file in section.plots)
    on = f": {about['source']}." if section.recorded else ", on conversations made up for it."
    return f"## {section.title}\n\n`{command}`{on}\n\n{images}{section.text}"


def opening(found: dict[str, Any]) -> str:
    """Return the head of the page: what it is about, the tables at the top, and how to repeat the run."""
    nothing = {"source": "nothing was measured yet", "seed": 0, "python": "", "machine": "", "versions": {}}
    about: dict[str, Any] = next((found[name]["about"] for name in PARTS if name in found), nothing)
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    sources = ([f"`{f}.jsonl`", what, f"[{whose}](https://github.com/{repo})"] for f, what, whose, repo in SOURCES)
    missing = [name for name in PARTS if name not in found]
    left_out = f"\nNot measured: {', '.join(missing)}.\n" if missing else ""
    figures = summary(found)
    return f"""# Benchmarks

<!-- Generated by `make bench`. Don't edit: change lab/benchmarks/ and run it again. -->

This project and its peers, on the same conversations. Except in the blind readings, the summariser is a stand-in, the
same for every arm: it picks lines from what it is shown, about 500 tokens, and is no language model.
{about["source"][:1].upper()}{about["source"][1:]}.
{left_out}
**Tokens per task**, in thousands, in windows of 8k, 16k and 32k: all that a whole run sends, at the prices of a
provider's prompt cache, the summaries, and what has to be fetched again because it was forgotten. Less is better.

{headline(found, figures)}

More is better where the arrow points up, less where it points down:

{top(found, figures)}

*Probes answered*, *false statements*, *preferred*: {readings.sentence(found["readings"])}
*Cost*: of a whole run with a provider's prompt cache, summaries included and nothing fetched again; sending everything
is 1. *Refused*: requests that a provider would refuse, or that are over the window, in windows of 4k to 32k. *Faults
survived*: of {_faults(found)} ways a summariser can fail. *Originals back*: of the messages that left the context,
those that can be had back exactly. *Check*: processor time of a call below the trigger with {MIDDLE:,} messages;
*compaction*: of a call that compacts. *Turns that wait*: for a summary, which is the wait that a user sees. *Names
still in context*: of the files and names that the next calls use, the share in the request, in a
{WINDOW // 1000}k window. What each means exactly, with intervals, is below.
**ours** is the default, which asks no model and changes nothing below the trigger. *Clearing early* clears old tool
results there (`Clear(payback=True)`). *With a model* and *in the background* write their summaries with a model, at the
turn that needs one or before it. *With recall tools* the agent can search and read what left the context.
Peers are triggered at 85 % of the window, like ours.

{losses(found, figures)}

## Repeat it

`make bench BENCH_DATA=FOLDER`, `make bench QUICK=1` (a few minutes once the environments of the peers exist), or one
part alone with the command in its section. {_took(found)}Settings of each arm are those with the fewest refused runs,
and among these the fewest tokens per task, on the even conversations of each file; reported are the odd ones. Intervals
are 95 % bootstrap intervals by conversation. Seed {about["seed"]}; {versions}.
{_machines(found)}
Peers run in environments of their own under `.bench/`; adding one takes a file of under 60 lines: see
`lab/benchmarks/README.md`. The figures are stored in `lab/benchmarks/results`.

{table(["file", "what", "from"], sources, "---")}

Any folder of `.jsonl` files will do: one conversation a line with `messages` in OpenAI's or Anthropic's form, and
where there are any, `questions` with the `evidence` ids of messages."""


def _machines(found: dict[str, Any]) -> str:
    """Return on which machine, with which Python and when each part was measured."""
    parts: dict[str, list[str]] = {}
    for name in PARTS:
        if name in found:
            about = found[name]["about"]
            day = f", {about['date']}" if "date" in about else ""
            parts.setdefault(f"{about['machine']}, Python {about['python']}{day}", []).append(f"`{name}`")
    if len(parts) == 1:
        return f"Measured on {next(iter(parts))}."
    return " ".join(f"Measured on {machine}: {', '.join(names)}." for machine, names in parts.items())


def _took(found: dict[str, Any]) -> str:
    """Return how long this run took, or "" when part of it was kept from an earlier run."""
    results = {name: found[name] for name in PARTS if name in found}
    if not results or any(result["about"].get("reused", True) for result in results.values()):
        return ""
    minutes = {name: result["took"] / 60 for name, result in results.items()}
    parts = ", ".join(f"{name} {value:.1f}" for name, value in minutes.items())
    return f"This run took {sum(minutes.values()):.0f} minutes ({parts}). "


def summary(found: dict[str, Any]) -> Figures:
    """Return, for each arm, the numbers of the tables at the top that were measured and apply."""

    def rows(part: str, kind: str = "rows", **wanted: Any) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = found.get(part, {}).get(kind, [])
        return [row for row in listed if all(row[name] == value for name, value in wanted.items())]

    def first(name: str, listed: list[dict[str, Any]], scale: float = 1.0) -> dict[str, float]:
        return {row["arm"]: scale * row[name][0] for row in listed if row.get(name)}

    read = readings.rows(found["readings"]) if found.get("readings") else []
    columns = {
        **{f"tokens {window}": first("tokens", rows("tasks", window=window), 1e-3) for window in WINDOWS},
        "probes": first("probes", read),
        "false": {row["arm"]: row["false"] for row in read},
        "preferred": {row["arm"]: row["preferred"] / row["readings"] for row in read},
        "cost": first("cached", rows("cost", window=WINDOW)),
        "refused": {row["arm"]: row["recorded"]["any"][0] for row in rows("legality")},
        "survived": first("survived", rows("survival")),
        "back": first("back", rows("originals")),
        "check": {row["arm"]: 1e6 * row["median"] for row in rows("overhead", size=MIDDLE) if row["median"]},
        "compaction": first("compaction", rows("wait")),
        "waits": first("waits", rows("wait")),
        "names": first("needs", rows("needs", "windows", window=WINDOW)),
    }
    listed = ("tasks", "cost", "legality", "survival", "needs")
    arms = dict.fromkeys(row["arm"] for part in listed for row in rows(part, "windows" if part == "needs" else "rows"))
    return {arm: {name: of[arm] for name, of in columns.items() if arm in of} for arm in arms}


def headline(found: dict[str, Any], figures: Figures) -> str:
    """Return the tokens per task in each window, with intervals."""
    by = {(row["arm"], row["window"]): row["tokens"] for row in found.get("tasks", {}).get("rows", ())}
    heads = ["", *(f"{window // 1000}k" for window in WINDOWS), "runs refused at 16k"]
    refused = {row["arm"]: row["refused"] for row in found.get("tasks", {}).get("rows", ()) if row["window"] == WINDOW}

    def row(arm: str) -> list[str]:
        share = f"{100 * refused[arm][0]:.0f} %" if refused.get(arm) else NONE
        return [_name(arm), *(thousands(by.get((arm, window))) for window in WINDOWS), share]

    return table(heads, (row(arm) for arm in ordered(figures)))


def top(found: dict[str, Any], figures: Figures) -> str:
    """Return the table of everything else."""
    none = set(found.get("survival", {}).get("none", ()))

    def cell(arm: str, name: str) -> str:
        return (
            "no model" if name in {"survived", "waits"} and arm in none else COLUMNS[name].show(figures[arm].get(name))
        )

    names = [name for name in TOP if any(name in of for of in figures.values())]
    arms = [arm for arm in ordered(figures) if set(figures[arm]) & set(names)]
    heads = ["", *(COLUMNS[name].head for name in names)]
    return table(heads, ([_name(arm), *(cell(arm, name) for name in names)] for arm in arms))


def ordered(figures: Figures) -> list[str]:
    """Return the arms: ours, then peers by tokens per task."""
    tokens = {arm: of.get(f"tokens {WINDOW}", 0.0) for arm, of in figures.items()}
    return sorted(figures, key=lambda arm: (not _ours(arm), 0 if _ours(arm) else tokens[arm]))


def ahead(figures: Figures, arm: str, ours: str = "ours") -> list[str]:
    """Return in which columns the arm is ahead of one of ours, with both values."""
    said = []
    for name, column in COLUMNS.items():
        theirs, mine = figures[arm].get(name), figures.get(ours, {}).get(name)
        if theirs is None or mine is None or (theirs - mine) * column.better <= 0:
            continue
        if column.show(theirs) != column.show(mine):
            said.append(f"{column.name} ({column.show(theirs)} to {column.show(mine)})")
    return said


def losses(found: dict[str, Any], figures: Figures) -> str:
    """Say in words where a peer is ahead of our default, so that the reader need not look for it."""
    said = [f"- **{arm}**: {'; '.join(listed)}." for arm in ordered(figures) if (listed := _peer_ahead(figures, arm))]
    none = "In the tables above, no peer is ahead of our default in any column."
    first = "In the tables above, a peer is ahead of our default in:\n\n" + "\n".join(said) if said else none
    further = list_peers_ahead(found)
    further = f"In the sections below, one is:\n\n{further}" if further else ""
    return "\n\n".join(["## Where a peer is ahead", first, *filter(None, [further])])


def _peer_ahead(figures: Figures, arm: str) -> list[str]:
    return [] if _ours(arm) else ahead(figures, arm)


def replace_table(readme: str, found: dict[str, Any]) -> str:
    """Return the README with its table, and the sentences below it, written anew between the two marks."""
    before, _, rest = readme.partition(FIRST)
    _, _, after = rest.partition(LAST)
    return f"{before}{FIRST}\n{short_table(found)}\n{LAST}{after}"


def short_table(found: dict[str, Any]) -> str:
    """Return five rows for the README, and a sentence on each peer."""
    figures = summary(found)
    none = set(found.get("survival", {}).get("none", ()))
    tokens = tuple(f"tokens {window}" for window in WINDOWS)
    wanted = (*tokens, "probes", "false", "preferred", "refused", "survived", "back")
    names = [name for name in wanted if any(name in figures.get(arm, {}) for arm in SHOWN)]

    def row(arm: str) -> list[str]:
        shown = [COLUMNS[name].show(figures.get(arm, {}).get(name)) for name in names]
        cells = [
            "no model" if name == "survived" and arm in none else text for name, text in zip(names, shown, strict=True)
        ]
        return [SHOWN[arm], *cells]

    heads = ["", *(COLUMNS[name].head for name in names)]
    lines = [f"- {_compare(figures, arm)}" for arm in SHOWN if not _ours(arm) and arm in figures]
    return f"""{table(heads, map(row, SHOWN))}

{_paired(found)}*Probes answered*, *false statements* in a text, *preferred* by so many:
{readings.sentence(found["readings"])}
*Refused*: requests that a provider would refuse. *Faults survived*: of {_faults(found)} ways a summariser can fail.
*Originals back*: of the messages that left the context.

Where a peer is ahead in the tables at the top of [the page](docs/benchmarks.md), which lists more below them:

""" + "\n".join(lines)


def _paired(found: dict[str, Any]) -> str:
    """Return the tokens per task of each row of the README, conversation by conversation, beside our default."""
    beside = {(row["arm"], row["window"]): row["beside"] for row in found.get("tasks", {}).get("rows", ())}
    parts = []
    for arm in SHOWN:
        if arm != "ours" and all(beside.get((arm, window)) for window in WINDOWS):
            ratios = ", ".join(f"{beside[arm, window][0]:.2f}" for window in WINDOWS)
            parts.append(f"{arm} {ratios}")
    return (
        "*Tokens per task* differ much between conversations. Beside ours without a model, conversation by "
        f"conversation, at 8k, 16k and 32k: {'; '.join(parts)} "
        "([intervals](docs/benchmarks.md#tokens-per-task-the-price-of-forgetting)).\n"
    )


def _compare(figures: Figures, arm: str) -> str:
    """Say in which columns a peer is ahead of ours, without a model and with one."""
    parts = []
    for ours, with_model in (("ours", "without a model"), ("ours, with a model", "with one")):
        listed = [text.partition(" (")[0] for text in ahead(figures, arm, ours)]
        sizes = [text.removeprefix(_TOKENS_AT) for text in listed if text.startswith(_TOKENS_AT)]
        tokens = [f"{_TOKENS_AT}{', '.join(sizes)}"] if sizes else []
        others = [text for text in listed if not text.startswith(_TOKENS_AT)]
        parts.append(f"of ours {with_model}: {', '.join([*tokens, *others]) or 'nowhere'}")
    return f"**{arm}** is ahead {'; '.join(parts)}."


_TOKENS_AT = "tokens per task at "
"""How the names of the columns for each window begin."""


def list_peers_ahead(found: dict[str, Any]) -> str:
    """Return a summary of the sections below: the best peer wherever one is ahead of ours."""
    columns: list[tuple[str, str, dict[str, Any], int, str]] = []
    rows = found.get("needs", {}).get("windows", ())
    for window in sorted({row["window"] for row in rows} - {WINDOW}):
        of = {row["arm"]: row["needs"] for row in rows if row["window"] == window}
        columns.append((f"names still in context in a window of {window // 1000}k", "ours", of, 1, "%"))
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


def _name(arm: str) -> str:
    return f"**{arm}**" if _ours(arm) else arm


def _share(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.1f} %"


CLOSE = 0.0005
"""Smaller differences are none."""


def _faults(found: dict[str, Any]) -> int:
    rows = found.get("survival", {}).get("rows", ())
    return len(rows[0]["cells"]) if rows else 0
