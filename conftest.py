"""Set one Hypothesis profile for every property test, so that each run of the suite gives the same result.

`make soak` looks for new failures. A test marked `long` runs with `make test ALL=1` only; no property of a promise and
no contract is marked so.
"""

from __future__ import annotations

import gc
import os
import sys

import pytest
from hypothesis import settings

from effort import ALL, examples
from places import HELPERS

# Every worker, and every program that a test starts, would compile all of it again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Nobody is asked over TLS: each client of an SDK would read hundreds of certificates, a twentieth of a second.
os.environ["SSL_CERT_FILE"] = str(HELPERS / "no_authority.pem")

# The frameworks make a million objects while they are imported: nothing of them is garbage.
gc.disable()

pytest.register_assert_rewrite("properties_case")  # a promise that breaks says what it found
settings.register_profile("suite", max_examples=examples(40, 80), derandomize=True, deadline=None)
settings.load_profile("suite")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `long`, unless everything is asked for; and on Windows those marked `posix`."""
    for item in items:
        if not ALL and item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="takes long: make test ALL=1"))
        if sys.platform == "win32" and item.get_closest_marker("posix"):
            item.add_marker(pytest.mark.skip(reason="needs signals, limits, owners or a fork"))


def pytest_collection_finish() -> None:
    """Collect garbage again, but only of what the tests make, and rarely: much of it are frameworks imported later."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 50)
    gc.enable()
