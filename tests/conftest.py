"""One profile for every property: the suite says the same every time. `make soak` looks for what is new."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")
