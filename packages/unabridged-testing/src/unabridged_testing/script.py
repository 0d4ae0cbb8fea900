"""Draw what happens in a generated conversation, and write it in its wire format step by step."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from unabridged.formats import get_format
from unabridged_testing import words
from unabridged_testing.wire import Shape, ToolCall, Wire


@dataclass(slots=True)
class ConversationWriter:
    """Draws what happens in a conversation of one shape, and writes it to `wire`."""

    shape: Shape
    rng: Random
    wire: Wire
    marks: int = 0

    def has_extra(self, extra: str) -> bool:
        """Return whether the shape asks for this extra."""
        return extra in self.shape.extras

    def write(self) -> None:
        """Write every step, first to last."""
        shape, rng = self.shape, self.rng
        for _ in range(rng.randrange(3) if not get_format(shape.format).provider.system_apart else 0):
            self.wire.write_system_message(words.draw_phrase(rng, words.RULES))
        turns = 1 if shape.kind in {"marathon", "protocol"} else max(shape.turns, 1)
        for turn in range(turns):
            self.write_turn(last=turn == turns - 1)
        self.wire.end()

    def write_turn(self, *, last: bool) -> None:
        """Write one person's request and what the model does about it."""
        shape, rng = self.shape, self.rng
        self.write_person_message(giant=last and self.has_extra("giant") and rng.random() < 0.15)
        if self.has_extra("system") and rng.random() < 0.4:
            self.wire.write_system_message(words.draw_phrase(rng, words.RULES))
        elif self.has_extra("twins") and rng.random() < 0.3:
            self.wire.repeat_person_message()
        if last and shape.ending == "asked":
            return
        rounds = self.rounds()
        for number in range(rounds):
            if shape.kind == "protocol":
                self.write_exchange()
            else:
                self.write_tool_round()
            if self.has_extra("interrupted") and rng.random() < 0.2 and number < rounds - 1:
                self.wire.write_person_message(words.draw_phrase(rng, words.PEOPLE), joins=rng.random() < 0.5)
        unfinished = last and shape.ending == "working" and rounds > 0
        if not unfinished:
            self.wire.write_model_text(self.draw_answer(), self.draw_thought(), "answer")
        if self.has_extra("opaque") and rng.random() < 0.3:
            self.wire.write_sealed_item()

    def rounds(self) -> int:
        """Return how many rounds this turn has."""
        if self.shape.kind == "chat":
            return 0
        if self.shape.kind == "agent":
            return self.rng.randint(0, max(self.shape.rounds, 0))
        return max(self.shape.rounds, 1)

    def write_person_message(self, *, giant: bool) -> None:
        """Write a request, in any language, sometimes long."""
        phrases = words.PEOPLE + (words.ODD_PEOPLE if self.has_extra("odd") else ())
        text = words.draw_phrase(self.rng, phrases)
        if giant:
            text += "\n" + words.draw_long_text(self.rng, words.PEOPLE, 3_000 + 10 * self.shape.bulk)
        self.wire.write_person_message(text, media=self.has_extra("media") and self.rng.random() < 0.5)

    def write_tool_round(self) -> None:
        """Write one batch of tool calls with their results, which may come in any order."""
        rng = self.rng
        uses = tuple(self.draw_tool_call() for _ in range(rng.randint(1, max(self.shape.width, 1))))
        order = list(range(len(uses)))
        if rng.random() < 0.5:
            rng.shuffle(order)
        text = words.draw_phrase(rng, words.ANSWERS) if rng.random() < 0.4 else ""
        self.wire.write_tool_round(uses, order, text, self.draw_thought())

    def draw_tool_call(self) -> ToolCall:
        """Return one call; its result has a word that no person ever said."""
        rng = self.rng
        arguments = {"path": f"src/m_{rng.randrange(99)}.py", "note": words.draw_phrase(rng, words.ANSWERS)}
        if rng.random() < 0.1:
            arguments["body"] = words.draw_long_text(rng, words.OUTPUTS, 2 * self.shape.bulk)
        if self.has_extra("odd") and rng.random() < 0.15:
            name, output = rng.choice(words.TOOLS), words.draw_phrase(rng, words.ODD_OUTPUTS)
            return ToolCall(name, "{}", output, error=rng.random() < 0.3)
        text = json.dumps(arguments, ensure_ascii=rng.random() < 0.5)
        return ToolCall(rng.choice(words.TOOLS), text, self.draw_result(), error=rng.random() < 0.1)

    def draw_result(self) -> str:
        """Return what a tool answers."""
        rng, size = self.rng, self.shape.bulk
        size = rng.choice((size // 4, size, size, size * 3))
        if self.has_extra("giant") and rng.random() < 0.05:
            size = 10_000 + 5 * self.shape.bulk
        self.marks += 1
        planted = (
            rng.choice(words.PLANTED_ATTACKS).format(mark=f"planted{self.marks}word") if rng.random() < 0.3 else ""
        )
        return planted + words.draw_long_text(rng, words.OUTPUTS, size)

    def write_exchange(self) -> None:
        """Write an action and its observation, both plain text."""
        rng = self.rng
        command = f"sed -n {rng.randrange(99)}p src/m_{rng.randrange(99)}.py"
        self.wire.write_model_text(
            f"{words.draw_phrase(rng, words.THOUGHTS)}\n\n```bash\n{command}\n```", self.draw_thought(), "action"
        )
        self.wire.write_observation(f"OBSERVATION:\n{self.draw_result()}\n(Current directory: /repo)\nbash-$")

    def draw_thought(self) -> str:
        """Return reasoning, where the shape has it."""
        if self.has_extra("reasoning") and self.rng.random() < 0.7:
            return words.draw_phrase(self.rng, words.THOUGHTS)
        return ""

    def draw_answer(self) -> str:
        """Return a model's last word on a request."""
        text = words.draw_long_text(self.rng, words.ANSWERS, self.rng.choice((30, 120, self.shape.bulk)))
        return text.rstrip()  # Anthropic takes no assistant text that ends in white space
