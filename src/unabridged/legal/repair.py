"""`check` says what a provider would refuse, `repair` mends it and changes nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from unabridged.errors import IllegalConversation, SettingsError
from unabridged.formats import FORMATS, Format, Message, detect, format_named
from unabridged.legal import anthropic, gemini, openai_chat, openai_responses, strict
from unabridged.legal.conversation import Conversation, Finding, Rule
from unabridged.legal.mend import Reader, ended, mended
from unabridged.legal.reasoning import reasoning_rule, strip_from
from unabridged.messages import View

RULES: dict[str, tuple[Rule, ...]] = {
    "openai-chat": openai_chat.RULES,
    "openai-responses": openai_responses.RULES,
    "anthropic": anthropic.RULES,
    "gemini": gemini.RULES,
    "strict": strict.RULES,
}
PROVIDERS = tuple(RULES)
"""`strict` stands for local servers whose templates want strict alternation, on top of their format's own rules."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """The mended conversation (the very list that was given, when nothing was wrong) and what was wrong with it."""

    messages: list[Message]
    findings: tuple[Finding, ...]


def check(
    messages: Sequence[Message],
    provider: str | None = None,
    *,
    model: str | None = None,
    format: Format | str | None = None,  # noqa: A002 - the word every part uses for it
    pending: bool = False,
) -> list[Finding]:
    """What the provider would refuse, in the order of the messages; an empty list is acceptance.

    The provider is the format's own unless another one is named, for which a client then translates. `pending` says
    that the last round is still running, so that its missing results are no fault.
    """
    fmt = detect(messages) if format is None else format_named(format)
    return _findings(_conversation(messages, Reader(fmt), provider or fmt.provider, model, pending=pending))


def check_views(
    views: Sequence[View],
    provider: str,
    model: str | None = None,
    *,
    format: Format | str | None = None,  # noqa: A002 - the word every part uses for it
    pending: bool = False,
) -> list[Finding]:
    """What can be seen to be refused without the messages: pairing, order and empty turns, not single blocks."""
    name = (provider if provider in FORMATS else "openai-chat") if format is None else format_named(format).name
    return _findings(Conversation(views, None, name, _known(provider), model, pending))


def repair(
    messages: Sequence[Message],
    provider: str | None = None,
    *,
    model: str | None = None,
    format: Format | str | None = None,  # noqa: A002 - the word every part uses for it
    pending: bool = False,
    views: Sequence[View] = (),
) -> Repaired:
    """The conversation as the provider takes it, with as little changed as possible.

    Every message that no finding is about is the same object. Beside what `check` finds there are two findings that
    only mending makes: `bound-thinking`, where the model binds its thinking to what was mended before it, and
    `follow-up`, where a message had to change with its neighbour. `IllegalConversation` when it can't be mended.
    `views` are what was read of the messages already, so that they need not be read again.
    """
    fmt = detect(messages) if format is None else format_named(format)
    reader = Reader(fmt, zip(messages, views, strict=False))
    given = _conversation(messages, reader, provider or fmt.provider, model, pending=pending)
    findings = _findings(given)
    if not findings:
        return Repaired(messages if isinstance(messages, list) else list(messages), ())
    if any(finding.rule == "empty-conversation" for finding in findings):
        raise IllegalConversation(findings[0].message)
    kept = mended(given, reader)
    rule = reasoning_rule(model, fmt)
    if any(finding.rule != "cache-marks" for finding in findings):  # a cache mark is no part of what thinking sees
        rest = strip_from(kept, reader(kept), fmt, _first_change(messages, kept), rule)
        kept = kept if _first_change(kept, rest) == len(kept) else ended(rest, given, reader)
    left = _findings(_conversation(kept, reader, given.provider, model, pending=pending))
    if left:
        reasons = "; ".join(finding.message for finding in left[:5])
        raise IllegalConversation(
            f"{len(left)} of {len(findings)} things that {given.provider} refuses can't be mended here: {reasons}"
        )
    findings += _follow_ups(given, kept, {finding.index for finding in findings}, rule)
    return Repaired(kept, tuple(sorted(findings, key=lambda finding: finding.index)))


def _follow_ups(given: Conversation, kept: Sequence[Message], known: set[int], rule: str) -> Iterator[Finding]:
    """What changed besides what was refused, so that nothing changes unsaid."""
    same = {id(message) for message in kept}
    for index, message in enumerate(given.messages or ()):
        if id(message) in same or index in known:
            continue
        if rule == "bound" and given.views[index].reasoning:
            said = f"{given.model} binds thinking to all before it, and that was mended: its thinking was dropped"
            yield Finding("bound-thinking", index, f"message {index}: {said}")
        else:
            yield Finding("follow-up", index, f"message {index} was changed with a message beside it that was refused")


def _known(provider: str) -> str:
    if provider not in RULES:
        raise SettingsError(f"unknown provider {provider!r}: choose one of {', '.join(PROVIDERS)}")
    return provider


def _conversation(
    messages: Sequence[Message], reader: Reader, provider: str, model: str | None, *, pending: bool
) -> Conversation:
    return Conversation(reader(messages), messages, reader.fmt.name, _known(provider), model, pending)


def _findings(conversation: Conversation) -> list[Finding]:
    found = [finding for rule in RULES[conversation.provider] for finding in rule(conversation)]
    if conversation.provider == "strict":
        below = conversation.format if conversation.format in RULES else "openai-chat"  # an adapter's own format
        own = replace(conversation, provider=below)
        found += [finding for rule in RULES[own.provider] for finding in rule(own)]
    return sorted(found, key=lambda finding: finding.index)


def _first_change(before: Sequence[Message], after: Sequence[Message]) -> int:
    changed = (i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old is not new)
    return next(changed, min(len(before), len(after)))
