"""What a summary turn carries verbatim, found, merged and rendered by rule: no model ever rewrites it.

In reading order: `entries` (the ledger as a value), `gather` (one pass over a block of messages), what it reads off
them (`requests`, `rules`, `actions` with `shell` and `outcomes`, `names`, `notes`; wording by language in
`languages/`), `merge` (two ledgers as one), `render` with `page` and `shelf` (as text within a budget), and
`extract`, the summariser that needs no model.
"""
