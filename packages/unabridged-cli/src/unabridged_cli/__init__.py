"""The command line: for a person with a file that is too long, or broken, and for a look into the record.

Reading order: `app` (every command, errors and exit codes), `options` (what the commands share), `archives` (the record
they work on), `screen` (terminal, pipes, tables, JSON, progress), then `commands/`, a file for each group of them.
`clients/` has the coding agents and their hook, `inspector/` the page in the browser, `mcp_server` the MCP server.
"""
