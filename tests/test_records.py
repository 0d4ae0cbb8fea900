"""Records as values: keys, differences, and those applied either way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unabridged.archive.protocol import Record, Scope
from unabridged.history.difference import Difference, backward, chain, difference, forward
from unabridged.messages import Answer, Call, View


class Thing:
    """A message of which only the identity matters."""


def record(diff: Difference, names: dict[int, str]) -> Record:
    return Record(
        id="r",
        scope=Scope("n", "t"),
        key="k",
        length=0,
        start=diff.start,
        before=tuple(item if isinstance(item, int) else names[id(item)] for item in diff.before),
        after=tuple(None if item is None else names[id(item)] for item in diff.after),
        kind="summary",
    )


@st.composite
def rewrites(draw: st.DrawFn) -> tuple[list[Thing], list[Thing]]:
    """A list, and one made from it by leaving out, putting in and keeping; some objects stand in it twice."""
    pool = [Thing() for _ in range(6)]
    old = draw(st.lists(st.sampled_from(pool), max_size=12))
    new: list[Thing] = []
    for item in old:
        new += [Thing() for _ in range(draw(st.integers(0, 1)))]
        if draw(st.booleans()):
            new.append(item)
    return old, [*new, *(Thing() for _ in range(draw(st.integers(0, 2))))]


@given(rewrites(), st.lists(st.builds(Thing), max_size=3))
def test_a_difference_makes_either_list_from_the_other_with_the_same_objects(
    lists: tuple[list[Thing], list[Thing]], later: list[Thing]
) -> None:
    # R40
    old, new = lists
    names = {id(item): str(i) for i, item in enumerate([*old, *new])}
    by_name = {names[id(item)]: item for item in [*old, *new]}
    kept = record(difference(old, new), names)
    put_in = {j: by_name[name] for j, name in enumerate(kept.after) if name is not None}
    assert [id(m) for m in forward(kept, [*old, *later], put_in)] == [id(m) for m in [*new, *later]]
    put_back = {i: by_name[name] for i, name in enumerate(kept.before) if isinstance(name, str)}
    assert [id(m) for m in backward(kept, [*new, *later], kept.start, put_back)] == [id(m) for m in [*old, *later]]


def test_meaning_leaves_out_ids_thinking_and_the_system_prompt() -> None:
    one = View("assistant", "model", "x", calls=(Call("id-1", "read", "{}"),))
    other = View("assistant", "model", "x", calls=(Call("id-2", "read", "{}"),))
    assert one.meaning == other.meaning
    assert View("system", "host", "it is 10:00").meaning == View("system", "host", "it is 10:05").meaning
    assert one.meaning != View("assistant", "model", "x", calls=(Call("id-1", "read", '{"a":1}'),)).meaning
    assert View("tool", "tool", answers=(Answer("a", "x"),)).meaning != View("user", "person", "x").meaning


def test_meaning_takes_any_text() -> None:
    assert View("user", "person", "lone \ud800 surrogate").meaning != View("user", "person", "lone surrogate").meaning


def test_a_key_depends_on_every_message_before_it_and_on_the_seed() -> None:
    assert chain(["a", "b"], "s")[1] == chain(["a", "c"], "s")[1]
    assert chain(["a", "b"], "s")[2] != chain(["a", "c"], "s")[2]
    assert chain(["a"], "s")[1] != chain(["a"], "other")[1]
    assert len(chain([], "s")) == 1
