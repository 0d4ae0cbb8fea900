"""Whose words a `user` turn is: a person's, a tool's observation, the host's, or nobody can tell.

In a text protocol (no tool calls; the model writes an action into its text and the host answers in a `user` turn) an
observation is not a person's request. A turn is taken for one only when both sides say so: the model acted right
before it, and the turn itself looks machine-made, by its wording or because it begins or ends as the others do. One
that begins so, or has both the wording and the last line of the others, needs no action before it: the model's text may
have been edited since. A host that hands outputs over bare shows it by doing so every time.

What answers a marked action and is none of these is `unknown`: at most a person's, so it makes no rules and asks for
nothing. Only where the host says of nearly all else that it is an output is one without, in words, a person's. Code in
a fence is run by some hosts and shown to people by others: there, what follows is `unknown` where code here is often
answered by what looks printed, or where the model's words say that it is about to do something itself. The caller or an
adapter that knows better says so with `origin=`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unabridged.intent import text_protocol as habits
from unabridged.intent.acting import Manner, acts, addresses, manner
from unabridged.intent.foreign import is_hosts
from unabridged.intent.text_protocol import NOTHING, Facts
from unabridged.marks import is_cleared
from unabridged.messages import Origin, View


def with_origins(views: Sequence[View], before: Facts = NOTHING, said: Sequence[Origin | None] = ()) -> list[View]:
    """The same views, with observations and host notes that sit in `user` turns given their true origin.

    `before` is what was learned from messages that are no longer here; `said` is what the caller says of each.
    """
    ruled = _ruled(views, before)
    return [v.said_by(o) if o else r for v, r, o in zip(views, ruled, said, strict=True)] if said else ruled


def _ruled(views: Sequence[View], before: Facts) -> list[View]:
    found = [view.said_by("person") if _taken_for_a_tools(view) else view for view in views]
    for i, view in enumerate(found):
        if view.role == "user" and view.origin == "person" and not view.media and is_hosts(view.text):
            found[i] = view.said_by("host")
    if habits.calls_tools(views, before):
        return found
    facts = habits.seen_in(found, before)
    known = _Host(facts, habits.frame(facts), {m for m in habits.MANNERS if habits.hands_over_bare(facts, m)})
    for i in [i for i, view in enumerate(found) if view.role == "user" and view.origin == "person"]:
        said = habits.answered_by(found, i)
        if said is not None:
            found[i] = found[i].said_by(_whose(said.text, found[i], known))
    return found


class _Host(NamedTuple):
    """What is known of how the host answers."""

    facts: Facts
    frame: habits.Frame
    bare: set[Manner]


def _whose(said: str, answer: View, host: _Host) -> Origin:
    """Whose turn it is that answers these words of the model's."""
    text, ends, worded = answer.text, manner(said), habits.worded(answer.text)
    framed = host.frame.holds(text)
    if not acts(said):
        if habits.first_line(text) in host.frame.first or (worded and framed):
            return "tool"
        made = (worded or framed) and habits.mostly_acts(host.facts)
        run = ends and ((worded and not addresses(said)) or habits.may_be_run(host.facts, said))
        return "unknown" if made or run else "person"
    if worded or framed or is_cleared(answer) or (ends in host.bare and _gave(said, text, host.facts)):
        return "tool"
    return "unknown" if _doubtful(said, text, host.facts) else "person"


def _doubtful(said: str, answer: str, facts: Facts) -> bool:
    """Whether a turn may be what an action of the model's gave, though nothing says so."""
    ends = manner(said)
    if habits.says_it_answers(facts, ends):
        return habits.looks_printed(answer)
    if ends == "marked":
        return True
    return habits.may_be_run(facts, said) if ends else habits.mostly_acts(facts)


def _taken_for_a_tools(view: View) -> bool:
    """Whether only we said so, in an earlier look at the list: formats call only answers a tool's."""
    return view.role == "user" and view.origin in {"tool", "unknown"} and not view.answers


def _gave(said: str, answer: str, facts: Facts) -> bool:
    """Whether this is what the action at the end of the model's turn gave, though nothing around it says so."""
    if manner(said) == "fenced":
        return habits.is_run(facts, said, answer)
    return facts["marked"] > 1 or habits.looks_printed(answer)
