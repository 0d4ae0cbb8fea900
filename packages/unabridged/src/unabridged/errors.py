"""Everything that this package raises on purpose.

    UnabridgedError
    ├── SettingsError          a setting that could fail later, refused at construction
    │   ├── FunctionFailed     a function of the host's raised, or returned what it may not
    │   └── NotInstalled       a library that a part needs is missing or too old; an `ImportError` too
    ├── IllegalConversation    a provider would refuse it and it can't be mended, or a message can't be read at all
    ├── WontFit                the fixed overhead alone is over the budget
    ├── SummaryFailed          a summary was asked for and none was good enough
    └── ArchiveError           the record could not be written or read

A message has numbers and the remedy.
"""

from __future__ import annotations


class UnabridgedError(Exception):
    """The root: catch this to catch everything this package raises on purpose."""


class SettingsError(UnabridgedError, ValueError):
    """A setting is wrong; the message has the valid range."""


class FunctionFailed(SettingsError):  # noqa: N818 - reads as what it is, like the others
    """A function of the host's (`counter`, `origin`, `pin`, `redact`) raised, or returned what it may not.

    `function` is its name. Nothing was changed: without it nobody can say what the list would have to be.
    """

    def __init__(self, function: str, what: str) -> None:
        self.function = function
        super().__init__(f"{function} {what}. Nothing was changed; mend {function}, or leave it out")


class NotInstalled(SettingsError, ImportError):  # noqa: N818 - likewise
    """A part of this package needs a library that is not there, or a newer one; the message says how to install it.

    An `ImportError` too, so that a program that does without the part can go on as it does for any other package.
    """

    def __init__(self, part: str, packages: str, error: object) -> None:
        super().__init__(f"{part} can't be used ({error}): pip install '{packages}'")


class IllegalConversation(UnabridgedError, ValueError):  # noqa: N818 - public name, reads as what it is
    """The provider would refuse this conversation and it can't be mended, or a message is none that could be sent.

    The message names the index, the place in that message, and what was found there.
    """


class WontFit(UnabridgedError):  # noqa: N818 - public name, reads as what it is
    """No compaction can bring the request within the budget.

    `overhead` is what system prompt, tools and pinned messages cost, `floor` the smallest size reachable, `window` the
    model's limit, `budget` the window less the reserve. All in tokens.
    """

    def __init__(self, *, overhead: int, floor: int, budget: int, window: int) -> None:
        """Name the sizes, so that the reader sees at once what is too large."""
        self.overhead, self.floor, self.budget, self.window = overhead, floor, budget, window
        super().__init__(
            f"the request can't be made smaller than {floor:,} tokens ({overhead:,} of them system prompt, tools and "
            f"pins), but the budget is {budget:,} of a {window:,}-token window. "
            "Shorten the system prompt, bind fewer tools, unpin messages, or use a model with a larger window."
        )


class SummaryFailed(UnabridgedError):  # noqa: N818 - public name, reads as what it is
    """A summary was asked for and none was good enough; history is unchanged.

    `reason` says why in words that may stand in logs and receipts: nothing of what was said is in it. `cost` is what
    the calls took that were answered and paid for all the same: `calls`, tokens, and dollars where prices are known.
    `others` are the failures of other models that were asked before, each with its own cost.
    """

    resting = False
    """Whether nobody was asked, because each model is left alone for a while after a failure."""

    def __init__(self, message: str, *, reason: str = "", place: int | None = None) -> None:
        self.reason = reason or message
        self.place = place
        """Which model failed: 0 is the first, 1 the fallback; None where none was asked."""
        self.cost: dict[str, float] = {}
        self.others: tuple[SummaryFailed, ...] = ()
        super().__init__(message)


class ArchiveError(UnabridgedError):
    """The archive could not be written or read; nothing was evicted."""
