"""The documentation site: built without a warning, no dead link, no request to another host, every page in reach."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

import pytest

import generate_reference
import generate_requirements
import unabridged
from places import ROOT

CHROMIUM = Path("/usr/bin/chromium")
MADE_BY_SPHINX = {"genindex.html", "search.html"}
MADE = re.compile(r"(?m:^)<!-- (?:made|generated) by (.*?)-->.*?(?:<!-- end -->|\Z)", re.DOTALL | re.IGNORECASE)
"""What a script wrote into a page: from a line that begins with this mark to `<!-- end -->`, else to the page's end."""
FENCED = re.compile(r"^(`{3,})[^\n]*\n.*?^\1\s*$", re.MULTILINE | re.DOTALL)
WORDS_OF_A_PAGE = 1_800
WORDS_OF_ALL = 40_000
LOADS = {("img", "src"), ("script", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("form", "action")}
"""Where a page names what a browser fetches by itself, or sends something to."""


class Page(HTMLParser):
    """What a page names: ids, links, and what is loaded with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.sidebar: list[str] = []
        self._in_sidebar = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        self.loads += [given[name] for of, name in LOADS if of == tag and name in given]
        if "sidebar-tree" in given.get("class", ""):
            self._in_sidebar = 1
        elif tag == "div" and self._in_sidebar:
            self._in_sidebar += 1
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
            if self._in_sidebar:
                self.sidebar.append(given["href"])

    def handle_endtag(self, tag: str) -> None:
        if tag == "div" and self._in_sidebar:
            self._in_sidebar -= 1


@pytest.mark.long
def test_the_site_is_built_without_a_warning_and_every_link_of_it_leads_somewhere(tmp_path: Path) -> None:
    site = tmp_path / "site"
    sphinx = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q"]
    command = [*sphinx, "-d", str(tmp_path / "trees"), "docs", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

    pages = {path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert len(pages) > 30
    dead = [
        f"{name}: {link}" for name, page in pages.items() for link in page.links if is_dead(site, pages, name, link)
    ]
    assert dead == []
    written = set(pages) - MADE_BY_SPHINX
    listed = re.findall(r"^- \[[^\]]+\]\((\S+)\)", (site / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted([*listed, "index.html"]) == sorted(written), "llms.txt has each page once"
    first = (site / "index.html").read_text(encoding="utf-8")
    assert f"<title>unabridged {unabridged.__version__}</title>" in first
    assert "_static/favicon.svg" in pages["index.html"].loads
    assert (site / "_static" / "favicon.svg").is_file()
    reached = {urlsplit(link).path for link in pages["index.html"].sidebar}
    assert reached | {"index.html"} == written

    abroad = [f"{name}: {link}" for name, page in pages.items() for link in page.loads if urlsplit(link).netloc]
    for path in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        text = path.read_text(encoding="utf-8")
        named = re.findall(r"(?:url\(|@import|href=)\s*[\"']?(https?:[^\"')]+)", text)
        abroad += [f"{path.name}: {link}" for link in named]
    assert abroad == []
    if CHROMIUM.exists():
        assert look_at(site, ["index.html", "concepts.html", "reference/settings.html"]) == []


def is_dead(site: Path, pages: dict[str, Page], name: str, link: str) -> bool:
    """Whether the link leads to no file of the site, or to no place in its page; what is on other hosts is theirs."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return parts.scheme not in {"http", "https"}
    target = (site / name).parent / unquote(parts.path) if parts.path else site / name
    if not target.resolve().is_relative_to(site.resolve()) or not target.exists():
        return True
    page = pages.get(target.resolve().relative_to(site.resolve()).as_posix())
    return bool(parts.fragment) and page is not None and unquote(parts.fragment) not in page.ids


def look_at(site: Path, names: list[str]) -> list[str]:
    """What a real browser asks other hosts for, and complains of, while it opens these pages and searches."""
    from playwright.sync_api import sync_playwright

    seen: list[str] = []
    with serving(site) as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page()
        page.on(
            "request", lambda request: None if request.url.startswith((home, "data:")) else seen.append(request.url)
        )
        page.on("pageerror", lambda error: seen.append(f"error: {error}"))
        for name in names:
            page.goto(f"{home}/{name}")
        page.goto(f"{home}/search.html?q=namespace")
        page.wait_for_selector("#search-results li")
        browser.close()
    return seen


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The folder behind a port of this machine."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("name", generate_reference.pages())
def test_the_reference_is_what_the_code_says(name: str) -> None:
    made = generate_reference.pages()[name]
    assert (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8") == made, "run make docs"


def test_every_requirement_has_a_test_that_names_it_and_the_page_lists_them() -> None:
    made = generate_requirements.page()
    numbers = [int(number) for number in re.findall(r"^\| R(\d+) \|", made, re.MULTILINE)]
    assert sorted(numbers) == list(range(1, 56))
    assert "`none`" not in made
    page = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
    assert page == made, "run python lab/scripts/generate_requirements.py"


def test_what_people_wrote_is_short_enough_to_be_read() -> None:
    pages = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    words = {path.relative_to(ROOT).as_posix(): count_words(path.read_text(encoding="utf-8")) for path in pages}
    assert len([name for name, count in words.items() if count]) > 30
    assert {name: count for name, count in words.items() if count > WORDS_OF_A_PAGE} == {}
    assert sum(words.values()) <= WORDS_OF_ALL, sorted(words.items(), key=lambda item: -item[1])


def count_words(page: str) -> int:
    """Count the words outside of blocks of code and of what a script wrote."""
    return sum(any(map(str.isalnum, word)) for word in MADE.sub("", FENCED.sub("", page)).split())


def test_what_a_page_says_a_script_wrote_names_that_script() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for maker in MADE.findall(path.read_text(encoding="utf-8")):
            script = re.match(r"`?(?:make (\w+)|(lab/[\w/]+\.py))", maker)
            assert script, f"{path.name}: made by {maker}"
            assert script[1] in targets if script[1] else (ROOT / script[2]).is_file(), f"{path.name}: made by {maker}"


@pytest.mark.parametrize("page", ["<!-- made by lab/x.py -->\nFour words of it", "```sh\nmake it\n```", "| --- | → |"])
def test_what_a_script_wrote_and_code_are_no_words(page: str) -> None:
    assert count_words(f"Two words\n\n{page}\n") == 2


def test_a_part_that_a_script_wrote_ends_at_its_mark() -> None:
    assert count_words("One\n<!-- made by make bench -->\n| 1 | 2 |\n<!-- end -->\nTwo three\n") == 3


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_the_first_lines_use_the_words_that_people_search_for(name: str) -> None:
    # R53
    beginning = (ROOT / name).read_text(encoding="utf-8")[:900].replace("\n", " ")
    assert all(
        words in beginning for words in ("summarization middleware", "context compaction", "conversation memory")
    )


@pytest.mark.parametrize("origin", ["langchain", "eino", "sagents", "swift"])
def test_there_is_a_page_for_those_who_come_from_each_library(origin: str) -> None:
    # R53
    page = (ROOT / "docs" / f"coming-from-{origin}.md").read_text(encoding="utf-8")
    assert all(
        heading in page for heading in ("```python", "## Options", "## What it does", "## What differs on purpose")
    )


def test_every_link_of_the_pages_outside_the_site_leads_to_a_file() -> None:
    outside = [*ROOT.glob("*.md"), ROOT / "examples" / "README.md", ROOT / "lab" / "benchmarks" / "README.md"]
    links = [
        (page, link) for page in outside for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    ]
    assert len(links) > 30
    dead = [f"{page.name}: {link}" for page, link in links if "://" not in link and not (page.parent / link).exists()]
    assert dead == []


def test_the_numbers_in_the_readme_are_those_of_the_picture() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    drawn = (ROOT / "docs" / "pictures" / "before-after.svg").read_text(encoding="utf-8")
    told = re.findall(r"\d+,\d+", readme[: readme.index("docs/pictures/before-after.svg")])
    assert told
    assert [number for number in told if number not in drawn] == []


def test_every_picture_is_drawn_without_another_host() -> None:
    drawn = sorted((ROOT / "docs").rglob("*.svg"))
    assert {"before-after", "fill", "call", "summary-turn", "carry-resend", "demo"} <= {path.stem for path in drawn}
    for path in drawn:
        text = path.read_text(encoding="utf-8")
        ET.fromstring(text)  # noqa: S314 - our own file
        assert set(re.findall(r"https?://[^\"'\s<)]+", text)) <= {"http://www.w3.org/2000/svg"}, path.name
