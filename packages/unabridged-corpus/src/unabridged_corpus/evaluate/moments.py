"""The moments at which a conversation is cut, and what of it stays whoever shortens it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from unabridged.compaction.plan import newest_of_people
from unabridged.measure import Meter
from unabridged.messages import View
from unabridged_corpus.evaluate.data import Conversation
from unabridged_corpus.evaluate.score import Needs, cuts, needs_of_views

Count = Callable[[str], int]
AGENT = "gpt-5"
"""The model whose tokens are counted."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A conversation at one cut: what stood before it, and what the agent will need after it."""

    conversation: Conversation
    place: int
    kept: tuple[int, ...]
    """The newest message of a person, which stays beside any summary; none where a person speaks next."""
    needed: Needs

    @property
    def before(self) -> Sequence[View]:
        """What stood before the cut."""
        return self.conversation.views[: self.place]

    def beside(self) -> str:
        """Return what stays whoever shortens it: the system prompt and the newest message of a person."""
        asked = self.kept or tuple(i for i, view in enumerate(self.before) if view.origin == "person")[-1:]
        texts = [view.text for view in self.before if view.role == "system"]
        return "\n".join([*texts, *(self.before[i].text for i in asked)])


Arm = Callable[[Moment], str]
"""What stands in the context after the cut, besides what stays anyway (`Moment.beside`)."""
Begin = Callable[[int, Count], Arm]
"""An arm for one conversation, with its budget and how tokens are counted."""


def last_texts(views: Sequence[View], tokens: int, count: Count) -> str:
    """The last messages, as many as fit into so many tokens."""
    kept: list[str] = []
    for view in reversed(views):
        text = view.whole_text()
        tokens -= count(text) + 1
        if tokens < 0:
            break
        kept.insert(0, text)
    return "\n".join(kept)


def moments(conversation: Conversation, every: int) -> Iterator[Moment]:
    """Every cut, one each `every` tokens (characters of JSON / 4), after which the agent needs something."""
    for place in cuts(conversation.messages, every):
        before, after = conversation.views[:place], conversation.views[place:]
        if needed := needs_of_views(before, after):
            following = next((view for view in after if view.origin != "host"), None)
            answered = following is not None and following.origin == "person"
            yield Moment(conversation, place, () if answered else tuple(newest_of_people(before)), needed)


def counter() -> tuple[Count, str]:
    """How tokens are counted here, and its name: OpenAI's own tokenizer where it is installed, else the estimate."""
    name = "o200k, exact" if exact() else "estimated; pip install 'unabridged[exact]' for exact counts"
    return Meter(model=AGENT, exact=exact()).text, name


def exact() -> bool:
    """Whether OpenAI's own tokenizer is installed."""
    return find_spec("toktok") is not None
