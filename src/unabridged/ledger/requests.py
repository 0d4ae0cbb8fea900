"""What people asked and what became of it: which request is open, which is finished.

Each person's message is one `Request` that also holds what directly followed it: whether tools worked on it, and the
words with which the assistant handed back. `settle` reads the states off that sequence, so two ledgers merge by putting
their sequences behind one another and settling again.

- An answered request is finished. One that was interrupted stays open, together with what interrupted it.
- "wait" holds, "never mind" withdraws, "continue" goes on, "no, I meant …" reopens, "thanks" asks nothing.
- A request that the assistant answered with a question, before it changed anything, waits for the person.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from unabridged.ledger.actions import efforts
from unabridged.ledger.entries import Lead, Request, State
from unabridged.ledger.languages import eastern_words, folded, phrases, vocabulary
from unabridged.ledger.phrasing import head_and_tail, sentences
from unabridged.messages import View

ANSWER_LIMIT = 400
"""Characters of an answer that a ledger carries."""

_BETWEEN = re.compile(r"[\W_]+")
_PARTS = re.compile(r"[^\w'-]+")
_COMMAND = re.compile(r"/[a-z-]*")
_QUESTION = re.compile(r"[?\uff1f\u061f]\W*\Z")


def kind_of(text: str) -> str:
    """What these words do to the request before them; `new` when they stand on their own."""
    words = folded(text.strip())
    if _COMMAND.fullmatch(words):  # "/theme" is for the host, not for the assistant.
        return "ack"
    if len(words) <= 120 and (plain := _nod(words)):
        return plain
    rest = words
    for _ in range(4):  # "ok, hmm, wait, never mind": what counts comes after the small words.
        if (reach := phrases("withdraw").at_start(rest)) and _few_words(rest[reach:], 14):
            return "withdraw"
        if (reach := phrases("hold").at_start(rest)) and _few_words(rest[reach:], 4):
            return "withdraw" if phrases("withdraw").inside(rest[reach:]) else "hold"
        if phrases("correct").at_start(rest):
            return "correct"
        reach = phrases("prefix").at_start(rest)
        if not reach:
            break
        rest = _BETWEEN.sub("", rest[reach : reach + 3]) + rest[reach + 3 :]
    return "new"


def asks_back(text: str, worked: int) -> Literal["", "question", "offer"]:
    """Whether the assistant's closing words wait for the person's answer, offer more, or simply end.

    A question after something was changed is an offer: the work is done. So is one at the end of a long answer.
    """
    last = folded("".join(sentences(text[-600:])[-1:]))
    if not _QUESTION.search(last):
        return "question" if worked < 2 and len(text) <= 1_200 and phrases("asks").inside(last) else ""
    if phrases("confirm").inside(last):
        return "question" if worked < 2 else "offer"
    return "offer" if worked == 2 or len(text) > 1_200 or phrases("offer").inside(last) else "question"


def settle(requests: Sequence[Request], *, tools: bool) -> tuple[Request, ...]:
    """The requests with their states, read off the sequence. `tools`: whether tools are used in the conversation."""
    states: list[State] = []
    chain: list[int] = []
    status: Literal["idle", "working", "asked"] = "idle"
    for i, request in enumerate(requests):
        states.append("open")
        chain = _linked(requests, states, chain, status, tools=tools)
        if request.kind == "hold" and len(chain) > 1:
            status = "working"  # What the assistant says to "wait" finishes nothing.
            continue
        state = _outcome(request, alone=len(chain) == 1, replies=i > 0 and requests[i - 1].asks != "")
        if states[i] != "withdrawn":
            for j in chain:
                states[j] = state
        status = {"open": "working", "waiting": "asked"}.get(states[i], "idle")  # type: ignore[assignment]
    return tuple(
        replace(request, state=states[i], context=_context(requests[i - 1] if i else None, request))
        for i, request in enumerate(requests)
    )


def _linked(
    requests: Sequence[Request], states: list[State], chain: list[int], status: str, *, tools: bool
) -> list[int]:
    """The chain of messages that the newest one belongs to; what it withdraws is marked."""
    newest = len(states) - 1
    request = requests[newest]
    if status == "idle":
        before = requests[newest - 1] if newest else None
        goes_on = request.kind == "resume" and before is not None and not before.asks and _says_go(request.text)
        return [*_last_said(requests, chain), newest] if request.kind == "correct" or goes_on else [newest]
    if request.kind == "withdraw":
        for j in chain:
            states[j] = "withdrawn"
        if _only_withdraws(request.text):
            states[newest] = "withdrawn"
        return [newest]
    if status == "asked" and not _replies(request, [requests[j] for j in chain], tools=tools):
        for j in chain:
            states[j] = "finished"
        return [newest]
    return [*chain, newest]


def _last_said(requests: Sequence[Request], chain: Sequence[int]) -> list[int]:
    """The end of a chain from its last message that says something by itself: what a correction corrects."""
    for place in range(len(chain) - 1, -1, -1):
        if requests[chain[place]].kind not in {"resume", "ack", "hold", "correct"}:
            return list(chain[place:])
    return list(chain[-1:])


def _outcome(request: Request, *, alone: bool, replies: bool) -> State:
    says_nothing = request.kind == "ack" or (request.kind == "resume" and not replies and not _says_go(request.text))
    if alone and says_nothing:
        return "finished"
    if not request.answer:
        return "open"
    return "waiting" if request.asks == "question" else "finished"


def _context(before: Request | None, request: Request) -> str:
    """The question or offer these words reply to, so that a bare "yes" can be understood."""
    if before is None or not before.asks or request.kind in {"withdraw", "hold"}:
        return ""
    return " ".join(sentences(before.answer)[-2:])[-300:]


def continued(requests: Sequence[Request], lead: Lead) -> tuple[Request, ...]:
    """The requests, with what happened later, before the next person spoke, added to the last of them."""
    if not requests or not (lead.worked or lead.answer):
        return tuple(requests)
    last = requests[-1]
    told = replace(
        last, worked=max(last.worked, lead.worked), answer=lead.answer, answer_turn=lead.answer_turn, asks=lead.asks
    )
    return (*requests[:-1], told)


def joined(older: Sequence[Request], lead: Lead, newer: Sequence[Request], *, tools: bool) -> tuple[Request, ...]:
    """Two sequences as one, settled. An open request whose own message stayed behind is met again, but listed once."""
    requests = list(continued(older, lead))
    known = {request.turn: i for i, request in enumerate(requests)}
    for place, request in enumerate(newer):
        i = known.get(request.turn)
        if i is None:
            requests.extend(newer[place:])
            break
        told = Lead(request.worked, request.answer, request.answer_turn, request.asks)
        requests[: i + 1] = continued(requests[: i + 1], told)
    return settle(requests, tools=tools)


def open_indices(views: Sequence[View]) -> tuple[int, ...]:
    """Indices of the messages in which people ask for what is still open at the end of these views."""
    worked = efforts(views)
    requests, _ = asked(views, range(len(views)), worked=worked, answered=True)
    settled = settle(requests, tools=any(worked))
    return tuple(request.turn for request in settled if request.state in {"open", "waiting"})


def asked(
    views: Sequence[View], turns: Sequence[int], *, worked: Sequence[int], answered: bool
) -> tuple[list[Request], Lead]:
    """Every person's message with what directly followed it, and what came before the first of them.

    `worked` says for each view whether tools looked (1) or changed something (2) in it.
    """
    found: list[Request] = []
    lead = Lead()
    for i, view in enumerate(views):
        if view.origin == "person" and (view.text.strip() or view.media):
            found.append(Request(turns[i], view.text, kind_of(view.text)))
            continue
        closing = _closing(views, i, worked, answered=answered)
        if not worked[i] and not closing:
            continue
        held = found[-1].worked if found else lead.worked
        effort = max(held, worked[i])
        words = head_and_tail(closing, ANSWER_LIMIT)
        told = Lead(effort, words, turns[i] if words else -1, asks_back(closing, effort) if words else "")
        if found:
            found[-1:] = continued(found[-1:], told)
        else:
            lead = told
    return found, lead


def _closing(views: Sequence[View], index: int, worked: Sequence[int], *, answered: bool) -> str:
    """The assistant's words, when it hands back with them: the next to speak is a person, or the turn ends here."""
    view = views[index]
    if view.origin != "model" or worked[index] or view.calls or not view.text.strip():
        return ""
    for i in range(index + 1, len(views)):
        if views[i].origin not in {"host", "summary"}:
            return view.text if views[i].origin == "person" else ""
    return view.text if answered else ""


def _nod(words: str) -> str:
    """`resume` or `ack` for a message that only nods; "" for one that says something."""
    tokens = [token for token in _PARTS.split(words) if token]
    if tokens in (["y"], ["n"], ["k"]):
        return "resume"
    if tokens and all(token in vocabulary("go", "yes", "thanks", "filler") for token in tokens):
        if any(token in vocabulary("go", "yes") for token in tokens):
            return "resume"
        return "ack" if any(token in vocabulary("thanks") for token in tokens) else ""
    signs = _BETWEEN.sub("", words)
    if not eastern_words("go", "yes", "thanks", "filler").fullmatch(signs):
        return ""
    if eastern_words("go").search(signs) or not eastern_words("thanks").search(signs):
        return "resume"
    return "ack"


def _says_go(text: str) -> bool:
    words = folded(text)
    return any(token in vocabulary("go") for token in _PARTS.split(words)) or bool(eastern_words("go").search(words))


def _replies(request: Request, waiting: Sequence[Request], *, tools: bool) -> bool:
    """Whether the message can be the answer to a question: where tools work, people spell things out at length.

    There, what was asked back before anything was done cannot have been finished, however long the next message is.
    """
    if request.kind != "new" or (tools and not any(before.worked for before in waiting)):
        return True
    return _few_words(request.text, 80 if tools else 12)


def _only_withdraws(text: str) -> bool:
    words = folded(text.strip())
    return any(_few_words(words[stop:], 3) for _, stop in phrases("withdraw").found(words))


def _few_words(text: str, most: int) -> bool:
    """At most so many words; two signs of a script without spaces count as one."""
    return len(text[:2_000].split()) + sum(char > "\u2e7f" for char in text[:2_000]) // 2 <= most
