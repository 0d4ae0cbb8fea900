"""Requests before they are passed on: their bodies, however they are encoded; whose they are; their headers."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from patience import PATIENCE
from rows import rows
from unabridged_gateway.calls import CallDeadline, DeadlineTimer, GatewayCall
from unabridged_gateway.config import ListeningConfig, TenantConfig
from unabridged_gateway.headers import to_client, to_upstream
from unabridged_gateway.refusals import BadBody, ClientGone, RequestRefused
from unabridged_gateway.request_body import RequestBody, read_body
from unabridged_gateway.tenants import find_tenant

LIMITS = ListeningConfig(max_body=100_000, max_decoded=1_000_000)


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


ENCODERS: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
    "zstd": zstandard.compress,
    "ZSTD": lambda data: zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress(data),
    "identity": bytes,
}


def client(*pieces: bytes, leaves: bool = False) -> Callable[[], Awaitable[Mapping[str, Any]]]:
    """A client that sends these, and waits for its answer or leaves."""
    last = len(pieces) - (0 if leaves else 1)
    sent = iter([{"type": "http.request", "body": body, "more_body": at < last} for at, body in enumerate(pieces)])

    async def receive() -> Mapping[str, Any]:
        return next(sent, {"type": "http.disconnect"})

    return receive


def read(*pieces: bytes, encoding: str = "", limits: ListeningConfig = LIMITS) -> RequestBody:
    headers = [(b"content-encoding", encoding.encode())] if encoding else []
    return asyncio.run(read_body(client(*pieces), headers, limits))


def refused(*pieces: bytes, encoding: str = "", limits: ListeningConfig = LIMITS) -> tuple[int, str]:
    with pytest.raises(BadBody) as bad:
        read(*pieces, encoding=encoding, limits=limits)
    return bad.value.status, bad.value.words


def in_pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:stop] for start, stop in pairwise(places)]


@given(
    st.binary(max_size=3_000).map(lambda data: data * 3),
    st.lists(st.sampled_from(sorted(ENCODERS)), max_size=3),
    st.lists(st.integers(0, 10_000), max_size=4),
)
def test_a_body_reads_the_same_however_it_is_encoded_and_cut(
    plain: bytes, encodings: list[str], cuts: list[int]
) -> None:
    sent = plain
    for name in encodings:
        sent = ENCODERS[name](sent)
    body = read(*in_pieces(sent, cuts), encoding=" , ".join(encodings))
    assert body == RequestBody(sent, plain)


@given(st.data())
def test_garbage_is_read_or_refused_in_words_and_nothing_else(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(ENCODERS)))
    sent = bytearray(ENCODERS[name](data.draw(st.binary(max_size=500))) if data.draw(st.booleans()) else b"")
    sent += data.draw(st.binary(max_size=100))
    for place in data.draw(st.lists(st.integers(0, 600), max_size=3)):
        if sent:
            sent[place % len(sent)] ^= data.draw(st.integers(1, 255))
    try:
        assert len(read(bytes(sent), encoding=name).plain) <= LIMITS.max_decoded
    except BadBody as bad:
        assert (bad.status, bool(bad.words)) in {(400, True), (413, True)}  # noqa: PT017 - either will do


@pytest.mark.parametrize("name", ["gzip", "deflate", "Deflate", "zstd", "ZSTD"])
@given(st.binary(min_size=1, max_size=2_000), st.integers(1, 2_000))
def test_a_body_that_was_cut_off_is_never_taken_for_a_whole_one(name: str, plain: bytes, missing: int) -> None:
    sent = ENCODERS[name](plain)
    sent = sent[: max(1, len(sent) - missing)]
    status, words = refused(sent, encoding=name)
    assert status == 400
    assert words


@pytest.mark.parametrize("name", ["gzip", "deflate", "zstd"])
def test_a_bomb_is_refused_before_it_takes_memory(name: str) -> None:
    bomb = ENCODERS[name](bytes(80_000_000))
    twice = ENCODERS[name](bomb)
    limits = ListeningConfig(max_body=1_000_000, max_decoded=1_000_000)
    tracemalloc.start()
    try:
        assert refused(bomb, encoding=name, limits=limits)[0] == 413
        assert refused(twice, encoding=f"{name}, {name}", limits=limits)[0] == 413
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def test_a_zstd_frame_that_asks_for_too_much_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    sent = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    frame = sent.compress(b"x" * 1_000) + sent.flush()
    assert refused(frame, encoding="zstd") == (
        400,
        "the body is not valid zstd: zstd decompressor error: Frame requires too much memory for decoding",
    )


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_several_streams_are_one_body_but_not_any_number(name: str) -> None:
    one = ENCODERS[name](b"ab")
    assert read(one * 16, encoding=name).plain == b"ab" * 16
    assert refused(one * 17, encoding=name)[0] == 400
    assert refused(one + b"behind it", encoding=name)[0] == 400
    assert refused(zlib.compress(b"ab") + b"x", encoding="deflate")[1].startswith("1 bytes follow the end")


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("br", "content-encoding 'br' is not read here: send gzip, deflate, zstd, or none"),
        ("gzip, br", "content-encoding 'br' is not read here"),
        ("gzip, gzip, gzip, gzip", "4 encodings"),
    ],
)
def test_an_encoding_that_is_not_read_is_said(encoding: str, words: str) -> None:
    status, said = refused(b"x", encoding=encoding)
    assert status == 415
    assert words in said


def test_a_body_over_the_limit_is_refused_even_before_it_is_sent() -> None:
    limits = ListeningConfig(max_body=10, max_decoded=LIMITS.max_decoded)
    assert read(b"0123456789", limits=limits).sent == b"0123456789"
    assert refused(b"01234", b"567890", limits=limits) == (
        413,
        "the body has more than 10 bytes: send less, or raise the gateway's limit",
    )
    for length in (b"11", b"9" * 5_000):
        with pytest.raises(BadBody, match="413"):
            asyncio.run(read_body(client(), [(b"content-length", length)], limits))


def test_a_client_that_leaves_or_stops_sending_is_not_waited_for() -> None:
    with pytest.raises(ClientGone):
        asyncio.run(read_body(client(b"half", leaves=True), [], LIMITS))

    async def silent() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def leaving() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def serve(receive: Any, limit: float = 0.12, *, reads_body: bool = False, waits: bool = True) -> None:
        call = GatewayCall({"method": "POST", "path": "/", "headers": [], "query_string": b""}, receive, unheard)
        with CallDeadline(call, DeadlineTimer(limit)):
            if reads_body:
                await read_body(call.receive, call.raw_headers, LIMITS)
            call.is_body_read = True
            call.expect_next_byte(soon=waits)
            await asyncio.sleep(PATIENCE if waits else 0.5)

    async def unheard(message: Any) -> None:
        pass

    with pytest.raises(BadBody, match=r"408: the body was not sent within 0\.12 seconds"):
        asyncio.run(serve(silent, reads_body=True))
    with pytest.raises(TimeoutError, match=r"nothing came for 0\.12 seconds"):
        asyncio.run(serve(silent))
    with pytest.raises(ClientGone):
        asyncio.run(serve(leaving, PATIENCE))
    asyncio.run(serve(silent, waits=False))  # while a summary is made, it is nobody's turn


def test_a_call_goes_on_while_pieces_come_and_is_cancelled_as_any_other() -> None:
    async def receive() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def unheard(message: Any) -> None:
        pass

    async def serve(pieces: int) -> int:
        call = GatewayCall({"method": "POST", "path": "/", "headers": [], "query_string": b""}, receive, unheard)
        with CallDeadline(call, DeadlineTimer(0.3)):
            call.is_body_read = True
            for _ in range(pieces):
                call.expect_next_byte()
                await asyncio.sleep(0.1)
        return pieces

    async def cancel() -> None:
        serving = asyncio.create_task(serve(50))
        await asyncio.sleep(0.1)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    assert asyncio.run(serve(6)) == 6
    asyncio.run(cancel())


def test_an_empty_body_has_no_encoding() -> None:
    assert read(b"", encoding="gzip") == RequestBody(b"", b"")


def requester(tokens: Mapping[str, str], **more: Any) -> TenantConfig:
    return TenantConfig(tokens=tokens, **more)


TOKENS = {"0123456789abcdef-alice": "alice", "0123456789abcdef-alice-new": "alice", "fedcba9876543210": "carol"}
ALICE, CAROL = b"0123456789abcdef-alice", b"fedcba9876543210"
Header = tuple[bytes, bytes]


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "127.8.8.8", None])
def test_without_tokens_there_is_one_tenant_on_this_machine(peer: str | None) -> None:
    config = requester({}, namespace="me")
    assert find_tenant(config, [(b"authorization", b"Bearer sk-1")], peer) == "me"
    with pytest.raises(RequestRefused, match="401: this gateway has no tokens"):
        find_tenant(config, [], "10.0.0.7")


@rows(
    ("sent", "tenant", "forwarded"),
    [
        ([(b"x-unabridged-token", ALICE), (b"authorization", b"Bearer sk-1")], "alice", [b"Bearer sk-1"]),
        ([(b"x-unabridged-token", ALICE + b"-new"), (b"x-api-key", b"sk-1")], "alice", [b"sk-1"]),
        ([(b"authorization", b"Bearer " + CAROL + b":sk-1")], "carol", [b"Bearer sk-1"]),
        ([(b"x-api-key", CAROL + b":sk-1:with-colon")], "carol", [b"sk-1:with-colon"]),
        ([(b"x-goog-api-key", ALICE + b":AIza"), (b"x-other", b"1")], "alice", [b"AIza", b"1"]),
        ([(b"authorization", b"Bearer sk-1"), (b"x-api-key", ALICE + b":sk-2")], "alice", [b"Bearer sk-1", b"sk-2"]),
        ([(b"authorization", b"Bearer " + CAROL)], "carol", []),
        ([(b"api-key", CAROL + b":")], "carol", []),
        ([(b"x-unabridged-token", ALICE), (b"api-key", CAROL + b":sk-1")], "alice", [b"sk-1"]),
    ],
)
def test_a_token_names_the_tenant_and_never_goes_upstream(
    sent: list[Header], tenant: str, forwarded: list[bytes]
) -> None:
    assert find_tenant(requester(TOKENS), sent, "10.0.0.7") == tenant
    assert [value.encode() for _, value in to_upstream(sent, TOKENS)] == forwarded


@rows(
    "sent",
    [
        [],
        [(b"authorization", b"Bearer sk-1")],
        [(b"authorization", b"Bearer " + ALICE[:-1] + b":sk-1")],
        [(b"x-unabridged-token", b"")],
        [(b"x-unabridged-token", ALICE + b"x"), (b"x-api-key", ALICE + b":sk-1")],
        [(b"x-unabridged-token", b"\xff\xfe"), (b"cookie", ALICE)],
    ],
)
def test_with_tokens_a_request_without_a_known_one_is_refused_and_told_how(sent: list[Header]) -> None:
    with pytest.raises(RequestRefused, match="send the header x-unabridged-token") as refusal:
        find_tenant(requester(TOKENS), sent, "127.0.0.1")
    assert refusal.value.status == 401
    assert ALICE.decode() not in refusal.value.words


def test_as_a_fallback_each_credential_is_a_tenant_that_the_secret_hides() -> None:
    config = requester(TOKENS, fallback="credential", secret="s" * 16)

    def tenant(*sent: Header) -> str:
        return find_tenant(config, sent, "10.0.0.7")

    mine = tenant((b"authorization", b"Bearer sk-1"))
    assert mine == tenant((b"x-api-key", b"sk-1")), "the same key, wherever it stands"
    assert mine != tenant((b"x-api-key", b"sk-2")), "another key, another tenant"
    assert "sk-1" not in mine
    assert ":" in mine, "no name of a tenant can be the same"
    assert mine == find_tenant(replace(config), [(b"x-api-key", b"sk-1")], None), "on every replica"
    assert mine != find_tenant(replace(config, secret="t" * 80), [(b"x-api-key", b"sk-1")], None)
    assert tenant((b"x-unabridged-token", ALICE)) == "alice"
    with pytest.raises(RequestRefused):
        tenant((b"x-unabridged-token", b"wrong"), (b"x-api-key", b"sk-1"))
    with pytest.raises(RequestRefused):
        tenant()


def test_what_concerns_one_connection_only_is_not_passed_on() -> None:
    sent = [
        (b"host", b"127.0.0.1:8484"), (b"connection", b"keep-alive, X-Hop"), (b"x-hop", b"1"), (b"keep-alive", b"5"),
        (b"transfer-encoding", b"chunked"), (b"content-length", b"3"), (b"te", b"trailers"), (b"upgrade", b"h2c"),
        (b"expect", b"100-continue"), (b"proxy-authorization", b"x"), (b"x-forwarded-for", b"10.0.0.7"),
        (b"via", b"1.1 lb"), (b"x-unabridged-thread", b"t1"), (b"content-encoding", b"zstd"),
        (b"anthropic-beta", b"a"), (b"anthropic-beta", b"b"), (b"accept-encoding", b"gzip, br"),
        (b"x-name", "é".encode()),
    ]  # fmt: skip
    passed = [
        ("content-encoding", "zstd"), ("anthropic-beta", "a"), ("anthropic-beta", "b"), ("accept-encoding", "gzip, br"),
        ("x-name", "é"),
    ]  # fmt: skip
    assert to_upstream(sent, {}) == passed
    assert to_upstream(sent, {}, encoded=False, watched=True) == [
        *passed[1:3], ("x-name", "é"), ("accept-encoding", "identity"),
    ]  # fmt: skip


def test_an_answer_keeps_its_headers_but_those_of_the_connection() -> None:
    said = [
        (b"Content-Type", b"text/event-stream"), (b"Content-Encoding", b"gzip"), (b"Content-Length", b"12"),
        (b"Set-Cookie", b"a=1"), (b"Set-Cookie", b"b=2"), (b"Connection", b"close, X-Hop"), (b"X-Hop", b"1"),
        (b"Alt-Svc", b'h3=":443"'), (b"X-Unabridged-Thread", b"forged"), (b"x-bad", b"a\r\nset-cookie: c=3"),
    ]  # fmt: skip
    kept = [(name.lower(), value) for name, value in said[:5]]
    assert to_client(said) == kept
    assert to_client([*said, (b"Transfer-Encoding", b"chunked")]) == [
        pair for pair in kept if pair[0] != b"content-length"
    ]


@rows(
    ("name", "value"),
    [
        (b"x-a", b"1\r\nx-b: 2"),
        (b"x-a", b"1\n"),
        (b"x-a", b"\0"),
        (b"x a", b"1"),
        (b"x-a\r\n", b"1"),
        (b"x-a", b"\xff"),
    ],
)
def test_a_header_that_would_become_two_is_refused(name: bytes, value: bytes) -> None:
    with pytest.raises(RequestRefused) as refusal:
        to_upstream([(name, value)], {})
    assert refusal.value.status == 400


@given(st.lists(st.tuples(st.binary(max_size=12).map(bytes.lower), st.binary(max_size=20)), max_size=5))
def test_whatever_headers_come_they_are_passed_on_as_they_are_or_refused(headers: list[Header]) -> None:
    try:
        passed = to_upstream(headers, TOKENS)
    except RequestRefused:
        return
    assert {(name.encode(), value.encode()) for name, value in passed} <= set(headers)
    assert not any(character in text for pair in passed for text in pair for character in "\r\n\0")
    assert to_client(headers) == to_client(to_client(headers))
