"""What a reading model is asked, and what of its replies is accepted: exactly what was asked for, or nothing.

The words of the asks stand in `reader.md`. What was said in the conversation is set off by a key that none of it
contains, as it is for a summariser; a reply is one JSON object, and whatever in it is not as asked makes it unusable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from unabridged.asking.ask import Ask, Rejected, Reply, cost_of
from unabridged.asking.asker import Asker
from unabridged.asking.exchange import Exchange
from unabridged.asking.providers import open_model
from unabridged.measure.models import model_info
from unabridged.messages import View
from unabridged.summarise.chunks import pieces
from unabridged.summarise.prompt import KEY, sendable
from unabridged.text_tools import head_and_tail

KINDS = {
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
"""What probes are about."""
HOW = ("clear", "narrow", "tie")
WINDOW = 128_000
"""Tokens that a model is taken to read where nobody knows."""
REPLY = 16_000
"""Tokens that a reply may take, the model's thinking included."""
SHORTEST = 200
"""Characters that are left of every message, however many there are."""

T = TypeVar("T")
Keep = Callable[[str, str], None]
"""Keeps a text under a name, for people to read."""
Probe = dict[str, str]
"""A question about what happened next: its `kind`, the `question`, and the right `answer`."""
_FENCE = re.compile(r"```(?:json)?(.*)```", re.DOTALL)


class Voice:
    """A model that is asked, and what its replies have cost."""

    def __init__(self, model: Any) -> None:
        self.model = open_model(model) if isinstance(model, str) else model
        self.asker = Asker(self.model, deadline=600, cool_down=0)
        self.cost: dict[str, float] = {}
        window = self.asker.window or WINDOW
        self.most = min(REPLY, window // 4)
        """The tokens that a reply may take."""
        self.room = int((window - self.most) * 2.5)
        """The characters that surely fit into one ask beside the reply."""

    def ask(self, instruction: str) -> Reply:
        """The reply; `AskFailed` where there is none."""
        reply = Exchange(self.asker).ask(Ask(instruction=instruction, max_tokens=self.most))
        cost = cost_of(1, reply.usage)
        info = model_info(self.asker.name)
        if reply.usage is not None and info is not None and info.input:
            cost["dollars"] = (reply.usage.input * info.input + reply.usage.output * info.output) / 1e6
        self.pay(cost)
        return reply

    def pay(self, cost: Mapping[str, float]) -> None:
        """Add to what was spent."""
        self.cost |= {name: self.cost.get(name, 0) + value for name, value in cost.items()}

    def ask_for(self, prompt: str, valid: Callable[[Any], T], keep: Keep, name: str) -> T:
        """What the reply says, as `valid` reads it; asked once more when it can't, `Rejected` when it can't again."""
        problem = ""
        for attempt in (1, 2):
            asked = f"{prompt}\n\n{part('again', problem=problem)}" if problem else prompt
            keep(f"{name}-{attempt}-prompt.md", asked)
            reply = self.ask(asked)
            keep(f"{name}-{attempt}-reply.md", reply.text)
            try:
                return valid(read_json(reply))
            except ValueError as error:
                problem = str(error)
        told = f"no usable {name} in two replies: {problem}"
        raise Rejected(told, problems=(problem,), calls=2, usage=None, models=(self.asker.name,))


# -- what is asked ----------------------------------------------------------------------------------------------------


@cache
def _parts() -> dict[str, str]:
    text = Path(__file__).with_name("reader.md").read_text(encoding="utf-8")
    found = re.split(r"^## (\w+)\n", text, flags=re.MULTILINE)
    return {name: body.strip() for name, body in zip(found[1::2], found[2::2], strict=True)}


def part(name: str, **values: object) -> str:
    """The part of the prompt with these values in its places; what stands in a value is left as it is."""
    places = re.compile("|".join(rf"\{{{key}\}}" for key in values) or "(?!)")
    return places.sub(lambda found: str(values[found[0][1:-1]]), _parts()[name])


def set_off(label: str, text: str, key: str) -> str:
    """The text between two lines that carry the key."""
    return f"<{label} {key}>\n{text.replace(KEY, f'#{key}')}\n</{label} {key}>"


def shown(views: Sequence[View], first: int, room: int) -> str:
    """The messages as text in so many characters: long ones lose their middles and, if need be, old ones go."""
    whole = [piece.text for piece in pieces(list(enumerate(views, first)), len, 10**12)]
    most, texts = room, whole
    while sum(map(len, texts)) > room and most > SHORTEST:
        most = max(most // 2, SHORTEST)
        texts = [head_and_tail(text, most) + "\n" for text in whole]
    while texts and sum(map(len, texts)) > room:
        texts = texts[len(texts) // 10 + 1 :]
    return "".join(texts)


def ask_probes(voice: Voice, head: str, wanted: int, keep: Keep) -> list[Probe]:
    """So many probes on the conversation in `head`, written before any text is seen."""
    task = part("probes", probes=wanted, kinds="\n".join(f"- {kind}: {what}" for kind, what in KINDS.items()))
    return voice.ask_for(f"{head}\n\n{task}", lambda value: read_probes(value, wanted), keep, "probes")


def ask_marks(
    voice: Voice, head: str, texts: Mapping[str, str], probes: Sequence[Probe], *, stays: str, key: str, keep: Keep
) -> dict[str, Any]:
    """What these texts get on the probes, shown in this order."""
    asked = "\n".join(f"{i}. {probe['question']} — {probe['answer']}" for i, probe in enumerate(probes, 1))
    blocks = "\n\n".join(set_off(f"text {letter}", sendable(text), key) for letter, text in texts.items())
    asked = set_off("probes", sendable(asked), key)
    task = part("marks", texts=blocks, asked=asked, stays=stays, letters=", ".join(texts), probes=len(probes))
    return voice.ask_for(f"{head}\n\n{task}", lambda value: read_marks(value, list(texts), len(probes)), keep, "marks")


# -- what is accepted -------------------------------------------------------------------------------------------------


def read_json(reply: Reply) -> Any:
    """The JSON value that a reply is, alone or in one fence; `ValueError` for anything else."""
    if reply.stop == "length":
        raise ValueError("it was cut off: write shorter reasons")
    fenced = _FENCE.fullmatch(reply.text.strip())
    try:
        return json.loads(fenced[1] if fenced else reply.text, object_pairs_hook=_without_doubles)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"it is not one JSON object ({error})") from error


def read_probes(value: Any, wanted: int) -> list[Probe]:
    """Exactly so many probes, each of a known kind and with an answer."""
    require(value, {"probes": [{"kind": tuple(KINDS), "question": str, "answer": str}] * wanted})
    found: list[Probe] = value["probes"]
    return found


def read_marks(value: Any, letters: Sequence[str], probes: int) -> dict[str, Any]:
    """A mark with a reason for every text and probe, and a preference that says what it is."""
    marks = [{"probe": (number,), "points": (0, 1, 2), "reason": str} for number in range(1, probes + 1)]
    known = tuple(letters)
    false = [..., {"text": known, "statement": str, "why": str}]
    shape = {"marks": dict.fromkeys(letters, marks), "preferred": [..., known], "how": HOW, "false": false}
    require(value, shape)
    found: dict[str, Any] = value
    preferred = found["preferred"]
    if len(set(preferred)) != len(preferred) or not preferred or (len(preferred) > 1) != (found["how"] == "tie"):
        raise ValueError(f"preferred: expected one letter, or several for a tie; got {preferred}, {found['how']}")
    return found


def require(value: Any, shape: Any, where: str = "the reply") -> None:
    """`ValueError` that names the place, unless the value has exactly this shape.

    A dict has these keys; a list these items, or with `...` any number like the one behind it; `str` is words, and a
    tuple names the values that there are.
    """
    if isinstance(shape, dict):
        if not isinstance(value, dict) or set(value) != set(shape):
            raise ValueError(f"{where}: expected an object with {', '.join(shape)} and nothing else")
        for key, inner in shape.items():
            require(value[key], inner, f"{where}, {key}")
    elif isinstance(shape, list):
        several = shape[:1] == [...]
        if not isinstance(value, list) or (not several and len(value) != len(shape)):
            raise ValueError(f"{where}: expected a list" + ("" if several else f" of {len(shape)}"))
        for number, item in enumerate(value):
            require(item, shape[-1 if several else number], f"{where} {number + 1}")
    elif shape is str:
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{where}: expected words")
    elif not any(value == one and type(value) is type(one) for one in shape):
        raise ValueError(f"{where}: expected one of {', '.join(map(str, shape))}")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return dict(pairs)
