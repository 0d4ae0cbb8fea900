"""What people asked and what became of it: which request is open, which is finished.

Each person's message is one `Request` that also holds what directly followed it: whether tools worked on it, and the
words with which the assistant handed back. `settle` reads the states off that sequence, so two ledgers merge by putting
their sequences behind one another and settling again.

The goal is never lost: in doubt a request stays open, and while tools work on the last message something is open.

- An answered request is finished, unless the words that closed it only announce the work, plan it, or tell how far it
  is. One that a person steered while it was worked on stays open, together with what was said.
- One that was stopped (interrupted, a call refused, a turn cut off in mid-sentence) is interrupted until the person
  goes on with it, says it anew, or the answer to what came instead speaks of it. Where the person drops
  it, it is left.
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

from unabridged.intent import speech_acts as says
from unabridged.intent.entries import GOING, Lead, Request, State
from unabridged.intent.host_words import own_words
from unabridged.intent.lifting import asks_leave, content_words, countermands, drops, says_again, share_a_word
from unabridged.intent.offers import answered_offer, offer_in
from unabridged.messages import View
from unabridged.text_tools import head_and_tail, sentences

_WAITS = {"question", "proposal"}
"""What the assistant ends with where it goes on only when the person has spoken."""

ANSWER_LIMIT = 400
"""Characters of an answer that a ledger carries."""

PARKED_FOR = 6
"""Messages of people for which something that was interrupted stays open when they ask for other things."""

MOST_OPEN = 24
"""Messages of one chain that are open at once: what began it, and the newest. Those between were answered."""


@dataclass(slots=True)
class _Talk:
    """How far a sequence of requests was read: the messages that belong together now, and whose move it is."""

    requests: Sequence[Request]
    tools: bool
    states: list[State] = field(default_factory=list)
    chain: list[int] = field(default_factory=list)
    last_task: list[int] = field(default_factory=list)
    """The last chain that was handed back and was more than a question."""
    parked: list[int] = field(default_factory=list)
    """What was interrupted, and something else was asked instead."""

    def hear(self, i: int) -> None:
        """Take the next message in."""
        request = self.requests[i]
        self.states.append("open")
        if self._is_aside(request):
            self.states[i] = "finished"
            return
        self.chain = self._chain_of(i)
        if request.kind == "hold" and len(self.chain) > 1:  # What the assistant says to "wait" finishes nothing.
            return
        if self.states[i] != "withdrawn":
            self._mark("interrupted" if request.stopped else self._outcome(i))
        if self.states[i] == "finished":
            self.parked = [j for j in self.parked if not self._speaks_of(request, j)]
        if self.states[i] == "finished" and (going_on := self._interrupted_task(request)):
            self.chain = going_on
            self._mark("open")
        elif self._is_idle and not self._is_lookup():
            self.last_task = self.chain

    @property
    def _state(self) -> State:
        """What became of the chain so far: the assistant is at work on it, waits for the person, or handed back."""
        return self.states[self.chain[-1]] if self.chain else "finished"

    @property
    def _is_idle(self) -> bool:
        return self._state not in GOING

    def _mark(self, state: State) -> None:
        for j in self.chain:
            self.states[j] = state

    def _is_aside(self, request: Request) -> bool:
        """Whether this was a question in between, and the answer closed nothing but that.

        In mere talk a question in reply to a question goes on with the talk.
        """
        if self._state == "interrupted" and request.kind == "ack" and not request.worked:
            return True
        if self._is_idle or not request.answer or request.kind != "new":
            return False
        interrupts = any(self.requests[j].worked for j in self.chain)  # else all that was just said is answered
        if not (interrupts if self._state == "open" else self.tools):
            return False
        if not says.is_question(request.text):
            return False
        if request.asks in _WAITS:
            return len(sentences(request.answer)) > 1
        return not says.reports_done(request.answer)

    def _chain_of(self, newest: int) -> list[int]:
        """The chain of messages that the newest one belongs to; what it withdraws or lets go on is marked."""
        request = self.requests[newest]
        if request.kind == "withdraw":
            return self._chain_after_withdrawal(newest)
        if self._is_idle:
            return [*self._earlier_part(newest), newest]
        if forbidden := [j for j in self.chain if countermands(request.text, self.requests[j].text)]:
            return [*self._close(forbidden, "withdrawn"), newest]
        left = self.chain
        if self._state == "waiting" and not self._replies(request):
            left = self._close(left, "finished")
        elif self._state == "interrupted" and request.kind == "new":
            self.chain = self._close([j for j in left if says_again(request.text, self.requests[j].text)], "withdrawn")
            left = self._close([j for j in self.chain if drops(request.text, self.requests[j].text)], "left")
            self.parked, left = [*self.parked, *left], []
        elif request.kind in {"resume", "more"}:
            left = self._close([j for j in left if self.requests[j].kind == "hold"], "finished")
        return [*left, newest]

    def _chain_after_withdrawal(self, newest: int) -> list[int]:
        """The chain after words that withdraw something: what they name, else what was said last, or all of it.

        Where the assistant had asked or offered something, "never mind" is the answer to that: it takes a request back
        where the assistant asked for leave to carry it out.
        """
        request = self.requests[newest]
        before = self.requests[newest - 1] if newest else request
        what, alone = says.withdrawal(request.text)
        named = content_words(what)
        gone = [j for j in (*self.parked, *self.chain) if share_a_word(named, self.requests[j].text)]
        if says.means_all(what):
            gone = self.chain
        elif not named and before.asks:
            gone = [j for j in self.chain if asks_leave(before.answer, self.requests[j].text)]
        elif not named:
            gone = self._last_said()
        was_idle = self._is_idle
        left = self._close(gone, "withdrawn")
        if was_idle:
            left = []
        if not left and alone and not _at_work(request):
            self.states[newest] = "withdrawn"
        return [*left, newest]

    def _close(self, gone: Sequence[int], state: State) -> list[int]:
        """Give these their last state; the chain without them."""
        for j in gone:
            self.states[j] = state
        self.parked = [j for j in self.parked if j not in gone]
        return [j for j in self.chain if j not in gone]

    def _earlier_part(self, newest: int) -> list[int]:
        """What a message goes back to after the assistant handed back: what it corrects, nods to, or goes on with."""
        request = self.requests[newest]
        if not newest:
            return []
        before = self.requests[newest - 1]
        if request.kind == "correct":
            return self._last_said()
        if before.asks:
            return []
        goes_on = request.kind == "more" or (request.kind == "resume" and says.says_go(request.text))
        if not goes_on and not self._nods(request, before):
            return []
        return self.last_task if self.last_task and self._is_lookup() else self.chain

    def _nods(self, request: Request, before: Request) -> bool:
        """Whether it goes on with what was handed back: a nod to anything but its end, or one that work follows.

        Few words that order nothing are a nod in a language we don't know.
        """
        if request.kind == "new":
            tells = says.orders(request.text) or says.is_question(request.text) or says.reports_done(before.answer)
            return says.few_words(request.text, 4) and not tells and not self._is_lookup()
        if request.kind not in {"resume", "ack"}:
            return False
        if _at_work(request):
            return True
        if request.kind == "ack" or self._is_lookup():
            return self._closes_nothing(self.chain[-1])
        return not says.reports_done(before.answer)

    def _closes_nothing(self, i: int) -> bool:
        """Whether the words that followed this message close nothing: they plan, announce, or tell of the rest."""
        request = self.requests[i]
        if says.breaks_off(request.answer):
            return True
        if not self.tools or says.is_question(request.text) or not request.answer:
            return False
        plans = request.worked < 2 and says.is_plan(request.answer) and not says.is_plan(request.text)
        plans = plans or (says.few_words(request.answer, 6) and request.answer.startswith(("I look", "I'll ", "I'm ")))
        return (plans or says.tells_of_rest(request.answer)) and not says.reports_done(request.answer)

    def _interrupted_task(self, request: Request) -> list[int]:
        """What of the chain goes on although its newest message was answered: that was another task.

        So it is with a task of which something was left when the other one came in between, where the answer speaks of
        the other alone.
        """
        said = content_words(request.answer)
        if request.kind != "new" or not share_a_word(said, request.text):
            return []
        for place in range(len(self.chain) - 1, 0, -1):
            older = self.chain[:place]
            left = self._closes_nothing(older[-1]) or _at_work(self.requests[older[-1]])
            if left and not any(share_a_word(said, self.requests[k].text) for k in older):
                return older
        return []

    def _speaks_of(self, request: Request, parked: int) -> bool:
        """Whether the answer to another request speaks of what was interrupted before it: then that is finished too."""
        if share_a_word(content_words(request.answer), self.requests[parked].text):
            self.states[parked] = "finished"
        return self.states[parked] == "finished"

    def _is_lookup(self) -> bool:
        """Whether the last chain was one question with a short answer."""
        request = self.requests[self.chain[0]]
        short = len(self.chain) == 1 and request.worked < 2 and len(request.answer) < ANSWER_LIMIT // 2
        return short and says.is_question(request.text)

    def _last_said(self) -> list[int]:
        """The end of the chain from its last message that says something by itself: what a correction corrects."""
        for place in range(len(self.chain) - 1, -1, -1):
            j = self.chain[place]
            replies = place > 0 and self.requests[j - 1].asks in _WAITS
            if not replies and self.requests[j].kind not in {"resume", "more", "ack", "hold", "correct"}:
                return self.chain[place:]
        return self.chain[-1:]

    def _outcome(self, i: int) -> State:
        """What the chain comes to with what followed its newest message."""
        request = self.requests[i]
        if _at_work(request):
            return "open"
        nods = request.kind == "ack" or (request.kind == "resume" and not says.says_go(request.text))
        replies = i == 0 or self.requests[i - 1].asks != ""
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
        return "open" if self._closes_nothing(i) or self._closes_nothing(told) else "finished"

    def _replies(self, request: Request) -> bool:
        """Whether the message can be the answer to a question: where tools work, people paste whole logs in reply."""
        fits = self.tools or says.few_words(request.text, 12)
        return request.kind != "new" or (fits and not says.changes_subject(request.text))


def _at_work(request: Request) -> bool:
    """Whether tools work on what was said, and the assistant has not handed back."""
    return request.worked > 0 and not request.answer


def settle(requests: Sequence[Request], *, tools: bool) -> tuple[Request, ...]:
    """The requests with their states, read off the sequence. `tools`: whether tools are used in the conversation."""
    talk = _Talk(requests, tools or any(request.worked for request in requests))
    for i in range(len(requests)):
        talk.hear(i)
    for j in talk.chain[1 : 1 - MOST_OPEN]:
        talk.states[j] = "finished"
    for j in talk.parked:
        talk.states[j] = "interrupted" if len(requests) - j <= PARKED_FOR else "left"
    return tuple(
        replace(
            request,
            state=state,
            context=request.context or (_context(requests[i - 1], request) if i else ""),
            offer=request.offer if i + 1 == len(requests) else "",  # what was answered is the answer's context
        )
        for i, (request, state) in enumerate(zip(requests, talk.states, strict=True))
    )


def _context(before: Request, request: Request) -> str:
    """The option, question or plan these words reply to, so that a bare "2" or "yes" can be understood."""
    if request.kind == "hold" or (request.kind == "ack" and not before.asks):
        return ""
    bare = request.kind != "new" or (says.few_words(request.text, 3) and not says.is_question(request.text))
    return answered_offer(request.text, before.offer, replies=bare or before.asks != "")


def join_requests(
    older: Sequence[Request], lead: Lead, newer: Sequence[Request], *, tools: bool
) -> tuple[Request, ...]:
    """Two sequences as one, settled. An open request whose own message stayed behind is met again, but listed once."""
    requests = [*older[:-1], *(_with_outcome(request, lead) for request in older[-1:])]
    known = {request.turn: i for i, request in enumerate(requests)}
    for request in newer:
        if (i := known.get(request.turn)) is None:
            requests.append(request)
        else:
            requests[i] = _with_outcome(requests[i], _outcome_of(request))
    return settle(requests, tools=tools)


def _with_outcome(request: Request, then: Lead) -> Request:
    """The request with what happened later, before the next person spoke."""
    if then == Lead():
        return request
    worked, asks = max(request.worked, then.worked), then.asks
    if worked > then.worked and asks in _WAITS:  # what was done before makes some of them offers
        asks = says.asks_back(then.answer, worked)
    return replace(
        request, worked=worked, answer=then.answer, answer_turn=then.answer_turn, asks=asks,
        stopped=then.stopped, offer=then.offer,
    )  # fmt: skip


def _outcome_of(request: Request) -> Lead:
    """What happened after a request."""
    return Lead(request.worked, request.answer, request.answer_turn, request.asks, request.stopped, request.offer)


def find_requests(
    views: Sequence[View], turns: Sequence[int], efforts: Sequence[int], *, answered: bool, at_work: bool = False
) -> tuple[tuple[Request, ...], Lead]:
    """Every person's message with what became of it, and what was done before the first of them.

    `answered`: the views end where a person speaks next, so the assistant's last words closed its turn. `at_work`:
    tools go on working on the last message behind them.
    """
    found = [Request(-1, "")]
    for i, view in enumerate(views):
        closing = _closing(views, i, efforts, answered=answered)
        if says.is_stopped(view) or says.is_cut_off(closing):
            found[-1] = _with_outcome(found[-1], Lead(found[-1].worked, stopped=True))
            closing = ""
        if view.origin == "person" and (view.text.strip() or view.media or view.attached):
            said = own_words(view.text)
            found.append(Request(turns[i], said, says.kind_of(said)))
        elif closing or efforts[i]:
            effort = max(found[-1].worked, efforts[i])
            then = Lead(effort)
            if closing:
                answer, asks = head_and_tail(closing, ANSWER_LIMIT), says.asks_back(closing, effort)
                then = Lead(effort, answer, turns[i], asks, offer=offer_in(closing))
            found[-1] = _with_outcome(found[-1], then)
    if at_work:
        found[-1] = replace(found[-1], worked=max(found[-1].worked, 1), stopped=False)
    return settle(found[1:], tools=any(efforts)), _outcome_of(found[0])


def kind_of_turn(view: View) -> str:
    """What a person's message does to what was asked before, as `Request.kind` tells it."""
    return says.kind_of(own_words(view.text))


def _closing(views: Sequence[View], index: int, efforts: Sequence[int], *, answered: bool) -> str:
    """The assistant's words, when it hands back with them: the next to speak is a person, or the turn ends here."""
    view = views[index]
    if view.origin != "model" or efforts[index] or view.calls or not view.text.strip():
        return ""
    for i in range(index + 1, len(views)):
        if views[i].origin not in {"host", "summary"}:
            return view.text if views[i].origin == "person" else ""
    return view.text if answered else ""
