"""How long a test waits for what must come: nothing is measured by it, and a loaded machine never reaches it."""

PATIENCE = 900.0
"""Seconds after which a program is taken to hang."""
