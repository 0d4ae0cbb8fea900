"""What a summary turn carries verbatim, found, merged and rendered by rule: no model ever rewrites it.

entries    the ledger as a value, and as JSON
gather     one pass over a block of messages: what it leaves to the ledger; two ledgers as one
actions, shell, outcomes    what was done, read off tool calls and their answers
names, files                what has to be spelled exactly
notes                       sentences worth keeping
rank       which entries come first, and which go
summary_turn                the ledger as text within a budget: `LAYOUT` is the layout of the summary turn
lines, action_lines         the entries in words
page                        room, shared out
"""
