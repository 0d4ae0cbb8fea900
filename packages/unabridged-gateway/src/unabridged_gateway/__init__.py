"""An HTTP gateway between any client and its provider: it speaks the provider's protocol, and long conversations fit.

`config.py` says how it runs; `connections.py` limits what anybody may send; a request goes through `tenants.py` (whose
is it), `request_body.py` (its body) and `headers.py` (what is passed on). `app.py` has the way of a request,
`conversation.py` that of one with a conversation; `monitoring.py` counts and logs them. docs/gateway.md is for who
runs it.
"""

from importlib.util import find_spec

from unabridged.errors import NotInstalled

_REQUIRED_MODULES = ("aiohttp", "httptools", "msgspec", "prometheus_client", "uvicorn", "zstandard")

if missing := [name for name in _REQUIRED_MODULES if find_spec(name) is None]:
    raise NotInstalled("the gateway", "unabridged[gateway]", f"not installed: {', '.join(missing)}")
