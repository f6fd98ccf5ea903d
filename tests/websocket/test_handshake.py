"""Who is let in, and how others are told so before there is a socket."""

from __future__ import annotations

import zlib

import pytest
from msgspec.structs import replace

from dragoman.config import Client, Secret, WebSocket
from dragoman.edge import websockets as edge_websockets
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import KEY, call
from tests.websocket.client import Socket, frame, handshake, opened, refused, text_of


@pytest.mark.parametrize(
    "path", ["/v1/responses", "/responses", "/v1/responses/", "/v1/responses?model=x"]
)
def test_no_model_stands_in_the_url(gateway: RunningGateway, path: str) -> None:
    """W1"""
    with Socket(gateway.base_url, path=path) as sock:
        assert text_of(sock.turn("chat/sim-text?text=yes")) == "yes"


def test_a_bad_key_is_refused_before_the_upgrade(gateway: RunningGateway) -> None:
    """W2: with the error that POST gives."""
    for key in ("sk-not-a-key", None):
        offer = {name: value for name, value in handshake().items() if name != "authorization"}
        if key is not None:
            offer["authorization"] = f"Bearer {key}"
        answer = refused(gateway, offer)
        assert answer.status == 401
        assert answer.json["error"]["code"] == "invalid_api_key"
        posted = call(gateway.base_url, "POST", "/v1/responses", {"model": "m"}, key=key)
        assert (posted.status, posted.json) == (answer.status, answer.json)


def test_a_key_from_elsewhere_is_refused_before_the_upgrade(
    start: Start, simulator: RunningSimulator
) -> None:
    """W2: 403 where it may not be used from this address, as by POST."""
    away = Client(name="away", key=Secret(KEY), addresses=("10.0.0.0/8",))
    gateway = start(clients=(away,))
    answer = refused(gateway, handshake())
    posted = call(gateway.base_url, "POST", "/v1/responses", {"model": "m"})
    assert (answer.status, answer.json) == (posted.status, posted.json)
    assert answer.status == 403


def test_limits_of_connections(
    start: Start, simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W2: 429 for those of one key, 503 for all, each with the time to come again."""
    clients = tuple(Client(name=name, key=Secret(f"sk-test-{name}")) for name in ("one", "two"))
    settings = config_for(simulator.base_url, clients=clients)
    monkeypatch.setattr(edge_websockets, "MOST_OF_A_CLIENT", 2)
    gateway = start(replace(settings, websocket=WebSocket(max_connections=3)))

    def offer(name: str) -> dict[str, str]:
        return handshake(authorization=f"Bearer sk-test-{name}")

    with Socket(gateway.base_url, offer("one")) as first:
        with Socket(gateway.base_url, offer("one")):
            answer = refused(gateway, offer("one"))
            assert (answer.status, answer.headers["retry-after"]) == (429, "5")
            assert answer.json["error"]["code"] == "rate_limit_exceeded"
            with Socket(gateway.base_url, offer("two")):
                answer = refused(gateway, offer("two"))
                assert (answer.status, answer.headers["retry-after"]) == (503, "5")
                assert answer.json["error"]["code"] == "server_is_overloaded"
        first.close()
        simulator.wait_for(lambda: not gateway.app.websockets.open)
    with Socket(gateway.base_url, offer("one")), Socket(gateway.base_url, offer("one")):
        pass


def test_no_upgrade_is_answered_404_or_405(start: Start, gateway: RunningGateway) -> None:
    """W3: clients take that for a fault and try for many seconds."""
    settings = config_for("http://127.0.0.1:9")
    without = start(replace(settings, websocket=WebSocket(enabled=False)))
    assert refused(without, handshake()).status == 426
    for path in ("/v1/messages", "/v1/chat/completions"):
        assert refused(gateway, handshake(), path).status == 426


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"sec-websocket-version": "8"}, 426),
        ({"sec-websocket-version": ""}, 426),
        ({"sec-websocket-key": "short"}, 400),
        ({"sec-websocket-key": "c2hvcnQ="}, 400),
        ({"sec-websocket-key": ""}, 400),
        ({"connection": "close"}, 400),
    ],
)
def test_what_is_no_handshake(
    gateway: RunningGateway, changed: dict[str, str], status: int
) -> None:
    answer = refused(gateway, {**handshake(), **changed})
    assert answer.status == status
    assert answer.json["error"]["type"] == "invalid_request_error"
    if status == 426 and "version" in str(changed):
        assert answer.headers["sec-websocket-version"] == "13"


@pytest.mark.parametrize(
    "more",
    [
        {"accept": "application/json", "content-type": "application/json", "user-agent": "x"},
        {"x-stainless-lang": "python", "openai-organization": "org-1", "openai-project": "p"},
        {"openai-beta": "responses_websockets=2026-02-06", "originator": "codex_cli_rs"},
        {"sec-websocket-protocol": "responses, openai-insecure-api-key.x"},
        {"upgrade": "WebSocket", "connection": "keep-alive, upgrade"},
        {"expect": "100-continue", "idempotency-key": "k", "x-codex-turn-metadata": "caf\xe9"},
    ],
)
def test_headers_of_all_clients_are_taken(gateway: RunningGateway, more: dict[str, str]) -> None:
    """W28: two turns each; nothing of the handshake is taken for the requests'."""
    with Socket(gateway.base_url, {**handshake(), **more}) as sock:
        assert "sec-websocket-protocol" not in sock.answer.headers
        for text in ("one", "two"):
            assert text_of(sock.turn(f"responses/sim-text?text={text}")) == text


def test_the_upstream_is_not_told_of_sockets(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    beta = "responses_websockets=2026-02-06, other=v1"
    with opened(gateway, openai_beta=beta, sec_websocket_protocol="x") as sock:
        sock.turn("responses/sim-text")
    names = {name for name, _ in simulator.last.headers}
    assert not {name for name in names if "websocket" in name}
    assert simulator.last.header("openai-beta") == "other=v1"


def test_an_origin_matters_without_keys_only(start: Start, gateway: RunningGateway) -> None:
    """W30: a key in a header is proof enough; without any, pages from elsewhere are kept out."""
    with opened(gateway, origin="https://elsewhere.example") as sock:
        assert text_of(sock.turn("chat/sim-text?text=yes")) == "yes"
    unkeyed = start(clients=())
    assert refused(unkeyed, handshake(origin="https://elsewhere.example")).status == 403
    with opened(unkeyed, origin="http://localhost:3000", host="localhost") as sock:
        assert text_of(sock.turn("chat/sim-text?text=yes")) == "yes"


@pytest.mark.parametrize(
    ("offered", "accepted"),
    [
        ("permessage-deflate; client_max_window_bits", ""),
        ("permessage-deflate", ""),
        ("x-unknown, permessage-deflate; server_no_context_takeover", ""),
        ("permessage-deflate; server_max_window_bits=10", "; server_max_window_bits=10"),
        (
            "permessage-deflate; nonsense, permessage-deflate; client_max_window_bits=12",
            "; client_max_window_bits=12",
        ),
        ("permessage-deflate; server_max_window_bits", None),
        ("permessage-deflate; server_max_window_bits=7", None),
        ("permessage-deflate; client_max_window_bits=16", None),
        ("permessage-deflate; client_no_context_takeover=1", None),
        ("permessage-deflate; server_no_context_takeover; server_no_context_takeover", None),
        ("x-webkit-deflate-frame", None),
    ],
)
def test_compression_that_is_agreed(
    gateway: RunningGateway, offered: str, accepted: str | None
) -> None:
    """RFC 7692, 7.1: an offer with a parameter that is unknown, twice there, or wrong, is
    declined. A message may be compressed in any case in which it was agreed, or not."""
    usual = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
    with opened(gateway, sec_websocket_extensions=offered) as sock:
        found = sock.answer.headers.get("sec-websocket-extensions")
        assert found == (None if accepted is None else usual + accepted)
        assert text_of(sock.turn("chat/sim-text?text=plain")) == "plain"
        if accepted is None:
            return
        for text in ("packed", "again"):
            asked = f'{{"type":"response.create","model":"chat/sim-text?text={text}","input":"a"}}'
            deflater = zlib.compressobj(wbits=-15)
            packed = deflater.compress(asked.encode()) + deflater.flush(zlib.Z_SYNC_FLUSH)
            sock.sock.sendall(frame(packed[:-4], first=0xC0))
            assert text_of(sock.events()) == text


def test_the_handshake_is_in_the_log(start: Start, gateway: RunningGateway) -> None:
    with opened(gateway) as sock:
        assert sock.answer.headers["x-request-id"].startswith("req_")
    assert call(gateway.base_url, "GET", "/v1/responses", key=KEY).status == 405
