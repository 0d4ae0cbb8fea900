"""A local web page on the archive: `server.py` checks who asks, `api.py` has what the page may ask.

What is shown is built as plain values: `listing.py` (all threads), `threads.py` (one, over its turns), `sessions.py`
(those of coding agents), `compactions.py` (one, before and after), `search.py`, `trial.py` (what other
settings would have done), `changes.py` (undo and forget). `pages.py` puts the files in `web/` together: served, or
frozen into one file. docs/inspect.md is for people.
"""
