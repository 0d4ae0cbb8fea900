"""Draw the pictures of the documentation, `docs/pictures/*.svg`: from a real run where they show one, else by hand.

Each has its own background, light or dark as the reader's system is set, and loads nothing from other hosts.
"""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from unabridged import Compactor
from unabridged.formats import get_format
from unabridged.tokens.meter import Meter

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
SESSION = ROOT / "examples" / "coding_session.json"
WIDTH = 820
STYLE = """<style>
text { font: 14px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 15px } .soft { fill: #59636e; font-size: 12.5px } .on { fill: #fff }
.mono { font: 12.5px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
.ground { fill: #fff } .box { fill: #f6f8fa; stroke: #d1d9e0 } .rule { stroke: #d1d9e0; fill: none }
.arrow { stroke: #59636e; stroke-width: 1.6; fill: none } .head { fill: #59636e }
.person { fill: #1a7f37 } .model { fill: #0969da } .tool { fill: #bf8700 } .system { fill: #1b7c83 }
.summary { fill: #cf222e } .gone { fill-opacity: .32 }
.line { fill: none; stroke-width: 2.2 } .whole { stroke: #afb8c1 } .sent { stroke: #0969da }
.limit { stroke: #cf222e; stroke-dasharray: 5 4; fill: none }
.trigger { stroke: #bf8700; stroke-dasharray: 5 4; fill: none }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .soft { fill: #9198a1 } .on { fill: #0d1117 } .ground { fill: #0d1117 }
  .box { fill: #151b23; stroke: #3d444d } .rule { stroke: #3d444d } .arrow { stroke: #9198a1 } .head { fill: #9198a1 }
  .person { fill: #3fb950 } .model { fill: #4493f8 } .tool { fill: #d29922 } .system { fill: #39c5cf }
  .summary { fill: #f85149 } .whole { stroke: #656c76 } .sent { stroke: #4493f8 } .limit { stroke: #f85149 }
  .trigger { stroke: #d29922 }
}
</style>"""
TERMINAL = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""


class Piece(NamedTuple):
    """A message in a bar: its origin, its tokens, and whether it left the context."""

    whose: str
    tokens: int
    gone: bool = False


def draw() -> dict[str, str]:
    """Return every picture by the name of its file."""
    return {
        "before-after.svg": _before_after(), "fill.svg": _fill(), "call.svg": _call(),
        "summary-turn.svg": _summary_turn(), "carry-resend.svg": _carry_resend(), "demo.svg": _demo(),
    }  # fmt: skip


def _svg(title: str, height: int, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{html.escape(title)}">\n'
        f'{STYLE}\n<rect class="ground" width="{WIDTH}" height="{height}" rx="8"/>\n{body}\n</svg>\n'
    )


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, *lines: str, kind: str = "box") -> str:
    """Draw a box with its lines in the middle, the first in bold."""
    drawn = [f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>']
    top = y + height / 2 - 9 * (len(lines) - 1) + 5
    ink = "" if kind == "box" else " on"
    for number, line in enumerate(lines):
        look = ("title" if number == 0 else "soft") + ink
        drawn.append(_text(x + width / 2, top + 18 * number, line, look, "middle"))
    return "".join(drawn)


def _arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    """Draw a straight arrow, horizontal or vertical."""
    dx, dy = (to_x > x) - (to_x < x), (to_y > y) - (to_y < y)
    back_x, back_y = to_x - 9 * dx, to_y - 9 * dy
    tip = ((to_x, to_y), (back_x - 5 * dy, back_y - 5 * dx), (back_x + 5 * dy, back_y + 5 * dx))
    points = " ".join(f"{a:g},{b:g}" for a, b in tip)
    line = f'<path class="arrow" d="M{x:g} {y:g}L{to_x - 6 * dx:g} {to_y - 6 * dy:g}"/>'
    return f'{line}<polygon class="head" points="{points}"/>'


def _session() -> dict[str, Any]:
    session: dict[str, Any] = json.loads(SESSION.read_text(encoding="utf-8"))
    return session


def _kind(message: Any) -> str:
    view = get_format("openai-chat").read(message)
    return {"person": "person", "model": "model", "tool": "tool", "summary": "summary"}.get(view.origin, "system")


def _before_after() -> str:
    """Draw the example session in a window of 8,000 tokens: both lists on one scale, and how the new one begins."""
    session = _session()
    messages, meter = session["messages"], Meter()
    with Compactor(window=8_000, archive="memory:") as compactor:
        beside = {"system": session.get("system"), "tools": session.get("tools")}
        done = compactor.fit(messages, thread="coding_session", **beside)
    kept = {id(message) for message in done.messages}

    def size(message: Any) -> int:
        return meter.text(json.dumps(message, ensure_ascii=False))

    before = [Piece(_kind(m), size(m), id(m) not in kept) for m in messages]
    known = {id(message) for message in messages}
    after = [Piece(_kind(m) if id(m) in known else "summary", size(m)) for m in done.messages]
    scale = (WIDTH - 210) / sum(piece.tokens for piece in before)
    parts = [_text(24, 32, "A coding session of 105 messages, in a window of 8,000 tokens", "title")]
    for y, name, pieces, tokens in (
        (56, "before", before, done.tokens_before), (100, "after", after, done.tokens_after)
    ):  # fmt: skip
        x = 84.0
        parts.append(_text(24, y + 19, name))
        for piece in pieces:
            width = piece.tokens * scale
            look = f"{piece.whose} gone" if piece.gone else piece.whose
            parts.append(f'<rect class="{look}" x="{x:.1f}" y="{y}" width="{max(0.6, width - 0.4):.1f}" height="28"/>')
            x += width
        parts.append(_text(x + 8, y + 19, f"{tokens:,} tokens"))
    x = 84.0
    for name in ("person", "model", "tool", "summary"):
        parts.append(f'<rect class="{name}" x="{x:g}" y="143" width="12" height="12" rx="2"/>')
        parts.append(_text(x + 18, 154, {"summary": "the summary turn"}.get(name, name), "soft"))
        x += 44 + 9 * len(name)
    parts.append(_text(x + 60, 154, "pale: left the context, and is in the archive", "soft"))
    turn = next(m["content"] for m in done.messages if str(m.get("content")).startswith("[unabridged summary"))
    wanted = turn.split("## ")[1:3]
    lines = [line for block in wanted for line in _wrapped(f"## {block}".strip())][:13]
    height = 220 + 19 * len(lines)
    parts.append(f'<rect class="box" x="24" y="172" width="{WIDTH - 48}" height="{height - 182}" rx="6"/>')
    parts.append(_text(40, 196, "the summary turn begins, word for word:", "soft"))
    parts += [_text(40, 220 + 19 * i, line, "mono") for i, line in enumerate(lines)]
    return _svg("A conversation before and after a compaction", height + 12, parts)


def _wrapped(text: str, width: int = 98) -> list[str]:
    """Return the lines of a text, each truncated where it is too long for the picture."""
    return [line if len(line) <= width else f"{line[: width - 1]}…" for line in text.splitlines() if line.strip()]


def _fill() -> str:
    """Draw the same session, call by call, in a window of 16,000 tokens."""
    session = _session()
    window, sent, whole = 16_000, [], []
    carried: list[Any] = []
    with Compactor(window=window, archive="memory:") as compactor:
        limits = compactor.limits
        other = Compactor(window=10_000_000, archive="memory:")
        for number, message in enumerate(session["messages"]):
            if message["role"] == "assistant":
                fitted = compactor.fit(carried, thread="t", tools=session.get("tools"))
                carried = list(fitted.messages)
                all_of_it = session["messages"][:number]
                whole.append(other.plan(all_of_it, thread="w", tools=session.get("tools")).tokens)
                sent.append(fitted.tokens_after)
            carried.append(message)
        other.close()
    left, top, right, bottom = 70, 48, WIDTH - 30, 300
    highest = max(whole) * 1.05

    def across(call: float) -> float:
        return left + (right - left) * call / (len(sent) - 1)

    def up(tokens: float) -> float:
        return bottom - (bottom - top) * tokens / highest

    parts = [_text(24, 30, "Tokens of each request of a real session, in a window of 16,000", "title")]
    parts.append(f'<path class="rule" d="M{left} {top}V{bottom}H{right}"/>')
    ticks = range(10_000, int(highest), 10_000)
    parts += [_text(left - 8, up(tokens) + 4, f"{tokens:,}", "soft", "end") for tokens in ticks]
    for values, look in ((whole, "whole"), (sent, "sent")):
        points = " ".join(f"{across(i):.1f},{up(value):.1f}" for i, value in enumerate(values))
        parts.append(f'<polyline class="line {look}" points="{points}"/>')
    (trigger,) = (condition["tokens"] for condition in limits.trigger)
    for value, look, name in ((limits.budget, "limit", "budget"), (trigger, "trigger", "trigger")):
        parts.append(f'<path class="{look}" d="M{left} {up(value):.1f}H{right}"/>')
        parts.append(
            _text(right if look == "limit" else right - 110, up(value) - 6, f"{name} {value:,}", "soft", "end")
        )
    here = int(len(whole) * 0.62)
    parts.append(_text(across(here), up(whole[here]) - 14, "the whole conversation", "soft", "end"))
    parts.append(_text(across(len(sent) * 0.3), up(1_500), "what is sent: it falls at each compaction", "soft"))
    parts.append(_text((left + right) / 2, bottom + 24, "calls of the model →", "soft", "middle"))
    return _svg("The size of each request of a session", 340, parts)


def _call() -> str:
    parts = [
        _text(24, 30, "One call", "title"),
        _box(24, 60, 150, 64, "your loop", "messages"),
        _arrow(174, 92, 244, 92),
        _box(244, 60, 190, 64, "fit", "how large is the request?"),
        _arrow(434, 92, 620, 92),
        _text(527, 82, "below the trigger:", "soft", "middle"),
        _text(527, 112, "the very same list", "soft", "middle"),
        _box(620, 60, 176, 64, "the model", "its provider"),
        _arrow(339, 124, 339, 176),
        _text(350, 154, "above it", "soft"),
        _box(244, 176, 190, 64, "compact", "clear, or summarise"),
        _arrow(244, 208, 174, 208),
        _box(24, 176, 150, 64, "archive", "every original, first"),
        '<path class="arrow" d="M434 208H708V130"/>',
        '<polygon class="head" points="708,124 703,134 713,134"/>',
        _text(560, 200, "then a shorter list,", "soft", "middle"),
        _text(560, 228, "legal and within the budget", "soft", "middle"),
        _text(24, 262, "replay · undo · search · read · forget", "soft"),
    ]
    return _svg("Where a call goes", 284, parts)


def _summary_turn() -> str:
    rows = (
        ("summary", 40, "first line", "[unabridged summary 5f52ad0c8e5c]: names the record in the archive"),
        ("person", 34, "pins", "texts that you named: Settings(pins=…)"),
        ("model", 86, "what was done", "a model's prose, checked; else the assistant's own words, calls and results"),
        ("person", 66, "what people said", "every message with its number, word for word; long ones shortened"),
        ("tool", 40, "files and names", "files by the calls that named them; ids and numbers that are needed next"),
        ("system", 40, "your program's state", "what Compactor(state=…) tells, as of now"),
    )  # fmt: skip
    parts, y = [_text(24, 30, "A summary turn, from top to bottom", "title")], 48
    for kind, height, name, what in rows:
        parts.append(_box(24, y, 250, height, name, kind=kind))
        parts.append(_text(292, y + height / 2 + 5, what, "soft"))
        y += height + 6
    parts.append(_text(24, y + 18, "green: exact, by rule, never written by a model", "soft"))
    return _svg("The parts of a summary turn", y + 36, parts)


def _carry_resend() -> str:
    parts: list[str] = []
    for y, name, kept, given in (
        (44, "carry", "you keep the shorter list", "summary turn + newest messages"),
        (186, "resend", "you keep the whole list", "message 0 … message 400"),
    ):
        parts.append(_text(24, y, f"{name}: {kept}", "title"))
        parts.append(_box(24, y + 16, 230, 60, "your list", given))
        parts.append(_arrow(254, y + 46, 330, y + 46))
        parts.append(_box(330, y + 16, 90, 60, "fit"))
        parts.append(_arrow(420, y + 46, 496, y + 46))
        parts.append(_box(496, y + 16, 230, 60, "what is sent", "summary turn + newest messages"))
    parts.append(
        '<path class="arrow" d="M611 120V142H139V126"/><polygon class="head" points="139,120 134,130 144,130"/>'
    )
    parts.append(_text(375, 136, "becomes your list", "soft", "middle"))
    found = "fit finds the record by what your list begins with: the same bytes each time"
    parts.append(_text(375, 286, found, "soft", "middle"))
    return _svg("Carry or resend", 306, parts)


def _demo() -> str:
    """Draw what `make demo` prints, as a terminal shows it, with only the beginning of the long summary turn."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "unabridged", "compact", str(SESSION), "--window", "8k"]
        environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        environment |= {"FORCE_COLOR": "1", "COLUMNS": "96", "XDG_DATA_HOME": folder, "TERM": "xterm-256color"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=folder)
    lines = done.stdout.splitlines()
    begins = next(i for i, line in enumerate(lines) if "the summary turn" in line)
    ends = next(i for i, line in enumerate(lines) if "end of summary" in line)
    rest = f"  … and {ends - begins - 18} more lines of it"
    shown = [*lines[: begins + 18], rest, *lines[ends + 1 :]]
    console = Console(record=True, width=96, file=open(os.devnull, "w", encoding="utf-8"), force_terminal=True)  # noqa: SIM115, PTH123
    console.print(Text("$ unabridged compact examples/coding_session.json --window 8k", style="bold green"))
    for line in shown:
        console.print(Text.from_ansi(line), soft_wrap=True)
    console.file.close()
    return console.export_svg(title="unabridged", theme=MONOKAI, code_format=TERMINAL, unique_id="demo")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, drawn in draw().items():
        (FOLDER / name).write_text(drawn, encoding="utf-8")
        print(f"{name}: {len(drawn):,} characters")
