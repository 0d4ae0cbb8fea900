"""The page itself, put together from the files in `web/`: served in three pieces, or frozen with its data into one.

The scripts are written as modules and joined here, in the order below: one file to send, one to freeze, no build step.
Nothing that a conversation says is ever markup: the script makes elements and texts, never elements from text, and the
page's own policy allows no other script, no style and no address but these.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, Final

from unabridged.archive.address import hide_credentials
from unabridged.archive.protocol import Archive, Scope
from unabridged_cli.inspector import compactions, threads
from unabridged_cli.inspector.listing import describe_namespace

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SCRIPTS: Final = (
    "dom.js", "source.js", "virtual.js", "messages.js", "chart.js", "summary.js", "actions.js", "list.js", "thread.js",
    "trial.js", "compaction.js", "find.js", "live.js", "app.js",
)  # fmt: skip
"""Each uses only what stands before it."""
SERVED_PATHS: Final = frozenset({"/", "/app.js", "/style.css"})
FROZEN_CHARACTERS: Final = 20_000
"""Characters of one message in a frozen page; `unabridged read` shows the rest."""
_IMPORT_PATTERN: Final = re.compile(r"^import [^;]{1,400};\n", re.MULTILINE)
_EXPORT_PATTERN: Final = re.compile(r"^export (?=(?:async )?(?:function|class|const)\b)", re.MULTILINE)
_PLACEHOLDER: Final = "<!-- here -->"


def read_page(path: str) -> tuple[bytes, str]:
    """Return one of the three pieces, and its type."""
    if path == "/app.js":
        return build_script().encode(), "text/javascript; charset=utf-8"
    if path == "/style.css":
        return _read_web_file("style.css").encode(), "text/css; charset=utf-8"
    head = '<link rel="stylesheet" href="/style.css">\n<script src="/app.js" defer></script>'
    return _read_web_file("index.html").replace(_PLACEHOLDER, head).encode(), "text/html; charset=utf-8"


@cache
def build_script() -> str:
    """Return all scripts as one, in a scope of its own."""
    bodies = (_EXPORT_PATTERN.sub("", _IMPORT_PATTERN.sub("", _read_web_file(name))) for name in SCRIPTS)
    return '"use strict";\n(() => {\n' + "\n".join(bodies) + "\n})();\n"


def build_frozen_page(archive: Archive, scope: Scope) -> str:
    """Return the page of one thread with all of its data, as one file that fetches nothing."""
    style, code = _read_web_file("style.css"), f"\n{build_script()}"
    policy = (
        f"default-src 'none'; style-src '{_hash_for_policy(style)}'; script-src '{_hash_for_policy(code)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    data = json.dumps(collect_frozen_data(archive, scope), separators=(",", ":")).replace("<", "\\u003c")
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n<style>{style}</style>\n'
        f'<script type="application/json" id="frozen">{data}</script>'
    )
    page = _read_web_file("index.html").replace(_PLACEHOLDER, head)
    return page.replace("</body>", f"<script>{code}</script>\n</body>")


def collect_frozen_data(archive: Archive, scope: Scope) -> dict[str, Any]:
    """Return every answer that the page of one thread may need."""
    thread = threads.describe_thread(archive, scope)
    ids = [record["id"] for record in thread["compactions"] if record["id"]]  # a client's own have none
    records = {record_id: compactions.describe_compaction(archive, scope, record_id) for record_id in ids}
    put_in = {row[2] for record in records.values() for row in (*record["before"], *record["after"]) if row[2]}
    parts = archive.parts(scope)
    put_in -= {part.hash for part in parts}
    shown = [*parts, *threads.read_parts_by_hash(archive, scope, sorted(put_in))]
    return {
        "about": {
            "archive": hide_credentials(archive.url), "write": False, "threads": 1,
            "namespaces": [describe_namespace(scope.namespace, 1)],
        },
        "thread": thread,
        "records": records,
        "contexts": {record_id: compactions.describe_context_after(archive, scope, record_id) for record_id in ids},
        "messages": [threads.describe_message(scope, part, FROZEN_CHARACTERS) for part in shown],
    }  # fmt: skip


def _read_web_file(name: str) -> str:
    return (files("unabridged_cli.inspector") / "web" / name).read_text(encoding="utf-8")


def _hash_for_policy(text: str) -> str:
    """Return how a policy names one inline style or script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
