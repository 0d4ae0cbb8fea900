"""The page about the gateway: its code runs through one, its configuration is taken, its flags and names are there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_case import gateway_before, say
from places import ROOT
from provider_app import ProviderApp
from unabridged.settings import Clear
from unabridged_gateway.command import command
from unabridged_gateway.config_file import PROTOCOL_FAMILIES, load_config
from unabridged_gateway.protocols import find_protocol
from unabridged_gateway.server import SHUTDOWN_SECONDS

PAGE = (ROOT / "docs" / "gateway.md").read_text(encoding="utf-8")
OPERATION = (ROOT / "docs" / "gateway-operation.md").read_text(encoding="utf-8")
OPTIONS = {option for parameter in command.params for option in parameter.opts}


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("index", range(len(blocks("python"))))
def test_the_code_on_the_page_runs(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "none")
    provider = ProviderApp(say, window=8_000)
    with gateway_before(provider) as client:
        code = blocks("python")[index].replace("http://127.0.0.1:8484", str(client.base_url).rstrip("/"))
        known: dict[str, Any] = {}
        exec(compile(code, f"gateway.md: block {index}", "exec"), known)  # noqa: S102 - running the page is the test
        known["client"].close()
    assert len(provider.raw) == 1
    assert not provider.refused + provider.too_long


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_request_on_the_page_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    (command,) = [block for block in blocks("sh") if block.startswith("curl")]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    provider = ProviderApp(say, window=8_000)
    with gateway_before(provider) as client:
        line = command.replace("http://127.0.0.1:8484", str(client.base_url).rstrip("/"))
        line = line.replace("curl", "curl --silent", 1)
        done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["role"] == "assistant"
    assert len(provider.raw) == 1


def test_its_configurations_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ALICE_TOKEN", "a-token-of-sixteen-or-more")
    monkeypatch.setenv("OPERATOR_TOKEN", "another-token-of-an-operator")
    codex, settings, handling, tenants = blocks("toml")
    assert tomllib.loads(codex)["model_providers"]["gateway"]["wire_api"] == "responses"
    made = []
    for number, text in enumerate((settings, tenants, handling)):
        path = tmp_path / f"{number}.toml"
        path.write_text(text)
        path.chmod(0o600)
        made.append(load_config(path))
    assert set(made[0].upstreams.urls) == set(PROTOCOL_FAMILIES)
    assert made[0].listening.max_body == 64_000_000
    assert sorted(made[1].tenants.tokens.values()) == ["alice", "build", "build"]
    assert (made[1].listening.hosts, len(made[1].tenants.operator)) == (("gateway.example.com",), 1)
    asked = made[2].compaction.find_handling("claude-haiku-5", "alice")
    assert (asked.clear, asked.pins, asked.redact) == (None, ("Answer in French.",), True)
    assert made[2].compaction.clear == Clear(exclude=("read_plan",))
    written = tomllib.loads(settings)
    defaults = load_config(None, upstream="https://api.example.com")
    groups = (defaults.listening, defaults.upstreams, defaults.compaction, defaults)
    values = {name: getattr(group, name) for group in groups for name in [field.name for field in fields(group)]}
    for name in (
        "background", "summariser", "log", "timeout", "connect_timeout", "concurrency", "max_headers", "head_timeout",
    ):  # fmt: skip
        assert written[name] == values[name], name
    limits = attrgetter("max_head", "max_headers", "head_timeout")
    assert limits(made[0].listening) == limits(defaults.listening)


def test_its_flags_paths_and_numbers_are_those_that_there_are() -> None:
    flags = re.findall(r"unabridged gateway ([^`\n]*)", PAGE + OPERATION)
    assert flags
    assert {flag for text in flags for flag in re.findall(r"--[\w-]+", text)} <= OPTIONS
    assert f"have {SHUTDOWN_SECONDS} seconds" in OPERATION
    for path in ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"):
        assert find_protocol("POST", path)
        assert f"…{path[3:]}`" in PAGE
    for link in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", PAGE + OPERATION):
        assert (ROOT / "docs" / link).exists(), link


def test_a_web_socket_gets_an_error_so_that_the_client_falls_back() -> None:
    headers = {
        "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    with gateway_before(ProviderApp(say, window=8_000)) as client:
        answer = client.get("/v1/responses", headers=headers)
    assert isinstance(answer, httpx.Response)
    assert 400 <= answer.status_code < 500
