"""`show --html`: one page that needs nothing else, obeys nobody, and finds what was said."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cli_case import run
from conversations import assistant, long_chat, user
from unabridged import Compactor
from unabridged.archive import open_archive
from unabridged.archive.protocol import Scope
from unabridged.cli.page import points, teeth

CHROMIUM = Path("/usr/bin/chromium")
PLANTED = "the heron wears a green hat"
HOSTILE = (
    "</pre></script><script>window.owned = 1</script><img src='http://192.0.2.1/x.png' onerror='window.owned = true'>"
    "<style>body{display:none}</style><!-- \x1b[2J \u202e ${7*7} $thread </title><a href='javascript:owned=1'>x</a>"
)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page of a conversation with three compactions, hostile text, and a planted sentence."""
    monkeypatch.setenv("COLUMNS", "120")
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    messages: list[Any] = [user(f"{HOSTILE} first"), assistant(f"I note that {PLANTED}.")]
    with Compactor(window=6_000, archive=url, namespace="cli") as compactor:
        for message in long_chat(60):
            messages = compactor.fit([*messages, message], thread=f"t {HOSTILE[:40]}").messages
    out = tmp_path / "page.html"
    done = run("show", f"t {HOSTILE[:40]}", "--html", out, "--archive", url, "--json")
    assert done.code == 0, done.err
    assert len(done.json["compactions"]) >= 3
    return out


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_has_its_chart_its_compactions_and_nothing_from_elsewhere(made: Path) -> None:
    parser = _Tags()
    text = made.read_text()
    parser.feed(text)
    tags = [tag for tag, _ in parser.tags]
    assert tags.count("script") == 1
    assert tags.count("style") == 1
    assert not {"img", "iframe", "link", "object", "base"} & set(tags)
    for _, attributes in parser.tags:
        assert not [name for name in attributes if name.startswith("on") or name in {"src", "style"}]
        assert str(attributes.get("href", "#")).startswith("#")
    (policy,) = [str(a["content"]) for tag, a in parser.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "<polyline" in text
    assert PLANTED in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_saw_tooth_rises_with_the_turns_and_falls_at_each_compaction(made: Path) -> None:
    with_archive = open_archive(f"sqlite:///{made.parent / 'archive.db'}")
    records = with_archive.records(Scope("cli", f"t {HOSTILE[:40]}"))
    with_archive.close()
    marks = teeth(records)
    assert [mark.turn for mark in marks] == sorted(mark.turn for mark in marks)
    assert 0 < marks[0].turn <= marks[-1].turn <= 123
    line = points(marks)
    drops = [(a, b) for a, b in pairwise(line) if b[1] < a[1]]
    assert [(a[1], b[1]) for a, b in drops] == [(mark.before, mark.after) for mark in marks]
    assert all(a[0] == b[0] for a, b in drops)


@pytest.fixture
def tab(made: Path) -> Iterator[Any]:
    """The page in a browser that notes every request and every error."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip("there is no Chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": 1100, "height": 900})
        opened.said = []
        opened.on("request", lambda request: opened.said.append(request.url))
        opened.on("pageerror", lambda error: opened.said.append(f"error: {error}"))
        opened.on("console", lambda message: opened.said.append(f"console: {message.text}"))
        opened.goto(made.as_uri())
        yield opened
        browser.close()


def test_a_browser_shows_it_fetches_nothing_and_is_not_fooled(tab: Any, made: Path) -> None:
    box = tab.locator("#chart").bounding_box()
    assert box["width"] > 600
    assert box["height"] > 150
    assert tab.locator("#chart .tooth").count() == tab.locator(".compaction").count() >= 3
    tab.fill("#query", PLANTED.upper())
    hits = re.match(r"(\d+) of", tab.locator("#count").inner_text())
    assert hits is not None
    assert int(hits[1]) >= 1
    tab.press("#query", "Enter")
    assert PLANTED in tab.locator("details.here pre").inner_text()
    tab.fill("#query", "onerror='window.owned")
    tab.press("#query", "Enter")
    assert "<img src='http://192.0.2.1/x.png'" in tab.locator("details.here pre").inner_text()
    tab.fill("#query", "no such words anywhere")
    assert tab.locator("#count").inner_text().startswith("0 of")
    tab.fill("#query", "")
    assert tab.locator(".miss").count() == 0
    assert tab.evaluate("window.owned") is None
    assert tab.said == [made.as_uri()]
    assert json.dumps(HOSTILE[:20]) not in tab.title()
