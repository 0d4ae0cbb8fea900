"""Lists of cases that one test goes through, where a test for each would take longer to set up than to run."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

import effort

Test = Callable[..., None]
_SHOWN = 20
"""So many failing rows are named; the rest is counted."""


class _RowList(NamedTuple):
    names: tuple[str, ...]
    values: list[tuple[Any, ...]]
    labels: list[str]


def rows(
    names: str | tuple[str, ...], values: Iterable[Any], *, ids: Callable[[Any], Any] | Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """Call the test with each of the values, written as for `pytest.mark.parametrize`, and name the rows that fail.

    Of several lists each value is tried with some value of the others, and with `ALL=1` every combination. Each row has
    a `tmp_path`, a `monkeypatch` and a `caplog` of its own; any other fixture is the same for all.
    """
    listed = [(value,) if isinstance(names, str) else tuple(value) for value in values]
    labels = [_label(row, ids) for row in listed] if ids is None or callable(ids) else list(map(str, ids))
    row_list = _RowList((names,) if isinstance(names, str) else names, listed, labels)

    def decorate(test: Test) -> Test:
        lists = [row_list, *getattr(test, "row_lists", [])]
        inner = getattr(test, "test_of_a_row", test)

        @functools.wraps(test)
        def test_of_each_row(**fixtures: Any) -> None:
            failed: dict[str, BaseException] = {}
            left = [set(range(len(one.values))) for one in lists]
            number = run = 0
            for row in _order_combinations([len(one.values) for one in lists]):
                if not (effort.ALL or any(place in places for place, places in zip(row, left, strict=True))):
                    continue
                chosen = [(one.names, one.values[place]) for one, place in zip(lists, row, strict=True)]
                arguments = {name: value for names, found in chosen for name, value in zip(names, found, strict=True)}
                number += 1
                try:
                    with _own(fixtures, number) as own:
                        inner(**arguments, **own)
                except pytest.skip.Exception:
                    continue
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - every row is tried and named
                    failed["-".join(one.labels[place] for one, place in zip(lists, row, strict=True))] = error
                run += 1
                for place, places in zip(row, left, strict=True):
                    places.discard(place)
            if failed:
                named = "; ".join(list(failed)[:_SHOWN])
                raise BaseExceptionGroup(f"{len(failed)} of {run} rows: {named}", list(failed.values()))
            if number and not run:
                pytest.skip("every row was skipped")

        parameters = inspect.signature(test).parameters
        test_of_each_row.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [parameter for name, parameter in parameters.items() if name not in row_list.names]
        )
        test_of_each_row.row_lists, test_of_each_row.test_of_a_row = lists, inner  # type: ignore[attr-defined]
        return test_of_each_row

    return decorate


def _order_combinations(lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield each combination of places once; those that together have every place of every list come first."""
    first = [tuple(number % length for length in lengths) for number in range(max(lengths))] if all(lengths) else []
    yield from first
    yield from (row for row in itertools.product(*map(range, lengths)) if row not in first)


def _label(row: Sequence[Any], ids: Callable[[Any], Any] | None) -> str:
    shown = [ids(value) if callable(ids) else None for value in row]
    return "-".join(repr(value)[:100] if name is None else str(name) for name, value in zip(shown, row, strict=True))


@contextmanager
def _own(fixtures: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        own = dict(fixtures)
        if "tmp_path" in fixtures:
            own["tmp_path"] = fixtures["tmp_path"] / str(number)
            own["tmp_path"].mkdir()
        if "monkeypatch" in fixtures:
            own["monkeypatch"] = monkeypatch
        if "caplog" in fixtures:
            fixtures["caplog"].clear()
        yield own
