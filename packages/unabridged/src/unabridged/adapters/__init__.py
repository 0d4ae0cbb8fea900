"""Frameworks that the engine plugs into: one package each, thin, imported only by those who use the framework.

To add one: `kit/` has what every framework needs; `langchain/` shows how it is used.
"""
