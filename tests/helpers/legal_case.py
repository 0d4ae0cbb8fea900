"""A case of the legality tables: a conversation, and what its provider says to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from unabridged.legality import Finding, check, repair


@dataclass(frozen=True)
class Case:
    """A conversation and the findings expected, each as (rule, index)."""

    name: str
    messages: list[Any]
    expected: list[tuple[str, int]] = field(default_factory=list)
    model: str | None = None
    format: str | None = None

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def judge(case: Case, provider: str) -> None:
    """Check says what is expected; repair mends all of it and leaves alone what was not part of it."""
    format_ = case.format or provider
    found = check(case.messages, provider, model=case.model, format=format_)
    assert [(finding.rule, finding.index) for finding in found] == case.expected
    before = list(case.messages)
    repaired = repair(case.messages, provider, model=case.model, format=format_)
    assert all(old is new for old, new in zip(before, case.messages, strict=True)), "the caller's list was changed"
    if not found:
        assert repaired.messages is case.messages
        assert repaired.findings == ()
        return
    assert [finding for finding in repaired.findings if finding.rule != "follow-up"] == found
    assert check(repaired.messages, provider, model=case.model, format=format_) == []
    assert repair(repaired.messages, provider, model=case.model, format=format_).messages is repaired.messages
    kept = {id(message) for message in repaired.messages}
    assert untouched(case.messages, repaired.findings) <= kept
    results = {finding.index + 1 for finding in found if finding.rule in {"unanswered-call", "duplicate-call"}}
    assert {finding.index for finding in repaired.findings if finding.rule == "follow-up"} <= results


def untouched(messages: Sequence[Any], findings: Sequence[Finding]) -> set[int]:
    """The identities of all messages that no finding is about."""
    about = {finding.index for finding in findings}
    return {id(message) for index, message in enumerate(messages) if index not in about}
