"""The server: for one person on this machine. No content without the token that only the printed address has.

The address holds a token that works once; who brings it gets a cookie, which no script can read and no other site's
request carries. A request for another host name, or from another origin, is refused before anything else is looked at.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs

from unabridged.archive.protocol import Archive
from unabridged.errors import SettingsError, UnabridgedError
from unabridged_cli.inspector import pages
from unabridged_cli.inspector.api import Api, Download, NotAllowed
from unabridged_cli.inspector.listing import NotInArchive

log = logging.getLogger("unabridged.inspector")

HOST: Final = "127.0.0.1"
MAX_BODY_BYTES: Final = 65_536
"""Bytes of a request's body: what the page sends is tiny."""
_HEADERS: Final = {
    "Content-Security-Policy": pages.CONTENT_SECURITY_POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_OPEN_ADDRESS: Final = (
    "Open the address that `unabridged inspect` printed. It works once: for another browser start it again."
)


class InspectorServer(ThreadingHTTPServer):
    """The server, listening; `serve_forever` answers. `url` is the address to open, with the token in it."""

    allow_reuse_address = os.name != "nt"  # there it would let another program listen beside us
    daemon_threads = True
    block_on_close = False

    def __init__(self, archive: Archive, *, port: int = 0, write: bool = False, follow: str | None = None) -> None:
        if not 0 <= port <= 65_535:
            raise SettingsError(f"there is no port {port}: choose one up to 65535, or 0 to have one found")
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise SettingsError(f"can't listen on {HOST}:{port} ({error.strerror}): choose another --port") from error
        self.api = Api(archive, write=write, follow=follow)
        number = self.server_address[1]
        self.hosts = frozenset({f"{HOST}:{number}", f"localhost:{number}"})
        self.cookie = f"unabridged-{number}"
        self._token: str | None = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._lock = threading.Lock()
        self.url = f"http://{HOST}:{number}/?token={self._token}"

    def redeem_token(self, token: str) -> str | None:
        """Return the session for who brings the token, the first time it is brought; else None."""
        with self._lock:
            if self._token is None or not secrets.compare_digest(token.encode(), self._token.encode()):
                return None
            self._token = None
            return self._session

    def is_session_secret(self, secret: str) -> bool:
        """Return whether this is the session's secret."""
        return secrets.compare_digest(secret.encode("utf-8", "replace"), self._session.encode())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a browser that went away for who debugs, and for nobody else."""
        log.debug("the connection %s of %s broke off", request, client_address)


class _RequestRefused(Exception):  # noqa: N818 - an answer, not a fault
    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: InspectorServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 120

    def version_string(self) -> str:
        """Return the header `Server`."""
        return "unabridged"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Log nothing: what people look at is nobody's business."""

    def do_GET(self) -> None:
        """Answer with a page, its parts, or an answer of the API."""
        self._handle_request(self._handle_get)

    def do_POST(self) -> None:
        """Carry out the action that is posted."""
        self._handle_request(self._handle_post)

    def _handle_request(self, work: Callable[[str, dict[str, str]], None]) -> None:
        try:
            self._check_sender()
            path, _, query = self.path.partition("?")
            arguments = {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
            work(path, arguments)
        except _RequestRefused as refused:
            self.close_connection = True
            self._send(refused.status, f"{refused}\n".encode(), "text/plain; charset=utf-8")
        except NotAllowed as error:
            self._send_json({"error": str(error)}, HTTPStatus.FORBIDDEN)
        except NotInArchive as error:
            self._send_json({"error": str(error)}, HTTPStatus.NOT_FOUND)
        except UnabridgedError as error:
            self._send_json({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        except Exception as error:
            log.exception("%s failed", self.path.partition("?")[0])
            words = f"this failed ({type(error).__name__}); the terminal says more"
            self._send_json({"error": words}, HTTPStatus.INTERNAL_SERVER_ERROR)

    # -- who asks -----------------------------------------------------------------------------------------------------

    def _check_sender(self) -> None:
        """Refuse a host name that is not ours (rebinding), and a page of another origin, whatever it wants."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0].lower() not in self.server.hosts:
            raise _RequestRefused(HTTPStatus.MISDIRECTED_REQUEST, "This host name is not served here.")
        origin = self.headers.get("Origin")
        if origin is not None and origin.lower() != f"http://{hosts[0].lower()}":
            raise _RequestRefused(HTTPStatus.FORBIDDEN, "Another origin may not ask here.")
        site = self.headers.get("Sec-Fetch-Site", "none")
        if site not in {"none", "same-origin"} and self.headers.get("Sec-Fetch-Mode") != "navigate":
            raise _RequestRefused(HTTPStatus.FORBIDDEN, "Another site may not ask here.")

    def _has_session_cookie(self) -> bool:
        try:
            cookies = SimpleCookie(self.headers.get("Cookie", ""))
        except CookieError:
            return False
        cookie = cookies.get(self.server.cookie)
        return cookie is not None and self.server.is_session_secret(cookie.value)

    def _require_session(self) -> None:
        if not self._has_session_cookie():
            raise _RequestRefused(HTTPStatus.UNAUTHORIZED, _OPEN_ADDRESS)

    # -- what is asked ------------------------------------------------------------------------------------------------

    def _handle_get(self, path: str, arguments: dict[str, str]) -> None:
        if path == "/" and "token" in arguments:
            self._exchange_token_for_cookie(arguments["token"])
            return
        self._require_session()
        if path in pages.SERVED_PATHS:
            body, kind = pages.read_page(path)
            self._send(HTTPStatus.OK, body, kind)
        elif path.startswith("/api/"):
            answer = self.server.api.get(path.removeprefix("/api/"), arguments)
            if isinstance(answer, Download):
                self._send(HTTPStatus.OK, answer.body, answer.kind, answer.headers)
            else:
                self._send_json(answer)
        else:
            raise _RequestRefused(HTTPStatus.NOT_FOUND, "There is nothing here.")

    def _handle_post(self, path: str, arguments: dict[str, str]) -> None:
        self._require_session()
        if self.headers.get("Origin") is None:  # every browser sends it with a POST
            raise _RequestRefused(HTTPStatus.FORBIDDEN, "Only the page itself may ask for this.")
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            words = f"A body of up to {MAX_BODY_BYTES:,} bytes is needed."
            raise _RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words)
        body = self.rfile.read(int(length))
        if self.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            raise _RequestRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "JSON is needed.")
        try:
            value = json.loads(body)
        except ValueError as error:
            raise _RequestRefused(HTTPStatus.BAD_REQUEST, f"This is no JSON: {error}.") from error
        del arguments
        fields = {name: str(field) for name, field in value.items()} if isinstance(value, dict) else {}
        self._send_json(self.server.api.post(path.removeprefix("/api/"), fields))

    def _exchange_token_for_cookie(self, token: str) -> None:
        """Set a cookie in exchange for the token, and redirect to the address without it.

        By a page of our own: a redirect of a link that was clicked elsewhere would not carry a strict cookie.
        """
        session = self.server.redeem_token(token)
        if session is None and not self._has_session_cookie():
            raise _RequestRefused(HTTPStatus.UNAUTHORIZED, _OPEN_ADDRESS)
        cookie = f"{self.server.cookie}={session}; Path=/; HttpOnly; SameSite=Strict"
        body = (
            b'<!doctype html><html lang="en"><title>unabridged</title><link rel="icon" href="data:,">'
            b'<meta http-equiv="refresh" content="0; url=/">'
        )
        self._send(HTTPStatus.OK, body, "text/html; charset=utf-8", {"Set-Cookie": cookie} if session else {})

    # -- how it is answered -------------------------------------------------------------------------------------------

    def _send_json(self, value: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(status, json.dumps(value, separators=(",", ":")).encode("ascii"), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(body)), **(more or {})}
        if self.close_connection:
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def serve(server: InspectorServer) -> None:
    """Serve until it is interrupted."""
    with server:
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return
