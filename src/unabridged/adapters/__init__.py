"""Frameworks that the engine plugs into: one package each, thin, imported only by those who use the framework."""
