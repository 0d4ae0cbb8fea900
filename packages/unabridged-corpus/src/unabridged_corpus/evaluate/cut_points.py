"""The points at which a conversation is cut, and what stays beside any summary of what came before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from unabridged.engine.plan import find_newest_person_message
from unabridged.messages import View
from unabridged.tokens import Meter
from unabridged_corpus.evaluate.data import EvalConversation
from unabridged_corpus.evaluate.score import Needs, find_cuts, find_needs_in_views

CountFunction = Callable[[str], int]
AGENT = "gpt-5"
"""The model whose tokens are counted."""


@dataclass(frozen=True, slots=True)
class CutPoint:
    """A conversation at one cut, and what the agent will need after it."""

    conversation: EvalConversation
    place: int
    kept: tuple[int, ...]
    """The newest message of a person, which stays beside any summary; none where a person speaks next."""
    needed: Needs

    @property
    def before(self) -> Sequence[View]:
        """Return the messages before the cut."""
        return self.conversation.views[: self.place]

    def text_beside_summary(self) -> str:
        """Return the text that stays in the context beside any summary: system prompt and a person's newest message."""
        asked = self.kept or tuple(i for i, view in enumerate(self.before) if view.origin == "person")[-1:]
        texts = [view.text for view in self.before if view.role == "system"]
        return "\n".join([*texts, *(self.before[i].text for i in asked)])


Arm = Callable[[CutPoint], str]
"""Returns what is in the context after the cut, besides what stays anyway (`CutPoint.text_beside_summary`)."""
ArmFactory = Callable[[int, CountFunction], Arm]
"""Returns an arm for one conversation, from its budget and how tokens are counted."""


def join_last_texts(views: Sequence[View], tokens: int, count: CountFunction) -> str:
    """Return the last messages, as many as fit into so many tokens."""
    kept: list[str] = []
    for view in reversed(views):
        text = view.whole_text()
        tokens -= count(text) + 1
        if tokens < 0:
            break
        kept.insert(0, text)
    return "\n".join(kept)


def find_cut_points(conversation: EvalConversation, every: int) -> Iterator[CutPoint]:
    """Yield a cut point for every `every` tokens (characters of JSON / 4) after which the agent needs something."""
    for place in find_cuts(conversation.messages, every):
        before, after = conversation.views[:place], conversation.views[place:]
        if needed := find_needs_in_views(before, after):
            following = next((view.origin for view in after if view.origin != "host"), "")
            kept = () if following == "person" else tuple(find_newest_person_message(before))
            yield CutPoint(conversation, place, kept, needed)


def make_token_counter() -> tuple[CountFunction, str]:
    """Return how tokens are counted, and its name: OpenAI's own tokenizer where it is installed, else the estimate."""
    name = "o200k, exact" if has_exact_tokenizer() else "estimated; pip install 'unabridged[exact]' for exact counts"
    return Meter(model=AGENT, exact=has_exact_tokenizer()).text, name


def has_exact_tokenizer() -> bool:
    """Return whether OpenAI's own tokenizer is installed."""
    return find_spec("toktok") is not None
