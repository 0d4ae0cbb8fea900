"""Measure whether an agent after a compaction still has what it needs: `unabridged eval`, as a library.

In reading order: `score` (the definition), `data` (conversations and questions from files), `cut_points` (where they
are cut), `arms` and `peers` (the ways to shorten them), `questions` (what can still be answered), `line_needs`,
`task_cost` and `task_systems` (what a whole run takes, with the price of forgetting), `report` (rows with averages),
`plot`. Apart from these, a model as the judge: `candidates` (the texts it compares), `reader` (what it is asked, and
what of its replies is accepted), `readings` (the protocol).
"""
