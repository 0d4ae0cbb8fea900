"""The prose of a summary turn, by way of a model that is asked well and never trusted blindly. No I/O.

In reading order: `block` (a block of conversation in, its summary out), `chunking` and `shown` (what of it an ask
shows), `instructions` with `prompt.md` (how it is worded), `verify` and `language` (what is wrong with a reply),
`claims` with `attributed`, `evidence` and `claims.json` (what it claims, held against what was said), `standing` (rules
that a model finds), `preserved` (people's own words), `writing` and `writers` (the summary turn put together, and who
writes it).
"""
