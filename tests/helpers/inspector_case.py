"""An inspector on loopback, and archives for it to show."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from conversations import assistant, chat_round, user
from patience import PATIENCE
from places import HELPERS
from unabridged import Compactor
from unabridged.archive.protocol import Archive, Scope
from unabridged.settings import Clear, Settings
from unabridged_cli.clients.hook.actions import archive_session
from unabridged_cli.clients.hook.transcript import HookSession, detect_transcript_kind
from unabridged_cli.inspector.server import InspectorServer

PLANTED = "the heron wears a green hat"
HOSTILE = (
    "</pre></script><script>window.owned = 1</script><img src='http://192.0.2.1/x.png' onerror='window.owned = 2'>"
    "<style>*{display:none!important}</style><!-- \x1b[2J \0 \u202e\u2066 \u200b\ud800 ${7*7} {{7*7}} \U000e0041 "
    "<a href='javascript:window.owned=3'>x</a> \"'`><svg onload=window.owned=4> &lt;b&gt; Z\u0335\u0353\u0316\u0324lgo"
)


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Door:
    """The inspector as somebody without a browser sees it: every header is theirs to choose."""

    def __init__(self, server: InspectorServer) -> None:
        self.server = server
        self.host = urlsplit(server.url).netloc
        self.cookie = ""

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str | None) -> Answer:
        wanted: dict[str, str | None] = {"Host": self.host, "Cookie": self.cookie or None}
        wanted |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        sent = json.dumps(body).encode() if body is not None else b""
        if body is not None:
            wanted = {"Content-Type": "application/json", **wanted, "Content-Length": str(len(sent))}
        for name, value in wanted.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(sent or None)
        response = connection.getresponse()
        answer = Answer(response.status, dict(response.getheaders()), response.read())
        connection.close()
        return answer

    def enter(self) -> Answer:
        """Bring the token, and keep the cookie."""
        answer = self.ask(self.server.url.removeprefix(f"http://{self.host}"))
        self.cookie = answer.headers.get("Set-Cookie", "").partition(";")[0]
        return answer

    def get(self, name: str, **asked: Any) -> Any:
        answer = self.ask(f"/api/{name}?{urlencode(asked)}")
        assert answer.status == 200, answer.body
        return answer.json

    def post(self, name: str, **asked: Any) -> Answer:
        return self.ask(f"/api/{name}", "POST", asked, Origin=f"http://{self.host}")


@contextmanager
def inspecting(archive: Archive, *, write: bool = False, follow: str | None = None) -> Iterator[Door]:
    """An inspector that answers as long as this lasts."""
    with InspectorServer(archive, write=write, follow=follow) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield Door(server)
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def inspecting_alone(url: str, home: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The command in a process of its own: the address that it prints, and the process."""
    command = [sys.executable, "-c", f"from unabridged_cli.app import main; main(['inspect', '--archive', {url!r}])"]
    environment = {"PYTHONPATH": ":".join(sys.path), "HOME": str(home)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().decode().strip(), child  # from a pipe: it was flushed
        finally:
            child.terminate()


def talk(archive: Archive, namespace: str, thread: str, words: str, rounds: int = 100) -> None:
    """A conversation with several compactions: chat that is summarised, and tools whose bulk is cleared first."""
    messages: list[Any] = [user(f"{words}. Never push to main."), assistant(f"I note that {PLANTED}.")]
    settings = Settings(clear=Clear(keep_rounds=1))
    with Compactor(window=8_000, archive=archive, namespace=namespace, settings=settings) as compactor:
        for at in range(rounds):
            messages = compactor.fit([*messages, user(f"{words}, part {at}?")], thread=thread).messages
            if at % 6 == 0:
                lines = "\n".join(f"{words} {at * line}" for line in range(60))
                messages = [*messages, *chat_round(f"read_file{at}", lines, path=f"src/part{at}.py")]
            messages = [*messages, assistant(f"{words}: {at} is done. " + "It went well. " * 12)]


def play(session: Path, archive: Archive, namespace: str, thread: str, window: int) -> None:
    """A recorded session, request by request."""
    held: list[Any] = []
    waiting: set[str] = set()
    with Compactor(window=window, archive=archive, namespace=namespace) as compactor:
        for message in json.loads(session.read_text(encoding="utf-8"))["messages"]:
            held = [*held, message]
            waiting |= {call["id"] for call in message.get("tool_calls") or ()}
            waiting -= {message.get("tool_call_id")}
            if not waiting and message["role"] != "assistant":
                held = compactor.fit(held, thread=thread).messages


SESSIONS = {
    "claude-code": (HELPERS / "fixtures/hooks/claude_code_transcript.jsonl", "/home/ada/project", (16, 18)),
    "codex": (HELPERS / "fixtures/hooks/codex_transcript.jsonl", "/home/ada/project", (13,)),
    "pi": (HELPERS / "session_files/pi_compacted.jsonl", "/home/lu/kiln", (15,)),
}
"""By client a session as the real one wrote it, its project, and the turns of the client's own summaries."""


BREAKS = (34, 71)
"""Where the recorded coding session is compacted, as a session of Claude Code's."""
CONTINUED = "This session is being continued from a previous conversation that ran out of context."


def copy_session(recorded: Path, folder: Path, archive: Archive) -> Scope:
    """The recorded session as a file of Claude Code's, which compacted it twice, copied as its hook copies it."""
    lines: list[dict[str, Any]] = []
    messages = json.loads(recorded.read_text(encoding="utf-8"))["messages"]
    for at, message in enumerate(messages):
        if at in BREAKS:
            said = [f"- {one['content']}" for one in messages[:at] if one["role"] != "tool" and one["content"]]
            summary = user("\n".join([CONTINUED, *said]))
            lines.append({"type": "user", "message": summary, "isCompactSummary": True})
        lines.append(
            {"type": "assistant" if message["role"] == "assistant" else "user", "message": _as_blocks(message)}
        )
    about = {"sessionId": "0d5c1a52", "cwd": "/home/mara/ferryboard", "isSidechain": False, "parentUuid": None}
    began = datetime(2026, 10, 28, 8, 0, tzinfo=UTC)
    for minute, line in enumerate(lines):
        line |= {**about, "timestamp": (began + timedelta(minutes=minute)).isoformat()}
    path = folder / "0d5c1a52-7f1e-4f0c-9a7e-3a0a7a1f2b11.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    kind = detect_transcript_kind(path)
    assert kind is not None
    source = HookSession(kind, path.stem, path)
    assert archive_session(source, "SessionStart compact", 60, archive)
    return Scope("default", source.thread)


def _as_blocks(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of a chat in blocks, as Claude Code writes it."""
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
        return {"role": "user", "content": [result]}
    blocks: list[Any] = [{"type": "text", "text": message["content"]}] if message.get("content") else []
    for call in message.get("tool_calls") or ():
        asked = json.loads(call["function"]["arguments"])
        blocks.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": asked})
    return {"role": message["role"], "content": blocks}
