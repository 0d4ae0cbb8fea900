"""What a summary turn carries verbatim, found, merged and rendered by rule: no model ever rewrites it.

entries    the ledger as a value, and as JSON
gather     one pass over a block of messages: what it leaves to the ledger; two ledgers as one
actions, shell, outcomes    what was done, read off tool calls and their answers
sayings                     what people and the assistant said, and how much each of it tells
names                       what has to be spelled exactly: identifiers, files, ids
bounds                      which entries come first, and which go
summary_turn                the ledger as text within a budget: `LAYOUT` is the layout of the summary turn
sections, story, action_lines    each section in words; what was said and done, in order; an action on a line
"""
