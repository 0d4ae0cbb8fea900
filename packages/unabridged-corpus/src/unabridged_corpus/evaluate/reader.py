"""Ask a reading model, and accept of its replies exactly what was asked for, or nothing.

The words of the asks stand in `reader.md`, and `readings` puts them together. What was said in the conversation is set
off by a key that none of it contains, as it is for a summariser; a reply is one JSON object, and whatever in it is not
as asked makes it unusable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from unabridged.asking.ask import Ask, Rejected, Reply, build_call_cost
from unabridged.asking.asker import Asker
from unabridged.asking.exchange import Exchange
from unabridged.asking.providers import open_model
from unabridged.messages import View
from unabridged.summary.chunks import split_messages
from unabridged.summary.prompt import KEY_FIELD
from unabridged.text_tools import cut_to_head_and_tail
from unabridged.tokens.models import find_model_info

PROBE_KINDS = {
    "wants": "what the user wants now",
    "step": "the last step, or the next one",
    "constraint": "a constraint, preference or correction of the user's",
    "place": "the exact place: file, function, line, command, record",
    "failed": "what failed or was rejected, and why",
    "tests": "what was tested or checked, with what result",
    "finished": "what is finished, and what is not",
    "facts": "a fact behind the next edit or answer",
    "unverified": "what is unverified or only assumed",
    "older": "an older detail that is needed again",
}
"""The kinds of probes, and what each is about."""
PREFERENCE_STRENGTHS = ("clear", "narrow", "tie")
DEFAULT_WINDOW = 128_000
"""The window in tokens of a model that is not known."""
MAX_REPLY_TOKENS = 16_000
"""Tokens that a reply may take, the model's thinking included."""
MIN_MESSAGE_CHARACTERS = 200
"""Characters that are left of every message, however many there are."""

T = TypeVar("T")
SaveText = Callable[[str, str], None]
"""Saves a text under a name, for people to read."""
Probe = dict[str, str]
"""A question about what happened next: its `kind`, the `question`, and the right `answer`."""
_FENCE_PATTERN = re.compile(r"```(?:json)?(.*)```", re.DOTALL)


class ReadingModel:
    """A model that is asked, and what its replies have cost."""

    def __init__(self, model: Any) -> None:
        self.model = open_model(model) if isinstance(model, str) else model
        self.asker = Asker(self.model, deadline=600, cool_down=0)
        self.cost: dict[str, float] = {}
        window = self.asker.window or DEFAULT_WINDOW
        self.max_reply = min(MAX_REPLY_TOKENS, window // 4)
        """The tokens that a reply may take."""
        self.room = int((window - self.max_reply) * 2.5)
        """The characters that surely fit into one ask beside the reply."""

    def ask(self, instruction: str) -> Reply:
        """Return the reply; raise `AskFailed` where there is none."""
        reply = Exchange(self.asker).ask(Ask(instruction=instruction, max_tokens=self.max_reply))
        cost = build_call_cost(1, reply.usage)
        info = find_model_info(self.asker.name)
        if reply.usage is not None and info is not None and info.input:
            cost["dollars"] = (reply.usage.input * info.input + reply.usage.output * info.output) / 1e6
        self.add_spending(cost)
        return reply

    def add_spending(self, cost: Mapping[str, float]) -> None:
        """Add to what was spent."""
        self.cost |= {name: self.cost.get(name, 0) + value for name, value in cost.items()}

    def ask_until_valid(self, prompt: str, valid: Callable[[Any], T], save: SaveText, name: str) -> T:
        """Return the reply as `valid` reads it; where it can't, ask once more, then raise `Rejected`."""
        problem = ""
        for attempt in (1, 2):
            asked = f"{prompt}\n\n{fill_prompt_part('again', problem=problem)}" if problem else prompt
            save(f"{name}-{attempt}-prompt.md", asked)
            reply = self.ask(asked)
            save(f"{name}-{attempt}-reply.md", reply.text)
            try:
                return valid(read_json(reply))
            except ValueError as error:
                problem = str(error)
        words = f"no usable {name} in two replies: {problem}"
        raise Rejected(words, problems=(problem,), calls=2, usage=None, models=(self.asker.name,))


# -- what is asked ----------------------------------------------------------------------------------------------------


@cache
def _load_prompt_parts() -> dict[str, str]:
    text = Path(__file__).with_name("reader.md").read_text(encoding="utf-8")
    found = re.split(r"^## (\w+)\n", text, flags=re.MULTILINE)
    return {name: body.strip() for name, body in zip(found[1::2], found[2::2], strict=True)}


def fill_prompt_part(name: str, **values: object) -> str:
    """Return the part of the prompt with these values in its places; the values are left as they are."""
    places = re.compile("|".join(rf"\{{{key}\}}" for key in values) or "(?!)")
    return places.sub(lambda found: str(values[found[0][1:-1]]), _load_prompt_parts()[name])


def wrap_in_tags(label: str, text: str, key: str) -> str:
    """Return the text between two lines that carry the key."""
    return f"<{label} {key}>\n{text.replace(KEY_FIELD, f'#{key}')}\n</{label} {key}>"


def render_conversation(views: Sequence[View], first: int, room: int) -> str:
    """Return the messages in so many characters: long ones lose their middles and, if need be, old ones go."""
    whole = [piece.text for piece in split_messages(list(enumerate(views, first)), len, 10**12)]
    most, texts = room, whole
    while sum(map(len, texts)) > room and most > MIN_MESSAGE_CHARACTERS:
        most = max(most // 2, MIN_MESSAGE_CHARACTERS)
        texts = [cut_to_head_and_tail(text, most) + "\n" for text in whole]
    while texts and sum(map(len, texts)) > room:
        texts = texts[len(texts) // 10 + 1 :]
    return "".join(texts)


# -- what is accepted -------------------------------------------------------------------------------------------------


def read_json(reply: Reply) -> Any:
    """Return the JSON value that a reply is, alone or in one fence; raise `ValueError` for anything else."""
    if reply.stop == "length":
        raise ValueError("it was cut off: write shorter reasons")
    fenced = _FENCE_PATTERN.fullmatch(reply.text.strip())
    try:
        return json.loads(fenced[1] if fenced else reply.text, object_pairs_hook=_require_unique_keys)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"it is not one JSON object ({error})") from error


def read_probes(value: Any, wanted: int) -> list[Probe]:
    """Return exactly so many probes, each of a known kind and with an answer."""
    require_shape(value, {"probes": [{"kind": tuple(PROBE_KINDS), "question": str, "answer": str}] * wanted})
    probes: list[Probe] = value["probes"]
    return probes


def read_marks(value: Any, letters: Sequence[str], probes: int) -> dict[str, Any]:
    """Return a mark with a reason for every text and probe, and a preference with its kind."""
    marks = [{"probe": (number,), "points": (0, 1, 2), "reason": str} for number in range(1, probes + 1)]
    known = tuple(letters)
    false = [..., {"text": known, "statement": str, "why": str}]
    given = {"marks": dict.fromkeys(letters, marks), "preferred": [..., known], "how": PREFERENCE_STRENGTHS}
    require_shape(value, {**given, "false": false})
    marked: dict[str, Any] = value
    preferred = marked["preferred"]
    if len(set(preferred)) != len(preferred) or not preferred or (len(preferred) > 1) != (marked["how"] == "tie"):
        raise ValueError(f"preferred: expected one letter, or several for a tie; got {preferred}, {marked['how']}")
    return marked


def require_shape(value: Any, shape: Any, where: str = "the reply") -> None:
    """Raise `ValueError` with the place, unless the value has exactly this shape.

    A dict has these keys; a list these items, or with `...` any number like the one behind it; `str` is words, and a
    tuple names the values that there are.
    """
    if isinstance(shape, dict):
        if not isinstance(value, dict) or set(value) != set(shape):
            raise ValueError(f"{where}: expected an object with {', '.join(shape)} and nothing else")
        for key, inner in shape.items():
            require_shape(value[key], inner, f"{where}, {key}")
    elif isinstance(shape, list):
        several = shape[:1] == [...]
        if not isinstance(value, list) or (not several and len(value) != len(shape)):
            raise ValueError(f"{where}: expected a list" + ("" if several else f" of {len(shape)}"))
        for number, item in enumerate(value):
            require_shape(item, shape[-1 if several else number], f"{where} {number + 1}")
    elif shape is str:
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{where}: expected words")
    elif not any(value == one and type(value) is type(one) for one in shape):
        raise ValueError(f"{where}: expected one of {', '.join(map(str, shape))}")


def _require_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return dict(pairs)
