"""Whose words a `user` turn is: a person's, a tool's observation, or the host's.

In a text protocol (no tool calls; the model writes an action into its text and the host answers in a `user` turn) an
observation is not a person's request. A turn is taken for one only when both sides say so: the model acted right
before it, and the turn itself looks machine-made, by its wording or because it shares its last line with the others.
One that has both the wording and the last line of the others needs no action before it: the model's text may have been
edited or shortened since. A host that hands outputs over bare shows it by doing so every time: where the model's turns
end with a marked action and what follows looks like nothing in particular, it is what the action gave. Blocks of shell
commands are also shown to people: there, what follows must look printed. The caller or an adapter that knows better
says so with `origin=`.
"""

from __future__ import annotations

from collections.abc import Sequence

from unabridged import habits
from unabridged.habits import NOTHING, Facts
from unabridged.ledger.own_words import is_hosts
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
    template = habits.template(facts)
    bare = {manner for manner in habits.MANNERS if habits.hands_over_bare(facts, manner)}
    for i in [i for i, view in enumerate(found) if view.role == "user" and view.origin == "person"]:
        said, text = habits.answered_by(found, i), found[i].text
        if said is None:
            continue
        templated, worded = habits.last_line(text) in template, habits.worded(text)
        if not habits.acted(said.text):
            observed = templated and worded
        else:
            plain = habits.manner(said.text) in bare and _gave(said.text, text, facts)
            observed = templated or worded or plain or habits.is_cleared(found[i])
        if observed:
            found[i] = found[i].said_by("tool")
    return found


def _taken_for_a_tools(view: View) -> bool:
    """Whether only we said so, in an earlier look at the list: formats call only answers a tool's."""
    return view.role == "user" and view.origin == "tool" and not view.answers


def _gave(said: str, answer: str, facts: Facts) -> bool:
    """Whether this is what the action at the end of the model's turn gave, though nothing around it says so."""
    if habits.manner(said) == "fenced":
        return habits.is_run(facts, said, answer)
    return facts["marked"] > 1 or habits.looks_printed(answer)
