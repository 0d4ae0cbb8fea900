"""What the gateway tells about itself: health, metrics, spans and logs, with numbers and without anybody's words."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_case import PATHS, body_of, say
from gateway_watched import Watched, watched
from patience import PATIENCE
from provider_app import ProviderApp
from provider_faults import drop_midstream, fail_with_status
from rows import rows
from unabridged.events import Failed
from unabridged_gateway.logs import JsonLineFormatter, TextLineFormatter
from unabridged_gateway.metrics import Metrics

TOKEN = "a-gateway-token-of-its-own"  # noqa: S105 - of this test
OPERATOR = "an-operators-token-0123"
STREAMED = "/v1beta/models/gemini-3-pro:streamGenerateContent"


def test_requests_and_compactions_are_counted_by_labels_from_a_fixed_set() -> None:
    provider = ProviderApp(say, window=5_000)
    with watched(provider, window="30k") as one:
        one.client.post(PATHS["chat"], json=body_of("chat", 1))
        one.client.post(PATHS["messages"], json=body_of("messages", 60))  # too long: it is sent again, shorter
        provider.faults.append(fail_with_status(418))
        one.client.post(PATHS["chat"], json=body_of("chat", 1, model="made-up"))
        for odd in ("/v1/models", "/a%0Ab", "/%22%7Bx%7D"):
            one.client.request("PATCH", odd, headers={"x-unabridged-thread": "t"})
        found = one.numbers()
    assert found["requests_total chat 200"] == found["requests_total messages 200"] == 1
    assert found["requests_total chat 4xx"] == 1
    assert sum(count for name, count in found.items() if name.startswith("requests_total other")) == 3
    assert found["request_seconds_count chat"] == 2
    assert found["overflow_retries_total messages"] == 1
    assert found["request_bytes_total unparsed"] > 0 < found["request_bytes_total rewritten"]
    assert found["compactions_total summary"] >= 1
    assert found["tokens_freed_total summary"] > 0
    assert found["requests_under_way"] == 0
    known = {"chat", "messages", "other", "200", "404", "405", "4xx", "unparsed", "rewritten", "summary", "clearing"}
    ours = [name for name in found if name.startswith(("requests", "request_b", "over", "comp", "tokens", "up"))]
    assert {label for name in ours for label in name.split(" ")[1:]} <= known


def test_an_upstream_that_fails_is_counted() -> None:
    provider = ProviderApp(say, window=8_000)
    provider.faults.append(drop_midstream(1))
    with watched(provider) as one, pytest.raises(httpx.RemoteProtocolError):
        one.client.post(PATHS["chat"], json=body_of("chat", 1, stream=True))
    page = one.gateway.monitor.metrics.page().decode()
    assert 'upstream_failures_total{reason="broken off"} 1.0' in page
    assert "_created" not in page
    with watched(provider, upstream="http://127.0.0.1:9") as one:
        assert one.client.post(PATHS["chat"], json=body_of("chat", 1)).status_code == 502
        assert one.numbers()["upstream_failures_total unreachable"] == 1


def test_what_a_model_took_for_nothing_is_counted_once() -> None:
    metrics = Metrics()
    for goes_on in (True, False):  # where it goes on, the receipt has the tokens
        metrics.count_event(Failed("t", "summary", ValueError("no key"), {"calls": 1, "input": 100}, goes_on))
    page = metrics.page().decode()
    assert 'compaction_failures_total{stage="summary"} 2.0' in page
    assert 'summariser_tokens_total{direction="input"} 100.0' in page


def test_with_tokens_the_numbers_need_an_operators_and_health_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    fallback = {"fallback": "credential", "secret": "a secret of the replicas"}
    ways = [{"x-unabridged-token": "{}"}, {"authorization": "Bearer {}"}, {"x-api-key": "{}"}]

    def statuses(one: Watched, token: str) -> set[int]:
        headers = [{name: value.format(token) for name, value in way.items()} for way in ways]
        return {one.client.get("/metrics", headers=way).status_code for way in headers}

    with watched(ProviderApp(say, window=8_000), token=[f"alice={TOKEN}"], operator=OPERATOR, **fallback) as one:
        assert one.client.get("/metrics").status_code == 401
        assert statuses(one, "sk-of-a-provider") == {401}
        assert statuses(one, TOKEN) == {403}, "a tenant may not see what others do"
        assert statuses(one, OPERATOR) == {200}
        assert one.numbers(**{"x-unabridged-token": OPERATOR})["requests_under_way"] == 0
        assert one.client.get("/healthz").text == "ok\n"
        assert one.client.get("/readyz").text == "ready\n"
        asked = one.client.post(PATHS["chat"], json=body_of("chat", 1), headers={"x-unabridged-token": OPERATOR})
        assert asked.status_code == 401, "an operator is no tenant"
    with watched(ProviderApp(say, window=8_000), token=[f"alice={TOKEN}"]) as one:
        assert statuses(one, TOKEN) == {403}
        assert "UNABRIDGED_OPERATOR_TOKEN" in one.client.get("/metrics", headers={"x-unabridged-token": TOKEN}).text
    monkeypatch.setenv("UNABRIDGED_OPERATOR_TOKEN", OPERATOR)
    with watched(ProviderApp(say, window=8_000), token=[f"alice={TOKEN}"]) as one:
        assert statuses(one, OPERATOR) == {200}


def test_an_archive_that_is_gone_is_not_ready_and_where_it_was_is_told_to_nobody(tmp_path: Path) -> None:
    with watched(ProviderApp(say, window=8_000), archive=f"sqlite:///{tmp_path}/secret-place.db") as one:
        one.gateway.engines.archive.close()
        answer = one.client.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "not ready: the archive does not answer\n")
    assert "the archive fails" in one.texts.getvalue()


@rows("kind", PATHS)
@rows("streamed", [False, True], ids=["plain", "streamed"])
def test_a_request_is_a_span_by_the_conventions(kind: str, streamed: bool) -> None:
    provider = ProviderApp(say, window=8_000)
    more = {"stream": True} if streamed and kind != "contents" else {}
    path = f"{STREAMED}?alt=sse" if streamed and kind == "contents" else PATHS[kind]
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    with watched(provider) as one:
        one.client.post(path, json=body_of(kind, 100, **more), headers={"traceparent": f"00-{trace}-{'7' * 16}-01"})
    (span,) = [span for span in one.spans if span.kind.name == "CLIENT"]
    facts = dict(span.attributes)
    model = {"messages": "claude-opus-5-5", "contents": "gemini-3-pro"}.get(kind, "gpt-5")
    name = "generate_content" if kind == "contents" else "chat"
    assert span.name == f"{name} {model}"
    assert f"{span.context.trace_id:x}" == trace, "it belongs to the client's own trace"
    assert facts["gen_ai.operation.name"] == name
    assert facts["gen_ai.request.model"] == model
    assert facts["gen_ai.provider.name"] in {"openai", "anthropic", "gcp.gemini"}
    assert facts["server.address"] == "127.0.0.1"
    assert facts["unabridged.tokens.before"] > facts["unabridged.tokens.after"]
    assert "error.type" not in facts
    if not (streamed and kind == "chat"):  # which reports usage only where it is asked to
        assert facts["gen_ai.usage.input_tokens"] > 0 < facts["gen_ai.usage.output_tokens"]
        assert "gen_ai.client.token.usage" in one.conventional()
    assert "gen_ai.client.operation.duration" in one.conventional()
    assert any(span.name == "unabridged.compact" for span in one.spans)


def test_an_error_is_one_in_its_span_and_counting_tokens_is_none() -> None:
    provider = ProviderApp(say, window=8_000)
    provider.faults.append(fail_with_status(429))
    with watched(provider) as one:
        one.client.post(PATHS["chat"], json=body_of("chat", 1))
        one.client.post("/v1/messages/count_tokens", json=body_of("messages", 1))
    (span,) = one.spans
    assert (span.attributes["error.type"], span.status.status_code.name) == ("429", "ERROR")
    assert span.attributes["gen_ai.request.model"] == "gpt-5", "looked up where nobody had to read the body"


def test_each_request_is_one_line_with_its_numbers() -> None:
    with watched(ProviderApp(say, window=8_000), token=[f"alice={TOKEN}"]) as one:
        one.client.post(PATHS["messages"], json=body_of("messages", 100), headers={"x-unabridged-token": TOKEN})
        one.client.get("/v1/models", headers={"x-unabridged-token": "wrong-token-of-nobody"})
    first, second = (line for line in one.logged() if line["logger"] == "unabridged.gateway" and "status" in line)
    assert (first["tenant"], first["protocol"], first["status"]) == ("alice", "messages", 200)
    assert (first["model"], first["way"], first["level"]) == ("claude-opus-5-5", "rewritten", "info")
    assert first["tokens_before"] > first["tokens_after"] > 0
    assert first["record"]
    assert first["seconds"] > 0
    assert (second["protocol"], second["status"], "tenant" in second) == ("other", 401, False)
    assert " protocol=messages status=200 " in one.texts.getvalue()


KEYS = [f"sk-{where}-4711" for where in ("bearer", "header", "cookie", "query", "text", "field", "system", "tool")]


def test_no_key_and_no_word_of_a_conversation_is_in_logs_metrics_or_spans() -> None:
    provider = ProviderApp(say, window=8_000)
    bearer, header, cookie, query, text, field, system, tool = KEYS
    headers = {
        "authorization": f"Bearer {TOKEN}:{bearer}", "x-api-key": header, "cookie": f"session={cookie}",
    }  # fmt: skip
    body = body_of("messages", 100, system=f"secret {system}", metadata={"user_id": field})
    body["messages"][0]["content"] += text
    body["tools"] = [{"name": "t", "description": tool, "input_schema": {"type": "object"}}]
    odd = {"messages": [{"role": "user", "content": {text: 1}}] * 900, "contents": [text] * 900}  # errors quote it
    gemini = body_of("contents", 100)
    gemini["contents"][0]["parts"][0]["text"] += text
    with watched(provider, token=[f"alice={TOKEN}"], operator=OPERATOR, summariser="upstream") as one:
        for target, sent in ((PATHS["messages"], body), (f"{STREAMED}?alt=sse&key={query}", gemini)):
            for fault in (None, fail_with_status(429), drop_midstream(1)):
                provider.faults += [fault] if fault else []
                for more in ({}, {"stream": True}, odd):
                    try:
                        one.client.post(target, json=sent | more, headers=headers)
                    except httpx.RemoteProtocolError:
                        continue
        one.client.get(f"/v1/files/{'x' * 9}?key={query}", headers=headers)
        one.client.get("/v1/models", headers={"x-unabridged-token": query})
        page = one.client.get("/metrics", headers={"x-unabridged-token": OPERATOR}).text
        assert "unabridged_gateway_requests_total" in page
    told = {
        "json": one.lines.getvalue(), "text": one.texts.getvalue(), "prometheus": page,
        "spans": "".join(span.to_json() for span in one.spans), "metrics": one.conventional(),
    }  # fmt: skip
    assert len(one.logged()) > 15
    for place, said in told.items():
        for secret in (*KEYS, TOKEN, OPERATOR, "Step 1: look"):
            assert secret not in said, f"{secret} is in {place}"


def test_what_an_exception_says_and_what_would_break_a_line_stay_out_of_the_log() -> None:
    try:
        raise ValueError("the message said sk-4711")  # noqa: TRY301 - for its traceback
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    ours = logging.LogRecord("unabridged", 40, "f", 1, "it failed\nfor %s", ("a\x1b[2J",), info)
    theirs = logging.LogRecord("asyncio", 40, "f", 1, "Task failed\nexception=ValueError('sk-4711')", (), None)
    for lines in (JsonLineFormatter(), TextLineFormatter()):
        made = [lines.format(record) for record in (ours, theirs)]
        assert not any("sk-4711" in line or "\n" in line or "\x1b" in line for line in made)
        assert "ValueError" in made[0]
        assert "test_gateway_operation.py" in made[0]
        assert "Task failed" in made[1]


def test_without_a_configured_telemetry_nothing_is_told_to_it_and_with_one_by_itself() -> None:
    code = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from unabridged_gateway.config_file import load_config
from unabridged_gateway.spans import Spans

config = load_config(None, upstream="https://api.example.com")
before = Spans.create_if_configured(config)
trace.set_tracer_provider(TracerProvider())
print(before is None, Spans.create_if_configured(config) is None)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.split() == ["True", "False"]


def test_a_tenant_reads_what_it_used_and_an_operator_what_all_did() -> None:
    tokens = {name: f"a-gateway-token-of-{name}" for name in ("alice", "bob")}
    provider = ProviderApp(say, window=8_000)
    options = {"token": [f"{name}={token}" for name, token in tokens.items()], "operator": OPERATOR}
    with watched(provider, **options, summariser="upstream") as one:

        def used(token: str) -> Any:
            return one.client.get("/usage", headers={"x-unabridged-token": token}).json()

        assert one.client.get("/usage").status_code == 401
        for tenant, turns in (("alice", 100), ("alice", 1), ("bob", 1)):
            headers = {"x-unabridged-token": tokens[tenant]}
            body = body_of("messages", turns, model="claude-sonnet-4-5")
            assert one.client.post(PATHS["messages"], json=body, headers=headers).status_code == 200
        provider.faults.append(fail_with_status(418))
        one.client.post(PATHS["messages"], json=body_of("messages", 1), headers={"x-unabridged-token": tokens["bob"]})
        alice, bob, everybody = (used(token) for token in (*tokens.values(), OPERATOR))
    assert (alice["requests"], alice["refused"], alice["compactions"]) == (2, 0, 1)
    assert (bob["requests"], bob["refused"], bob["compactions"]) == (2, 1, 0)
    assert alice["requests_reported"] == 1, "the usage of a short request is not read"
    assert alice["dollars"] * 1e6 == pytest.approx(alice["input_tokens"] * 3 + alice["output_tokens"] * 15)
    assert min(alice["tokens_freed"], alice["summary_calls"], alice["summary_dollars"]) > 0
    without_time = [{name: value for name, value in page.items() if name != "since"} for page in (alice, bob)]
    assert everybody["tenants"] == dict(zip(tokens, without_time, strict=True))
