"""Run the gateway as a program: uvicorn on one address, until a signal ends it."""

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
from unabridged_gateway.connections import build_connection_class

SHUTDOWN_SECONDS = 7
"""Seconds that requests under way get to end after SIGTERM."""
_EXIT_SECONDS = 9.5
"""Seconds after which the process ends, whatever still hangs: a record is written whole, or not at all."""
_COLLECTION_THRESHOLD = 3_000
"""New objects after which Python collects garbage: with many requests at once, its usual 700 cost a tenth of the time.
More would save little, and keep large bodies in memory for longer."""


class _Server(uvicorn.Server):
    """A server that ends in time."""

    def __init__(self, settings: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(settings)
        self._gateway = gateway

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop taking requests, and end the process in time whatever still hangs."""
        if not self.should_exit:
            timer = threading.Timer(_EXIT_SECONDS, os._exit, [0])
            timer.daemon = True
            timer.start()
        self._gateway.monitor.feed.close()
        super().handle_exit(sig, frame)


def serve(config: Config, on_listen: Callable[[str], object] = lambda _: None) -> None:
    """Serve until a signal ends it. Requests under way are answered first, for at most `SHUTDOWN_SECONDS`.

    Call `on_listen` with the address, as soon as connections are taken.
    """
    listening = _open_listening_socket(config.listening.host, config.listening.port)
    gateway = Gateway(config)
    settings = uvicorn.Config(
        gateway,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,  # the provider's own goes through
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_keep_alive=75,
        ws="none",
        lifespan="on",
        proxy_headers=False,
        http=build_connection_class(config.listening),
    )
    host = config.listening.host
    on_listen(f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}")
    gc.collect()
    gc.freeze()  # what was made so far stays: no need to look through it while requests are served
    gc.set_threshold(_COLLECTION_THRESHOLD)
    _Server(settings, gateway).run(sockets=[listening])


def _open_listening_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        raise SettingsError(f"can't listen on {host}:{port} ({error.strerror}): choose another --port") from error
    listening.listen(2048)
    return listening
