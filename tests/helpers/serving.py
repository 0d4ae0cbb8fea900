"""Serve any ASGI application behind a real port on loopback, for tests: uvicorn in a thread."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import uvicorn

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
"""As ASGI 3 has them."""


@contextmanager
def serve_in_thread(app: Application, *, graceful: int = 2, http: Any = "auto") -> Iterator[str]:
    """Yield the URL of the application, which serves until the block ends and `graceful` seconds longer.

    `http` is a kind of connection, as uvicorn's setting of this name.

    Raise `RuntimeError` where the application does not start.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        access_log=False,
        ws="none",
        timeout_graceful_shutdown=graceful,
        http=http,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name=f"serving {url}", daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            listening.close()
            raise RuntimeError("the application did not start: its lifespan failed")
        time.sleep(0.005)
    try:
        yield url
    finally:
        server.should_exit = True
        thread.join()
