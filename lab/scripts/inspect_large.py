"""Measure the inspector in a real browser: a thread of 20,000 messages, and an archive of 100,000 threads.

    python lab/scripts/inspect_large.py   # needs playwright and a Chromium; makes its archives in a folder of its own

First view: from the address to rows with words in them, on a server that has just been started. Scrolling: in every
frame it is looked whether rows cover the whole list (there is a gap if not), and whether all of them have their words.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from unabridged import Compactor
from unabridged.archive import open_archive
from unabridged.archive.protocol import Scope
from unabridged_cli.inspector.listing import thread_id
from unabridged_cli.inspector.server import InspectorServer

LONG = Scope("default", "a long thread")
ROUNDS = 3
WATCH = """
    window.filled = () => {
      const list = document.querySelector(".virtual");
      const rows = list ? [...list.querySelectorAll("[role=option]")] : [];
      return rows.length > 5 && !list.querySelector(".ghost");
    };
    const look = () => {
      if (!window.filled()) requestAnimationFrame(look);
      else requestAnimationFrame(() => { window.firstView = performance.now(); });
    };
    look();
"""
SCROLL = """async ([step, frames]) => {
  const list = document.querySelector(".virtual");
  const told = {frames: 0, gaps: 0, unfilled: 0, longest: 0, rows: 0};
  const frame = () => new Promise(requestAnimationFrame);
  let before = await frame();
  for (let i = 0; i < frames && list.scrollTop < list.scrollHeight - list.clientHeight; i++) {
    list.scrollTop += step;
    const now = await frame();
    told.frames++;
    told.longest = Math.max(told.longest, now - before);
    before = now;
    const box = list.getBoundingClientRect();
    const seen = [...list.querySelectorAll("[role=option]")].map((row) => [row, row.getBoundingClientRect()])
      .filter(([, rect]) => rect.bottom > box.top + 1 && rect.top < box.bottom - 1).sort((a, b) => a[1].top - b[1].top);
    let down = box.top + 1;
    for (const [, rect] of seen) if (rect.top <= down + 1) down = Math.max(down, rect.bottom);
    told.gaps += down < box.bottom - 2;
    told.unfilled += seen.some(([row]) => row.querySelector(".ghost"));
    told.rows = Math.max(told.rows, list.querySelectorAll("[role=option]").length);
  }
  return told;
}"""
JUMP = """async (share) => {
  const list = document.querySelector(".virtual");
  const begun = performance.now();
  list.scrollTop = share * list.scrollHeight;
  await new Promise(requestAnimationFrame);
  while (!window.filled()) await new Promise(requestAnimationFrame);
  return performance.now() - begun;
}"""


def main() -> None:
    """Make the archives, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--threads", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="keep the archives here, and use those that are there")
    wanted = parser.parse_args()
    folder = wanted.folder or Path(tempfile.mkdtemp(prefix="unabridged-large-"))
    folder.mkdir(exist_ok=True)
    long, many = folder / "long.db", folder / "many.db"
    for path, make, size in ((long, make_long, wanted.messages), (many, make_many, wanted.threads)):
        if not path.exists():
            begun = time.monotonic()
            make(path, size)
            print(f"{path.name}: {path.stat().st_size / 1e6:,.0f} MB, made in {time.monotonic() - begun:,.0f} s")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        measure(opened, many, "#/", f"{wanted.threads:,} threads")
        measure(opened, long, f"#/t/{thread_id(LONG)}/whole", f"{wanted.messages:,} messages")
        opened.close()
    if wanted.folder is None:
        shutil.rmtree(folder)


def make_long(path: Path, messages: int) -> None:
    """Make one thread of so many messages, compacted as it grew."""
    with Compactor(window=32_000, archive=f"sqlite:///{path}") as compactor:
        held: list[Any] = []
        for at in range(0, messages, 2):
            words = f"Step {at}: " + " ".join(f"word{(at * 7 + i * 13) % 997}" for i in range(60))
            held = compactor.fit([*held, {"role": "user", "content": words}], thread=LONG.thread).messages
            held = [*held, {"role": "assistant", "content": f"Done with {at}. {words}"}]
        compactor.compact([*held, {"role": "user", "content": "go on"}], thread=LONG.thread)


def make_many(path: Path, threads: int) -> None:
    """Make so many threads in seven namespaces, each a copy of one that was compacted."""
    with Compactor(window=4_000, archive=f"sqlite:///{path}", namespace="team 0") as compactor:
        talk = [
            {"role": ("user", "assistant")[i % 2], "content": f"{i}: " + "some words here " * 60} for i in range(21)
        ]
        compactor.compact(talk, thread="the first of them")
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA synchronous = OFF")
        for space in range(1, 7):
            database.execute("INSERT INTO namespaces (name) VALUES (?)", [f"team {space}".encode()])
        (first,) = database.execute("SELECT MIN(id) FROM threads").fetchone()
        ids = [row[0] for row in database.execute("SELECT id FROM namespaces ORDER BY id")]
        now = time.time()
        rows = [
            (ids[at % len(ids)], f"conversation {at:06d} of customer {at * 7919 % 10_007}".encode(), now - at * 31)
            for at in range(threads - 1)
        ]
        database.executemany("INSERT INTO threads (namespace, name, used) VALUES (?, ?, ?)", rows)
        database.executemany(
            "INSERT INTO bodies (namespace, hash, body) SELECT ?, hash, body FROM bodies WHERE namespace = ?",
            [(space, ids[0]) for space in ids[1:]],
        )
        database.execute(
            "INSERT INTO parts (thread, number, turn, body, view) "
            "SELECT t.id, p.number, p.turn, b.id, p.view FROM threads t CROSS JOIN parts p "
            "JOIN bodies o ON o.id = p.body JOIN bodies b ON b.hash = o.hash AND b.namespace = t.namespace "
            "WHERE p.thread = ? AND t.id <> p.thread", [first],
        )  # fmt: skip
        database.execute(
            "INSERT INTO records (thread, number, id, key, live, kind, data) "
            "SELECT t.id, r.number, r.id, r.key, r.live, r.kind, r.data FROM threads t CROSS JOIN records r "
            "WHERE r.thread = ? AND t.id <> r.thread", [first],
        )  # fmt: skip
    database.close()


@contextmanager
def serving(path: Path) -> Iterator[InspectorServer]:
    """Run an inspector that has not served any request yet."""
    archive = open_archive(f"sqlite:///{path}", probe=False)
    with InspectorServer(archive) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
    archive.close()


def measure(browser: Any, path: Path, place: str, what: str) -> None:
    """Print how long the first view takes, and how scrolling goes."""
    first: list[float] = []
    for _ in range(ROUNDS):
        with serving(path) as server:
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            page = context.new_page()
            home = server.url.partition("?")[0]
            context.request.get(server.url)  # the cookie, and nothing of the page yet
            page.add_init_script(WATCH)
            page.goto(f"{home}{place}")
            page.wait_for_selector(".virtual [role=option]")
            while not page.evaluate("window.firstView"):
                time.sleep(0.01)
            first.append(page.evaluate("window.firstView"))
            if len(first) == ROUNDS:
                scroll(page, what)
            context.close()
    print(f"{what}: first view {', '.join(f'{one:,.0f}' for one in first)} ms")


def scroll(page: Any, what: str) -> None:
    """Print what was seen while scrolling."""
    page.evaluate("document.querySelector('.virtual').scrollTop = 0")
    for name, step, frames in (("wheel, 120 px a frame", 120, 600), ("fling, 900 px a frame", 900, 600)):
        told = page.evaluate(SCROLL, [step, frames])
        waiting = f"{told['unfilled']} with a row that waits for its words"
        slow = f"the longest {told['longest']:.0f} ms, at most {told['rows']} rows in the page"
        print(f"{what}, {name}: {told['frames']} frames, {told['gaps']} with a gap, {waiting}, {slow}")
    jumps = sorted(page.evaluate(JUMP, share / 17) for share in (3, 11, 7, 15, 1, 9, 13, 5))
    print(
        f"{what}, jumps anywhere: filled after {jumps[len(jumps) // 2]:.0f} ms at the median, {jumps[-1]:.0f} at most"
    )


if __name__ == "__main__":
    main()
