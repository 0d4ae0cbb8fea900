"""Whose words a turn is, by its role, its blocks, known frames of hosts, and what the caller says.

    assign_origins              return the views with the origin of every `user` turn
    count_turn_endings          count how the assistant's turns end, for lists that were shortened since
    separate_inserted_blocks    return a person's turn without the blocks that another system put into it
    remove_host_words           return a turn without what the host put beside the person's words
    find_own_sentences          yield a person's own sentences, without fences, quotations and tagged blocks
    find_block_author           return who wrote a block that was set apart
    find_other_summary          return what another system's summary in a turn says
    find_rejection              return what a person said when rejecting a tool call
    find_exit_code              return the exit code that a host's frame or a JSON field states

No sentence is interpreted here: a text in no known frame is what its role says. The frames are data (`frames.json`).
"""

from unabridged.authorship.frames import find_block_author, find_exit_code, find_other_summary, find_rejection
from unabridged.authorship.origin import TurnCounts, assign_origins, count_turn_endings, separate_inserted_blocks
from unabridged.authorship.own_words import find_own_sentences, remove_host_words

__all__ = [
    "TurnCounts", "assign_origins", "count_turn_endings", "find_block_author",
    "find_exit_code", "find_other_summary", "find_own_sentences", "find_rejection",
    "remove_host_words", "separate_inserted_blocks",
]  # fmt: skip
