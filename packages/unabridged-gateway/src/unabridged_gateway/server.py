"""The gateway as a program: uvicorn on one address, until it is told to stop."""

from __future__ import annotations

import gc
import os
import socket
import threading
from collections.abc import Callable
from types import FrameType

import uvicorn

from unabridged.errors import SettingsError
from unabridged_gateway.app import Gateway
from unabridged_gateway.config import Config
from unabridged_gateway.connections import connection_with

PATIENCE = 7
"""Seconds that requests under way get to end after SIGTERM."""
_LAST = 9.5
"""Seconds after which the process ends, whatever still hangs: a record is written whole, or not at all."""
_COLLECTED = 3_000
"""Objects after which Python looks for garbage: with many requests at once, its usual 700 cost a tenth of the time.
More would save little, and keep large bodies in memory for longer."""


class _Server(uvicorn.Server):
    """A server that has an end."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal: stop taking requests, and see to it that this comes to an end."""
        if not self.should_exit:
            last = threading.Timer(_LAST, os._exit, [0])
            last.daemon = True
            last.start()
        super().handle_exit(sig, frame)


def serve(config: Config, on_listen: Callable[[str], object] = lambda _: None) -> None:
    """Serve until a signal ends it. Requests under way are answered first, for at most `PATIENCE` seconds.

    `on_listen` is told the address, as soon as connections are taken.
    """
    listening = _listen(config.host, config.port)
    settings = uvicorn.Config(
        Gateway(config),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,  # the provider's own goes through
        timeout_graceful_shutdown=PATIENCE,
        timeout_keep_alive=75,
        ws="none",
        lifespan="on",
        proxy_headers=False,
        http=connection_with(config.head),
    )
    host = f"[{config.host}]" if ":" in config.host else config.host
    on_listen(f"http://{host}:{listening.getsockname()[1]}")
    gc.collect()
    gc.freeze()  # what was made so far stays: no need to look through it while requests are served
    gc.set_threshold(_COLLECTED)
    _Server(settings).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        raise SettingsError(f"can't listen on {host}:{port} ({error.strerror}): choose another --port") from error
    listening.listen(2048)
    return listening
