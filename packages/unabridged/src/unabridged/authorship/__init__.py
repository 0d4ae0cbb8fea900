"""Whose words a turn is, by its role, its blocks, known frames of hosts, and what the caller says.

    with_origins     return the views with the origin of every `user` turn
    count_turns      count how the assistant's turns end, for lists that were shortened since
    set_apart        return a person's turn without the blocks that another system put into it
    own_words        return a turn without what the host put beside the person's words
    own_sentences    yield a person's own sentences, without fences, quotations and tagged blocks
    retold_in        return what another system's summary in a turn says
    rejection_in     return what a person said when rejecting a tool call
    exit_code_in     return the exit code that a host's frame or a JSON field states

No sentence is interpreted here: a text in no known frame is what its role says. The frames are data (`frames.json`).
"""

from unabridged.authorship.actions import ends_in_action
from unabridged.authorship.frames import exit_code_in, rejection_in, retold_in, whose_block
from unabridged.authorship.host_words import own_words
from unabridged.authorship.origin import NO_TURNS, TurnCounts, count_turns, counts_in, set_apart, with_origins
from unabridged.authorship.own_sentences import own_sentences

__all__ = [
    "NO_TURNS", "TurnCounts", "count_turns", "counts_in", "ends_in_action", "exit_code_in", "own_sentences",
    "own_words", "rejection_in", "retold_in", "set_apart", "whose_block", "with_origins",
]  # fmt: skip
