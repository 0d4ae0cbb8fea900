"""Thinking that is bound to what was sent, through the gateway, with summaries made in the background."""

from __future__ import annotations

import threading
from typing import Any

import httpx

from patience import PATIENCE
from provider_app import ProviderApp
from serving import serve_in_thread
from unabridged_gateway.app import Gateway
from unabridged_gateway.config_file import load_config
from unabridged_testing.loopback import LoopbackReply

STEPS = 16
TOOL = {"name": "bash", "description": "Run it.", "input_schema": {"type": "object", "properties": {}}}
ASKED = {"type": "text", "text": "Read all tide stations with read.sh, one by one. Never edit anything under vendor/."}


class Reader:
    """A model that thinks, reads one station after another, and writes a summary when it is asked to."""

    def __init__(self) -> None:
        self.read = self.summaries = 0

    def __call__(self, messages: Any) -> LoopbackReply:
        """What it says to these messages."""
        if len(messages) == 1 and self.read:
            self.summaries += 1
            return LoopbackReply("The user wants all tide stations to be read; some were, the next ones follow.")
        words = " ".join(f"Gauge {self.read}.{gauge} was steady, and needs no visit." for gauge in range(120))
        call = ("bash", {"command": f"sh read.sh {self.read}"})
        said = LoopbackReply(f"Reading station {self.read}. {words}", [call], f"Station {self.read} comes next.")
        self.read += 1
        return said


def test_thinking_said_before_an_early_summary_is_used_never_goes_with_it() -> None:
    reader = Reader()
    provider = ProviderApp(reader, window=60_000)
    said: list[Any] = [{"role": "user", "content": [ASKED]}]
    with serve_in_thread(provider) as upstream:
        gateway = Gateway(load_config(None, upstream=upstream, window="60k", archive="memory:", port=0))
        with serve_in_thread(gateway) as url, httpx.Client(base_url=url, timeout=PATIENCE) as client:
            for step in range(STEPS):
                answer = client.post("/v1/messages", json=request_with(said), headers={"anthropic-version": "1"})
                assert answer.status_code == 200, answer.text
                said += [{"role": "assistant", "content": answer.json()["content"]}, result_of(answer.json(), step)]
                finish_background()
            told = client.get("/metrics").text
    assert not provider.refused + provider.too_long
    assert reader.summaries <= STEPS // 3, "no request has it summarised anew"
    repairs = [
        line for line in told.splitlines() if line.startswith('unabridged_gateway_compactions_total{kind="repair')
    ]
    assert sum(float(line.split()[-1]) for line in repairs) <= reader.summaries, "nor mended anew"


def test_a_model_whose_name_does_not_tell_that_it_binds_its_thinking_is_answered_all_the_same() -> None:
    reader = Reader()
    provider = ProviderApp(reader, window=60_000)
    said: list[Any] = [{"role": "user", "content": [ASKED]}]
    notes: list[str] = []
    with serve_in_thread(provider) as upstream:
        gateway = Gateway(load_config(None, upstream=upstream, window="60k", archive="memory:", port=0))
        with serve_in_thread(gateway) as url, httpx.Client(base_url=url, timeout=PATIENCE) as client:
            for step in range(STEPS):
                body = {**request_with(said), "model": "our-best", "stream": False}
                answer = client.post("/v1/messages", json=body, headers={"anthropic-version": "1"})
                assert answer.status_code == 200, answer.text
                notes.append(answer.headers.get("x-unabridged-note", ""))
                said += [{"role": "assistant", "content": answer.json()["content"]}, result_of(answer.json(), step)]
                finish_background()
            said[1]["content"][0]["thinking"] = "something else"  # a client's own mistake is the provider's to tell
            body = {**request_with(said[:2]), "model": "our-best"}
            answer = client.post("/v1/messages", json=body, headers={"anthropic-version": "1"})
    assert any("thinking refused once" in note for note in notes)
    assert answer.status_code == 400


def request_with(said: list[Any]) -> dict[str, Any]:
    """The whole history, with a cache mark that moves on with it."""
    newest = [{**block, "cache_control": {"type": "ephemeral"}} for block in said[-1]["content"]]
    messages = [*said[:-1], {**said[-1], "content": newest}]
    return {"model": "claude-loopback", "max_tokens": 4_000, "tools": [TOOL], "messages": messages}


def result_of(answer: dict[str, Any], step: int) -> dict[str, Any]:
    """What the tool gives."""
    (called,) = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
    levels = "\n".join(f"station {step} level {row} cm" for row in range(1_200))
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": called, "content": levels}]}


def finish_background() -> None:
    """Wait for a summary that is being made."""
    for thread in threading.enumerate():
        if thread.name == "unabridged-early":
            thread.join(PATIENCE)
