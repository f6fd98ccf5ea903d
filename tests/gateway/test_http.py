"""The HTTP face: paths, methods, keys, headers, sizes."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from dragoman.config import Client, Secret, Server, WebSocket
from dragoman.edge.paths import normal_path
from dragoman.http.decoding import CODINGS, Inflater
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import APIS, PATHS, body, completed, error_of, text_of
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import AUTH, JSON, KEY, Connection, call

GUARDED = [
    *(("POST", path) for path in PATHS.values()),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/responses/input_tokens"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/x"),
    ("GET", "/v1/responses/resp_1"),
]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [False, True])
def test_each_endpoint_serves_both_values_of_stream(
    gateway: RunningGateway, api: str, stream: bool
) -> None:
    """req: 1, 7, 9, 10"""
    answer = call(gateway.base_url, "POST", PATHS[api], body(api, f"{api}/sim-text", stream=stream))
    assert answer.status == 200
    if stream:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert completed(api, answer.body)
    else:
        assert answer.headers["content-type"] == "application/json"
        assert text_of(api, answer)


@pytest.mark.parametrize("api", APIS)
def test_accept_is_not_negotiated(gateway: RunningGateway, api: str) -> None:
    """req: 8"""
    for accept, stream in (("application/json", True), ("text/event-stream", False)):
        answer = call(
            gateway.base_url,
            "POST",
            PATHS[api],
            body(api, f"{api}/sim-text", stream=stream),
            {"accept": accept},
        )
        kind = "text/event-stream" if stream else "application/json"
        assert answer.headers["content-type"].startswith(kind)


@pytest.mark.parametrize(("method", "path"), GUARDED)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {KEY}"},
        {"authorization": KEY},
        {"x-api-key": "wrong"},
        {"x-api-key": "wrong", **AUTH},
        {"api-key": "wrong"},
        {"x-goog-api-key": "wrong"},
    ],
)
def test_every_route_asks_for_a_key(
    gateway: RunningGateway,
    simulator: RunningSimulator,
    method: str,
    path: str,
    headers: dict[str, str],
) -> None:
    """req: 2, 3"""
    api = "messages" if "messages" in path else "chat"
    answer = call(gateway.base_url, method, path, headers=headers, key=None)
    assert answer.status == 401
    of_google = "x-goog-api-key" in headers and path.startswith("/v1/models")
    error = answer.json["error"] if of_google else error_of(api, answer)
    assert "wrong" not in json.dumps(error)
    if of_google:
        assert error["status"] == "UNAUTHENTICATED"
    elif api == "messages":
        assert error["type"] == "authentication_error"
    else:
        assert error["code"] == "invalid_api_key"
    assert simulator.requests == []


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"authorization": f"bearer  {KEY} "},
        {"x-api-key": KEY},
        {"x-api-key": KEY, "authorization": "Bearer wrong"},
        {"x-api-key": "", "authorization": f"Bearer {KEY}"},
        {"api-key": KEY},
        {"x-goog-api-key": f" {KEY} ", "authorization": "Bearer "},
        {"api-key": "wrong", "authorization": f"Bearer {KEY}"},
    ],
)
@pytest.mark.parametrize("api", APIS)
def test_either_header_carries_the_key(
    gateway: RunningGateway, api: str, headers: dict[str, str]
) -> None:
    """With several, x-api-key counts, then Bearer. req: 2, 3"""
    answer = call(
        gateway.base_url,
        "POST",
        PATHS[api],
        body(api, f"{api}/sim-text"),
        headers,
        key=None,
    )
    assert answer.status == 200


def test_the_key_is_checked_before_the_body_is_read(gateway: RunningGateway) -> None:
    """req: 4"""
    with Connection(gateway.base_url) as connection:
        connection.send("POST", "/v1/messages", headers={**JSON, "content-length": "1000000"})
        assert connection.answer().status == 401


def test_without_clients_anyone_on_this_machine_may_call(start: Start) -> None:
    gateway = start(clients=())
    answer = call(gateway.base_url, "POST", PATHS["chat"], body("chat", "chat/sim-text"), key=None)
    assert answer.status == 200


def test_a_client_is_kept_to_its_models(start: Start, simulator: RunningSimulator) -> None:
    client = Client(name="some", key=Secret(KEY), models=("chat/*",))
    gateway = start(clients=(client,))
    allowed = call(gateway.base_url, "POST", PATHS["chat"], body("chat", "chat/sim-text"))
    assert allowed.status == 200
    before = len(simulator.requests)
    refused = call(gateway.base_url, "POST", PATHS["chat"], body("chat", "messages/sim-text"))
    assert refused.status == 404
    assert error_of("chat", refused)["code"] == "model_not_found"
    assert len(simulator.requests) == before
    listed = call(gateway.base_url, "GET", "/v1/models").json["data"]
    assert listed
    assert all(model["id"].startswith("chat/") for model in listed)


@pytest.mark.parametrize(("method", "path"), [*GUARDED, ("GET", "/nowhere"), ("GET", "/healthz")])
def test_every_reply_carries_cors_headers(gateway: RunningGateway, method: str, path: str) -> None:
    """req: 5"""
    headers = call(gateway.base_url, method, path).headers
    assert headers["access-control-allow-origin"] == "*"
    assert headers["access-control-allow-methods"] == "GET, POST, PUT, DELETE, OPTIONS"
    assert headers["access-control-allow-headers"] == "Content-Type, Authorization, X-API-Key"


@pytest.mark.parametrize("path", [*PATHS.values(), "/v1/models", "/nowhere"])
def test_preflight_needs_no_key(gateway: RunningGateway, path: str) -> None:
    """req: 6"""
    asked = {"access-control-request-headers": "x-stainless-os, anthropic-version"}
    answer = call(gateway.base_url, "OPTIONS", path, headers=asked, key=None)
    assert (answer.status, answer.body) == (200, b"")
    allowed = answer.headers["access-control-allow-headers"]
    assert allowed.endswith("x-stainless-os, anthropic-version")
    assert allowed.startswith("Content-Type, Authorization, X-API-Key")


def test_cors_can_be_off(start: Start) -> None:
    gateway = start(server=Server(cors=False))
    assert "access-control-allow-origin" not in call(gateway.base_url, "GET", "/healthz").headers


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD"])
@pytest.mark.parametrize("api", APIS)
def test_a_wrong_method_is_a_405(gateway: RunningGateway, api: str, method: str) -> None:
    """req: 12"""
    answer = call(gateway.base_url, method, PATHS[api])
    assert answer.status == 405
    assert answer.headers["allow"] == "POST, OPTIONS"
    if method != "HEAD":
        assert error_of(api, answer)["type"] == "invalid_request_error"


def test_an_unknown_path_is_a_404_in_the_clients_shape(gateway: RunningGateway) -> None:
    answer = call(gateway.base_url, "POST", "/v1/embedding", {})
    assert answer.status == 404
    error_of("chat", answer)
    version = {"anthropic-version": "2026-10-21"}
    answer = call(gateway.base_url, "POST", "/v1/messages/batches", {}, version)
    assert answer.status == 404
    assert error_of("messages", answer)["type"] == "not_found_error"


@pytest.mark.parametrize(
    "media",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-16",
    ],
)
@pytest.mark.parametrize("api", APIS)
def test_a_wrong_content_type_is_a_415(
    gateway: RunningGateway, simulator: RunningSimulator, api: str, media: str
) -> None:
    """req: 12"""
    answer = call(gateway.base_url, "POST", PATHS[api], b"{}", {"content-type": media})
    assert answer.status == 415
    error_of(api, answer)
    assert simulator.requests == []


@pytest.mark.parametrize(
    "media",
    [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=UTF-8",
        "application/vnd.api+json",
        None,
    ],
)
def test_json_by_any_of_its_names(gateway: RunningGateway, media: str | None) -> None:
    data = json.dumps(body("chat", "chat/sim-text")).encode()
    headers = {} if media is None else {"content-type": media}
    assert call(gateway.base_url, "POST", PATHS["chat"], data, headers).status == 200


def test_a_gzip_body_is_read(gateway: RunningGateway) -> None:
    data = gzip.compress(json.dumps(body("chat", "messages/sim-text")).encode())
    headers = {**JSON, "content-encoding": "gzip"}
    for whole in (data, data + gzip.compress(b" ")):
        assert call(gateway.base_url, "POST", PATHS["chat"], whole, headers).status == 200
    for broken in (data[:-6], data + b"rest", b"", b"{}"):
        assert call(gateway.base_url, "POST", PATHS["chat"], broken, headers).status == 400
    for encoding in ("br", "gzip, gzip"):
        other = {**JSON, "content-encoding": encoding}
        assert call(gateway.base_url, "POST", PATHS["chat"], data, other).status == 415


@pytest.mark.parametrize("wrapped", [True, False], ids=["zlib", "raw"])
def test_a_deflate_body_is_read(gateway: RunningGateway, wrapped: bool) -> None:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
    plain = json.dumps(body("chat", "messages/sim-text")).encode()
    data = packer.compress(plain) + packer.flush()
    headers = {**JSON, "content-encoding": "deflate"}
    assert call(gateway.base_url, "POST", PATHS["chat"], data, headers).status == 200
    assert call(gateway.base_url, "POST", PATHS["chat"], data[:-6], headers).status == 400


@pytest.mark.parametrize(
    ("coding", "member"),
    [("gzip", gzip.compress(b"")), ("deflate", b"\3\0")],
    ids=["gzip", "deflate"],
)
def test_a_body_of_members_with_nothing_in_them_is_refused(
    gateway: RunningGateway, coding: str, member: bytes
) -> None:
    """32 MB of them would take a minute."""
    headers = {**JSON, "content-encoding": coding}
    told = call(gateway.base_url, "POST", PATHS["chat"], member * 100_000, headers)
    assert told.status == 400
    assert "not valid data of its content encoding" in error_of("chat", told)["message"]


def test_others_have_their_turn_while_much_unpacks_into_nothing(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks without anything, of which a member may have as many as it likes."""
    feed = Inflater.feed
    taken: list[int] = []

    def fed(self: Inflater, data: bytes) -> Iterator[bytes]:
        taken.append(len(data))
        return feed(self, data)

    monkeypatch.setattr(Inflater, "feed", fed)
    headers = {**JSON, "content-encoding": "deflate"}
    data = b"\0\0\0\xff\xff" * 200_000 + zlib.compress(b"{}")[2:-4]
    assert call(gateway.base_url, "POST", PATHS["chat"], data, headers).status == 400
    assert (max(taken), sum(taken)) == (64 * 1024, len(data))


ZSTD = bytes.fromhex("28b52ffd")
"""How a frame begins (RFC 8878, 3.1.1)."""


def stored(plain: bytes, window: int = 0x38) -> bytes:
    """A frame of one uncompressed block."""
    return ZSTD + bytes([0, window]) + (len(plain) << 3 | 1).to_bytes(3, "little") + plain


def test_a_zstd_body_is_read(gateway: RunningGateway) -> None:
    """Where Python has no decoder, it is told what may be sent."""
    plain = json.dumps(body("chat", "messages/sim-text")).encode()
    headers = {**JSON, "content-encoding": "zstd"}
    known = "zstd" in CODINGS
    for whole in (stored(plain), stored(plain[:40]) + stored(plain[40:])):
        told = call(gateway.base_url, "POST", PATHS["chat"], whole, headers)
        assert told.status == (200 if known else 415)
    for broken in (stored(plain)[:-6], plain, stored(plain, window=0xA8)):
        told = call(gateway.base_url, "POST", PATHS["chat"], broken, headers)
        assert told.status == (400 if known else 415)


class TestSize:
    """The limit on a body's size. req: 12"""

    LIMIT = 10_000

    @pytest.fixture
    def small(self, start: Start) -> RunningGateway:
        return start(server=Server(body_limit_bytes=self.LIMIT))

    def padded(self, size: int) -> bytes:
        made = json.dumps(body("chat", "chat/sim-text", "x")).encode()
        return made.replace(b'"x"', b'"' + b"x" * (size - len(made) + 1) + b'"')

    @pytest.mark.parametrize("api", APIS)
    def test_declared(self, small: RunningGateway, simulator: RunningSimulator, api: str) -> None:
        """req: 12"""
        answer = call(small.base_url, "POST", PATHS[api], self.padded(self.LIMIT + 1), JSON)
        assert answer.status == 413
        error = error_of(api, answer)
        if api == "messages":
            assert error["type"] == "request_too_large"
        assert simulator.requests == []

    def test_at_the_limit(self, small: RunningGateway) -> None:
        answer = call(small.base_url, "POST", PATHS["chat"], self.padded(self.LIMIT), JSON)
        assert answer.status == 200

    def test_chunked(self, small: RunningGateway) -> None:
        """A body that does not tell its size is counted as it comes."""
        with Connection(small.base_url) as connection:
            headers = {**JSON, **AUTH, "transfer-encoding": "chunked"}
            connection.send("POST", PATHS["chat"], headers=headers)
            for _ in range(20):
                connection.sock.sendall(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
            connection.sock.sendall(b"0\r\n\r\n")
            assert connection.answer().status == 413

    def test_compressed(self, small: RunningGateway) -> None:
        """What counts is the size unpacked."""
        bomb = gzip.compress(self.padded(50 * self.LIMIT))
        assert len(bomb) < self.LIMIT
        headers = {**JSON, "content-encoding": "gzip"}
        assert call(small.base_url, "POST", PATHS["chat"], bomb, headers).status == 413


@pytest.mark.parametrize("api", APIS)
def test_request_ids(gateway: RunningGateway, api: str) -> None:
    ids = set()
    for model in (f"{api}/sim-text", "nothing"):
        answer = call(gateway.base_url, "POST", PATHS[api], body(api, model))
        assert answer.headers["x-request-id"] == answer.headers["request-id"]
        ids.add(answer.headers["x-request-id"])
    assert len(ids) == 2


def test_a_websocket_upgrade_gets_426_where_it_is_not_served(start: Start) -> None:
    """W3: so that clients use POST at once, and not after some tries."""
    settings = replace(config_for("http://127.0.0.1:9"), websocket=WebSocket(enabled=False))
    gateway = start(settings)
    headers = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    answer = call(gateway.base_url, "GET", "/v1/responses", headers=headers)
    assert answer.status == 426
    error_of("responses", answer)
    assert call(gateway.base_url, "GET", "/v1/responses").status == 405


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/v1/messages", "/v1/messages"),
        ("/v1/v1/messages", "/v1/messages"),
        ("//v1/messages/", "/v1/messages"),
        ("/messages", "/v1/messages"),
        ("/chat/completions", "/v1/chat/completions"),
        ("/responses/input_tokens", "/v1/responses/input_tokens"),
        ("/models/a/b", "/v1/models/a/b"),
        ("/healthz", "/healthz"),
        ("/", "/"),
        ("/v1", "/v1"),
    ],
)
def test_paths(path: str, known: str) -> None:
    assert normal_path(path) == known


@pytest.mark.parametrize(
    "path", ["/v1/v1/chat/completions", "/chat/completions/", "//v1/chat/completions"]
)
def test_a_base_url_with_too_much_or_too_little(gateway: RunningGateway, path: str) -> None:
    answer = call(gateway.base_url, "POST", path, body("chat", "chat/sim-text"))
    assert answer.status == 200


def test_queries_are_ignored(gateway: RunningGateway) -> None:
    path = "/v1/messages?beta=true&x=%00"
    answer = call(gateway.base_url, "POST", path, body("messages", "chat/sim-text"))
    assert answer.status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("DELETE", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1/input_items"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("POST", "/v1/responses/resp_1/submit_tool_outputs"),
        ("GET", "/v1/chat/completions/chatcmpl_1"),
    ],
)
def test_stored_answers_are_a_clean_404(gateway: RunningGateway, method: str, path: str) -> None:
    answer = call(gateway.base_url, method, path, {} if method == "POST" else None)
    assert answer.status == 404
    assert "not store" in error_of("chat", answer)["message"]


def test_health_and_readiness(start: Start) -> None:
    gateway = start()
    for method in ("GET", "HEAD"):
        assert call(gateway.base_url, method, "/healthz", key=None).status == 200
        assert call(gateway.base_url, method, "/readyz", key=None).status == 200
    gateway.app.draining = True
    assert call(gateway.base_url, "GET", "/readyz", key=None).status == 503
    assert call(gateway.base_url, "GET", "/healthz", key=None).status == 200


def test_not_ready_without_a_usable_account(start: Start) -> None:
    gateway = start(keys=("sk-sim-401",))
    assert call(gateway.base_url, "GET", "/readyz").status == 200
    for api in APIS:
        call(gateway.base_url, "POST", PATHS[api], body(api, f"{api}/sim-text"))
    assert call(gateway.base_url, "GET", "/readyz").status == 503


def test_two_requests_on_one_connection(gateway: RunningGateway) -> None:
    with Connection(gateway.base_url) as connection:
        for stream in (True, False, True):
            made = body("messages", "chat/sim-text", stream=stream)
            connection.send("POST", "/v1/messages", made, AUTH)
            assert connection.answer().status == 200


def test_retry_headers_of_clients_mean_nothing(start: Start, simulator: RunningSimulator) -> None:
    """The same key twice is two requests. req: 13, 132"""
    gateway = start()
    headers = {"idempotency-key": "same", "last-event-id": "7"}
    for _ in range(2):
        call(gateway.base_url, "POST", PATHS["chat"], body("chat", "chat/sim-text"), headers)
    assert len(simulator.requests) == 2
    assert simulator.last.header("idempotency-key") != "same"
    assert simulator.last.header("last-event-id") is None


def test_as_many_at_once_as_allowed(start: Start) -> None:
    gateway = start(server=Server(max_concurrent=1))
    with Connection(gateway.base_url) as first:
        slow = body("chat", "chat/sim-text?delay_ms=100", stream=True)
        first.send("POST", PATHS["chat"], slow, AUTH)
        assert first.head().status == 200
        for api, status in (("chat", 503), ("messages", 529)):
            busy = call(gateway.base_url, "POST", PATHS[api], body(api, "chat/sim-text"))
            assert busy.status == status
            assert busy.headers["retry-after"] == "1"
        assert call(gateway.base_url, "GET", "/healthz").status == 200
        while first.chunk():
            pass
    answer = call(gateway.base_url, "POST", PATHS["chat"], body("chat", "chat/sim-text"))
    assert answer.status == 200
