"""Fakes and strategies for tests of your own: shipped, typed, and used by this project's own suite.

Read in this order: `script` (what happens), `wire…` (as messages of one provider, and what that one refuses; a new
format is a file like these, listed in `conversations`), `conversations` (the strategies), `upstreams` and `models`
(stand-ins for providers and summarisers), `loopback` (providers behind a port). `ArchiveContract` is the suite that
every archive runs, `AdapterContract` the one that every adapter of a framework runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unabridged_testing.conversations import Conversation, conversations, damage, make_conversation, refusals, shapes
from unabridged_testing.models import ScriptedModel, Slow
from unabridged_testing.upstreams import Refused, SigningUpstream, StrictUpstream
from unabridged_testing.wire import Shape

if TYPE_CHECKING:
    from unabridged_testing.adapter_contract import AdapterContract
    from unabridged_testing.archive_contract import ArchiveContract

__all__ = [
    "AdapterContract",
    "ArchiveContract",
    "Conversation",
    "Refused",
    "ScriptedModel",
    "Shape",
    "SigningUpstream",
    "Slow",
    "StrictUpstream",
    "conversations",
    "damage",
    "make_conversation",
    "refusals",
    "shapes",
]


def __getattr__(name: str) -> Any:
    """Import a contract when it is used: it needs more than the rest does, pytest for one."""
    modules = {"AdapterContract": "adapter_contract", "ArchiveContract": "archive_contract"}
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{modules[name]}"), name)
