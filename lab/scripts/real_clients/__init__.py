"""The real coding agents, from npm, headless against a provider on loopback: `make clients`.

In reading order: `packages` (download them), `streams` and `loopback` (the provider), `seeds` (recorded conversations
as session files of each client), `clients` (how each is configured and run); then what is tried: `grown`, `plugin`,
`recorded`, `resumed`, `faults`, `through_gateway` (with more clients in `gateway_only`), `sdk`; `record` (what hooks
are given, as fixtures), `report`.
"""
