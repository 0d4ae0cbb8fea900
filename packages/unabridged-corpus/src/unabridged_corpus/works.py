"""The works that can be done with each session of a corpus, the same on one machine and on a cluster.

A work is a value: it is sent to the workers, and `begin` there yields the function, which returns a row of the result;
`count` returns what of a row is added up.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from unabridged.archive import open_archive
from unabridged.archive.address import hide_credentials
from unabridged.compactor import Compactor
from unabridged.errors import IllegalConversation, SettingsError
from unabridged.legality import PROVIDERS, UNREPAIRABLE_RULES, check, repair
from unabridged.results import Compaction
from unabridged.sessions import LoadedFile
from unabridged.settings import Settings, resolve_limits
from unabridged.tokens.models import choose_window
from unabridged_corpus.evaluate.arms import choose_arms
from unabridged_corpus.evaluate.data import build_conversation
from unabridged_corpus.evaluate.report import evaluate
from unabridged_corpus.reading import CorpusSession
from unabridged_corpus.spending import MAX_WAIT_SECONDS, MeteredModel, PurseLike, SpendingLimit, raise_if_budget_spent
from unabridged_corpus.weigh import build_report, estimate_cost, weigh_conversation

Row = dict[str, Any]
Counts = dict[str, float]
SessionFunction = Callable[[CorpusSession], Row]


class Work:
    """What is done with a session; a frozen dataclass for each kind, whose fields are its options."""

    __slots__ = ()
    name: ClassVar[str]

    def describe(self) -> dict[str, Any]:
        """Return the options that are set and shape the result, with a name for what is no plain value."""
        shaping = [option.name for option in fields(self) if option.name != "limit"]  # type: ignore[arg-type]
        options = {name: _describe_option(getattr(self, name)) for name in shaping}
        return {name: value for name, value in options.items() if value not in (None, False) and value not in ([], {})}

    @contextmanager
    def begin(self, purse: PurseLike) -> Iterator[SessionFunction]:
        """Yield the function that does it, for as long as a shard takes; close what it opened in the end."""
        del purse
        yield self.make_row

    def make_row(self, session: CorpusSession) -> Row:
        """Return the row of a session."""
        raise NotImplementedError

    def count(self, row: Row) -> Counts:
        """Return what of a row is added up over the corpus."""
        raise NotImplementedError


def _describe_option(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return hide_credentials(value) if isinstance(value, str) else value
    if isinstance(value, Settings | SpendingLimit):
        default = type(value)()
        pairs = ((one.name, getattr(value, one.name)) for one in fields(value))
        return {name: _describe_option(option) for name, option in pairs if option != getattr(default, name)}
    if isinstance(value, Mapping):
        return {str(name): _describe_option(one) for name, one in value.items()}
    if isinstance(value, Sequence):
        return [_describe_option(one) for one in value]
    return getattr(value, "name", None) or getattr(value, "__qualname__", None) or type(value).__qualname__


def fit_loaded(compactor: Compactor, loaded: LoadedFile, thread: str, *, now: bool) -> Compaction:
    """Return the session compacted at once where `now` is set and that helps, else only where it does not fit."""
    options: dict[str, Any] = {"thread": thread, "system": loaded.system, "tools": loaded.tools}
    at_once = compactor.compact(loaded.messages, **options) if now else None
    return at_once if at_once is not None else compactor.fit(loaded.messages, **options)


def require_legal(loaded: LoadedFile, done: Compaction, agent: str | None, mend: str) -> None:
    """Raise `IllegalConversation` for a result that the provider would refuse."""
    findings = check(done.messages, format=loaded.format, model=agent, pending=True)
    if findings:
        more = f" and {len(findings) - 1:,} more" if len(findings) > 1 else ""
        mendable = UNREPAIRABLE_RULES.isdisjoint(finding.rule for finding in findings)
        raise IllegalConversation(f"{findings[0].message}{more}" + (f". Mend it first: {mend}" if mendable else ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact(Work):
    """Every session made to fit a window. The row has the messages that are left, and the receipt.

    `agent` is the model that reads the sessions (default: what each says), `model` writes the summaries (default:
    none), within `limit`. With an `archive` the originals go there; without one they are where they were read, and
    nowhere else.
    """

    name: ClassVar[str] = "compact"
    window: int | None = None
    agent: str | None = None
    model: Any = None
    settings: Settings = field(default_factory=Settings)
    now: bool = False
    archive: str | None = None
    namespace: str | None = None
    limit: SpendingLimit = field(default_factory=SpendingLimit)

    def __post_init__(self) -> None:
        resolve_limits(self.settings, choose_window(self.agent, self.window))
        if self.model is None and self.limit != SpendingLimit():
            raise SettingsError("rate, tokens and dollars limit a model that summarises: name one, or leave them out")

    @contextmanager
    def begin(self, purse: PurseLike) -> Iterator[SessionFunction]:
        """Yield the function, with the archive and the model opened once."""
        settings = replace(self.settings, deadline=MAX_WAIT_SECONDS) if self.limit.rate is not None else self.settings
        if settings.transcript is None:  # the result is read elsewhere: no file of this machine is named in it
            settings = replace(settings, transcript=False)
        opened: Any = nullcontext("memory:")
        if self.archive is not None:
            opened = closing(open_archive(self.archive, probe=True))
        with opened as archive:
            model = MeteredModel(self.model, purse, self.limit) if self.model is not None else None
            yield lambda session: self._compact(session, archive, model, settings)

    def _compact(self, session: CorpusSession, archive: Any, model: MeteredModel | None, settings: Settings) -> Row:
        loaded = session.load()
        agent = self.agent or loaded.model
        options: dict[str, Any] = {"window": self.window, "namespace": self.namespace, "settings": settings}
        options |= {"agent": agent, "format": loaded.format, "origin": loaded.origin_of()}
        with raise_if_budget_spent(model), Compactor(model, archive=archive, **options) as compactor:
            done = fit_loaded(compactor, loaded, name_archive_thread(session), now=self.now)
        require_legal(loaded, done, agent, "unabridged corpus repair IN OUT")
        receipt = asdict(done.receipt) if done.receipt else {}
        receipt.pop("created", None)
        row = _build_session_row(loaded, done.messages) | {"changed": done.changed, "why": done.why, "receipt": receipt}
        row |= {"messages_before": len(loaded.messages), "messages_after": len(done.messages)}
        return row | {"tokens_before": done.tokens_before, "tokens_after": done.tokens_after}

    def count(self, row: Row) -> Counts:
        """Return sizes before and after, who wrote the summaries, and what that took."""
        names = ("messages_before", "messages_after", "tokens_before", "tokens_after")
        counts: Counts = {"changed": int(row["changed"]), **{name: row[name] for name in names}}
        if row["receipt"]:
            counts[f"by {row['receipt']['summariser']}"] = 1
            counts |= {f"summaries: {name}": value for name, value in row["receipt"]["cost"].items()}
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Work):
    """What a provider would refuse in every session; by default the provider of its own format."""

    name: ClassVar[str] = "check"
    providers: tuple[str, ...] = ()
    agent: str | None = None
    pending: bool = False

    def __post_init__(self) -> None:
        _require_providers(self.providers)

    def make_row(self, session: CorpusSession) -> Row:
        """Return the row of a session."""
        loaded = session.load()
        options = _build_check_options(self, loaded)
        findings = {
            name: [asdict(finding) for finding in check(loaded.messages, name, **options)]
            for name in self.providers or (loaded.format,)
        }
        return {"format": loaded.format, "messages": len(loaded.messages), "findings": findings}

    def count(self, row: Row) -> Counts:
        """Return the sessions that each provider would refuse."""
        refused = {f"refused by {name}": 1 for name, findings in row["findings"].items() if findings}
        return {"messages": row["messages"], "refused": int(bool(refused)), **refused}


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair(Work):
    """Every session mended for a provider; by default the one of its own format."""

    name: ClassVar[str] = "repair"
    provider: str | None = None
    agent: str | None = None
    pending: bool = False

    def __post_init__(self) -> None:
        _require_providers((self.provider,) if self.provider else ())

    def make_row(self, session: CorpusSession) -> Row:
        """Return the row of a session."""
        loaded = session.load()
        done = repair(loaded.messages, self.provider or loaded.format, **_build_check_options(self, loaded))
        mended = [asdict(finding) for finding in done.findings]
        return _build_session_row(loaded, done.messages) | {"changed": bool(mended), "mended": mended}

    def count(self, row: Row) -> Counts:
        """Return the sessions that were mended, and how much was."""
        return {"messages": len(row["messages"]), "changed": int(row["changed"]), "mended": len(row["mended"])}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(Work):
    """What fills the window of every session, and what it costs."""

    name: ClassVar[str] = "measure"
    agent: str | None = None

    def make_row(self, session: CorpusSession) -> Row:
        """Return the row of a session."""
        loaded = session.load()
        agent = self.agent or loaded.model
        weight = weigh_conversation(loaded, agent, loaded.messages)
        row = build_report(loaded, weight, estimate_cost(loaded, weight, agent), agent)
        return {name: value for name, value in row.items() if name != "file"}

    def count(self, row: Row) -> Counts:
        """Return messages, requests and tokens, by whom; dollars, where they are known."""
        counts: Counts = {name: row[name] for name in ("messages", "requests", "tokens")}
        for name, share in row["shares"].items():  # any session can name any tool: they are one here
            label = "tokens of tool results" if name.startswith("results of ") else f"tokens of {name}"
            counts[label] = counts.get(label, 0) + share["tokens"]
        if row["cost"]:
            counts |= {f"dollars {name}": row["cost"][name] or 0 for name in ("uncached", "cached", "reported")}
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate(Work):
    """What an agent needs next and still has after a compaction, at equal budgets of tokens; see docs/evaluation.md."""

    name: ClassVar[str] = "eval"
    window: int = 24_000
    budgets: tuple[int, ...] = (1_000, 3_000)
    arms: tuple[str, ...] = ()
    model: Any = None
    limit: SpendingLimit = field(default_factory=SpendingLimit)

    def __post_init__(self) -> None:
        if not self.budgets or min(self.budgets) < 50 or self.window < 1_000:
            raise SettingsError("a budget has 50 tokens or more, and a window 1,000 or more")
        choose_arms(list(self.arms), self.model)

    @contextmanager
    def begin(self, purse: PurseLike) -> Iterator[SessionFunction]:
        """Yield the function, with the model opened once."""
        model = MeteredModel(self.model, purse, self.limit) if self.model is not None else None
        yield lambda session: self._evaluate(session, model)

    def _evaluate(self, session: CorpusSession, model: MeteredModel | None) -> Row:
        loaded = session.load()
        value = json.loads(loaded.path.read_bytes()) if loaded.kind == "json" else session.value
        conversation = build_conversation(session.name, loaded.format, loaded.messages, value)
        options: dict[str, Any] = {"window": self.window, "budgets": self.budgets, "arms": self.arms, "model": model}
        with raise_if_budget_spent(model):
            report = evaluate(Path(session.place.file), [conversation], **options)
        rows = {name: [asdict(row) for row in getattr(report, name)] for name in ("needs", "questions", "tasks")}
        return {"format": loaded.format, "window": report.window, "counted": report.counted, **rows}

    def count(self, row: Row) -> Counts:
        """Return for each arm and budget how many conversations and cuts, and the sums of their shares."""
        counts: Counts = {}
        for needs in row["needs"]:
            arm = f"{needs['arm']} {needs['budget']}"
            counts[f"{arm}: conversations"] = 1
            counts |= {f"{arm}: {name}": needs[name] for name in ("cuts", "tokens", "files", "names", "verbatim")}
        for asked in row["questions"]:
            counts[f"{asked['arm']}: questions"] = asked["questions"]
            counts[f"{asked['arm']}: answered in context"] = asked["in_context"] * asked["questions"]
        for task in row["tasks"]:
            counts[f"{task['arm']}: runs"] = 1
            counts |= {f"{task['arm']}: {name} of the run": task[name] for name in ("tokens", "fetches", "missed")}
        return counts


def name_archive_thread(session: CorpusSession) -> str:
    """Return the thread of a session in the archive: its name, and a mark for its place, since names may repeat."""
    place = f"{session.place.file}#{session.place.line}".encode("utf-8", "surrogateescape")
    return f"{session.id or Path(session.place.file).stem}-{hashlib.sha256(place).hexdigest()[:6]}"


def _build_session_row(loaded: LoadedFile, messages: list[Any]) -> Row:
    """Return a row that is a session again, which `corpus` and `load` can read."""
    parts = {"system": loaded.system, "tools": loaded.tools, "model": loaded.model}
    known = {name: value for name, value in parts.items() if value is not None}
    return {"format": loaded.format, **known, "messages": messages}


def _build_check_options(work: Check | Repair, loaded: LoadedFile) -> dict[str, Any]:
    return {"model": work.agent or loaded.model, "format": loaded.format, "pending": work.pending}


def _require_providers(names: Sequence[str]) -> None:
    for name in names:
        if name not in PROVIDERS:
            raise SettingsError(f"unknown provider {name!r}: choose one of {', '.join(PROVIDERS)}")
