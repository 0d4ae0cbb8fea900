"""What people mean: whose words a turn is, which requests are open, which rules stand.

    with_origins     the views with the true origin of every `user` turn
    learn, facts_in  what is known of the host from one call to the next
    set_apart        a turn without the blocks that another system put into it
    retold_in        what the summaries in a turn say; `doubtful_in`: what only reads like one
    rejection_in     what a person said when rejecting a tool call
    own_words        a turn without what the host put beside the person's words
    own_sentences    the sentences of a turn that are the person's own, without what they quote or hold up
    find_requests    what people asked and what became of it; `join_requests` puts two stretches together
    find_rules       what people want always, never or only so, and what they take back; `merge_rules`, `add_rules`

Everything else in this package is private to it. The words of each language stand in `languages/`.
"""

from unabridged.intent.entries import GOING, Lead, Lift, Request, Rule
from unabridged.intent.frames import doubtful_in, rejection_in, retold_in, whose_block
from unabridged.intent.host_words import own_words
from unabridged.intent.lifting import concerns
from unabridged.intent.origin import NOTHING, Facts, facts_in, learn, set_apart, with_origins
from unabridged.intent.person_words import own_sentences
from unabridged.intent.requests import find_requests, join_requests, kind_of_turn
from unabridged.intent.rule_sentences import RULE_LIMIT
from unabridged.intent.rules import add_rules, find_rules, merge_rules, possible_rules

__all__ = [
    "GOING", "NOTHING", "RULE_LIMIT", "Facts", "Lead", "Lift", "Request", "Rule", "add_rules", "concerns",
    "doubtful_in", "facts_in", "find_requests", "find_rules", "join_requests", "kind_of_turn",
    "learn", "merge_rules", "own_sentences", "own_words", "possible_rules", "rejection_in",
    "retold_in", "set_apart", "whose_block", "with_origins",
]  # fmt: skip
