"""Write `docs/reference/` from the code itself; a test compares the two.

Signatures, defaults, types and meanings come from the modules; what only a person can say (remedies, what to alert on)
is in `reference_texts.toml`, and a name that is missing there, or there for nothing, stops the run.
"""

from __future__ import annotations

import ast
import inspect
import re
import sqlite3
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import unabridged
from unabridged import compactor, errors, events, results, settings
from unabridged.archive import protocol, store_rules
from unabridged.archive.stores import sql_tables, sqlite
from unabridged.engine import hooks
from unabridged.formats import fields
from unabridged.sessions import base

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
TEXTS: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("reference_texts.toml").read_text(encoding="utf-8"))
MADE = "<!-- made by lab/scripts/generate_reference.py: change the code or reference_texts.toml, not this page -->"


class Field(NamedTuple):
    """One field of a class, as its source has it."""

    name: str
    kind: str
    default: str | None
    meaning: str


def pages() -> dict[str, str]:
    """Return every page of the reference by its name."""
    made: dict[str, Callable[[], Iterable[str]]] = {
        "compactor.md": _compactor, "settings.md": _settings, "events.md": _events, "errors.md": _errors,
        "archive-schema.md": _schema,
    }  # fmt: skip
    return {name: "\n".join(write()).rstrip() + "\n" for name, write in made.items()}


def head(name: str, **values: object) -> str:
    """Return the beginning of a page, or of a part of one."""
    text = str(TEXTS["heads"][name])
    for key, value in {"made": MADE, **values}.items():
        text = text.replace(f"{{{key}}}", str(value))
    return text


def texts(section: str, names: Iterable[str]) -> Mapping[str, Any]:
    """Return the text for each of these names; raise `ValueError` when a name is missing or unknown."""
    section_texts: Mapping[str, Any] = TEXTS[section]
    wanted = set(names)
    if wanted != set(section_texts):
        raise ValueError(
            f"reference_texts.toml, [{section}]: differs from the code in {sorted(wanted ^ set(section_texts))}"
        )
    return section_texts


def fields_of(module: ModuleType, name: str) -> list[Field]:
    """Return the fields of a class with the text below each."""
    source = inspect.getsource(module)
    body = next(n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == name).body
    found = []
    for node, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            said = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
            default = ast.unparse(node.value) if node.value is not None else None
            found.append(Field(node.target.id, ast.unparse(node.annotation), default, _line(str(said))))
    missing = [field.name for field in found if not field.meaning]
    if missing:
        raise SystemExit(f"{module.__name__}.{name}: say below each of these what it is: {', '.join(missing)}")
    return found


def _line(text: str | None) -> str:
    """Return a text on one line, safe in a table, with links to pages made relative to the reference."""
    flat = re.sub(r"\s+", " ", text or "").strip()
    flat = re.sub(r"`docs/([\w-]+)\.md`", r"[\1](../\1.md)", flat)
    return flat.replace("|", "\\|")


def _paragraphs(text: str | None) -> Iterator[str]:
    for block in inspect.cleandoc(text or "").split("\n\n"):
        yield _line(block).replace("\\|", "|") + "\n"


def _table(head: str, rows: Iterable[Iterable[str]]) -> Iterator[str]:
    columns = head.split(" / ")
    yield f"| {' | '.join(columns)} |"
    yield f"| {' | '.join('---' for _ in columns)} |"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _field_rows(found: Iterable[Field]) -> Iterator[tuple[str, ...]]:
    for field in found:
        yield _code(field.name), _code(field.kind), field.meaning


def _compactor() -> Iterator[str]:
    yield head("compactor")
    parameters = list(inspect.signature(compactor.Compactor).parameters.values())
    section_texts = texts("compactor", (one.name for one in parameters))
    yield from _table(
        "argument / default / meaning",
        ((_code(one.name), _code(repr(one.default)), _line(section_texts[one.name])) for one in parameters),
    )
    yield head("methods")
    for name, method in _methods(compactor.Compactor):
        twin = f", a{name}" if hasattr(compactor.Compactor, f"a{name}") else ""
        yield f"### {name}{twin}\n"
        yield f"```text\n{_signature(name, method)}\n```\n"
        yield from _paragraphs(method.__doc__)
    yield "### limits\n"
    yield from _paragraphs(compactor.Compactor.limits.__doc__)
    for name, what in (("Compaction", "What `fit` returns"), ("Outlook", "What `plan` returns")):
        yield f"## {what}: {name}\n"
        yield from _paragraphs(getattr(results, name).__doc__)
        yield from _table("field / type / meaning", _field_rows(fields_of(results, name)))
    yield "### PlannedMessage\n"
    yield from _paragraphs(results.PlannedMessage.__doc__)
    yield from _table("field / type / meaning", _field_rows(fields_of(results, "PlannedMessage")))
    yield "## What search returns: Hit\n"
    yield from _paragraphs(protocol.Hit.__doc__)
    yield from _table("field / type / meaning", _field_rows(fields_of(protocol, "Hit")))
    yield "## Hooks\n"
    yield from _paragraphs(hooks.Hooks.__doc__)
    yield from _table("hook / type / meaning", _field_rows(fields_of(hooks, "Hooks")))
    yield "## Functions\n"
    for name in ("wrap", "native", "thread", "check", "repair", "dump", "load"):
        function = getattr(unabridged, name)
        yield f"### unabridged.{name}\n\n```text\n{_signature(name, function)}\n```\n"
        yield from _paragraphs(inspect.unwrap(function).__doc__)


def _methods(owner: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods in the order of the source, without the async twins."""
    for one in (owner, *owner.__bases__):
        for name, method in vars(one).items():
            twin = name.startswith("a") and hasattr(owner, name[1:])
            if inspect.isfunction(method) and not name.startswith("_") and not twin:
                yield name, method


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(inspect.unwrap(function), eval_str=False)
    shown = [one for key, one in signature.parameters.items() if key != "self"]
    return name + re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature.replace(parameters=shown)))


def _settings() -> Iterator[str]:
    yield head("settings")
    rows = re.findall(r"^(\w+=.+?) {2,}(\S.*)$", inspect.getdoc(settings) or "", re.MULTILINE)
    yield from _table("you write / it means", ((_code(left), right) for left, right in rows))
    yield "A fraction is of the window. `1k` on the command line is 1,000 tokens.\n"
    yield "## Every field\n"
    found = fields_of(settings, "Settings")
    advice = texts("settings", (field.name for field in found))
    for field in found:
        yield f"### {field.name}\n\n{field.meaning}\n".replace("\\|", "|")
        yield f"{advice[field.name]}\n"
        yield f"Type `{field.kind}`, default `{_default(field.default)}`.\n"
    for name, what in (("Clear", "Settings(clear=Clear(…))"), ("Prices", "Clear(prices=Prices(…))")):
        yield f"## {what}\n"
        yield from _paragraphs(getattr(settings, name).__doc__)
        rows_of = fields_of(settings, name)
        yield from _table(
            "field / default / meaning", ((_code(f.name), _code(_default(f.default)), f.meaning) for f in rows_of)
        )


def _default(text: str | None) -> str:
    """Return the default as a person would write it."""
    if text == "_KEEP":
        return repr(settings.Settings().keep)
    made = re.fullmatch(r"field\(default_factory=(\w+)\)", text or "")
    return f"{made[1]}()" if made else text or "none: it must be given"


def _events() -> Iterator[str]:
    yield head("events")
    kinds = [kind for kind in vars(events).values() if inspect.isclass(kind) and issubclass(kind, events.Event)]
    section_texts = texts("alerts", (kind.__name__ for kind in kinds if kind is not events.Event))
    yield from _table(
        "event / alert", ((f"[`{name}`](#{name.lower()})", _line(text)) for name, text in section_texts.items())
    )
    yield "`Failed` has a `stage`:\n"
    yield from _table("stage / what it means", ((f"`{stage}`", _line(text)) for stage, text in TEXTS["stages"].items()))
    yield "## The events\n\nEach has `thread` and `namespace`.\n"
    for name in section_texts:
        kind = getattr(events, name)
        yield f"### {name}\n"
        yield from _paragraphs(kind.__doc__)
        yield from _table("field / type / meaning", _field_rows(fields_of(events, name)))
    yield "## The receipt\n"
    yield from _paragraphs(events.Receipt.__doc__)
    yield from _table("field / type / meaning", _field_rows(fields_of(events, "Receipt")))


def _errors() -> Iterator[str]:
    yield head("errors")
    tree = re.search(r"(?ms)^    UnabridgedError.*?(?=^\S)", errors.__doc__ or "")
    yield "```text\n" + inspect.cleandoc(tree[0] if tree else "") + "\n```\n"
    owners: dict[str, type] = {
        name: kind
        for module in (errors, fields, base)
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and issubclass(kind, errors.UnabridgedError)
    }
    for name, remedy in texts("errors", owners).items():
        kind = owners[name]
        yield f"## {name}\n"
        yield from _paragraphs(kind.__doc__)
        public = "unabridged" if name in unabridged.__all__ else kind.__module__
        bases = " and ".join(f"`{base.__name__}`" for base in kind.__bases__)
        yield f"**What to do.** {remedy}\n"
        yield f"`from {public} import {name}`; its bases are {bases}.\n"


def _schema() -> Iterator[str]:
    yield head("schema", version=store_rules.ARCHIVE_VERSION)
    connection = sqlite3.connect(":memory:")
    sqlite.make_tables(connection)
    section_texts = texts("schema", sql_tables.TABLES)
    yield "## Tables\n"
    for table in sql_tables.TABLES:
        columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
        meanings: Mapping[str, str] = section_texts[table]
        if {column[1] for column in columns} != set(meanings):
            raise ValueError(f"reference_texts.toml, [schema.{table}]: differs from the table")
        yield f"### {table}\n"
        yield from _table(
            "column / type in SQLite / holds", ((f"`{c[1]}`", str(c[2]), _line(meanings[c[1]])) for c in columns)
        )
    connection.close()
    for name, what in (
        ("Record", "A record"),
        ("RecordData", "What the engine keeps with a record"),
        ("Part", "A part"),
    ):
        yield f"## {what}\n"
        yield from _paragraphs(getattr(protocol, name).__doc__)
        yield from _table("field / type / meaning", _field_rows(fields_of(protocol, name)))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"{name}: {len(text.splitlines())} lines")
