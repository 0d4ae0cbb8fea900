"""One profile for every property: the suite says the same every time. `make soak` looks for what is new.

A test marked `long` runs with `make test ALL=1` only. No property of a promise and no contract is marked so.
"""

from __future__ import annotations

import pytest
from hypothesis import settings

from effort import ALL

pytest.register_assert_rewrite("properties_case")  # a promise that breaks says what it found
settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what takes long, unless everything is wanted."""
    if not ALL:
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes long: make test ALL=1"))
