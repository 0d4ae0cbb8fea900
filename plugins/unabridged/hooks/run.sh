#!/bin/sh
# Run `unabridged hook`. Where the program is not installed, say so once a session, at its start, and exit with 0.
if command -v unabridged >/dev/null 2>&1; then
  export UNABRIDGED_PLUGIN=1
  exec unabridged hook
fi
cat >/dev/null
if [ "$1" = start ]; then
  echo '{"systemMessage": "unabridged is not on the PATH, so nothing is archived. Install it: pip install \"unabridged[mcp]\""}'
fi
exit 0
