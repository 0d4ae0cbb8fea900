"""One call of a `Compactor`, from the caller's list of messages to the list that is sent.

call                          one call: look up, measure, decide, act
conversations, resent_list    what is kept of a conversation between calls, so that a call costs what is new
trigger                       when: to compact, to clear below the trigger, to make a summary early, and what is enough
pipeline, state               the steps of a compaction, and what they work with
restore                       apply compactions that are in the archive
clear, stubs                  replace bulky old tool results by one line each
plan, cut, shorten            choose what goes; shorten what is too large to stay
write, rewrite, store         the summary turn; the new list; the archive and the receipt
hooks                         the host's functions
background, calibrations      summaries made early; the meter's calibration, stored in the archive
"""
