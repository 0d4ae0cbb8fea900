"""Ways in which an adapter can be wrong, made in the engine behind it on purpose: the contract must notice each.

    class TestMyFrameworkBroken(BrokenAdapterContract):
        @pytest.fixture
        def door(self):
            return MyDoor()

A door through which a breakage goes unnoticed shows the contract something else than the adapter did.
"""

# Tests that ship: they assert, and a name is its own sentence.
# ruff: noqa: S101, D102

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from inspect import isawaitable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

from unabridged.archive.stores.memory import MemoryArchive
from unabridged.compactor import Compaction, Compactor
from unabridged.formats import Format, Slot, detect_message_format
from unabridged.marks import is_generated_turn
from unabridged.settings import Clear, Prices, Settings
from unabridged_testing.adapter_contract import SCENARIOS
from unabridged_testing.adapter_contract.case import THREAD, catch_error
from unabridged_testing.adapter_contract.conversation_scenarios import RULES
from unabridged_testing.adapter_contract.interface import Door

Patches = Mapping[str, Any]
"""Attributes of `Compactor`, and what replaces them."""


class Breakage(NamedTuple):
    """A way to be wrong, and the scenarios that must notice it."""

    patches: Patches
    noticed_by: tuple[str, ...]


# -- what can be done to a compactor ----------------------------------------------------------------------------------


def _patch_results(change: Callable[[Format, Sequence[Any], list[Any]], list[Any]]) -> Patches:
    """Return patches that apply `change` to every list a compaction returns."""

    def changed(compactor: Any, original: Sequence[Any], done: Compaction) -> Compaction:
        format_ = compactor._format or detect_message_format(original)  # noqa: SLF001 - no adapter could be broken from outside
        return replace(done, messages=change(format_, original, list(done.messages))) if done.changed else done

    def patched(name: str) -> Any:
        own = getattr(Compactor, name)

        @wraps(own)
        def method(self: Any, source: Any, *rest: Any, **options: Any) -> Any:
            original, done = getattr(source, "messages", source), own(self, source, *rest, **options)
            return later(self, original, done) if isawaitable(done) else changed(self, original, done)

        return method

    async def later(compactor: Any, original: Sequence[Any], done: Any) -> Compaction:
        return changed(compactor, original, await done)

    return {name: patched(name) for name in ("fit", "overflowed", "afit", "aoverflowed")}


def _patch_method(name: str, function: Callable[..., Any]) -> Patches:
    """Return patches that replace a method and its async form by this function."""

    async def later(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **options)

    return {name: function, f"a{name}": later}


def _patch_constructor(change: Callable[[dict[str, Any]], None]) -> Patches:
    """Return a patch that changes the keyword arguments of every new compactor."""
    own = Compactor.__init__

    @wraps(own)
    def make(self: Any, model: Any = None, **keywords: Any) -> None:
        keywords["model"] = model
        change(keywords)
        own(self, **keywords)

    return {"__init__": make}


def _leave_out_system_and_tools(own: Any) -> Any:
    @wraps(own)
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        return own(self, *arguments, **{**options, "system": None, "tools": None})

    return method


def _raise_error(_: Any, __: Any, error: Any) -> Any:
    raise error if isinstance(error, BaseException) else ValueError(error)


def _return_unchanged(_: Any, messages: list[Any], **__: Any) -> Compaction:
    return Compaction(messages, changed=False, tokens_before=0, tokens_after=0, thread="")


def _return_messages(_: Any, messages: list[Any], **__: Any) -> list[Any]:
    return messages


def _drop_summary(format_: Format, _: Sequence[Any], result: list[Any]) -> list[Any]:
    return [message for message in result if not is_generated_turn(format_.read(message))]


def _split_round(format_: Format, _: Sequence[Any], result: list[Any]) -> list[Any]:
    answers = [i for i, message in enumerate(result) if format_.read(message).answers]
    return result[: answers[-1]] + result[answers[-1] + 1 :] if answers else result


def _reorder(format_: Format, _: Sequence[Any], result: list[Any]) -> list[Any]:
    calls = [i for i, message in enumerate(result[:-1]) if format_.read(message).calls]
    at = calls[-1] if calls else len(result) - 2  # without a round, the newest two
    result[at], result[at + 1] = result[at + 1], result[at]
    return result


def _reword(format_: Format, original: Sequence[Any], result: list[Any]) -> list[Any]:
    old = {id(message) for message in original}

    def edit(_: Slot, text: str) -> str:
        return text.replace(RULES[0], RULES[0].replace("Never touch", "Try not to touch"))

    return [message if id(message) in old else format_.edit(message, edit) for message in result]


def _lose_pictures(format_: Format, _: Sequence[Any], result: list[Any]) -> list[Any]:
    def edit(slot: Slot, text: str) -> str:
        return "[a picture]" if slot.kind == "media" else text

    return [format_.edit(message, edit) for message in result]


def _ignore_off(keywords: dict[str, Any]) -> None:
    keywords["settings"] = replace(keywords.get("settings") or Settings(), off=False)


def _clear_early(keywords: dict[str, Any]) -> None:
    clear = Clear(payback=True, prices=Prices())
    keywords["settings"] = replace(keywords.get("settings") or Settings(), clear=clear)


def _replace_archive(keywords: dict[str, Any]) -> None:
    keywords["archive"] = MemoryArchive()


def _raise_summariser_failures() -> Patches:
    """Raise what the summariser raises from the compaction that asked it."""
    failures: list[Exception] = []

    def note(keywords: dict[str, Any]) -> None:
        summarise = keywords["model"]

        def model(ask: str) -> Any:
            try:
                return summarise(ask)
            except Exception as error:
                failures.append(error)
                raise

        keywords["model"] = summarise and model

    def hand_on(_: Format, __: Sequence[Any], result: list[Any]) -> list[Any]:
        if failures:
            raise failures.pop()
        return result

    return {**_patch_constructor(note), **_patch_results(hand_on)}


def _use_one_thread(own: Any) -> Any:
    @wraps(own)
    def scope(self: Any, thread: str | None, namespace: str | None) -> Any:
        return own(self, THREAD if thread else thread, namespace)

    return scope


_REFUSED_PATCHES = _patch_method("overflowed", _raise_error)
_NO_COMPACTION_PATCHES = _patch_method("fit", _return_unchanged)
_DISABLED_PATCHES: Patches = {**_NO_COMPACTION_PATCHES, **_REFUSED_PATCHES, "compact": lambda *_, **__: None}

BREAKAGES: Mapping[str, Breakage] = {
    "compaction is off": Breakage(
        _DISABLED_PATCHES, tuple(name for name in SCENARIOS if name not in {"off", "below the trigger"})
    ),
    "the summary turn is dropped": Breakage(
        _patch_results(_drop_summary), ("long chain", "rules verbatim after ten compactions")
    ),
    "usage is never observed": Breakage({"observe": lambda *_: None}, ("long chain",)),
    "an overflow is not recovered": Breakage(_REFUSED_PATCHES, ("overflow", "streaming")),
    "system prompt and tools are not counted": Breakage(
        {name: _leave_out_system_and_tools(getattr(Compactor, name)) for name in ("fit", "afit")}, ("parallel calls",)
    ),
    "a result is split from its call": Breakage(_patch_results(_split_round), ("parallel calls", "pending approval")),
    "messages are reordered": Breakage(_patch_results(_reorder), ("parallel calls", "replay exact")),
    "the archive is not written": Breakage(
        _patch_constructor(_replace_archive), ("resume after restart", "recall", "long chain")
    ),
    "a rule is reworded": Breakage(_patch_results(_reword), ("rules verbatim after ten compactions",)),
    "pictures are lost": Breakage(_patch_results(_lose_pictures), ("images",)),
    "the threads are mixed up": Breakage(
        {"_scope": _use_one_thread(Compactor._scope)},  # noqa: SLF001 - as above
        ("two agents at once",),
    ),
    "results are cleared below the trigger": Breakage(_patch_constructor(_clear_early), ("below the trigger",)),
    "off is ignored": Breakage(_patch_constructor(_ignore_off), ("off",)),
    "a summariser's failure ends the run": Breakage(_raise_summariser_failures(), ("summariser down",)),
    "undo does nothing": Breakage(_patch_method("undo", _return_messages), ("undo",)),
    "replay does nothing": Breakage(_patch_method("replay", _return_messages), ("replay exact", "images")),
}


class BrokenAdapterContract:
    """That the contract notices, through this door, each way in which an adapter can be wrong."""

    @pytest.mark.parametrize(
        ("name", "scenario"), [(name, one) for name in BREAKAGES for one in BREAKAGES[name].noticed_by]
    )
    def test_a_broken_adapter_is_noticed(self, name: str, scenario: str, door: Door, tmp_path: Path) -> None:
        with mock.patch.multiple(Compactor, **BREAKAGES[name].patches):
            error = catch_error(lambda: SCENARIOS[scenario](door, tmp_path))
        assert error is not None, f"{scenario!r} is green although {name}"
        assert not isinstance(error, TypeError | AttributeError | NameError), "the breakage itself is broken"
