"""Nine frameworks, each with its client wrapped: what `make frameworks` runs.

An environment a framework is made in a folder outside the project. In it the program of `examples/frameworks/` runs
against a provider on loopback that takes 8,000 tokens, with the framework's defaults and with `unabridged.wrap`. The
table of docs/frameworks.md is written from what came of it.
"""
