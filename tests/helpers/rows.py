"""Lists of cases that one test goes through, where a test for each would take longer to set up than to run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

Test = Callable[..., None]
_SHOWN = 20
"""So many failing rows are named; the rest is counted."""


def rows(
    names: str | tuple[str, ...], values: Iterable[Any], *, ids: Callable[[Any], Any] | Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """Call the test with each of the values, written as for `pytest.mark.parametrize`, and name the rows that fail.

    Each row has a `tmp_path`, a `monkeypatch` and a `caplog` of its own; any other fixture is the same for all.
    """
    arguments = (names,) if isinstance(names, str) else names
    listed = list(values)
    labels = None if ids is None or callable(ids) else list(map(str, ids))

    def label(number: int, row: Sequence[Any]) -> str:
        if labels is not None:
            return labels[number]
        shown = [ids(value) if callable(ids) else None for value in row]
        return "-".join(
            repr(value)[:100] if name is None else str(name) for name, value in zip(shown, row, strict=True)
        )

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def test_of_each_row(**fixtures: Any) -> None:
            failed: dict[str, BaseException] = {}
            skipped = 0
            for number, value in enumerate(listed):
                row = (value,) if isinstance(names, str) else tuple(value)
                try:
                    with _own(fixtures, number) as own:
                        test(**dict(zip(arguments, row, strict=True)), **own)
                except pytest.skip.Exception:
                    skipped += 1
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - every row is tried, and each told of
                    failed[f"{number} {label(number, row)}"] = error
            if failed:
                named = "; ".join(list(failed)[:_SHOWN])
                raise BaseExceptionGroup(f"{len(failed)} of {len(listed)} rows: {named}", list(failed.values()))
            if skipped == len(listed):
                pytest.skip("every row was skipped")

        parameters = inspect.signature(test).parameters
        left = [parameter for name, parameter in parameters.items() if name not in arguments]
        test_of_each_row.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
        return test_of_each_row

    return decorate


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
