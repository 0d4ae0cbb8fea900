"""Mends a conversation step by step: single messages, then calls with their answers, then what stands where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from unabridged.formats.base import Format, Message
from unabridged.formats.reading import read_at
from unabridged.legal import anthropic, anthropic_mend, gemini, openai_chat, openai_responses, strict
from unabridged.legal.conversation import Conversation, says_nothing
from unabridged.legal.pairing import first_user
from unabridged.legal.rejoin import NO_RESULT, Stub, Style, rejoin
from unabridged.legal.wires import Piece, wire_of
from unabridged.messages import Call, View

OPENING = "<system-reminder>The conversation before this point is not shown.</system-reminder>"
CONTINUE = "<system-reminder>Continue.</system-reminder>"
CONTINUED = "Understood."
"""The turns that are put in: plainly the host's words, where only a user's or the assistant's can stand."""


class Reader:
    """Reads messages of one format, each only once."""

    def __init__(self, fmt: Format, known: Iterable[tuple[Message, View]] = ()) -> None:
        self.fmt = fmt
        # Kept with its message: an id is good only as long as its object lives.
        self._known: dict[int, tuple[Message, View]] = {id(pair[0]): pair for pair in known}

    def __call__(self, messages: Sequence[Message]) -> list[View]:
        """The view of each message."""
        return [self.one(message, index) for index, message in enumerate(messages)]

    def one(self, message: Message, index: int = 0) -> View:
        """The view of this message; one that can't be read is refused by its index."""
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = (message, read_at(index, message, self.fmt))
        return known[1]


def mended(given: Conversation, reader: Reader) -> list[Message]:
    """The messages as the provider takes them, as far as that can be done."""
    target = _target(given)
    messages = _cleaned(given, target)
    wire = wire_of(reader.fmt)
    pieces = [
        piece
        for index, (message, view) in enumerate(zip(messages, reader(messages), strict=True))
        for piece in wire.split(index, message, view)
    ]
    style = Style(
        anywhere=reader.fmt.name == target == "openai-responses",
        items=given.items,
        unique=target in {"anthropic", "openai-responses"},
        pending=given.pending,
    )
    return ended(wire.join(rejoin(pieces, wire, style, _stubs(reader)), messages), given, reader)


def ended(messages: list[Message], given: Conversation, reader: Reader) -> list[Message]:
    """The messages with what the provider wants at the beginning, between them and at the end."""
    target = _target(given)
    if target == "openai-responses":
        messages = _for_responses(messages, given, reader)
    elif target == "anthropic":
        messages = _for_anthropic(messages, given, reader)
    elif target == "gemini":
        messages = _for_gemini(messages, given, reader)
    if given.provider == "strict":
        turns = {"user": reader.fmt.text("user", CONTINUE), "assistant": reader.fmt.text("assistant", CONTINUED)}
        missing = {index: turns[role] for index, role in strict.gaps(reader(messages))}
        messages = _inserted(messages, missing)
    return messages


def _target(given: Conversation) -> str:
    """Whose rules hold below strict alternation."""
    return given.format if given.provider == "strict" else given.provider


def _again(messages: Sequence[Message], given: Conversation, reader: Reader) -> Conversation:
    """The conversation as it is by now."""
    return replace(given, views=reader(messages), messages=messages, provider=_target(given))


def _stubs(reader: Reader) -> Stub:
    def stub(call: Call, message: Message) -> list[Piece]:
        if reader.fmt.name == "openai-responses":
            output = openai_responses.stub_output(message, call.id, NO_RESULT)
            made = [] if output is None else [output]
        else:
            made = reader.fmt.answer((call,), NO_RESULT)
        return [piece for one in made for piece in wire_of(reader.fmt).split(-1, one, reader.one(one))]

    return stub


def _cleaned(given: Conversation, target: str) -> list[Message]:
    """The messages without what is refused for itself, wherever it stands."""
    messages = list(given.messages or ())
    if given.format != target:
        return _spoken(messages, given, target)
    if target == "openai-responses":
        return openai_responses.told_apart(replace(given, provider=target))
    if target == "openai-chat":
        clean = [openai_chat.cleaned(message) for message in messages]
    elif target != "anthropic":  # an adapter's own format
        return _spoken(messages, given, target)
    else:
        last = len(messages) - 1
        clean = [anthropic_mend.cleaned(message, given.model, last=i == last) for i, message in enumerate(messages)]
    return [message for message in clean if message is not None]


def _spoken(messages: list[Message], given: Conversation, target: str) -> list[Message]:
    """The messages that a client can translate for a provider that takes no empty ones."""
    if target not in {"anthropic", "gemini"}:
        return messages

    def stays(index: int, view: View) -> bool:
        prefill = target == "anthropic" and view.role == "assistant" and given.last(index)
        return view.role in {"system", "tool"} or prefill or not says_nothing(view)

    return [message for i, message in enumerate(messages) if stays(i, given.views[i])]


def _for_responses(messages: list[Message], given: Conversation, reader: Reader) -> list[Message]:
    if reader.fmt.name != "openai-responses":
        return messages
    alone = set(openai_responses.lone(_again(messages, given, reader).views))
    return [message for index, message in enumerate(messages) if index not in alone]


def _for_anthropic(messages: list[Message], given: Conversation, reader: Reader) -> list[Message]:
    own = reader.fmt.name == "anthropic"
    go_on = reader.fmt.text("user", CONTINUE)
    messages = _opened(messages, given, reader)
    if own:
        messages = anthropic_mend.end_cleaned(messages)
    if [*anthropic.prefill(_again(messages, given, reader))]:
        silent = says_nothing(reader.one(messages[-1]))
        messages = [*(messages[:-1] if silent else messages), go_on]
    if own and [*anthropic.system_places(_again(messages, given, reader))]:
        messages = anthropic_mend.systems_placed(messages, go_on)
    if own and [*anthropic.cache_marks(_again(messages, given, reader))]:
        messages = anthropic_mend.cache_cleaned(messages)
    return messages


def _for_gemini(messages: list[Message], given: Conversation, reader: Reader) -> list[Message]:
    messages = _opened(messages, given, reader)
    now = _again(messages, given, reader)
    unsigned = set(gemini.unsigned(now))
    signed = [gemini.signed(message) if i in unsigned else message for i, message in enumerate(messages)]
    go_on = reader.fmt.text("user", CONTINUE)
    return _inserted(signed, {finding.index: go_on for finding in gemini.calls_after_model(now)})


def _opened(messages: list[Message], given: Conversation, reader: Reader) -> list[Message]:
    """The messages with a user's turn in front of the first one that is not the system's."""
    for finding in first_user(_again(messages, given, reader)):
        index = 0 if reader.fmt.name == "anthropic" else finding.index
        return [*messages[:index], reader.fmt.text("user", OPENING), *messages[index:]]
    return messages


def _inserted(messages: Sequence[Message], before: dict[int, Message]) -> list[Message]:
    together: list[Message] = []
    for index, message in enumerate(messages):
        together += [before[index], message] if index in before else [message]
    return together
