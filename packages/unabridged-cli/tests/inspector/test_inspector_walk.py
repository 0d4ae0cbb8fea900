"""A real browser walks the inspector: every view, by hand and by keyboard alone, on honest archives and a hostile one.

The pictures in docs/ are made by this walk: `SCREENSHOTS=docs/images make test`.
"""

from __future__ import annotations

import http.server
import os
import re
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli_case import DESK, SESSION, run
from conversations import assistant, chat_round, user
from inspector_case import BREAKS, HOSTILE, PLANTED, Door, copy_session, inspecting, inspecting_alone, play, talk
from patience import PATIENCE
from unabridged import Compactor
from unabridged.archive import open_archive
from unabridged.archive.protocol import Archive, Scope
from unabridged.live import live
from unabridged.settings import Clear, Settings
from unabridged_cli.inspector.listing import thread_id

pytestmark = pytest.mark.long
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
REBOUND = "rebound.test"
FERRY = Scope("mara", "ferryboard: FB-412, the night the clocks went back")
TALK = Scope("default", "parts, read one by one")
NOTHING = "No archived message matches"
SCREENS = {"wide": {"width": 1280, "height": 800}, "narrow": {"width": 390, "height": 844}}
CUT = """() => {
    const cut = (node) => {
        const box = node.getBoundingClientRect();
        const longer = node.scrollWidth > node.clientWidth + 1 || node.scrollHeight > node.clientHeight + 1;
        const text = longer && getComputedStyle(node).overflowX !== "visible";
        let outside = box.left < -0.5 || box.right > innerWidth + 0.5;
        for (let up = node.parentElement; up; up = up.parentElement) {
            if (getComputedStyle(up).overflowX === "visible") continue;
            const frame = up.getBoundingClientRect();
            outside ||= box.left < frame.left - 0.5 || box.right > frame.right + 0.5;
        }
        return outside || (text && !node.matches("input, .beside"));
    };
    const named = "a, button, input, select, label, output, summary, h1, h2, h3, p, li, th, td, .key, .num";
    const all = [...document.querySelectorAll(named)].filter((node) => node.checkVisibility() && node.clientWidth);
    const whole = (node) => node.matches(".num") || !node.closest("[role=option], .skip, .unseen");
    return all.filter((node) => whole(node) && cut(node)).map((node) => node.outerHTML.slice(0, 200));
}"""
"""What can't be seen whole. A row of a list may shorten its texts, which stand whole where it leads, and no number."""


FOCUSED = """() => {
    const node = document.activeElement;
    const { left, right, top, bottom } = node.getBoundingClientRect();
    const { outlineStyle, outlineWidth, outlineOffset } = getComputedStyle(node);
    const reach = parseFloat(outlineWidth) + parseFloat(outlineOffset);
    let seen = outlineStyle !== "none" && bottom > 0 && top < innerHeight;
    for (let up = node.parentElement; up; up = up.parentElement) {
        if (getComputedStyle(up).overflowX === "visible") continue;
        const frame = up.getBoundingClientRect();
        seen &&= left - reach >= frame.left - 0.5 && right + reach <= frame.right + 0.5;
    }
    node.dataset.stop ??= document.querySelectorAll("[data-stop]").length;
    return { seen, stop: node.dataset.stop, html: node.outerHTML.slice(0, 160) };
}"""
"""Whether the element that has the keyboard shows it, not cut off, and which stop of the Tab key it is."""


@pytest.fixture(params=SCREENS)
def screen(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A screen to walk on."""
    return {"viewport": SCREENS[request.param]}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for the whole walk; for it, a foreign name leads to this machine."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: the walk is skipped")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed: no browser walked the inspector")
    with sync_api.sync_playwright() as playwright:
        rules = f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", rules])
        yield opened
        opened.close()


class Tab:
    """One page, with everything that it asked for and complained about."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": SCREENS["wide"], **options})
        self.page = self.context.new_page()
        self.asked: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text))

    def open(self, door: Door) -> None:
        self.page.goto(door.server.url)
        self.at("threads")
        assert "token" not in self.page.url

    def at(self, view: str) -> None:
        """Wait until a view is there; and see that it is no wider than the screen."""
        self.page.wait_for_selector(f"main[data-view={view}]")
        self.until("!document.querySelector('.row .ghost')")
        wide = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{view} is {wide} pixels too wide"
        self.until("document.title.endsWith(' · unabridged')")
        assert self.page.locator("h1").count() == 1, view
        top = self.page.locator("#top").bounding_box()
        assert top is None or (top["height"] <= 49 and top["y"] == 0), f"{view} broke the bar on top"
        self.check_whole(view)

    def check_whole(self, view: str) -> None:
        """See that nothing is cut off."""
        assert self.page.evaluate(CUT) == [], view

    def until(self, expression: str) -> None:
        """Wait until it holds in the page, whose policy lets nobody else evaluate there again and again."""
        end = time.monotonic() + PATIENCE
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, f"never came true: {expression}"
            time.sleep(0.02)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def tab_to(self, selector: str) -> None:
        """Go there by the Tab key."""
        for _ in range(40):
            if self.page.evaluate("s => document.activeElement.matches(s)", selector):
                return
            self.press("Tab")
        raise AssertionError(f"Tab never came to {selector}")

    def check_stops(self, *selectors: str) -> None:
        """Go through the page by the Tab key, and see that each stop is seen, and that these are among them."""
        self.page.focus(".brand")
        stops: dict[str, str] = {}
        while True:
            self.press("Tab")
            found = self.page.evaluate(FOCUSED)
            if found["stop"] in stops or found["html"].startswith("<body"):
                break
            assert found["seen"], found["html"]
            stops[found["stop"]] = found["html"]
            if self.page.evaluate("document.activeElement.matches('.brand')"):
                break
        for selector in selectors:
            assert self.page.locator(selector).first.get_attribute("data-stop") in stops, selector

    def option(self, text: str) -> Any:
        return self.page.locator("[role=option]", has_text=text).first

    def picture(self, name: str) -> None:
        """A picture for the docs, where they are wanted."""
        if not os.environ.get("SCREENSHOTS") or self.page.viewport_size != SCREENS["wide"]:
            return
        file = Path(os.environ["SCREENSHOTS"]) / f"inspect-{name}.png"
        self.page.screenshot(path=file)
        if (smaller := shutil.which("pngquant")) is not None:
            subprocess.run([smaller, "--force", "--ext", ".png", "64", file], check=True)

    def check_access(self, view: str) -> None:
        """See that nothing is cut off, and that axe finds nothing, in light and in dark."""
        self.check_whole(view)
        axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
        for scheme, options in (("dark", {"runOnly": ["color-contrast"]}), ("light", None)):
            self.page.emulate_media(color_scheme=scheme)
            found = axe.run(self.page, options=options).response["violations"]
            told = [
                (one["id"], node["html"][:160], node["any"][:1] and node["any"][0]["message"])
                for one in found for node in one["nodes"][:3]
            ]  # fmt: skip
            assert not told, f"{view}, {scheme}: {told}"

    def close(self, *, quiet: bool = True) -> None:
        assert not self.errors if quiet else True, self.errors
        self.context.close()


@contextmanager
def tab(browser: Any, **options: Any) -> Iterator[Tab]:
    opened = Tab(browser, **options)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    made = open_archive("memory:")
    play(DESK, made, "desk", "service desk, November", 6_000)
    talk(made, *TALK, "the beginning")
    play(SESSION, made, *FERRY, 16_000)
    copy_session(SESSION, tmp_path_factory.mktemp("session"), made)
    yield made
    made.close()


def test_a_browser_walks_every_view_and_what_it_shows_is_so(
    browser: Any, archive: Archive, screen: dict[str, Any]
) -> None:
    with inspecting(archive) as door, tab(browser, **screen) as opened:
        page = opened.page
        opened.open(door)
        assert page.locator("[role=option]").count() == 4
        row = page.locator("[role=option]", has_text="ferryboard: FB-412").inner_text()
        assert "Kiosk 7 in Skarvøy" in row
        assert time.strftime("%Y-%m-%d") in row
        opened.check_access("threads")
        opened.picture("threads")
        page.fill("#filter", "PARTS")
        opened.until("document.querySelectorAll('[role=option]').length === 1")
        page.fill("#filter", "")
        opened.until("document.querySelectorAll('[role=option]').length === 4")
        page.select_option("#order", "name")
        opened.until("document.querySelectorAll('[role=option] .name')[1].textContent.startsWith('parts')")
        page.select_option("#space", label="mara (1)")
        opened.until("document.querySelectorAll('[role=option]').length === 1")

        opened.option("ferryboard").click()
        opened.at("thread")
        page.click("#back")
        opened.at("threads")  # as it was left
        assert page.locator("[role=option][aria-selected=true]").count() == page.locator("[role=option]").count() == 1
        page.locator("[role=option]").click()
        opened.at("thread")
        records = archive.records(FERRY)
        assert page.locator("[role=option]").count() == page.locator(".chart .drop").count() == len(records)
        assert page.locator(".bound.trigger").count() == page.locator(".bound.budget").count() == 1
        newest = page.locator("[role=option]").first.inner_text()
        assert f"{records[-1].data['receipt']['tokens_before']:,}" in newest
        assert page.locator("#do-undo").is_disabled()
        opened.check_access("thread")
        opened.picture("thread")

        walk_slider(opened, records)
        walk_compaction(opened, records)

        walk_search(opened)
        assert all(url.startswith(f"http://{door.host}/") for url in opened.asked if not url.startswith("data:"))


def test_a_run_is_shown_while_an_agent_works(
    tmp_path: Path, browser: Any, screen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path, thread = Path("run.jsonl"), "nightly import" if screen["viewport"] == SCREENS["wide"] else HOSTILE[:120]
    archive = open_archive("memory:")
    compactor = Compactor(window=32_000, agent="claude-sonnet-4-5", archive=archive, on_event=live(path))
    messages: list[Any] = [user(f"Mend the nightly import, and never drop a table. {HOSTILE}")]
    with inspecting(archive, follow=str(path)) as door, tab(browser, **screen) as opened:
        opened.open(door)
        opened.page.click("#live")
        opened.at("live")
        for step in range(90):
            messages = compactor.fit(messages, thread=thread).messages
            messages = [*messages, *chat_round(f"call{step}", f"row {step} was imported\n" * (100 + 40 * (step % 7)))]
            if step % 30 == 29:
                opened.until(f"document.querySelector('.live .facts')?.innerText.includes('{step + 1} requests')")
                opened.at("live")
        shown = opened.page.locator(".live .facts").inner_text()
        assert f"{len(compactor.compactions(thread=thread))} compactions" in shown
        assert "claude-sonnet-4-5" in shown
        assert "$" in opened.page.locator(".cards").inner_text()
        opened.check_access("live")
        opened.check_stops("#live", "#search")
        opened.picture("live")
        assert "never drop a table" not in path.read_text(encoding="utf-8")
    with inspecting(archive) as door, tab(browser, **screen) as opened:
        opened.open(door)
        assert opened.page.locator("#live").count() == 0


def walk_search(opened: Tab) -> None:
    """By keyboard, to what is found and to what is not."""
    page = opened.page
    page.keyboard.press("/")
    page.keyboard.type("heron hat")
    page.keyboard.press("Enter")
    opened.at("search")
    page.wait_for_selector(".results[data-ready]")
    assert page.locator(".results mark").first.inner_text().lower() in {"heron", "hat"}
    opened.check_access("search")
    page.locator(".results a").first.click()
    opened.at("thread")
    page.wait_for_selector(".reader mark")
    assert PLANTED in page.locator(".reader-body").inner_text()
    assert page.locator("[aria-selected=true][role=option] .turn").inner_text() == "1"
    page.fill("#search", "nosuchwordanywhere")
    page.press("#search", "Enter")
    opened.until(f"document.querySelector('#found-told')?.textContent.startsWith({NOTHING!r})")
    page.fill("#search", "migrations folder")
    page.press("#search", "Enter")
    page.wait_for_selector(".results[data-ready] mark")
    opened.picture("search")


def walk_slider(opened: Tab, records: Any) -> None:
    """At any point what the model read then, and at the end what a compaction left."""
    page = opened.page
    page.click("#tab-context")
    page.wait_for_selector("#context-told:not(:empty)")
    for _ in range(3):
        page.click("#previous")
    told = page.locator("#where").inner_text()
    assert told.endswith(f"after compaction {len(records) - 3} of {len(records)}")
    record = records[-4]
    left = record.data["receipt"]["messages_after"]
    opened.until(f"document.querySelector('[role=option]')?.ariaSetSize === '{left}'")
    opened.option("[unabridged summary").click()
    opened.until("document.querySelector('.reader-body').innerText.includes('[end of summary ')")
    opened.check_access("context")
    opened.picture("context")
    page.focus("#slider")
    page.keyboard.press("Home")
    assert page.locator("#where").inner_text() == "turn 0, before any compaction"
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    opened.until("document.querySelectorAll('[role=option]').length === 3")
    assert "Kiosk 7 in Skarvøy" in page.locator("[role=option]").first.inner_text()
    page.click("#tab-whole")
    page.wait_for_selector("#tab-whole[aria-selected=true]")
    page.focus("[role=listbox]")
    page.keyboard.press("Home")
    opened.until("document.querySelector('.reader-body').innerText.includes('Kiosk 7 in Skarvøy')")
    assert page.locator("#where").inner_text().startswith("turn 1,")
    page.click("#tab-trial")
    page.fill("#trial-window", "24k")
    page.click(".trial button")
    page.wait_for_selector(".compare")
    assert "with these settings" in page.locator(".compare").first.inner_text()
    page.locator(".trial-result summary").first.click()
    assert (
        "clearing old tool results and arguments is enough" in page.locator(".trial-result details").first.inner_text()
    )
    opened.check_access("trial")
    opened.picture("what-if")
    page.fill("#trial-window", "a lot")
    page.click(".trial button")
    page.wait_for_selector(".trial-result .error")
    assert opened.errors == ["Failed to load resource: the server responded with a status of 400 (Bad Request)"]
    opened.errors.clear()


def walk_compaction(opened: Tab, records: Any) -> None:
    """Before and after beside each other, the summary turn with its sources, the receipt."""
    page = opened.page
    page.click("#tab-compactions")
    page.wait_for_selector("#tab-compactions[aria-selected=true]")
    back = next(i for i in range(1, len(records)) if records[-1 - i].kind == "summary")
    record = records[-1 - back]
    page.locator("[role=option]").nth(back).click()
    opened.at("compaction")
    receipt = record.data["receipt"]
    assert f"{receipt['tokens_before']:,} → {receipt['tokens_after']:,}" in page.locator(".card").first.inner_text()
    assert "model-free" in page.locator(".cards").inner_text()
    assert "written anew" in page.locator(".cards").inner_text()
    went = sum(isinstance(item, str) for item in record.before)
    for _ in range(3):  # to a turn of two digits: axe skips a text of one
        page.locator("button.key.went").click()
    assert page.locator("button.key.went").inner_text() == f"went {went}"
    page.wait_for_selector(".reader-body .said")
    opened.check_access("compaction")
    opened.picture("compaction")
    page.click("#tab-summary")
    page.wait_for_selector(".rendered h3")
    page.locator(".rendered .ref", has_text="[2]").first.click()
    opened.until("document.querySelector('.reader-title').textContent === 'Turn 2'")
    assert "Two rules, for as long as we work on this repo" in page.locator(".reader-body").inner_text()
    name = page.locator(".rendered li .ref", has_text="ferryboard/clock.py").first
    name.click()
    opened.until("document.querySelector('.reader-title').textContent !== 'Turn 2'")
    opened.check_access("summary")
    opened.picture("summary")
    page.click("#tab-receipt")
    assert receipt["reason"] in page.locator(".receipt").inner_text()
    opened.check_access("receipt")
    opened.check_stops("#tab-receipt", "#panel")
    page.keyboard.press("]")
    opened.until(f"document.querySelector('h1')?.textContent.startsWith('Compaction {len(records) - back + 1} of')")
    page.keyboard.press("Escape")
    opened.at("thread")


def test_a_session_is_shown_with_the_compactions_of_its_client(
    browser: Any, archive: Archive, screen: dict[str, Any]
) -> None:
    with inspecting(archive) as door, tab(browser, **screen) as opened:
        page = opened.page
        opened.open(door)
        row = page.locator("[role=option]", has_text="Claude Code")
        assert all(part in row.inner_text() for part in ("Kiosk 7 in Skarvøy", "/home/mara/ferryboard"))
        row.click()
        opened.at("thread")
        assert page.locator("h1").inner_text().startswith("Kiosk 7 in Skarvøy")
        assert "Claude Code · /home/mara/ferryboard" in page.locator(".names").inner_text()
        assert page.locator(".chart .drop").count() == page.locator("[role=option]").count() == len(BREAKS)
        assert f"turn {BREAKS[1] + 2}" in page.locator("[role=option]").first.inner_text()
        assert "2026-10-28" in page.locator("[role=option]").first.inner_text()
        opened.check_access("session")
        opened.picture("session")
        page.locator("[role=option]").first.click()
        opened.until("document.querySelector('.reader-body')?.innerText.includes('is being continued')")
        assert page.locator(".reader-title").inner_text() == f"Turn {BREAKS[1] + 1}"
        page.click("#tab-context")
        page.wait_for_selector("#context-told:not(:empty)")
        assert "its summary and" in page.locator("#context-told").inner_text()
        opened.at("thread")
        assert "is being continued" in page.locator("[role=option]").first.inner_text()
        opened.check_access("session, at a point")
        opened.press("[", "[")
        opened.until("document.querySelector('#where').textContent.endsWith('after compaction 1 of 2')")
        page.click("#back")
        opened.at("threads")


def test_each_stop_of_the_tab_key_is_seen(browser: Any, archive: Archive, screen: dict[str, Any]) -> None:
    with inspecting(archive, write=True) as door, tab(browser, **screen) as opened:
        page = opened.page
        opened.open(door)
        opened.check_stops("#theme", "#filter", "#space", "#order", "[role=listbox]")
        opened.option("parts").click()
        opened.at("thread")
        opened.check_stops("#back", "#do-forget", "#slider", "#previous", "#tab-compactions", "[role=listbox]")
        page.locator("[role=option]").first.click()
        opened.at("compaction")
        opened.check_stops(".crumb a", "#previous", "button.key", "[role=listbox]", ".reader-body")
        page.click("#tab-summary")
        page.wait_for_selector(".rendered .ref")
        opened.check_stops(".summary-turn", ".rendered .ref", ".reader-body")
        page.keyboard.press("Escape")
        opened.at("thread")
        page.click("#tab-whole")
        page.wait_for_selector("#tab-whole[aria-selected=true]")
        opened.check_stops("#slider", "[role=listbox]", ".reader-body")
        page.click("#tab-trial")
        page.wait_for_selector("#trial-window")
        opened.check_stops("#trial-window", "#trial-keep", ".trial button")
        page.fill("#search", "heron")
        page.press("#search", "Enter")
        page.wait_for_selector(".results[data-ready] mark")
        opened.check_stops("#search", ".results a")


NAMES = (
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 on the ferry \U0001f1f3\U0001f1f4",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 (FB-412)",
    "<b>bold</b> &amp; </title>",
)


def test_names_are_shown_as_they_are_written(browser: Any, screen: dict[str, Any]) -> None:
    archive = open_archive("memory:")
    for name in NAMES:
        talk(archive, name, name, name, rounds=60)
    talk(archive, "n", "ad\u200dmin", "the beginning", rounds=60)
    with inspecting(archive) as door, tab(browser, **screen) as opened:
        page = opened.page
        opened.open(door)
        for name in NAMES:
            opened.option(name).click()
            opened.at("thread")
            assert page.locator("h1").inner_text() == name
            assert page.title() == f"{name} · unabridged"
            places = [page.locator(".names .facts").last.locator("bdi").nth(i).bounding_box() for i in range(2)]
            assert (places[0]["y"], places[0]["x"]) < (places[1]["y"], places[1]["x"]), "facts stand in their order"
            opened.check_access(name)
            page.click("#back")
            opened.at("threads")
        assert "ad\\u200dmin" in page.locator(".virtual").inner_text(), "what hides is shown by its number"
    archive.close()


def test_what_is_empty_or_gone_is_said_in_words(browser: Any, screen: dict[str, Any]) -> None:
    archive = open_archive("memory:")
    with inspecting(archive) as door, tab(browser, **screen) as opened:
        opened.open(door)
        assert "Nothing is archived here yet" in opened.page.locator(".nothing").inner_text()
        opened.check_access("an empty archive")
    for at in range(2):
        talk(archive, "n", f"talk {at}", "the beginning", rounds=60)
    with inspecting(archive) as door, tab(browser, **screen) as opened:
        page = opened.page
        opened.open(door)
        page.fill("#filter", "no such name")
        page.wait_for_selector(".nothing:not([hidden])")
        assert "No thread has this in its name" in page.locator(".nothing").inner_text()
        for record in reversed(archive.records(Scope("n", "talk 0"))):
            archive.retire(Scope("n", "talk 0"), record.id)
        page.fill("#filter", "")
        opened.option("talk 1").wait_for()  # the list stands still before a row of it is clicked
        opened.option("talk 0").click()
        opened.at("thread")
        assert "all were undone" in page.locator(".nothing").inner_text()
        assert page.locator(".chart").count() == page.locator("#previous").count() == 0
        opened.check_access("a thread whose compactions were undone")
        page.click("#back")
        opened.at("threads")
        archive.forget(Scope("n", "talk 1"))
        opened.option("talk 1").click()
        opened.at("error")
        assert page.locator("h1").inner_text() == "This is not there any more"
        assert "forgotten" in page.locator("main .error").inner_text()
        opened.check_access("a thread that is gone")
        page.click("main >> text=All threads")
        opened.at("threads")
        opened.errors.clear()  # the browser notes the 404
    archive.close()


def test_an_archive_that_cannot_be_read_is_said_in_words(browser: Any, screen: dict[str, Any], tmp_path: Path) -> None:
    archive = open_archive(f"sqlite:///{tmp_path / 'a.db'}")
    talk(archive, "n", "talk", "the beginning", rounds=60)
    opened = Tab(browser, **screen)
    page = opened.page
    with inspecting(archive) as door, closing(sqlite3.connect(tmp_path / "a.db")) as other:
        opened.open(door)
        other.execute("ALTER TABLE parts RENAME TO elsewhere")
        opened.option("talk").click()
        opened.at("error")
        assert page.locator("h1").inner_text() == "This can't be shown"
        assert "no such table: parts" in page.locator("main .error").inner_text()
        opened.check_access("an archive that can't be read")
        page.fill("#search", "beginning")
        page.press("#search", "Enter")
        page.wait_for_selector("main button:not([hidden])")
        assert "no such table: parts" in page.locator("#found-told").inner_text()
        other.execute("ALTER TABLE elsewhere RENAME TO parts")
        page.click("main >> text=Try again")
        page.wait_for_selector(".results[data-ready] mark")
        opened.close(quiet=False)  # the browser notes the 400
    archive.close()


def test_an_inspector_that_ended_is_said_in_words(browser: Any, screen: dict[str, Any], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    archive = open_archive(url)
    talk(archive, "n", "talk", "the beginning", rounds=60)
    archive.close()
    opened = Tab(browser, **screen)
    page = opened.page
    with inspecting_alone(url, tmp_path) as (address, child):
        page.goto(address)
        opened.at("threads")
        child.terminate()
        child.wait()
    page.select_option("#order", "name")
    page.wait_for_selector("#fault:not([hidden])")
    assert "unabridged inspect again" in page.locator("#fault").inner_text()
    opened.check_access("a list whose inspector ended")
    opened.option("talk").click()
    opened.at("error")
    assert page.locator("h1").inner_text() == "The inspector does not answer"
    opened.check_access("no answer")
    page.fill("#search", "heron")
    page.press("#search", "Enter")
    opened.until("document.querySelector('#found-told')?.textContent.startsWith('The inspector does not answer')")
    assert "Failed to fetch" not in page.inner_text("body")
    opened.close(quiet=False)  # the browser notes what it could not load


def test_keyboard_alone_does_everything_and_writing_is_asked_for_twice(browser: Any, screen: dict[str, Any]) -> None:
    archive = open_archive("memory:")
    talk(archive, *TALK, "the beginning")
    talk(archive, "other", "another", "not this one", rounds=60)
    with inspecting(archive, write=True) as door, tab(browser, reduced_motion="reduce", **screen) as opened:
        opened.open(door)
        look_by_keyboard(opened, len(archive.records(TALK)))
        write_by_keyboard(opened, archive)
    archive.close()


def test_what_is_seen_can_be_opened_while_a_filter_is_still_asked_for(browser: Any) -> None:
    archive = open_archive("memory:")
    talk(archive, *TALK, "the beginning")
    talk(archive, "other", "another", "not this one", rounds=60)
    held: list[Any] = []
    with inspecting(archive) as door, tab(browser) as opened:
        opened.open(door)
        opened.tab_to("#filter")
        opened.page.keyboard.type("p")
        opened.until("document.querySelectorAll('[role=option]').length === 1")
        opened.page.route("**/api/threads?*contains=part*", lambda route: held.append(route))  # noqa: PLW0108 - it marks it
        opened.page.keyboard.type("art")
        come(opened, held)
        opened.press("ArrowDown", "ArrowDown")
        held.pop().continue_()
        opened.until("document.querySelector('#told').textContent.startsWith('1 thread of 2')")
        opened.until("document.querySelector('[role=option][aria-selected=true]') !== null")  # still chosen
        opened.page.keyboard.press("Shift+Tab")
        opened.tab_to("#filter")
        opened.page.keyboard.type("s")
        come(opened, held)
        opened.press("ArrowDown", "Enter")
        opened.at("thread")
    archive.close()


def come(opened: Tab, held: list[Any]) -> None:
    """Wait until a request is held back."""
    end = time.monotonic() + PATIENCE
    while not held:
        assert time.monotonic() < end, "it was never asked for"
        opened.page.wait_for_timeout(20)


def look_by_keyboard(opened: Tab, count: int) -> None:
    """Through the views without a mouse."""
    page, press, tab_to = opened.page, opened.press, opened.tab_to
    press("?")
    page.wait_for_selector("dialog[open] .keys")
    press("Escape")
    press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    tab_to("#filter")
    page.keyboard.type("parts")
    opened.until("document.querySelectorAll('[role=option]').length === 1")
    press("ArrowDown", "ArrowDown", "Enter")
    opened.at("thread")
    tab_to("#slider")
    press("End", "ArrowLeft")
    opened.at("thread")
    opened.until("document.querySelector('#tab-context')?.ariaSelected === 'true'")
    opened.until("document.activeElement.id === 'slider'")  # it keeps the keyboard
    tab_to("[role=tab][aria-selected=true]")
    press("ArrowRight")
    page.wait_for_selector("#tab-whole[aria-selected=true]")
    opened.until("document.activeElement.id === 'tab-whole'")
    tab_to("[role=listbox]")
    press("Home", "ArrowDown")
    opened.until(f"document.querySelector('.reader-body').innerText.includes({PLANTED!r})")
    tab_to(".reader-body")
    press("Escape")
    opened.at("threads")
    opened.until("document.activeElement.matches('[role=listbox]')")
    assert "parts" in page.locator("[aria-selected=true]").inner_text()
    page.go_back()
    opened.at("thread")
    tab_to("[role=tab][aria-selected=true]")
    for name in ("context", "compactions"):
        press("ArrowLeft")
        opened.until(f"document.activeElement.id === 'tab-{name}'")
    tab_to("[role=listbox]")
    press("End", "Enter")
    opened.at("compaction")
    assert page.locator("h1").inner_text() == f"Compaction 1 of {count}: clearing"
    assert "were cleared" in page.locator(".cards").inner_text()
    tab_to("[role=listbox]")
    press("End", "Home")
    page.wait_for_selector(".cell.cleared .fate", state="attached")
    press("]")
    opened.until("document.querySelector('h1')?.textContent.startsWith('Compaction 2 of')")
    page.go_back()
    opened.until("document.querySelector('h1')?.textContent.startsWith('Compaction 1 of')")
    page.go_back()
    opened.at("thread")
    opened.until("document.activeElement.matches('[role=listbox]')")  # the keyboard stands where it was
    assert page.locator("[aria-selected=true] .place").inner_text() == "1"


def write_by_keyboard(opened: Tab, archive: Archive) -> None:
    """Undo, export and forget, each asked for twice."""
    page, press, count = opened.page, opened.press, len(archive.records(TALK))

    def ask(name: str) -> None:
        opened.tab_to(f"#do-{name}")
        press("Enter")
        page.wait_for_selector("dialog[open]")

    def say_yes() -> None:
        press("Tab", "Enter")

    ask("undo")
    assert archive.records(TALK)[-1].id in page.locator("dialog").inner_text()
    press("Enter")  # the keyboard stands on Cancel
    opened.until("!document.querySelector('dialog').open")
    assert len(archive.records(TALK)) == count
    for name in ("undo", "export", "forget"):
        ask(name)
        say_yes()
        opened.until("document.querySelector('dialog').innerText.includes('Once more')")
        assert len(archive.records(TALK)) == count, "asked once is not enough"
        if name == "undo":
            opened.check_access("dialog")
            say_yes()
            opened.until(f"document.querySelectorAll('[role=option]').length === {count - 1}")
            count -= 1
            assert len(archive.records(TALK)) == count
        elif name == "export":
            with page.expect_download() as saved:
                say_yes()
            assert PLANTED in Path(saved.value.path()).read_text(encoding="utf-8")
        else:
            say_yes()
    opened.at("threads")
    opened.until("document.querySelectorAll('[role=option]').length === 1")
    assert archive.namespaces() == ["other"]


FORGET = """(thread) => fetch("/api/forget", {method: "POST", headers: {"Content-Type": "application/json"},
    body: JSON.stringify({thread})}).then((answer) => answer.status)"""
TAKE = """([address, mode]) => fetch(address, {credentials: "include", mode}).then(
    async (answer) => answer.type + await answer.text(), () => "nothing")"""
RUN = """(src) => new Promise((done) => { const made = document.createElement("script"); made.src = src;
    made.onload = () => done("ran"); made.onerror = () => done("nothing"); document.head.append(made); })"""
FRAME = """(src) => new Promise((done) => { const made = document.createElement("iframe"); made.src = src;
    made.onload = () => { try { done(made.contentDocument.body.innerText) } catch { done("nothing") } };
    document.body.append(made); })"""
SUBMIT = """(action) => { const made = document.createElement("form"); made.method = "POST"; made.action = action;
    document.body.append(made); made.submit(); }"""


def test_without_write_the_page_is_refused_and_a_foreign_page_gets_nothing(
    browser: Any, archive: Archive, tmp_path: Path
) -> None:
    count, name = len(archive.records(TALK)), thread_id(TALK)
    with inspecting(archive) as door, tab(browser) as opened:
        opened.open(door)
        assert opened.page.evaluate(FORGET, name) == 403
        assert opened.page.evaluate("document.cookie") == "", "no script reads the cookie"
        opened.errors.clear()  # the browser notes the 403
    (tmp_path / "evil.html").write_text("<!doctype html><title>evil</title><body>", encoding="utf-8")
    with inspecting(archive, write=True) as door, serving(tmp_path) as foreign:
        opened = Tab(browser)
        page, here = opened.page, f"http://{door.host}"
        opened.open(door)
        for origin in (foreign, foreign.replace("127.0.0.1", "localhost")):
            page.goto(f"{origin}/evil.html")  # the cookie is in this browser, and on 127.0.0.1 it is even same-site
            for path in ("/api/archive", f"/api/messages?thread={name}&first=0", "/app.js"):
                assert page.evaluate(TAKE, [f"{here}{path}", "cors"]) == "nothing"
                assert page.evaluate(TAKE, [f"{here}{path}", "no-cors"]) == "nothing"
            assert page.evaluate(RUN, f"{here}/app.js") == "nothing"
            assert page.evaluate(FRAME, f"{here}/") == "nothing"
            page.evaluate(SUBMIT, f"{here}/api/forget")
            page.wait_for_url(f"{here}/**")
            assert "Another origin" in page.inner_text("body")
        page.goto(f"http://{REBOUND}:{door.host.rpartition(':')[2]}/api/archive")
        assert page.inner_text("body").strip() == "This host name is not served here."
        assert len(archive.records(TALK)) == count
        opened.close(quiet=False)


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Another server on this machine, with these files."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - the base class calls it so

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def spoil(archive: Archive) -> Scope:
    """A thread with markup, scripts and unseen signs in every field, and the longest names."""
    name = re.sub("[\\x00-\\x1f\\ud800]", "", HOSTILE)
    more = 512 - len(name.encode())
    scope = Scope(name + "n" * more, name + "W" * more)
    messages: list[Any] = [user(f"{HOSTILE} first {PLANTED}"), assistant(f"{HOSTILE} {'x' * 10_000}")]
    settings = Settings(clear=Clear(keep_rounds=1))
    with Compactor(window=7_000, archive=archive, namespace=scope.namespace, settings=settings) as compactor:
        for at in range(40):
            messages = [*messages, user(f"Always {HOSTILE} {at}. " + "word " * 30)]
            messages = compactor.fit(messages, thread=scope.thread).messages
            if at % 6 == 0:
                messages = [
                    *messages,
                    *chat_round(f"{HOSTILE[:30]}{at}", f"{HOSTILE}\n" * 12, path=f"{HOSTILE}/{at}.py"),
                ]
            messages = [*messages, assistant(f"# {HOSTILE}\n- [{at}] {HOSTILE}\n~~~\n{HOSTILE}")]
    archive.store(*spoiled_record(archive, scope))
    return scope


def spoiled_record(archive: Archive, scope: Scope) -> Any:
    """The newest record again, with a receipt that somebody else wrote."""
    newest = archive.records(scope)[-1]
    receipt = {
        **newest.data["receipt"],
        "reason": HOSTILE,
        "summariser": HOSTILE,
        "notes": [HOSTILE],
        "mended": [HOSTILE],
    }
    data = {**newest.data, "receipt": {**receipt, "archive": HOSTILE, "cost": {HOSTILE: 1.5}}}
    return replace(newest, id=HOSTILE[:40], key="another", created=newest.created + 1, data=data), ()  # type: ignore[arg-type]


def test_a_hostile_archive_runs_no_script_and_breaks_no_layout(browser: Any, tmp_path: Path) -> None:
    url, out = f"sqlite:///{tmp_path / 'hostile.db'}", tmp_path / "page.html"
    made = open_archive(url)
    scope = spoil(made)
    count = len(made.records(scope))
    assert count >= 3
    with inspecting(made, write=True) as door, tab(browser) as opened:
        opened.open(door)
        walk_hostile(opened, f"http://{door.host}/#/t/{thread_id(scope)}", count)
        assert_unharmed(opened, f"http://{door.host}/")
    made.close()
    done = run("show", scope.thread, "--namespace", scope.namespace, "--html", out, "--archive", url, "--json")
    assert done.code == 0, done.err
    assert not set(out.read_text(encoding="utf-8")) & set("\x1b\u202e\u2066\u200b\0\U000e0041")
    with tab(browser) as opened:
        opened.page.goto(out.as_uri())
        walk_frozen(opened, count)
        assert_unharmed(opened, out.as_uri())


def walk_hostile(opened: Tab, home: str, count: int) -> None:
    page = opened.page
    opened.option("window.owned").click()
    opened.at("thread")
    assert "<script>window.owned = 1</script>" in page.locator("h1").inner_text()
    assert "\\u202e" in page.locator("h1").inner_text(), "what turns text around is shown by its number"
    for name in ("context", "whole", "trial", "compactions"):
        page.click(f"#tab-{name}")
        page.wait_for_selector(f"#tab-{name}[aria-selected=true]")
        opened.at("thread")
        if name in {"context", "whole"}:
            page.locator("[role=option]").first.click()
            page.wait_for_selector(".reader .said")
    for at in range(min(count, 3)):  # the newest is the one whose receipt somebody else wrote
        page.goto(home)
        opened.at("thread")
        page.locator("[role=option]").nth(at).click()
        opened.at("compaction")
        for name in ("summary", "receipt", "sides"):
            if page.locator(f"#tab-{name}").count():
                page.click(f"#tab-{name}")
                page.wait_for_selector(f"#tab-{name}[aria-selected=true]")
                opened.at("compaction")
    page.fill("#search", "owned heron")
    page.press("#search", "Enter")
    page.wait_for_selector(".results[data-ready] mark")
    opened.at("search")
    page.locator(".results a").first.click()
    opened.at("thread")
    page.wait_for_selector(".reader mark")
    page.click("#do-forget")
    page.wait_for_selector("dialog[open]")


def walk_frozen(opened: Tab, count: int) -> None:
    """The same page in one file: its views and its search, and nothing that it would have to ask for."""
    page = opened.page
    opened.at("thread")
    assert page.locator("[role=option]").count() == count
    page.locator("[role=option]").nth(1).click()
    opened.at("compaction")
    opened.check_access("frozen")
    page.fill("#search", PLANTED.upper())
    page.press("#search", "Enter")
    page.wait_for_selector(".results[data-ready] mark")
    page.locator(".results a").first.click()
    opened.at("thread")
    page.wait_for_selector(".reader mark")
    assert PLANTED in page.locator(".reader-body").inner_text()
    page.click("#tab-context")
    page.wait_for_selector("#context-told:not(:empty)")
    assert page.locator("#do-forget").is_disabled()


def assert_unharmed(opened: Tab, home: str) -> None:
    """See that nothing of the archive was run, and that nothing was asked for elsewhere."""
    assert opened.page.evaluate("window.owned") is None
    assert [url for url in opened.asked if not url.startswith((home, "data:image/svg+xml,"))] == []
    assert opened.page.locator("main img, main script, main style, main iframe, main a[href^=javascript]").count() == 0
