"""Clearing, pins and redaction in the gateway, for a model and for a tenant; and settings that a window overrules."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_case import PATHS, body_of, say
from gateway_watched import watched
from patience import PATIENCE
from provider_app import ProviderApp
from serving import serve_in_thread
from unabridged import Compactor
from unabridged.archive import Scope, open_archive
from unabridged_gateway.app import Gateway
from unabridged_gateway.config_file import load_config

PIN = "Never push to main on a Friday."
SECRET = "sk-proj-4f9aB2cD3eF4gH5iJ6kL7mN8"  # noqa: S105 - planted
TENANTS = {name: f"{name}-has-a-token-of-her-own" for name in ("alice", "carol")}
CONFIG = f"""
window = "8k"
summariser = "none"
port = 0
[models."gpt-5"]
pins = ["{PIN}"]
clear = false
[models."claude-*"]
redact = true
[tenants.alice]
token = "{TENANTS["alice"]}"
[tenants.carol]
token = "{TENANTS["carol"]}"
pins = []
clear = true
redact = false
"""


def talked(name: str) -> dict[str, Any]:
    """A long talk, with a secret in what the user said."""
    body = body_of(name, 100)
    body["messages"][6]["content"] = f"Use {SECRET} for the upload. " + "It is for the test machine alone. " * 10
    return body


def worked(name: str) -> dict[str, Any]:
    """A request at the end of many tool calls."""
    said: list[Any] = [{"role": "user", "content": "Look at all of the parts."}]
    for number in range(60):
        result = f"part {number}: " + "a reading that was steady, " * 30
        if name == "messages":
            call = {"type": "tool_use", "id": f"c{number}", "name": "look", "input": {"part": number}}
            said.append({"role": "assistant", "content": [call]})
            answer = {"type": "tool_result", "tool_use_id": f"c{number}", "content": result}
            said.append({"role": "user", "content": [answer]})
        else:
            function = {"name": "look", "arguments": json.dumps({"part": number})}
            calls = [{"id": f"c{number}", "type": "function", "function": function}]
            said.append({"role": "assistant", "tool_calls": calls})
            said.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    return {"model": "claude-opus-5-5" if name == "messages" else "gpt-5", "max_tokens": 100, "messages": said}


@contextmanager
def tenants(folder: Path) -> Iterator[tuple[httpx.Client, ProviderApp, str]]:
    """A client of a gateway with these settings, the provider behind it, and the archive's URL."""
    provider = ProviderApp(say, window=8_000)
    path, archive = folder / "gateway.toml", f"sqlite:///{folder}/archive.db"
    path.write_text(CONFIG, encoding="utf-8")
    path.chmod(0o600)
    with (
        serve_in_thread(provider) as upstream,
        serve_in_thread(Gateway(load_config(path, upstream=upstream, archive=archive))) as url,
        httpx.Client(base_url=url, timeout=PATIENCE) as client,
    ):
        yield client, provider, archive


@pytest.mark.parametrize(
    ("tenant", "name", "found"),
    [
        ("alice", "chat", {"pinned"}),
        ("alice", "messages", {"cleared", "masked"}),
        ("carol", "chat", {"cleared"}),
        ("carol", "messages", {"cleared"}),
    ],
)
def test_a_model_and_a_tenant_have_their_own_clearing_pins_and_redaction(
    tmp_path: Path, tenant: str, name: str, found: set[str]
) -> None:
    headers = {"x-unabridged-token": TENANTS[tenant]}
    with tenants(tmp_path) as (client, provider, archive):
        for thread, body in (("talk", talked(name)), ("work", worked(name))):
            answer = client.post(PATHS[name], json=body, headers={**headers, "x-unabridged-thread": thread})
            assert answer.status_code == 200, answer.text
            assert answer.headers["x-unabridged-record"]
    talk, work = (request.body.decode() for request in provider.raw)
    masked = "masked" in found
    assert (PIN in talk) is ("pinned" in found)
    assert (SECRET in talk) is not masked
    assert ("openai-key withheld" in talk) is masked
    with closing(open_archive(archive)) as store:
        kinds = {record.kind for record in store.records(Scope(tenant, "work"))}
        assert ("clearing" in kinds) is ("cleared" in found), kinds
        assert bool(store.search(Scope(tenant, "talk"), SECRET.removeprefix("sk-proj-"), 3)) is not masked
    with Compactor(window=8_000, archive=archive, namespace=tenant) as compactor:
        for thread, sent, body in (("talk", talk, talked(name)), ("work", work, worked(name))):
            assert compactor.replay(json.loads(sent)["messages"], thread=thread) == body["messages"], "originals stay"


def test_without_the_archive_they_hold_too(tmp_path: Path) -> None:
    with tenants(tmp_path) as (client, provider, _):
        for path in tmp_path.glob("archive.db*"):
            path.write_bytes(b"this is no database " * 400)
        for name in ("chat", "messages"):
            answer = client.post(PATHS[name], json=talked(name), headers={"x-unabridged-token": TENANTS["alice"]})
            assert "without a record" in answer.headers["x-unabridged-note"]
    chat, messages = (request.body.decode() for request in provider.raw)
    assert PIN in chat
    assert SECRET not in messages


@pytest.mark.parametrize(
    ("flags", "words", "setting"),
    [
        ({"trigger": ["500k"]}, "the trigger is 500,000 tokens and the window 272,000", "trigger"),
        ({"trigger": ["0.001"], "keep": ["9k"]}, "keep is 9,000 tokens in this window and the trigger 272", "keep"),
    ],
)
def test_what_only_a_models_window_overrules_is_said_once_a_model(
    flags: dict[str, Any], words: str, setting: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log and in the numbers; and to every client whose request it concerns."""
    with caplog.at_level(logging.WARNING), watched(ProviderApp(say, window=900_000), window=None, **flags) as one:
        for model in ("gpt-5", "gpt-5", "gpt-5-mini", "gpt-5"):
            answer = one.client.post(PATHS["chat"], json=body_of("chat", 1, model=model))
            assert answer.status_code == 200
            assert words in answer.headers["x-unabridged-note"]
        assert one.numbers()[f"settings_overruled_total {setting}"] == 2
    said = [record.getMessage() for record in caplog.records if "said once for each model" in record.getMessage()]
    assert [line.split(",")[0] for line in said] == ["for gpt-5", "for gpt-5-mini"]
    assert all(words in line for line in said)


def test_a_window_that_allows_the_settings_is_not_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING),
        watched(ProviderApp(say, window=900_000), window=None, trigger=["100k"]) as one,
    ):
        answer = one.client.post(PATHS["chat"], json=body_of("chat", 1))
        assert "x-unabridged-note" not in answer.headers
        assert not any(name.startswith("settings_overruled_total ") for name in one.numbers())
    assert "said once for each model" not in caplog.text
