"""What people asked and what became of it: which request is open, which is finished.

Each person's message is one `Request` that also holds what directly followed it: whether tools worked on it, and the
words with which the assistant handed back. `settle` reads the states off that sequence, so two ledgers merge by putting
their sequences behind one another and settling again.

The goal is never lost: in doubt a request stays open, and while tools work on the last message something is open.

- An answered request is finished, unless the words that closed it only announce the work, plan it, tell how far it is,
  or stop in mid-sentence. One that was interrupted stays open, together with what interrupted it.
- A nod goes on with what it nods to: a plan, a report of progress, anything that was not clearly the end. After a
  report that it is done it asks nothing, unless tools go on working.
- A question in between is finished with its answer; what it interrupted stays open.
- "wait" holds until the person lets it go on, "never mind" withdraws, "continue" goes on, "no, I meant …" reopens,
  "thanks" asks nothing.
- A request that the assistant answered with a question waits for the person, unless the work was reported as done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from unabridged.intent import speech_acts as says
from unabridged.intent.entries import Lead, Request, State
from unabridged.intent.host_words import own_words
from unabridged.intent.lifting import alike, content_words, countermands
from unabridged.messages import View
from unabridged.text_tools import head_and_tail, sentences

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
        if self.states[i] == "finished" and (going_on := self._set_aside(request)):
            self.chain = going_on
            self._mark("open")
            self.status = "working"
            return
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
        if (request.worked == 2 and long) or not says.is_question(request.text):
            return False
        if request.asks in {"question", "proposal"}:
            return len(sentences(request.answer)) > 1
        if request.worked and len(request.answer) >= ANSWER_LIMIT - 20:
            return any(self.requests[j].worked == 2 for j in self.chain)
        return not says.reports_done(request.answer)

    def _linked(self, newest: int) -> list[int]:
        """The chain of messages that the newest one belongs to; what it withdraws or lets go on is marked."""
        request = self.requests[newest]
        if request.kind == "withdraw":
            return self._left_of_chain(newest)
        if self.status == "idle":
            return [*self._taken_up(newest), newest]
        if forbidden := [j for j in self.chain if countermands(request.text, self.requests[j].text)]:
            return [*self._without(forbidden), newest]
        if self.status == "asked" and not self._replies(request):
            self._mark("finished")
            return [newest]
        if request.kind in {"resume", "more"}:
            for j in self.chain:
                if self.requests[j].kind == "hold":
                    self.states[j] = "finished"
            self.chain = [j for j in self.chain if self.requests[j].kind != "hold"]
        return [*self.chain, newest]

    def _left_of_chain(self, newest: int) -> list[int]:
        """The chain after words that withdraw something: what they name, else what was said last, or all of it.

        Where the assistant had asked or offered something, "never mind" is the answer to that.
        """
        request = self.requests[newest]
        declines = newest > 0 and self.requests[newest - 1].asks != ""
        what = says.named_as_withdrawn(request.text)
        named = content_words(what)
        gone = [j for j in self.chain if _speaks_of(named, self.requests[j].text)]
        if says.means_all(what):
            gone = self.chain
        elif not named and not declines:
            gone = self._last_said()
        left = self._without(gone)
        if self.status == "idle":
            left = []
        if not left and says.only_withdraws(request.text) and not _at_work(request):
            self.states[newest] = "withdrawn"
        return [*left, newest]

    def _without(self, gone: Sequence[int]) -> list[int]:
        """The chain without these, which are withdrawn."""
        for j in gone:
            self.states[j] = "withdrawn"
        return [j for j in self.chain if j not in gone]

    def _taken_up(self, newest: int) -> list[int]:
        """What a message goes back to after the assistant handed back: what it corrects, nods to, or goes on with."""
        request = self.requests[newest]
        if not newest:
            return []
        before = self.requests[newest - 1]
        if request.kind == "correct":
            done = before.worked == 2 or says.reports_done(before.answer)
            return [] if done and says.orders_by_itself(request.text) else self._last_said()
        if before.asks and not says.is_courtesy(before.answer):
            return []
        cheers = not self.tools and not says.few_words(request.text, 12)  # "That is great news! Keep going!"
        goes_on = (request.kind == "more" and not cheers) or (request.kind == "resume" and says.says_go(request.text))
        if not goes_on and not self._nods(request, before):
            return []
        back = self.left and self._is_lookup() and not says.reports_done(self.requests[self.left[-1]].answer)
        return list(self.left if back else self.chain)

    def _nods(self, request: Request, before: Request) -> bool:
        """Whether it goes on with what was handed back: a nod to anything but its end, or one that work follows.

        Few words that order nothing are a nod in a language we don't know.
        """
        if request.kind not in {"resume", "ack"}:
            unknown = request.kind == "new" and says.few_words(request.text, 4) and not says.orders(request.text)
            return (
                unknown
                and not says.is_question(request.text)
                and not self._is_lookup()
                and not says.reports_done(before.answer)
            )
        if _at_work(request):
            return True
        if request.kind == "ack" or self._is_lookup():
            return self._left_off(self.chain[-1])
        return not says.surely_done(before.answer)

    def _left_off(self, i: int) -> bool:
        """Whether the words that followed this message close nothing: they plan, announce, or tell of the rest."""
        request = self.requests[i]
        if says.breaks_off(request.answer):
            return True
        if not self.tools or says.is_question(request.text) or not request.answer:
            return False
        plans = request.worked < 2 and says.is_plan(request.answer) and not says.is_plan(request.text)
        return (plans or says.tells_of_rest(request.answer)) and not says.surely_done(request.answer)

    def _set_aside(self, request: Request) -> list[int]:
        """What of the chain goes on although its newest message was answered: that was another task.

        So it is with a task of which something was left when the other one came in between, where the answer speaks of
        the other alone.
        """
        said = content_words(request.answer)
        if request.kind != "new" or not _speaks_of(said, request.text):
            return []
        for place in range(len(self.chain) - 2, -1, -1):
            j = self.chain[place]
            if self._left_off(j) and not any(_speaks_of(said, self.requests[k].text) for k in self.chain[: place + 1]):
                return self.chain[: place + 1]
        return []

    def _is_lookup(self) -> bool:
        """Whether the last chain was one question with a short answer."""
        if len(self.chain) != 1:
            return False
        request = self.requests[self.chain[0]]
        return request.worked < 2 and says.is_question(request.text) and len(request.answer) < ANSWER_LIMIT // 2

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
        if _at_work(request):
            return "open"
        nods = request.kind == "ack" or (request.kind == "resume" and not says.says_go(request.text))
        replies = i == 0 or (self.requests[i - 1].asks != "" and not says.is_courtesy(self.requests[i - 1].answer))
        if len(self.chain) == 1 and nods and (request.kind == "ack" or not replies):
            return "finished"
        if not request.answer:
            return "open"
        if request.asks == "proposal":
            # A question is answered, whatever is proposed beside the answer; so is a task where words are the work.
            said = len(sentences(request.answer)) > 1
            answered = said and (not self.tools or says.is_question(self.requests[self.chain[0]].text))
            return "finished" if answered else "waiting"
        if request.asks == "question":
            return "waiting"
        # A nod that nothing was done about leaves things as they were.
        told = self.chain[-2] if nods and not request.worked and len(self.chain) > 1 else i
        return "open" if self._left_off(i) or self._left_off(told) else "finished"

    def _replies(self, request: Request) -> bool:
        """Whether the message can be the answer to a question: where tools work, people paste whole logs in reply."""
        if request.kind != "new":
            return True
        return not says.changes_subject(request.text) and (self.tools or says.few_words(request.text, 12))


def _at_work(request: Request) -> bool:
    """Whether tools work on what was said, and the assistant has not handed back."""
    return request.worked > 0 and not request.answer


def _speaks_of(said: Sequence[str], text: str) -> bool:
    """Whether these words have one in common with a request."""
    return any(alike(word, other) for word in said for other in content_words(text))


def settle(requests: Sequence[Request], *, tools: bool) -> tuple[Request, ...]:
    """The requests with their states, read off the sequence. `tools`: whether tools are used in the conversation."""
    talk = _Talk(requests, tools or any(request.worked for request in requests))
    for i in range(len(requests)):
        talk.hear(i)
    for j in talk.chain[1 : 1 - MOST_OPEN]:
        talk.states[j] = "finished"
    return tuple(
        replace(request, state=state, context=_context(requests[i - 1] if i else None, request, state))
        for i, (request, state) in enumerate(zip(requests, talk.states, strict=True))
    )


def _context(before: Request | None, request: Request, state: State) -> str:
    """The question, offer or plan these words reply to, so that a bare "yes" can be understood."""
    if before is None or request.kind in {"withdraw", "hold"}:
        return ""
    if not before.asks and (request.kind != "resume" or state not in {"open", "waiting"}):
        return ""
    return " ".join(sentences(before.answer)[-2:])[-300:]


def extend_last(requests: Sequence[Request], lead: Lead) -> tuple[Request, ...]:
    """The requests, with what happened later, before the next person spoke, added to the last of them."""
    if not requests or not (lead.worked or lead.answer):
        return tuple(requests)
    last = requests[-1]
    worked, asks = max(last.worked, lead.worked), lead.asks
    if worked > lead.worked and asks in {"question", "proposal"}:  # what was done before makes some of them offers
        asks = says.asks_back(lead.answer, worked)
    told = replace(last, worked=worked, answer=lead.answer, answer_turn=lead.answer_turn, asks=asks)
    return (*requests[:-1], told)


def join_requests(
    older: Sequence[Request], lead: Lead, newer: Sequence[Request], *, tools: bool
) -> tuple[Request, ...]:
    """Two sequences as one, settled. An open request whose own message stayed behind is met again, but listed once."""
    requests = list(extend_last(older, lead))
    known = {request.turn: i for i, request in enumerate(requests)}
    for place, request in enumerate(newer):
        i = known.get(request.turn)
        if i is None:
            requests.extend(newer[place:])
            break
        told = Lead(request.worked, request.answer, request.answer_turn, request.asks)
        requests[: i + 1] = extend_last(requests[: i + 1], told)
    return settle(requests, tools=tools)


def open_requests(views: Sequence[View], efforts: Sequence[int]) -> tuple[int, ...]:
    """Indices of the messages in which people ask for what is still open at the end of these views.

    `efforts` says for each view whether tools looked (1) or changed something (2) in it.
    """
    requests, _ = find_requests(views, range(len(views)), efforts, answered=True)
    return tuple(request.turn for request in requests if request.state in {"open", "waiting"})


def find_requests(
    views: Sequence[View], turns: Sequence[int], efforts: Sequence[int], *, answered: bool, at_work: bool = False
) -> tuple[tuple[Request, ...], Lead]:
    """Every person's message with what became of it, and what was done before the first of them.

    `answered`: the views end where a person speaks next, so the assistant's last words closed its turn. `at_work`:
    tools go on working on the last message behind them.
    """
    found: list[Request] = []
    lead = Lead()
    for i, view in enumerate(views):
        if view.origin == "person" and (view.text.strip() or view.media or view.attached):
            said = own_words(view.text)
            found.append(Request(turns[i], said, says.kind_of(said)))
            continue
        closing = _closing(views, i, efforts, answered=answered)
        if not efforts[i] and not closing:
            continue
        effort = max(found[-1].worked if found else lead.worked, efforts[i])
        words = head_and_tail(closing, ANSWER_LIMIT)
        told = Lead(effort, words, turns[i] if words else -1, says.asks_back(closing, effort) if words else "")
        if found:
            found[-1:] = extend_last(found[-1:], told)
        else:
            lead = told
    if at_work and found:
        found[-1] = replace(found[-1], worked=max(found[-1].worked, 1))
    elif at_work:
        lead = replace(lead, worked=max(lead.worked, 1))
    return settle(found, tools=any(efforts)), lead


def kind_of_turn(view: View) -> str:
    """What a person's message does to what was asked before, as `Request.kind` tells it."""
    return says.kind_of(own_words(view.text))


def _closing(views: Sequence[View], index: int, efforts: Sequence[int], *, answered: bool) -> str:
    """The assistant's words, when it hands back with them: the next to speak is a person, or the turn ends here."""
    view = views[index]
    if view.origin != "model" or efforts[index] or view.calls or not view.text.strip():
        return ""
    for i in range(index + 1, len(views)):
        if says.begins_interrupted(views[i].text):
            return ""
        if views[i].origin not in {"host", "summary"}:
            return view.text if views[i].origin == "person" else ""
    return view.text if answered else ""
