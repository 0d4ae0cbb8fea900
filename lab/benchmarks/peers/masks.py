"""No compaction but masks: old tool results replaced one by one, or in steps; and everything, every time."""

from __future__ import annotations

from functools import partial

from benchmarks.harness import Arm, Fit, Given, Message, serve
from unabridged.authorship import assign_origins
from unabridged.formats import get_format
from unabridged.messages import View

MASK = "[Old tool result cleared]"


def mask(given: Given, *, step: int) -> Fit:
    """Return a `Fit` that masks all but the last ten results, whenever `step` more have become maskable."""
    read, history, views = get_format("openai-chat").read, list[Message](), list[View]()
    masked: dict[int, Message] = {}
    keep = given.settings.get("results", 10)
    given.originals = lambda: history

    def fit(new: list[Message], _: int | None) -> list[Message]:
        history.extend(new)
        views.extend(read(message) for message in new)
        with given.clock:
            seen = assign_origins(views)
            results = [i for i, view in enumerate(seen) if view.origin == "tool" or view.answers]
            for i in results[: max(0, len(results) - keep) // step * step]:
                masked.setdefault(i, {**history[i], "content": MASK})
            return [masked.get(i, message) for i, message in enumerate(history)]

    return fit


def raw(given: Given) -> Fit:
    """Return a `Fit` that sends everything, every time."""
    history: list[Message] = []
    given.originals = lambda: history

    def fit(new: list[Message], _: int | None) -> list[Message]:
        with given.clock:
            history.extend(new)
        return history

    return fit


if __name__ == "__main__":
    grid: list[dict[str, int]] = [{}, {"results": 5}, {"results": 3}]
    arms = {"rolling mask": Arm(partial(mask, step=1), model=False, grid=grid)}
    arms["stepped mask"] = Arm(partial(mask, step=30), model=False, grid=grid)
    serve({**arms, "raw": Arm(raw, model=False)})
