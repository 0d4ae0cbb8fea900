"""One file for each framework: how its agents are run, with our adapter and with what the framework has itself."""
