"""The prose of a summary turn, by way of a model that is asked well and never trusted blindly. No I/O.

In reading order: `brief` (what a writer is told), `summary_body` (the body of a summary turn, and who writes it); where
there is a model, `ask_loop` (a conversation in, its summary out), `chunks` (what of it an ask shows), `prompt` with
`prompt.md` (how it is worded), `verify` (what is wrong with a reply), `checks` with `headings` (what of the prose, and
of the standing rules that a model lists, may stand).
"""
