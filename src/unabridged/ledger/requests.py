"""What people asked and what became of it: which request is open, which is finished.

Each person's message is one `Request` that also holds what directly followed it: whether tools worked on it, and the
words with which the assistant handed back. `settle` reads the states off that sequence, so two ledgers merge by putting
their sequences behind one another and settling again.

- An answered request is finished. One that was interrupted stays open, together with what interrupted it.
- A question in between is finished with its answer; what it interrupted stays open.
- "wait" holds until the person lets it go on, "never mind" withdraws, "continue" goes on, "no, I meant …" reopens,
  "thanks" asks nothing.
- A request that the assistant answered with a question waits for the person, unless the work was reported as done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from unabridged.ledger.actions import efforts
from unabridged.ledger.entries import Lead, Request, State
from unabridged.ledger.moves import (
    asks_back,
    changes_subject,
    few_words,
    is_question,
    kind_of,
    only_withdraws,
    orders_by_itself,
    reports_done,
    says_go,
    withdraws_this,
)
from unabridged.ledger.own_words import own_words
from unabridged.ledger.phrasing import head_and_tail, sentences
from unabridged.messages import View

ANSWER_LIMIT = 400
"""Characters of an answer that a ledger carries."""

MOST_OPEN = 24
"""Messages of one chain that are open at once: what began it, and the newest. Those between were answered."""


@dataclass(slots=True)
class _Talk:
    """How far a sequence of requests was read: the messages that belong together now, and whose move it is."""

    requests: Sequence[Request]
    tools: bool
    states: list[State] = field(default_factory=list)
    chain: list[int] = field(default_factory=list)
    status: Literal["idle", "working", "asked"] = "idle"
    left: list[int] = field(default_factory=list)
    """The last chain that was handed back and was more than a question."""

    def hear(self, i: int) -> None:
        """Take the next message in."""
        request = self.requests[i]
        self.states.append("open")
        if self._is_aside(request):
            self.states[i] = "finished"
            if request.asks in {"question", "proposal"}:
                self._mark("waiting")
                self.status = "asked"
            return
        self.chain = self._linked(i)
        if request.kind == "hold" and len(self.chain) > 1:
            self.status = "working"  # What the assistant says to "wait" finishes nothing.
            return
        if self.states[i] != "withdrawn":
            self._mark(self._outcome(i))
        self.status = {"open": "working", "waiting": "asked"}.get(self.states[i], "idle")  # type: ignore[assignment]
        if self.status == "idle" and not self._is_lookup():
            self.left = self.chain

    def _mark(self, state: State) -> None:
        for j in self.chain:
            self.states[j] = state

    def _is_aside(self, request: Request) -> bool:
        """Whether this was a question in between, and the answer closed nothing but that.

        In mere talk a question in reply to a question goes on with the talk. A long answer found with tools may well
        be all that was asked for before, where that too was only to look something up.
        """
        if self.status == "idle" or not request.answer or request.kind != "new":
            return False
        interrupts = any(self.requests[j].worked for j in self.chain)  # else all that was just said is answered
        if not (interrupts if self.status == "working" else self.tools):
            return False
        long = self.status != "working" or len(request.answer) > ANSWER_LIMIT // 2
        if (request.worked == 2 and long) or not is_question(request.text):
            return False
        if request.asks in {"question", "proposal"}:
            return len(sentences(request.answer)) > 1
        if request.worked and len(request.answer) >= ANSWER_LIMIT - 20:
            return any(self.requests[j].worked == 2 for j in self.chain)
        return not reports_done(request.answer)

    def _linked(self, newest: int) -> list[int]:
        """The chain of messages that the newest one belongs to; what it withdraws or lets go on is marked."""
        request = self.requests[newest]
        if self.status == "idle":
            return [*self._taken_up(newest), newest]
        if request.kind == "withdraw":
            named = [j for j in self.chain if withdraws_this(request.text, self.requests[j].text)]
            if named and len(named) < len(self.chain):  # "never mind the footer": the rest goes on
                for j in named:
                    self.states[j] = "withdrawn"
                return [*(j for j in self.chain if j not in named), newest]
            self._mark("withdrawn")
            if only_withdraws(request.text):
                self.states[newest] = "withdrawn"
            return [newest]
        if self.status == "asked" and not self._replies(request):
            self._mark("finished")
            return [newest]
        if request.kind in {"resume", "more"}:
            for j in self.chain:
                if self.requests[j].kind == "hold":
                    self.states[j] = "finished"
            self.chain = [j for j in self.chain if self.requests[j].kind != "hold"]
        return [*self.chain, newest]

    def _taken_up(self, newest: int) -> list[int]:
        """What a message goes back to, after the assistant had handed back: what it corrects, or goes on with."""
        request = self.requests[newest]
        if not newest:
            return []
        before = self.requests[newest - 1]
        if request.kind == "correct":
            done = before.worked == 2 or reports_done(before.answer)
            return [] if done and orders_by_itself(request.text) else self._last_said()
        cheers = not self.tools and not few_words(request.text, 12)  # "That is great news! Keep going!"
        goes_on = (request.kind == "more" and not cheers) or (request.kind == "resume" and says_go(request.text))
        if not goes_on or before.asks:
            return []
        back = self.left and self._is_lookup() and not reports_done(self.requests[self.left[-1]].answer)
        return list(self.left if back else self.chain)

    def _is_lookup(self) -> bool:
        """Whether the last chain was one question with a short answer."""
        if len(self.chain) != 1:
            return False
        request = self.requests[self.chain[0]]
        return request.worked < 2 and is_question(request.text) and len(request.answer) < ANSWER_LIMIT // 2

    def _last_said(self) -> list[int]:
        """The end of the chain from its last message that says something by itself: what a correction corrects."""
        for place in range(len(self.chain) - 1, -1, -1):
            j = self.chain[place]
            replies = place > 0 and self.requests[j - 1].asks in {"question", "proposal"}
            if not replies and self.requests[j].kind not in {"resume", "more", "ack", "hold", "correct"}:
                return self.chain[place:]
        return self.chain[-1:]

    def _outcome(self, i: int) -> State:
        """What the chain comes to with what followed its newest message."""
        request = self.requests[i]
        replies = i > 0 and self.requests[i - 1].asks != ""
        says_nothing = request.kind == "ack" or (request.kind == "resume" and not replies and not says_go(request.text))
        if len(self.chain) == 1 and says_nothing:
            return "finished"
        if not request.answer:
            return "open"
        if request.asks == "proposal":
            # A question is answered, whatever is proposed beside the answer; so is a task where words are the work.
            said = len(sentences(request.answer)) > 1
            answered = said and (not self.tools or is_question(self.requests[self.chain[0]].text))
            return "finished" if answered else "waiting"
        return "waiting" if request.asks == "question" else "finished"

    def _replies(self, request: Request) -> bool:
        """Whether the message can be the answer to a question: where tools work, people spell things out at length.

        There, what was asked back before anything was done cannot have been finished, however long the next message is.
        """
        if request.kind != "new":
            return True
        if changes_subject(request.text):
            return False
        if self.tools and not any(self.requests[j].worked for j in self.chain):
            return True
        return few_words(request.text, 80 if self.tools else 12)


def settle(requests: Sequence[Request], *, tools: bool) -> tuple[Request, ...]:
    """The requests with their states, read off the sequence. `tools`: whether tools are used in the conversation."""
    talk = _Talk(requests, tools or any(request.worked for request in requests))
    for i in range(len(requests)):
        talk.hear(i)
    for j in talk.chain[1 : 1 - MOST_OPEN]:
        talk.states[j] = "finished"
    return tuple(
        replace(request, state=talk.states[i], context=_context(requests[i - 1] if i else None, request))
        for i, request in enumerate(requests)
    )


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
    worked, asks = max(last.worked, lead.worked), lead.asks
    if worked > lead.worked and asks in {"question", "proposal"}:  # what was done before makes some of them offers
        asks = asks_back(lead.answer, worked)
    told = replace(last, worked=worked, answer=lead.answer, answer_turn=lead.answer_turn, asks=asks)
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
        if view.origin == "person" and (view.text.strip() or view.media or view.attached):
            said = own_words(view.text)
            found.append(Request(turns[i], said, kind_of(said)))
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
