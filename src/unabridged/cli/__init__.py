"""The command line: for a person with a file that is too long, or broken, and for a look into the record.

Reading order: `options` (what the commands share), `archives` (the record they work on), `screen` (terminal, pipes,
tables, JSON, progress), then a file for each group of commands: `compact`, `measure`, `check`, `watch`, `evaluate`,
`records`, `restore`, `clients`, `serve`, `inspector`. `picture` draws bars.
"""

from unabridged.cli.app import app, main

__all__ = ["app", "main"]
