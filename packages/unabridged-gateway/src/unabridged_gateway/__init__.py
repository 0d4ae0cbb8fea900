"""An HTTP gateway between any client and its provider: it speaks the provider's protocol, and long conversations fit.

`config.py` says how it runs; `connections.py` limits what anybody may send; a request goes through `tenants.py` (whose
is it), `encodings.py` (its body) and `headers.py` (what is passed on). `app.py` has the way of a request,
`conversation.py` that of one with a conversation; what is told of them goes through `operation.py`. docs/gateway.md is
for those who run it.
"""

from importlib.util import find_spec

from unabridged.errors import NotInstalled

_NEEDED = ("aiohttp", "httptools", "msgspec", "prometheus_client", "uvicorn", "zstandard")

if missing := [name for name in _NEEDED if find_spec(name) is None]:
    raise NotInstalled("the gateway", "unabridged[gateway]", f"not installed: {', '.join(missing)}")
