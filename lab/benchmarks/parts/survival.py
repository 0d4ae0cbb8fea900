"""Measure what happens when the summariser fails: which arms lose history, end the run, or continue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.bench import Bench
from benchmarks.driver import Peer, PeerEndedError, Process
from benchmarks.fakes import FAULTS, HANG, budget_for
from benchmarks.figures import figure, percent, table
from benchmarks.harness import MADE, Message
from benchmarks.parts import Section
from benchmarks.plot import grid
from benchmarks.policies import tokens_of
from unabridged.formats import get_format
from unabridged_testing import refusals

WINDOW = 8_000
SEEDS = 3
SLEEPERS = 6
"""Runs at once: most of their time they wait for a fake that is slow or hangs."""
CONTROL = "echo"
"""A summariser that works, and forgets nothing: what is lost with a fault and kept with this was lost to the fault."""
SLACK = 1.25
"""A request a little over the window is a miscount, which `legality` has; it is not the fault's doing."""
RULE = "Never push to the main branch."
OUTCOMES = {
    "goes on": ("ok", "#1a7f37"),
    "loses history": ("lost", "#9a6700"),
    "sends what is refused": ("400", "#bc4c00"),
    "hangs": ("hangs", "#8250df"),
    "ends the run": ("ends", "#cf222e"),
}
"""What may come of it, best first, with the word and the colour it has in the plot."""


def measure(bench: Bench) -> dict[str, Any]:
    """Measure the outcome of each fault for each arm that asks a model."""
    rows = outcomes(bench, bench.asking)
    return {"rows": rows, "none": [arm for arm in bench.compared if arm not in bench.asking]}


def outcomes(bench: Bench, arms: Sequence[str]) -> list[dict[str, Any]]:
    """Return, for each arm, the worst outcome of each fault, and the share of faults survived."""
    seeds = range(10, 11 if bench.quick else 10 + SEEDS)
    items = [(arm, bench.arms[arm]["peer"], bench.settings(arm), seed) for arm in arms for seed in seeds]
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for (arm, *_), under in zip(items, bench.each("faults", outcomes_under, items, SLEEPERS), strict=True):
        for fault, outcome in under.items():
            found.setdefault((arm, fault), []).append(outcome)
    rows = []
    for arm in arms:
        worst = {fault: max((name for name, _ in found[arm, fault]), key=list(OUTCOMES).index) for fault in FAULTS}
        control = max((name for name, _ in found[arm, CONTROL]), key=list(OUTCOMES).index)
        survived = [float(name == "goes on") for fault in FAULTS for name, _ in found[arm, fault]]
        said = {fault: said for fault in FAULTS for _, said in found[arm, fault] if said}
        rows.append({"arm": arm, "control": control, "cells": worst, "survived": figure(survived), "said": said})
    return rows


def conversation(seed: int) -> tuple[list[Message], list[str]]:
    """Generate an agent's run of one and a half windows, and what must survive in it: the rule, the task, the files.

    Most of it is the agent's own text: clearing tool results does not help, the summariser must be asked.
    """
    task = f"Fix the import of invoice {4000 + seed}; it fails since release 7.{seed}."
    messages: list[Message] = [{"role": "user", "content": f"{RULE} {task}"}]
    planted = [RULE, task]
    for i in range(30):
        path = f"src/billing_{seed}/module_{i}_{(i * 37 + seed) % 101}.py"
        function = {"name": "edit_file", "arguments": f'{{"path": "{path}", "symbol": "read_row_{i}_{seed}"}}'}
        call = {"id": f"call_{i}", "type": "function", "function": function}
        words = (f"value {(i * 53 + j * 7) % 997} of row {(i * 31 + j) % 89} looks right to me" for j in range(34))
        messages.append({"role": "assistant", "content": f"Now {path}: {'; '.join(words)}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{i}", "content": f"edited {path}"})
        planted.append(path.rpartition("/")[2])
    return messages, planted


def outcomes_under(item: tuple[str, Peer, dict[str, Any], int]) -> dict[str, tuple[str, str]]:
    """Return, for each fault, its worst outcome until the conversation is over, and what was reported about it."""
    arm, peer, settings, seed = item
    if arm.startswith("ours"):
        settings = {**settings, "deadline": HANG / 4}  # two minutes by default: nobody wants to watch that
    found: dict[str, tuple[str, str]] = {}
    process = Process(peer, patience=60.0)
    for fault in (CONTROL, *FAULTS):
        try:
            process.ask("start", arm=arm, window=WINDOW, fake=fault, budget=budget_for(WINDOW), settings=settings)
            found[fault] = _run(process, *conversation(seed))
        except PeerEndedError as error:
            found[fault] = ("ends the run", str(error))
            process.close()
            process = Process(peer, patience=60.0)
    process.close()
    return found


def _run(process: Process, given: list[Message], planted: list[str]) -> tuple[str, str]:
    read = get_format("openai-chat").read
    messages: dict[int, Message] = dict(enumerate(given))
    usage, taken, request = None, 0, list[int]()
    asked: list[dict[str, Any]] = []
    stops = [i for i, message in enumerate(given) if message["role"] == "assistant"] + [len(given)]
    for stop in stops:
        answer = process.ask("turn", new=given[taken:stop], usage=usage)
        taken = stop
        asked += answer["calls"]
        if answer["error"]:
            return "ends the run", answer["error"]
        if answer["waited"] > 0.9 * HANG:
            return "hangs", "waits as long as the model hangs"
        messages |= {int(number): message for number, message in answer["made"].items()}
        request = answer["request"]
        usage = sum(tokens_of(read(messages[number])) for number in request)
        reasons = refusals("openai-chat", [messages[number] for number in request])
        if reasons or usage > SLACK * WINDOW:
            return "sends what is refused", "".join(reasons[:1]) or f"{usage:,} tokens in a window of {WINDOW:,}"
    text = "\n".join(read(messages[number]).whole_text() for number in request)
    text += "\n".join(call["text"] for call in asked if "text" in call)  # a perfect memory, which still has it all
    gone = [one for one in planted if one not in text]
    if RULE in gone or len(gone) > len(planted) / 2:
        made = sum(number >= MADE for number in request)
        return "loses history", f"{len(gone)} of {len(planted)} planted facts gone, {made} messages made"
    return "goes on", "" if asked else "the summariser was never asked"


def section(result: dict[str, Any]) -> Section:
    """Return the table and the plot."""
    cells = table(
        ["arm", "survived", "no fault", *FAULTS],
        (
            [row["arm"], percent(row["survived"]), row["control"], *(row["cells"][fault] for fault in FAULTS)]
            for row in result["rows"]
        ),
    )
    text = f"""An agent edits thirty files in a window of {WINDOW:,} tokens while its summariser fails in one way,
at every call. The run outgrows the window, so going on takes a way without the model. *Goes on*: every request
was taken, and at the end the standing rule, the task and more than half of the thirty files are still in the
request. *Loses history*: the run goes on without them. *No fault*: the same with a summariser that forgets
nothing. *Hangs*: a turn waits as long as the model does ({HANG:g} seconds stand for ever; ours is given a
deadline of {HANG / 4:g} s, the default is two minutes). The worst of {SEEDS} conversations is shown. The session
of OpenAI Agents compacts when a run is over, so one that outgrows the window by itself is refused whatever its
summariser does.
{", ".join(result["none"])} ask no model.

{cells}"""
    rows = {row["arm"]: [row["cells"][fault] for fault in FAULTS] for row in result["rows"]}
    note = f"what comes of the run, in a window of {WINDOW // 1000}k; the worst of {SEEDS}"
    plot = grid("When the summariser fails", note, FAULTS, rows, OUTCOMES)
    return Section("Survival", text, {"survival.svg": plot}, recorded=False)
