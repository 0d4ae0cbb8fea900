"""Score the questions about a long conversation: the evidence is in the context, or one search brings it back.

The conversation is replayed message by message inside a window. A question is answered when every message of its
evidence stands in the context word for word; or there, or in the first tokens of what one search of the archive with
the question's own words returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unabridged.archive.protocol import Scope
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.compactor import Compactor
from unabridged.formats import get_format
from unabridged.recall.tools import SEARCH_TOOL, tools
from unabridged.text_tools import neutralise_markup, to_one_line
from unabridged_corpus.evaluate import peers
from unabridged_corpus.evaluate.cut_points import AGENT, CountFunction, has_exact_tokenizer, join_last_texts
from unabridged_corpus.evaluate.data import EvalConversation, EvidenceQuestion

SEARCH_TOKENS = 4_000
"""Tokens of a search's answer that count."""
_THREAD = "eval"


@dataclass(frozen=True, slots=True)
class QuestionScore:
    """How many questions of one conversation have their evidence, under one arm."""

    conversation: str
    asked: int
    in_context: int
    """At the end of the conversation."""
    after_cuts: float
    """Right after each compaction, of the questions that could be asked by then: the mean share."""
    compactions: int
    tokens: int
    """Of the context in the end."""
    or_search: int | None = None
    """In the context, or found by one search; None where there is nothing to search."""


def score_unabridged(
    conversation: EvalConversation, window: int, count: CountFunction, model: Any = None
) -> QuestionScore:
    """Return the score inside our window, with the archive to search."""
    archive = MemoryArchive()
    where: dict[str, Any] = {"archive": archive, "namespace": _THREAD, "format": conversation.format}
    compactor = Compactor(model, agent=AGENT, exact=has_exact_tokenizer(), window=window, **where)
    reader = get_format(conversation.format)
    messages: list[Any] = []
    shares: list[float] = []

    def text() -> str:
        return "\n".join(reader.read(message).whole_text() for message in messages)

    for place, message in enumerate(conversation.messages, 1):
        fitted = compactor.fit([*messages, message], thread=_THREAD)
        messages = fitted.messages
        if fitted.changed:
            shares += _find_answered_share(conversation, text(), place)
    recall = tools(archive, Scope(_THREAD, _THREAD), format=reader)
    shown = text()
    reached = 0
    for question in conversation.questions:
        found = _truncate_to_tokens(recall.call(SEARCH_TOOL, {"query": question.text}), SEARCH_TOKENS, count)
        reached += _holds_evidence(conversation, f"{to_one_line(shown)}\n{found}", question)
    compactor.close()
    return _build_score(conversation, shown, shares, count, reached)


def score_langchain(
    conversation: EvalConversation, window: int, count: CountFunction, trim: int | None
) -> QuestionScore:
    """Return the score in LangChain's middleware, with the same trigger and summaries as long as ours in talk."""
    peer = peers.build_peer_in_window(window, count, trim)
    shares: list[float] = []
    for place, view in enumerate(conversation.views, 1):
        peer.add(view)
        if peer.shorten():
            shares += _find_answered_share(conversation, peer.text(), place)
    return _build_score(conversation, peer.text(), shares, count)


def score_tail(conversation: EvalConversation, tokens: int, count: CountFunction) -> QuestionScore:
    """Return the score of the last messages, as many as fit into so many tokens."""
    return _build_score(conversation, join_last_texts(conversation.views, tokens, count), [], count)


def _build_score(
    conversation: EvalConversation, text: str, shares: Sequence[float], count: CountFunction, reached: int | None = None
) -> QuestionScore:
    shown = to_one_line(text)
    in_context = sum(_holds_evidence(conversation, shown, question) for question in conversation.questions)
    asked = len(conversation.questions)
    after = sum(shares) / len(shares) if shares else in_context / max(asked, 1)
    return QuestionScore(conversation.name, asked, in_context, after, len(shares), count(text), reached)


def _find_answered_share(conversation: EvalConversation, text: str, place: int) -> list[float]:
    """Return the share of the questions about what is before `place` that this text answers; [] without any."""
    shown = to_one_line(text)
    known = [question for question in conversation.questions if max(question.evidence) < place]
    return [sum(_holds_evidence(conversation, shown, question) for question in known) / len(known)] if known else []


def _holds_evidence(conversation: EvalConversation, shown: str, question: EvidenceQuestion) -> bool:
    """Return whether every message of the evidence is in the text, on one line; quoted or as it was."""
    texts = (to_one_line(conversation.views[i].text) for i in question.evidence)
    return all(text in shown or neutralise_markup(text) in shown for text in texts)


def _truncate_to_tokens(text: str, tokens: int, count: CountFunction) -> str:
    """Return as much of the text as that many tokens hold."""
    while (size := count(text)) > tokens:
        text = text[: min(len(text) - 1, len(text) * tokens // size)]
    return text
