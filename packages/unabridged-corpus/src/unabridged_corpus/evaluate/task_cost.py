"""Count the tokens that a whole recorded run takes under a system that shortens it: the price of forgetting.

The run is replayed call by call. Counted are all requests at the prices of a provider's prompt cache, the summaries,
and the fetches: where a call copies a passage of a tool result (`line_needs`) that its request no longer shows, the
agent would have to fetch that result again (`find_missed`). Its tokens are charged, once for a call and at most 4,000
of them, and the result is put into the history there, as a call with its result, so that later calls find it until it
is compacted away. With recall tools the agent searches once for a source: the answer is charged, and the tools' schemas
count in every request.

A run is over when its provider refuses a request: nothing is shown from there on. What the calls after it send is
charged all the same, so that nobody saves by failing; where a system ended the run itself, at the mean of its calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise, takewhile
from typing import Any, Protocol

from unabridged.authorship import assign_origins
from unabridged.formats import OpenAIChat
from unabridged.messages import Call, View
from unabridged.recall.tools import SEARCH_TOOL
from unabridged.settings import Prices
from unabridged_corpus.evaluate.cut_points import CountFunction
from unabridged_corpus.evaluate.line_needs import LineNeed, find_line_needs, fold_message, fold_space

CALL_GAP = 20.0
"""Seconds between two model calls of a run."""
MAX_FETCH_TOKENS = 4_000
"""Of a result that is fetched again: an agent reads the part of it that it needs."""
FRAME_TOKENS = 4
"""Tokens of a message around its text."""
SEARCHED_WORDS = 3
MIN_WORD_CHARACTERS = 4
MIN_UNKNOWN_WORDS = 4

_WORD_PATTERN = re.compile(r"\w+")


@dataclass(frozen=True, eq=False)
class MeasuredMessage:
    """One message of a replayed conversation, read and measured once. Two are equal only if they are one."""

    message: Any
    view: View
    tokens: int

    @cached_property
    def folded(self) -> str:
        """Return all that can be read in it, with white space folded."""
        return fold_message(self.view)


@dataclass(slots=True)
class Bill:
    """Token counts, one for each price."""

    read: int = 0
    write: int = 0
    fresh: int = 0
    output: int = 0

    def at(self, prices: Prices) -> float:
        """Return what these tokens cost at these prices."""
        written = self.fresh * prices.fresh + self.output * prices.output
        return self.read * prices.read + self.write * prices.write + written


@dataclass
class PromptCache:
    """A provider's prompt cache for one conversation: the last prompt, for as long as it lives."""

    lifetime: float
    prompt: Sequence[MeasuredMessage] = ()
    used: float = float("-inf")

    def send(self, prompt: Sequence[MeasuredMessage], now: float, bill: Bill) -> None:
        """Charge the prompt: the prefix it shares with the last one is read, the rest is written."""
        before = self.prompt if now - self.used < self.lifetime else ()
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(before, prompt, strict=False)))
        bill.read += sum(one.tokens for one in prompt[:shared])
        bill.write += sum(one.tokens for one in prompt[shared:])
        self.prompt, self.used = list(prompt), now


@dataclass(frozen=True, slots=True)
class SideAsk:
    """One model call beside the agent's own: `prompt` is sent through the cache, `fresh` tokens are not."""

    prompt: Sequence[MeasuredMessage] = ()
    fresh: int = 0
    output: int = 0


@dataclass(frozen=True, slots=True)
class SentRequest:
    """What a system sends for one model call, the calls for summaries that this took, and whether it is accepted."""

    request: Sequence[MeasuredMessage]
    asks: Sequence[SideAsk] = ()
    accepted: bool = True


@dataclass(frozen=True, slots=True)
class TaskRecall:
    """The recall tools that the agent of a task has."""

    schemas: MeasuredMessage
    """What the tools' schemas take in every request."""
    search: Callable[[str], str]
    """Returns what the tool answers to a search."""


class TaskSystem(Protocol):
    """A way to shorten one conversation that grows; begun anew for each."""

    recall: TaskRecall | None

    def send(self, new: Sequence[MeasuredMessage]) -> SentRequest | None:
        """Return the request for the next model call, given what is new; None where the system ended the run."""
        ...


@dataclass(frozen=True, slots=True)
class Miss:
    """What one call lacked of one source: the needs whose lines are nowhere in the request that was sent for it."""

    needs: Sequence[LineNeed]
    request: Sequence[MeasuredMessage]


@dataclass(slots=True)
class TaskCost:
    """The tokens of one run, each kind in fresh input tokens at the same price."""

    sent: float = 0.0
    """The requests of the agent's own model calls."""
    summaries: float = 0.0
    fetches: float = 0.0
    needs: int = 0
    missed: int = 0
    """Needs whose line was not in the request, of results that had to be fetched again."""
    fetched: int = 0
    """Results that had to be fetched again."""
    recalled: int = 0
    """Searches that brought a line back, with recall tools."""
    calls: int = 0
    refused_at: int | None = None
    """The first model call whose request was refused, if any."""

    @property
    def tokens(self) -> float:
        """Return the tokens of the whole run."""
        return self.sent + self.summaries + self.fetches


@dataclass
class RecordedTask:
    """A recorded run as Chat Completions messages, with what its calls need."""

    messages: Sequence[MeasuredMessage]
    count: CountFunction

    @cached_property
    def needs(self) -> dict[int, list[LineNeed]]:
        """Return the needs of each message."""
        found = find_line_needs([one.view for one in self.messages])
        return {place: list(group) for place, group in groupby(found, key=lambda need: need.place)}

    @cached_property
    def calls(self) -> list[tuple[int, int]]:
        """Return where the output of each model call that has an input begins and ends."""
        return [call for call in find_model_calls([one.view for one in self.messages]) if call[0]]


def find_model_calls(views: Sequence[View]) -> list[tuple[int, int]]:
    """Return each unbroken run of assistant messages, [start, stop): the output of one model call."""
    written = groupby(range(len(views)), lambda place: views[place].role == "assistant")
    runs = [list(run) for is_output, run in written if is_output]
    return [(run[0], run[-1] + 1) for run in runs]


def find_missed(needs: Sequence[LineNeed], shown: str) -> list[LineNeed]:
    """Return the needs of one call and source whose lines are not in the text; none where an agent can do without.

    It can where the text has most of the lines, or all but a few of their words, and where no two lines that follow
    each other in the source have each a word that is nowhere in the text: a single line, and one whose words are all
    there, may well be written anew.
    """
    lacking = [need for need in needs if need.line not in shown]
    words = {word for need in lacking for word in _list_words(need.line) if word not in shown}
    unknown = [need for need in lacking if words.intersection(_list_words(need.line))]
    has_passage = any(one.is_followed_by(other) for one, other in pairwise(unknown))
    return lacking if has_passage and len(words) >= MIN_UNKNOWN_WORDS and 2 * len(lacking) >= len(needs) else []


def _list_words(line: str) -> list[str]:
    return [word for word in _WORD_PATTERN.findall(line) if len(word) >= MIN_WORD_CHARACTERS]


def measure_messages(messages: Sequence[Any], count: CountFunction) -> list[MeasuredMessage]:
    """Return Chat Completions messages, each read and measured."""
    read = OpenAIChat().read
    views = assign_origins([read(message) for message in messages])
    return [
        MeasuredMessage(message, view, FRAME_TOKENS + count(view.whole_text()))
        for message, view in zip(messages, views, strict=True)
    ]


def measure_schemas(schemas: Any, count: CountFunction) -> MeasuredMessage:
    """Return the schemas of tools as what stands before all messages of a request."""
    text = json.dumps(schemas)
    return MeasuredMessage(schemas, View("system", "host", text), count(text))


def replay_task(
    task: RecordedTask,
    system: TaskSystem,
    prices: Prices | None = None,
    on_miss: Callable[[Miss], object] = lambda _: None,
) -> TaskCost:
    """Return what the run costs under this system; `on_miss` is called with what each request lacked of a source."""
    replay = _Replay(task, system, prices or Prices(), on_miss)
    return replay.run()


def _group_by_source(needs: Sequence[LineNeed]) -> list[list[LineNeed]]:
    """Return the needs of each source, the source of the first need first."""
    places = dict.fromkeys(need.source.place for need in needs)
    return [[need for need in needs if need.source.place == place] for place in places]


@dataclass
class _Replay:
    """The state of a running replay."""

    task: RecordedTask
    system: TaskSystem
    prices: Prices
    on_miss: Callable[[Miss], object]
    cost: TaskCost = field(default_factory=TaskCost)
    sent: Bill = field(default_factory=Bill)
    asked: Bill = field(default_factory=Bill)
    made: int = 0
    """Calls that were made to fetch something."""

    def run(self) -> TaskCost:
        """Replay every model call."""
        cost, cache = self.cost, PromptCache(self.prices.lifetime)
        taken, done, new = 0, 0, list[MeasuredMessage]()
        for start, stop in self.task.calls:
            sent = self.system.send([*new, *self.task.messages[taken:start]]) if done == cost.calls else None
            if cost.refused_at is None and not (sent and sent.accepted):
                cost.refused_at = cost.calls
            cost.calls += 1
            if sent is not None:
                done += 1
                self._charge(sent, cache, cost.calls * CALL_GAP)
            needs = [need for place in range(start, stop) for need in self.task.needs.get(place, ())]
            cost.needs += len(needs)
            new = self._meet(needs, sent.request) if sent and cost.refused_at is None else self._miss_all(needs)
            taken = start
        share = cost.calls / max(done, 1)  # calls after a system ended the run cost what those before it did
        cost.sent, cost.summaries = share * self.sent.at(self.prices), share * self.asked.at(self.prices)
        return cost

    def _charge(self, sent: SentRequest, cache: PromptCache, now: float) -> None:
        schemas = [self.system.recall.schemas] if self.system.recall else []
        for ask in sent.asks:
            if ask.prompt:
                cache.send([*schemas, *ask.prompt], now, self.asked)
            self.asked.fresh += ask.fresh
            self.asked.output += ask.output
        cache.send([*schemas, *sent.request], now, self.sent)

    def _miss_all(self, needs: Sequence[LineNeed]) -> list[MeasuredMessage]:
        """Charge each source of these needs: after a refusal there is no history that it could be put into."""
        for of_source in _group_by_source(needs):
            if missed := find_missed(of_source, ""):
                self.cost.missed += len(missed)
                self._fetch(missed[0])
        return []

    def _meet(self, needs: Sequence[LineNeed], request: Sequence[MeasuredMessage]) -> list[MeasuredMessage]:
        """Return what had to be fetched because the request lacked it: calls with their results."""
        shown = "\n".join(one.folded for one in request) if needs else ""
        brought: list[MeasuredMessage] = []
        for of_source in _group_by_source(needs):
            missed = find_missed(of_source, shown)
            if not missed:
                continue
            self.cost.missed += len(missed)
            self.on_miss(Miss(missed, request))
            got = self._search(missed[0], self.system.recall) if self.system.recall else []
            found = "\n".join(one.folded for one in got)
            if any(need.line not in found for need in missed):
                got += self._fetch(missed[0])
            brought += got
            shown = "\n".join([shown, *(one.folded for one in got)])
        return brought

    def _search(self, need: LineNeed, recall: TaskRecall) -> list[MeasuredMessage]:
        """Return a search for the longest words of the line, since an agent does not know it yet, and its answer."""
        words = sorted(dict.fromkeys(_WORD_PATTERN.findall(need.line)), key=len, reverse=True)
        query = " ".join(words[:SEARCHED_WORDS])
        answer = recall.search(query)
        self.cost.recalled += need.line in fold_space(answer)
        call = Call("", SEARCH_TOOL, json.dumps({"query": query}, ensure_ascii=False))
        return self._build_round(call, answer, self.task.count(answer))

    def _fetch(self, need: LineNeed) -> list[MeasuredMessage]:
        """Return the source's call with its result, or with the part of a long one around the line."""
        text = need.source.text
        tokens = self.task.count(text)
        if tokens > MAX_FETCH_TOKENS:
            room = len(text) * MAX_FETCH_TOKENS // tokens
            found = re.search(r"\s+".join(map(re.escape, need.line.split())), text)
            start = max(0, min((found.start() if found else 0) - room // 2, len(text) - room))
            text, tokens = text[start : start + room], MAX_FETCH_TOKENS
        self.cost.fetched += 1
        return self._build_round(need.source.asked, text, tokens)

    def _build_round(self, asked: Call | str, answer: str, tokens: int) -> list[MeasuredMessage]:
        self.cost.fetches += tokens * self.prices.fresh
        self.made += 1
        said: list[dict[str, Any]]
        if isinstance(asked, str):
            said = [{"role": "assistant", "content": asked}, {"role": "user", "content": answer}]
        else:
            call_id, function = f"fetch_{self.made}", {"name": asked.name, "arguments": asked.arguments}
            call = {"id": call_id, "type": "function", "function": function}
            said = [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call_id, "content": answer},
            ]
        return measure_messages(said, self.task.count)
