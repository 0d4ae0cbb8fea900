"""Check what a provider would refuse, and repair it with nothing else changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from unabridged.errors import IllegalConversation, SettingsError
from unabridged.formats import DEFAULT, FORMATS, Format, Message, detect_message_format, get_format
from unabridged.formats import PROVIDERS as KNOWN
from unabridged.formats.base import Finding, Outgoing, RepairUnit, ThinkingRule
from unabridged.formats.fields import get
from unabridged.formats.rules import insert_turns
from unabridged.legality.pairing import find_alternation_faults, find_missing_turns, find_unpaired
from unabridged.legality.reasoning import find_reasoning_rule, strip_thinking_from
from unabridged.legality.rejoin import NO_RESULT, rejoin_calls_and_answers
from unabridged.messages import Call, View

STRICT = "strict"
"""Stands for local servers whose templates want strict alternation, on top of their format's own rules."""
PROVIDERS = (*KNOWN, STRICT)
UNREPAIRABLE_RULES = frozenset({"empty-conversation", "unknown-role", "missing-field", "system-unsupported"})
"""The rules whose faults `repair` can't mend."""


@dataclass(frozen=True, slots=True)
class RepairResult:
    """The mended conversation (the very list that was outgoing, when nothing was wrong) and what was wrong with it."""

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
    """Return all that the provider would refuse, in the order of the messages; an empty list is acceptance.

    The provider is the format's own unless another one is named, for which a client then translates. `pending` says
    that the last round is still running, so that its missing results are no fault.
    """
    fmt = detect_message_format(messages) if format is None else get_format(format)
    outgoing = _build_outgoing(fmt, provider, model, (), pending=pending).with_messages(messages)
    return sorted([*find_faults(outgoing), *find_malformed(outgoing)], key=lambda finding: finding.index)


def check_views(
    views: Sequence[View],
    provider: str | None = None,
    model: str | None = None,
    *,
    format: Format | str | None = None,  # noqa: A002 - the word every part uses for it
    pending: bool = False,
) -> list[Finding]:
    """Return the faults that can be seen in views alone: pairing, order and empty turns, not single blocks."""
    fmt = FORMATS.get(provider or "", DEFAULT) if format is None else get_format(format)
    return find_faults(_build_outgoing(fmt, provider, model, views, pending=pending))


def repair(
    messages: Sequence[Message],
    provider: str | None = None,
    *,
    model: str | None = None,
    format: Format | str | None = None,  # noqa: A002 - the word every part uses for it
    pending: bool = False,
    views: Sequence[View] = (),
    form: bool = True,
) -> RepairResult:
    """Return the conversation as the provider takes it, with as little changed as possible.

    Every message that no finding is about is the same object. Beside what `check` finds there are two findings that
    only mending makes: `bound-thinking`, where the model binds its thinking to what was mended before it, and
    `follow-up`, where a message had to change with its neighbour. `IllegalConversation` when it can't be mended.
    `views` are what was read of the messages already, so that they need not be read again. Without `form`, messages
    with an unknown role or without a required field, which nobody can mend, are left as they are.
    """
    fmt = detect_message_format(messages) if format is None else get_format(format)
    outgoing = _build_outgoing(fmt, provider, model, views, pending=pending)
    outgoing = replace(outgoing, messages=list(messages)[: len(views)]).with_messages(messages)
    if form and (malformed := next(find_malformed(outgoing), None)) is not None:
        raise IllegalConversation(malformed.message)
    findings = find_faults(outgoing)
    if not findings:
        return RepairResult(messages if isinstance(messages, list) else list(messages), ())
    if any(finding.rule == "empty-conversation" for finding in findings):
        raise IllegalConversation(findings[0].message)
    rule = find_reasoning_rule(model, fmt)
    mended = _mend_conversation(outgoing)
    if any(finding.rule != "cache-marks" for finding in findings):  # a cache mark is no part of what thinking sees
        kept = mended.messages or ()
        rest = strip_thinking_from(kept, mended.views, fmt, _find_first_changed(messages, kept), rule)
        mended = mended if _find_first_changed(kept, rest) == len(kept) else _arrange_turns(mended.with_messages(rest))
    if left := find_faults(mended):
        reasons = "; ".join(finding.message for finding in left[:5])
        raise IllegalConversation(
            f"{len(left)} of {len(findings)} things that {provider or fmt.provider.name} refuses "
            f"can't be mended here: {reasons}"
        )
    findings += _report_side_effects(outgoing, mended.messages or (), {finding.index for finding in findings}, rule)
    return RepairResult(list(mended.messages or ()), tuple(sorted(findings, key=lambda finding: finding.index)))


def _build_outgoing(
    fmt: Format, provider: str | None, model: str | None, views: Sequence[View], *, pending: bool
) -> Outgoing:
    """Return the conversation of which these views are known, and no messages yet."""
    if provider is not None and provider not in PROVIDERS:
        raise SettingsError(f"unknown provider {provider!r}: choose one of {', '.join(PROVIDERS)}")
    whose = KNOWN.get(provider or "", fmt.provider)
    return Outgoing(views, None, fmt, whose, model, pending, strict=provider == STRICT)


def find_faults(outgoing: Outgoing) -> list[Finding]:
    """Return all that is refused, in the order of the messages."""
    found = [*find_alternation_faults(outgoing)] if outgoing.strict else []
    found += find_unpaired(outgoing)
    found += [finding for rule in outgoing.provider.rules for finding in rule(outgoing)]
    return sorted(found, key=lambda finding: finding.index)


def _mend_conversation(outgoing: Outgoing) -> Outgoing:
    """Mend single messages first, then calls with their answers, then what stands where."""
    clean = outgoing.provider.remove_refused(outgoing)
    fmt, messages = clean.format, clean.messages or ()

    def stub(call: Call, message: Message) -> list[RepairUnit]:
        made = fmt.answer(call, message, NO_RESULT)
        return [] if made is None else fmt.split(-1, made, fmt.read(made))

    units = [unit for i, message in enumerate(messages) for unit in fmt.split(i, message, clean.views[i])]
    return _arrange_turns(clean.with_messages(fmt.join(rejoin_calls_and_answers(units, clean, stub), messages)))


def _arrange_turns(outgoing: Outgoing) -> Outgoing:
    outgoing = outgoing.provider.arrange(outgoing)
    return insert_turns(outgoing, dict(find_missing_turns(outgoing.views))) if outgoing.strict else outgoing


def _report_side_effects(
    outgoing: Outgoing, kept: Sequence[Message], known: set[int], rule: ThinkingRule
) -> Iterator[Finding]:
    """Yield a finding for each changed message that had no fault itself, so that every change is reported."""
    same = {id(message) for message in kept}
    for index, message in enumerate(outgoing.messages or ()):
        if id(message) in same or index in known:
            continue
        if rule == "bound" and outgoing.views[index].reasoning:
            said = f"{outgoing.model} binds thinking to all before it, and that was mended: its thinking was dropped"
            yield Finding("bound-thinking", index, f"message {index}: {said}")
        else:
            yield Finding("follow-up", index, f"message {index} was changed with a message beside it that was refused")


def _find_first_changed(before: Sequence[Message], after: Sequence[Message]) -> int:
    changed = (i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old is not new)
    return next(changed, min(len(before), len(after)))


# -- messages that are no messages of their format ---------------------------------------------------------------------
#
# Nobody but their author can say what was meant, so nothing is mended here. A compaction leaves them as they are: a
# server that is compatible with a provider may take more than the provider does.


def find_malformed(outgoing: Outgoing) -> Iterator[Finding]:
    """Find every message with an unknown role or without a field that its format requires."""
    format_ = outgoing.format
    for index, message in enumerate(outgoing.messages or ()):
        if format_.roles and not format_.takes_role(message):
            known = ", ".join(sorted(role for role in format_.roles if role))
            said = f"message {index} has the role {get(message, 'role')!r}, which {format_.name} does not know"
            yield Finding("unknown-role", index, f"{said}: give it one of {known}")
        if missing := ", ".join(format_.missing(message)):
            yield Finding("missing-field", index, f"message {index} is without {missing}: fill that in")
