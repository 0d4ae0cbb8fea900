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

from unabridged.intent.host_words import is_hosts
from unabridged.intent.text_actions import acts, addresses, manner
from unabridged.intent.text_protocol import NOTHING, Facts, Host, calls_tools, is_observation, turn_before
from unabridged.marks import is_cleared
from unabridged.messages import Origin, View


def with_origins(views: Sequence[View], before: Facts = NOTHING, said: Sequence[Origin | None] = ()) -> list[View]:
    """The same views, with observations and host notes that sit in `user` turns given their true origin.

    `before` is what was learned from messages that are no longer here; `said` is what the caller says of each.
    """
    ruled = _by_rule(views, before)
    return [v.said_by(o) if o else r for v, r, o in zip(views, ruled, said, strict=True)] if said else ruled


def _by_rule(views: Sequence[View], before: Facts) -> list[View]:
    found = [view.said_by("person") if _taken_for_a_tools(view) else view for view in views]
    for i, view in enumerate(found):
        if view.role == "user" and view.origin == "person" and not view.media and is_hosts(view.text):
            found[i] = view.said_by("host")
    if calls_tools(views, before):
        return found
    host = Host(found, before)
    for i in [i for i, view in enumerate(found) if view.role == "user" and view.origin == "person"]:
        if (said := turn_before(found, i)) is not None:
            found[i] = found[i].said_by(_whose(said.text, found[i], host))
    return found


def _whose(said: str, answer: View, host: Host) -> Origin:
    """Whose turn it is that answers these words of the model's."""
    text, ends, is_worded = answer.text, manner(said), is_observation(answer.text)
    framed = host.frames(text)
    if not acts(said):
        if host.begins(text) or (is_worded and framed):
            return "tool"
        made = (is_worded or framed) and host.mostly_acts
        run = ends and ((is_worded and not addresses(said)) or host.may_run(said))
        return "unknown" if made or run else "person"
    if is_worded or framed or is_cleared(answer) or host.gives_bare(said, text):
        return "tool"
    return "unknown" if host.may_give(said, text) else "person"


def _taken_for_a_tools(view: View) -> bool:
    """Whether only we said so, in an earlier look at the list: formats call only answers a tool's."""
    return view.role == "user" and view.origin in {"tool", "unknown"} and not view.answers
