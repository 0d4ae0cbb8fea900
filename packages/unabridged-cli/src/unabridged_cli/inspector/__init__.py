"""A local web page on the archive: `server.py` has the door and its lock, `api.py` what the page may ask.

What is shown is made as plain values: `listing.py` (all threads), `threads.py` (one, over its turns), `sessions.py`
(those of coding agents), `compactions.py` (one, before and after), `finding.py` (search), `trial.py` (what other
settings would have done), `changes.py` (undo and forget). `pages.py` puts the files in `web/` together: served, or
frozen into one file. docs/inspect.md is for people.
"""
