"""What people asked and what became of it: which request is open, which is finished.

Each person's message is one `Request` that also holds what directly followed it: whether tools worked on it, and the
words with which the assistant handed back. `settle` reads the states off that sequence, so two ledgers merge by putting
their sequences behind one another and settling again.

The goal is never lost: in doubt a request stays open, and while tools work on the last message something is open.

- An answered request is finished, unless the words that closed it only announce the work, plan it, or tell how far it
  is. So is one after which the assistant proposes something else: a yes to that goes on with the proposal alone. One
  that a person steered while it was worked on stays open, together with what was said.
- One that was stopped (interrupted, a call refused, a turn cut off in mid-sentence) is interrupted until the person
  goes on with it, says it anew, or the answer to what came instead speaks of it, or of what its own was about, not only
  of what came. Where tools had worked on it, words alone don't finish it. Once a call was refused, a short report
  closes nothing that was to be done after what it tells of.
- What a person says to drop, naming it and nothing else, is withdrawn, or left if it was interrupted; so is what they
  want something else for instead. Of one that orders several things the part goes, and the rest stays open.
- What is said when refusing a call steers the work: what it drops is left, and itself stays open, for it stands in a
  tool's result. It finishes nothing, and takes no rule with it.
- A nod goes on with what it nods to: a plan, a report of progress, anything that was not clearly the end. After a
  report that it is done it asks nothing, unless tools go on working.
- A question in between is finished with its answer; what it interrupted stays open.
- "wait" holds until the person lets it go on, "never mind" withdraws, "continue" goes on, "no, I meant …" reopens,
  "thanks" asks nothing.
- A request that the assistant answered with a question waits for the person, unless the work was reported as done.
- What may be another system's summary (`doubtful`) drops, answers and withdraws nothing. While nothing is done about
  it, it is no part of the talk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from unabridged.intent import meant
from unabridged.intent import speech_acts as says
from unabridged.intent.entries import GOING, Lead, Request, State
from unabridged.intent.frames import doubtful_in, rejection_in
from unabridged.intent.host_words import own_words
from unabridged.intent.lifting import content_words, share_a_word
from unabridged.languages import folded, phrases
from unabridged.messages import Answer, View
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

    requests: list[Request]
    tools: bool
    states: list[State] = field(default_factory=list)
    chain: list[int] = field(default_factory=list)
    last_task: list[int] = field(default_factory=list)
    """The last chain that was handed back and was more than a question with a short answer."""
    parked: list[int] = field(default_factory=list)
    """What was interrupted, and something else was asked instead."""

    def hear(self, i: int) -> None:
        """Take the next message in."""
        request = self.requests[i]
        self.states.append("open")
        if self._is_aside(request):
            self.states[i] = "finished"
            return
        self._set([j for j in self.parked if i - j >= PARKED_FOR], "left")
        self.chain = self._chain_of(i)
        self.chain = self._set(self.chain[1 : 1 - MOST_OPEN], "finished")
        if request.kind == "hold" and len(self.chain) > 1:  # What the assistant says to "wait" finishes nothing.
            return
        if self.states[i] != "withdrawn":
            self._set(self.chain, "interrupted" if request.stopped else self._outcome(i))
        last = "".join(sentences(request.text)[-1:])
        if self.parked and self.states[i] == "finished" and not says.wants_to_know(last):
            # An answer that speaks of what was interrupted, or of what its own was about when it was cut off, finishes
            # that, too. What tools had worked on is not finished by words alone.
            told = [word for word in content_words(request.answer) if not share_a_word([word], request.text)]
            parked = [(j, self.requests[j]) for j in self.parked if request.worked >= self.requests[j].worked]
            self._set([j for j, r in parked if share_a_word(told, f"{r.text}\n{r.answer}")], "finished")
        if self.states[i] == "finished" and (left := self._left_over(request)):
            self._set(left, "open")
            self.chain = left
        asked = len(self.chain) == 1 and says.is_question(request.text)
        if not asked or request.worked == 2 or len(request.answer) >= ANSWER_LIMIT // 2:
            self.last_task = self.chain

    @property
    def _state(self) -> State:
        """What became of the chain so far: the assistant is at work on it, waits for the person, or handed back."""
        return self.states[self.chain[-1]] if self.chain else "finished"

    def _is_aside(self, request: Request) -> bool:
        """Whether this was a question in between, and the answer closed nothing but that.

        In mere talk a question in reply to a question goes on with the talk.
        """
        nods = request.kind == "ack" or (request.kind == "resume" and not says.says_go(request.text))
        if self._state == "interrupted" and nods and not request.worked:
            return True
        asked = request.kind in {"new", "steer"} and says.is_question(request.text)
        if self._state not in GOING or not request.answer or request.stopped or not asked:
            return False
        worked = any(self.requests[j].worked for j in self.chain)  # else all that was just said is answered
        apart = worked if self._state == "open" else self.tools or request.asks != ""
        return apart and not says.reports_done(request.answer)

    def _chain_of(self, newest: int) -> list[int]:
        """The chain of messages that the newest one belongs to; what it withdraws or lets go on is marked."""
        request = self.requests[newest]
        if not request.doubtful and says.kind_of(request.text) == "withdraw":
            return self._chain_after_withdrawal(newest)
        if self._state not in GOING:
            self.chain = self._earlier_part(newest)
            return [*self._without_replaced(request), newest]
        state, stopped, steers = self._state, self._state == "interrupted", request.kind == "steer"
        gone = self._dropped(request, self.chain, stopped=stopped and not steers)  # a steer is about the refused call
        self.chain = self._set(gone, "left" if stopped or steers else "withdrawn")
        if state == "waiting" and not (request.doubtful or self._replies(request)):
            self.chain = self._set(self.chain, "finished")
        elif stopped and request.kind == "new":
            again = [j for j in self.chain if meant.says_again(request.text, self.requests[j].text)]
            self.parked, self.chain = [*self.parked, *self._set(again, "withdrawn")], []
        elif request.kind in {"resume", "more"}:
            self.chain = self._without_replaced(request)
        return [*self.chain, newest]

    def _without_replaced(self, request: Request) -> list[int]:
        """The chain without what words to go on take the place of: "wait", and the same words before."""
        if request.kind not in {"resume", "more"}:
            return self.chain
        before = [(j, self.requests[j]) for j in self.chain]
        replaced = [j for j, r in before if r.kind == "hold" or (r.kind, r.text) == (request.kind, request.text)]
        return self._set(replaced, "finished")

    def _chain_after_withdrawal(self, newest: int) -> list[int]:
        """The chain after words that withdraw something: what they name, else what was said last, or all of it.

        Where the assistant had asked or offered something, "never mind" is the answer to that: it takes a request back
        where the assistant asked for leave to carry it out.
        """
        request = self.requests[newest]
        before = self.requests[newest - 1] if newest else request
        (unnamed, alone), steers = meant.lets_go(request.text), request.kind == "steer"
        gone = self._dropped(request, self.chain if steers else [*self.parked, *self.chain], stopped=False)
        if phrases("whole").inside(folded(request.text)):  # "never mind all of it"
            gone = self.chain
        elif unnamed:
            leave = [j for j in self.chain if meant.asks_leave(before.answer, self.requests[j].text)]
            gone = leave if before.asks and not says.wants_instead(request.text) else self._last_said()
        left = [j for j in self.chain if self._state in GOING and j not in gone]
        self._set(gone, "left" if steers else "withdrawn")  # what stands in a tool's result takes no rule with it
        if not left and alone and not steers and not _at_work(request):
            self.states[newest] = "withdrawn"
        return [*left, newest]

    def _dropped(self, request: Request, those: Sequence[int], *, stopped: bool) -> list[int]:
        """Which of these a message drops by name; of one that asks for several things it may take one away."""
        those = [] if request.doubtful else those
        stay = {j: meant.what_stays(request.text, self.requests[j].text, stopped=stopped) for j in those}
        for j, text in stay.items():
            if text not in {"", self.requests[j].text}:
                self.requests[j] = replace(self.requests[j], text=text)
        return [j for j in those if not stay[j]]

    def _set(self, those: Sequence[int], state: State) -> list[int]:
        """Give these their state; the chain without them."""
        for j in those:
            self.states[j] = state
        self.parked = [j for j in self.parked if j not in those]
        return [j for j in self.chain if j not in those]

    def _earlier_part(self, newest: int) -> list[int]:
        """What a message goes back to after the assistant handed back: what it corrects, nods to, or goes on with."""
        request, before = self.requests[newest], self.requests[newest - 1]
        if request.kind == "correct" or not self.chain:
            return self._last_said()
        apart = before.asks or request.kind == "hold" or not self._goes_on(request, says.reports_done(before.answer))
        return [] if apart else self.last_task or self.chain

    def _goes_on(self, request: Request, done: bool) -> bool:
        """Whether it goes on with what was handed back: it says so, nods to anything but its end, or work follows it.

        Few words that order nothing are a nod in a language we don't know.
        """
        text = request.text
        if request.kind == "new":
            return says.few_words(text, 3) and not (done or says.orders(text) or says.is_question(text))
        if request.kind == "ack":
            return _at_work(request) or self._closes_nothing(self.chain[-1])
        return request.kind == "more" or not done or _at_work(request) or says.says_go(text)

    def _closes_nothing(self, i: int) -> bool:
        """Whether the words that followed this message close nothing: they plan, announce, or tell of the rest."""
        request = self.requests[i]
        if says.breaks_off(request.answer):
            return True
        if not self.tools or says.wants_to_know(request.text) or not request.answer:
            return False
        plans = request.worked < 2 and says.is_plan(request.answer) and not says.is_plan(request.text)
        rest = says.tells_of_rest(request.answer) and not says.tells_of_rest(request.text)
        return (plans or rest) and not says.reports_done(request.answer)

    def _left_over(self, request: Request) -> list[int]:
        """What an answer leaves open: all before another task that came in between, where it speaks of that alone.

        And a task of which a call was refused, where a short report tells of a part.
        """
        told, earlier = content_words(request.answer), self.chain[:-1]
        if request.kind == "new" and any(self._closes_nothing(j) or _at_work(self.requests[j]) for j in earlier[-1:]):
            spoken = [j for j in self.chain if share_a_word(told, self.requests[j].text)]
            return earlier if spoken == self.chain[-1:] else []
        short = self.tools and len(request.answer) < ANSWER_LIMIT
        broken = [j for j in earlier if short and self.requests[j].stopped]
        return [j for j in broken if meant.tells_of_part(request.answer, self.requests[j].text)]

    def _last_said(self) -> list[int]:
        """The end of the chain from its last message that says something by itself: what a correction corrects."""
        alone = [j for j in self.chain if self.requests[j].kind in {"new", "withdraw", "steer"}]
        alone = [j for j in alone if j == self.chain[0] or self.requests[j - 1].asks not in _WAITS]
        return self.chain[self.chain.index(alone[-1]) :] if alone else self.chain[-1:]

    def _outcome(self, i: int) -> State:
        """What the chain comes to with what followed its newest message."""
        request = self.requests[i]
        if _at_work(request):
            return "open"
        nods = request.kind == "ack" or (request.kind == "resume" and not says.says_go(request.text))
        if len(self.chain) == 1 and nods and (request.kind == "ack" or (i and not self.requests[i - 1].asks)):
            return "finished"
        if not request.answer:
            return "open"
        if request.asks in _WAITS:
            return "finished" if request.asks == "proposal" and self._answered_beside(request) else "waiting"
        # A nod that nothing was done about leaves things as they were.
        told = self.chain[-2] if nods and not request.worked and len(self.chain) > 1 else i
        return "open" if self._closes_nothing(i) or self._closes_nothing(told) else "finished"

    def _answered_beside(self, request: Request) -> bool:
        """Whether the chain is done with, whatever more is proposed at the end of the answer.

        A question is answered, and so is a task where words are the work; something was changed, the answer begins by
        speaking of what was asked, and the proposal is about something else.
        """
        asked, told = [self.requests[j].text for j in self.chain], sentences(request.answer)
        rest = says.says_go(told[-1]) or says.tells_of_rest(told[-1]) or meant.asks_leave(told[-1], "\n".join(asked))
        done = request.worked == 2 or (request.worked and meant.ends_asking(asked[0]))
        extra = done and not rest and share_a_word(content_words(told[0]), asked[0])
        return len(told) > 1 and (extra or not self.tools or says.wants_to_know(asked[0]))

    def _replies(self, request: Request) -> bool:
        """Whether the message can be the answer to a question: where tools work, people paste whole logs in reply."""
        shifts = phrases("shift").at_start(says.after_small_words(folded(request.text)))  # "something else: …"
        return request.kind != "new" or (not shifts and (self.tools or says.few_words(request.text, 12)))


def _at_work(request: Request) -> bool:
    """Whether tools work on what was said, and the assistant has not handed back."""
    return request.worked > 0 and not request.answer


def settle(requests: Sequence[Request], *, tools: bool) -> tuple[Request, ...]:
    """The requests with their states, read off the sequence. `tools`: whether tools are used in the conversation."""
    heard = [*_heard(requests)]
    talk = _Talk([*heard], tools or any(request.worked for request in heard))
    for i in range(len(heard)):
        talk.hear(i)
    settled = []
    for i, request in enumerate(talk.requests):
        context = request.context or (_context(heard[i - 1], request) if i and not request.doubtful else "")
        offer = request.offer if i + 1 == len(heard) else ""  # what was answered is the answer's context
        settled.append(replace(request, state=talk.states[i], context=context, offer=offer))
    known = {id(request): now for request, now in zip(heard, settled, strict=True)}
    last = max((i for i, request in enumerate(requests) if id(request) in known and request.answer), default=-1)
    # One that is silent is answered with what was said after it.
    rest = (replace(request, state="finished" if i < last else "open") for i, request in enumerate(requests))
    return tuple(known.get(id(request)) or silent for request, silent in zip(requests, rest, strict=True))


def _heard(requests: Sequence[Request]) -> Iterator[Request]:
    """The messages that are part of the talk: of those that are silent only one that is taken back at once."""
    asked = False
    for request, after in zip_longest(requests, requests[1:]):
        if not request.is_silent or (after and after.kind == "withdraw" and not asked):
            asked = request.asks != ""
            yield request


def _context(before: Request, request: Request) -> str:
    """The option, question or plan these words reply to, so that a bare "2" or "yes" can be understood."""
    if request.kind == "hold" or (request.kind == "ack" and not before.asks):
        return ""
    bare = request.kind != "new" or (says.few_words(request.text, 3) and not says.is_question(request.text))
    return meant.answered_offer(request.text, before.offer, replies=bare or before.asks != "")


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
            same = replace(requests[i], doubtful=request.doubtful, beside=request.beside)
            requests[i] = _with_outcome(same, _outcome_of(request))
    return settle(requests, tools=tools)


def _with_outcome(request: Request, then: Lead) -> Request:
    """The request with what happened later, before the next person spoke."""
    outcome = {key: getattr(then, key) for key in then.__slots__} | {"worked": max(request.worked, then.worked)}
    return request if then == Lead() else replace(request, **outcome)


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
    found, calls = [Request(-1, "")], dict[str, tuple[int, str]]()
    for i, view in enumerate(views):
        calls.update((id_, (turns[i], call.name)) for call in view.calls for id_ in call.ids)
        closing = _closing(views, i, efforts, answered=answered)
        if says.is_stopped(view) or says.is_cut_off(closing):
            stop = Lead(found[-1].worked, head_and_tail(closing, ANSWER_LIMIT), stopped=True)
            found[-1], closing = _with_outcome(found[-1], stop), ""
        found += [*_said_when_refusing(view.answers, calls)][:1]
        if view.is_request and (view.text.strip() or view.media or view.attached):
            doubtful = view.origin == "doubtful"
            beside = "" if doubtful else doubtful_in(view)
            request = Request(turns[i], own_words(view.text), kind_of_turn(view), doubtful=doubtful, beside=beside)
            found.append(request)
        elif closing or (efforts[i] and (efforts[i] > found[-1].worked or found[-1].answer or found[-1].stopped)):
            effort = max(found[-1].worked, efforts[i])
            told = head_and_tail(closing, ANSWER_LIMIT), turns[i] if closing else -1, says.asks_back(closing, effort)
            found[-1] = _with_outcome(found[-1], Lead(effort, *told, offer=meant.offer_in(closing)))
    if at_work:
        found[-1] = replace(found[-1], worked=max(found[-1].worked, 1), stopped=False)
    return settle(found[1:], tools=any(efforts)), _outcome_of(found[0])


def _said_when_refusing(answers: Sequence[Answer], calls: Mapping[str, tuple[int, str]]) -> Iterator[Request]:
    """What a person said when refusing a call, each in the turn of that call."""
    for answer in answers:
        turn, tool = calls.get(answer.call_id, (-1, ""))
        if answer.error and turn >= 0 and (said := rejection_in(answer.text, tool)[1]):
            yield Request(turn, said, "steer")


def kind_of_turn(view: View) -> str:
    """What a person's message does to what was asked before, as `Request.kind` tells it."""
    return "new" if doubtful_in(view) else says.kind_of(own_words(view.text))


def _closing(views: Sequence[View], index: int, efforts: Sequence[int], *, answered: bool) -> str:
    """The assistant's words, when it hands back with them: the next to speak is a person, or the turn ends here."""
    view = views[index]
    if view.origin != "model" or efforts[index] or view.calls or not view.text.strip():
        return ""
    later = (views[i] for i in range(index + 1, len(views)) if views[i].origin not in {"host", "summary"})
    return view.text if next((view.is_request for view in later), answered) else ""
