"""The commands: a file for each group of them."""
