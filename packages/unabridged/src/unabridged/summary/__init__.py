"""The summary turn: what it quotes and lists by rule, and the prose that a model writes for it.

ledger, originals            the ledger that a summary turn is rendered from; a ledger made anew from the originals
gather                       build a ledger from messages, and merge two ledgers
actions, shell, outcomes     what was done, read from tool calls and their results
people, remarks, names       messages of people; remarks of the assistant; identifiers, files and ids
bounds                       which entries come first, and which are dropped
layout                       the ledger as text within a budget: `LAYOUT` is the layout of the summary turn
sections, story, action_lines    the text of each section; what was said and done, in order; one action on one line
summary_body                 the body of a summary turn, with a model's prose or without
brief, prompt, chunks        what a model is shown, the prompt, and long input in parts
ask_loop, verify, citations, headings, rules    ask, check the reply, ask again; the rules that a model lists
"""
