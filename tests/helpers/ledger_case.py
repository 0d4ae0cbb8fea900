"""Builders for the tests of the ledger: views, and whole conversations that are compacted again and again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from conversations import anthropic_round, assistant, chat_round, responses_round, user
from places import HELPERS
from unabridged import Compactor, Settings
from unabridged.archive import open_archive
from unabridged.archive.protocol import Scope
from unabridged.formats import detect_message_format
from unabridged.languages import get_labels, load_language_tables
from unabridged.messages import Answer, Call, View
from unabridged.summary.gather import gather_ledger
from unabridged.summary.layout import render_within_budget
from unabridged.summary.ledger import Ledger, from_json

LISTS = HELPERS / "lists"

Message = dict[str, Any]
Round = Callable[..., list[Message]]


def person(text: str) -> View:
    return View("user", "person", text)


def says(text: str) -> View:
    return View("assistant", "model", text)


def calls(tool: str, text: str = "", call_id: str = "c", **arguments: Any) -> View:
    return View("assistant", "model", text, calls=(Call(call_id, tool, json.dumps(arguments)),))


def answers(text: str, call_id: str = "c", *, error: bool = False) -> View:
    return View("tool", "tool", answers=(Answer(call_id, text, error),))


def observation(text: str) -> View:
    """What a tool says in a text protocol: a `user` turn that is no person's."""
    return View("user", "tool", text)


def round_of(tool: str, result: str, *, text: str = "", **arguments: Any) -> list[View]:
    return [calls(tool, text, **arguments), answers(result)]


def count(text: str) -> int:
    """About what the engine counts: a token for three characters, and one for each sign of a script without spaces."""
    return len(text) // 3 + sum(char > "\u2e7f" for char in text) + (1 if text else 0)


class Extract(NamedTuple):
    """A summary made by rule, the ledger behind it, and what of the ledger found no place in the text."""

    text: str
    ledger: Ledger
    left_out: tuple[str, ...]


def extract(
    views: Sequence[View],
    *,
    budget: int,
    count: Callable[[str], int],
    kept: Collection[int] = (),
    **before: Any,
) -> Extract:
    """These messages gathered, after what came `before` them, and rendered."""
    ledger = gather_ledger(views, **before)
    rendered = render_within_budget(ledger, budget, count, kept=kept)
    return Extract(rendered.text(), ledger, rendered.left_out)


def compacted(blocks: Sequence[Sequence[View]], *, budget: int = 3_000) -> Extract:
    """Block after block folded into one ledger, as many compactions do; the text of the last one."""
    prior: Ledger | None = None
    turn = 0
    made: Extract | None = None
    for block in blocks:
        made = extract(block, prior=prior, first_turn=turn, budget=budget, count=count)
        prior, turn = made.ledger, turn + len(block)
    assert made is not None
    return made


# -- whole conversations, through `Compactor.fit` ----------------------------------------------------------------------


def tagged_round(name: str, answer: str, **arguments: Any) -> list[Message]:
    """A round in a text protocol: the action in tags, the observation wrapped by the host."""
    action = f"I run it.\n<command>\n{name} {' '.join(map(str, arguments.values()))}\n</command>"
    return [assistant(action), user(f"<returncode>0</returncode>\n<output>\n{answer}\n</output>")]


def react_round(name: str, answer: str, **arguments: Any) -> list[Message]:
    """A round in the text protocol of ReAct."""
    action = f"Thought: next.\nAction: {name}\nAction Input: {' '.join(map(str, arguments.values()))}"
    return [assistant(action), user(f"Observation: {answer}")]


def bare_round(name: str, answer: str, **arguments: Any) -> list[Message]:
    """A round whose host puts nothing around what a command printed."""
    return [assistant(f"<command>\n{name} {' '.join(map(str, arguments.values()))}\n</command>"), user(answer)]


ROUNDS: dict[str, Round] = {
    "chat": chat_round, "anthropic": anthropic_round, "responses": responses_round,
    "tagged": tagged_round, "react": react_round, "bare": bare_round,
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A conversation that was compacted on its way: the list at the end, and each summary with its ledger."""

    compactor: Compactor
    messages: list[Message]
    said: list[Message]
    """Everything that was ever appended."""
    summaries: list[str]
    ledgers: list[Ledger]
    lists: list[tuple[int, list[Message]]]
    """For each of them how much had been said by then, and the list it left."""


def run(
    conversation: Iterable[Message], *, window: int, settings: Settings | None = None, model: Any = None, most: int = 99
) -> Run:
    """Feed the conversation message by message through `fit`, until it was compacted `most` times."""
    archive = open_archive("memory:")
    compactor = Compactor(model, window=window, archive=archive, namespace="n", settings=settings)
    found = Run(compactor, [], [], [], [], [])
    messages: list[Message] = []
    for message in conversation:
        messages.append(message)
        found.said.append(message)
        if message.get("role") == "assistant" or message.get("type") == "function_call":
            continue
        fitted = compactor.fit(messages, thread="t")
        messages = fitted.messages
        if fitted.changed and fitted.receipt is not None:
            record = archive.record(Scope("n", "t"), fitted.receipt.id)
            if record is not None and "ledger" in record.data:
                found.ledgers.append(from_json(record.data["ledger"]))
                found.summaries.append(summary_in(messages, fitted.receipt.id))
                found.lists.append((len(found.said), list(messages)))
        if len(found.ledgers) == most:
            break
    found.messages.extend(messages)
    return found


def summary_in(messages: Sequence[Message], record_id: str) -> str:
    """The text of the summary turn that this record put into the list."""
    format_ = detect_message_format(list(messages))
    texts = [format_.read(message).text for message in messages]
    return next(text for text in texts if text.startswith(f"[unabridged summary {record_id}]"))


def work(round_: Round, number: int, *, rounds: int = 3) -> list[Message]:
    """A request and the work on it, with nothing in it that anybody would want to keep."""
    messages = [user(f"Now look at part {number} of the list.")]
    for j in range(rounds):
        row = f"row {number}.{j} " + "and another plain line about nothing at all\n" * 60
        messages += round_("bash", row, command=f"show part_{number}_{j}")
    return [*messages, assistant(f"Part {number} is fine; nothing to change there.")]


_FENCE = re.compile(r"~{3,}")


def sections(summary: str) -> dict[str, list[str]]:
    """The lines under each heading of a summary turn; what a person said between two fences is one line."""
    found: dict[str, list[str]] = {"": []}
    lines = found[""]
    fence = ""
    for line in summary.split("\n"):
        if fence:
            lines[-1] += "\n" + line
            fence = "" if line == fence else fence
        elif _FENCE.fullmatch(line):
            fence = line
            lines.append(line)
        elif line.startswith("## "):
            assert line[3:] not in found, f"two sections {line!r}"
            lines = found.setdefault(line[3:], [])
        else:
            lines.append(line)
    return found


def section(summary: str, name: str) -> list[str]:
    """The lines of our own section with this label, whatever the language."""
    headings = {get_labels(code)[name] for code in load_language_tables()}
    return [line for heading, lines in sections(summary).items() if heading in headings for line in lines if line]


def headings() -> set[str]:
    """Every heading that a summary turn made without a model may have."""
    return {label for code in load_language_tables() for label in get_labels(code).values()}


def told_of_people(story: Sequence[str]) -> list[str]:
    """The lines of the story that are in the user's voice: those that say so, and what is fenced below them.

    What a line gives as the assistant's words or as a rejected call, which stands before the colon, is left out.
    """
    found, fence = list[str](), ""
    for line in story:
        if fence:
            found.append(line)
            fence = "" if line == fence else fence
        elif own := _OF_A_PERSON.match(line):
            found.append(f"- [{own['number']}]{line[own.end() :]}")
        elif _FENCE.match(line):  # `section` gives a fenced text as one line, a text split at its lines does not
            found.append(line)
            fence = "" if "\n" in line else line
    return found


def people_in(summary: str) -> list[str]:
    """Everything in a summary turn that is in the user's voice, whichever section it stands in."""
    return [line for name in ("people", "done") for line in told_of_people(section(summary, name))]


_USERS = "|".join(sorted({re.escape(get_labels(code)["user"]) for code in load_language_tables()}))
_OF_A_PERSON = re.compile(
    rf"- \[(?P<number>[^\]]*\d[^\]]*)\] (?:{_USERS})(?: [^\n:\u201c]*)?"  # the number and the speaker
    r"(?:[,\uff0c\u3001\u060c][^\n\u201c]*\u201c[^\u201c\u201d]*\u201d[^\n:\u201c]*)?:"  # what it answers or rejects
)
