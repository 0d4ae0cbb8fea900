"""One file for each peer: how it fits a conversation. `lab/benchmarks/README.md` says how to add one."""
