"""Clients that leave, read slowly, say nothing, or send what is no WebSocket; servers that end."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
import zlib
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from dragoman.config import Config, Server, Storage, Timeouts, WebSocket
from dragoman.edge import websockets as edge_websockets
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.responses.websocket import service
from dragoman.responses.websocket.session import Session
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.serving import exchange
from tests.gateway.conftest import SERVER, Start, config_for
from tests.gateway.services import needs_files, until
from tests.websocket.client import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    Closed,
    answer_id,
    frame,
    handshake,
    opened,
    refused,
    text_of,
)
from tests.websocket.timing import SOON, in_flight

LONG = "chat/sim-text?words=2000&delay_ms=20"
ASK = b'{"type":"response.create","model":"chat/sim-text?text=well","input":"a","store":false}'


def dialling(
    simulator: RunningSimulator, way: Literal["off", "on"] = "on", **settings: Any
) -> Config:
    """A gateway that calls its upstreams over WebSocket, as far as they have any."""
    config = config_for(simulator.base_url, **settings)
    return replace(config, upstreams=tuple(replace(one, websocket=way) for one in config.upstreams))


@pytest.mark.parametrize("how", ["fin", "reset", "close"])
@pytest.mark.parametrize("lanes", [1, 3])
def test_a_client_that_leaves(
    gateway: RunningGateway, simulator: RunningSimulator, how: str, lanes: int
) -> None:
    """W25: within a second every call upstream is cancelled, and its account given back."""

    def leave() -> float:
        simulator.app.clear()
        with opened(gateway) as sock:
            for lane in range(lanes):
                sock.create(LONG, stream_id=f"lane{lane}")
                sock.create(LONG, stream_id=f"lane{lane}")
            simulator.wait_for(lambda: len(simulator.requests) == lanes)
            while sock.event()["type"] != "response.output_text.delta":
                pass
            assert in_flight(gateway) == lanes
            began = time.monotonic()
            if how == "reset":
                sock.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif how == "close":
                sock.sock.sendall(frame(b"\x03\xe8", CLOSE))
        until(lambda: all(one.disconnected for one in simulator.requests), seconds=SOON)
        until(lambda: not gateway.app.websockets.open, seconds=SOON)
        until(lambda: not in_flight(gateway), seconds=SOON)
        assert len(simulator.requests) == lanes, "what waited was not begun"
        assert not gateway.server.http.budget.used
        return time.monotonic() - began

    assert any(leave() < 1.0 for _ in range(5))


@pytest.mark.parametrize("way", ["off", "on"])
def test_usage_of_a_client_that_left_is_in_the_log(
    simulator: RunningSimulator, way: Literal["off", "on"]
) -> None:
    """W25: as far as it was told, or counted from what came. W26: and the account is as good as
    before."""
    lines: list[Any] = []
    config = dialling(simulator, way)
    with running_gateway(config, lambda line: lines.append(json.loads(line))) as gateway:
        for kind in ("chat", "messages", "responses"):
            with opened(gateway) as sock:
                sock.create(f"{kind}/{LONG.partition('/')[2]}&input=7")
                while sock.event()["type"] != "response.output_text.delta":
                    pass
        until(lambda: len(lines) == 6, seconds=SOON)
        told = [line for line in lines if line["route"].startswith("POST")]
        assert {line["error"] for line in told} == {"client_gone"}
        for line in told:
            assert line["usage"]["input"] >= 7
            assert 0 < line["usage"]["output"] < 2000
        assert not in_flight(gateway)
        states = [gateway.app.pool.state(one.name) for one in gateway.app.pool.accounts()]
        assert not any(state.cooling or state.disabled or state.exhausted for state in states)


def test_what_an_upstream_has_said_is_counted_though_its_client_left(
    simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W25: over WebSocket the answer is read on for a moment, here for a long one: its usage is
    that which the upstream tells, and the connection is not lost. Nothing of it is remembered."""
    monkeypatch.setattr(exchange, "_LAST_WORDS_S", 20.0)
    lines: list[Any] = []
    with running_gateway(dialling(simulator), lambda line: lines.append(json.loads(line))) as one:
        with opened(one) as sock:
            sock.create("responses/sim-text?words=40&delay_ms=20&input=7&output=1234")
            while sock.event()["type"] != "response.output_text.delta":
                pass
        until(lambda: len(lines) == 2, seconds=SOON)
        told = next(line for line in lines if line["route"].startswith("POST"))
        assert told["error"] == "client_gone"
        assert (told["usage"]["input"], told["usage"]["output"]) == (7, 1234)
        assert not simulator.last.disconnected
        until(lambda: not in_flight(one), seconds=SOON)
        assert not one.server.http.budget.used


def test_a_slow_reader_is_waited_for_and_cut_off(start: Start, simulator: RunningSimulator) -> None:
    """Nothing piles up for it; the upstream waits, then the connection ends."""
    gateway = start(server=Server(send_timeout_s=1.0, shutdown_grace_s=1.0))
    with opened(gateway) as sock:
        sock.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.create("chat/sim-flood?events=20000&bytes=2000")
        simulator.wait_for(lambda: bool(simulator.requests))
        until(lambda: not gateway.app.websockets.open, seconds=SOON)
    until(lambda: simulator.last.disconnected, seconds=SOON)
    assert simulator.last.bytes_sent < 20_000_000


def test_refusals_that_nobody_reads(start: Start) -> None:
    """They do not pile up either. The buffer of the client is as large as usual: with a small one
    that is full the kernel may drop what acknowledges the client's own bytes, and both wait."""
    gateway = start(server=replace(SERVER, send_timeout_s=1.0))
    with opened(gateway) as sock:
        sock.sock.settimeout(10)
        with suppress(ConnectionError):
            for _ in range(2000):
                sock.sock.sendall(frame(b"{" * 10) * 500)
        until(lambda: not gateway.app.websockets.open, seconds=2 * SOON)
        until(lambda: not gateway.server.http.connections, seconds=SOON)


HOSTILE: dict[str, tuple[bytes, int]] = {
    "not masked": (frame(ASK, masked=False), 1002),
    "reserved bit": (frame(ASK, first=0x90), 1002),
    "compressed, unasked": (frame(ASK, first=0xC0), 1002),
    "unknown opcode": (frame(ASK, 3), 1002),
    "control in fragments": (frame(b"", PING, first=0), 1002),
    "large control": (frame(b"x" * 126, PING), 1002),
    "continuation of nothing": (frame(ASK, 0), 1002),
    "message within a message": (frame(b"{", first=0) + frame(ASK), 1002),
    "wrong UTF-8": (frame(b'{"type":"\xff"}'), 1007),
    "half a character": (frame(b'{"type":"\xc3'), 1007),
    "surrogate": (frame(b'{"type":"\xed\xa0\x80"}'), 1007),
    "binary, no text": (frame(b"\xff\x00", BINARY), 1003),
    "close, one byte": (frame(b"\x03", CLOSE), 1002),
    "close, bad code": (frame(struct.pack("!H", 999), CLOSE), 1002),
    "close, reserved code": (frame(struct.pack("!H", 1005), CLOSE), 1002),
    "close, wrong UTF-8": (frame(b"\x03\xe8\xff", CLOSE), 1007),
    "length beyond all": (b"\x81\xff" + b"\xff" * 8, 1009),
    "length of 4 EiB": (b"\x81\xff" + (1 << 62).to_bytes(8, "big"), 1009),
    "length of 1 GiB": (b"\x81\xff" + (1 << 30).to_bytes(8, "big"), 1009),
    "length of 1 GiB, compressed": (b"\xc1\xff" + (1 << 30).to_bytes(8, "big"), 1009),
    "no HTTP/1.1, HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 1002),
    "many fragments": (frame(b"a", first=0) + frame(b"", 0, first=0) * 100, 1008),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_frames(gateway: RunningGateway, case: str) -> None:
    """Each ends its own connection with the code of RFC 6455, 7.4.1, and nothing else."""
    data, code = HOSTILE[case]
    with opened(gateway) as other, opened(gateway) as sock:
        sock.sock.sendall(data)
        assert sock.closed().code == code
        assert text_of(other.turn("chat/sim-text?text=well")) == "well"
    until(lambda: not gateway.app.websockets.open, seconds=SOON)


def test_legal_oddities(gateway: RunningGateway) -> None:
    """Fragments with pings between, bytes one by one, binary that is text, empty fragments, and
    all of it at once."""
    fragments = [frame(ASK[:10], first=0), frame(b"a", PING), frame(ASK[10:], 0)]
    with opened(gateway) as sock:
        for piece in fragments:
            sock.sock.sendall(piece)
        assert sock.message(PONG) == b"a"
        assert text_of(sock.events()) == "well"
        for byte in frame(ASK):
            sock.sock.sendall(bytes([byte]))
        assert text_of(sock.events()) == "well"
        sock.sock.sendall(frame(ASK, BINARY))
        assert text_of(sock.events()) == "well"
        sock.sock.sendall(frame(b"", first=0) + frame(ASK, 0, first=0) + frame(b"", 0))
        assert text_of(sock.events()) == "well"
        sock.sock.sendall(b"".join(fragments) + frame(ASK) * 3)
        for _ in range(4):
            assert text_of(sock.events()) == "well"
        split = '{"type":"response.processed","x":"caf\xe9 \U0001f600"}'.encode()
        sock.sock.sendall(b"".join(frame(split[at : at + 1], first=0) for at in range(1)))
        for at in range(1, len(split)):
            last = 0x80 if at == len(split) - 1 else 0
            sock.sock.sendall(frame(split[at : at + 1], 0, first=last))
        assert text_of(sock.turn("chat/sim-text?text=well")) == "well"


def test_ten_thousand_pings(gateway: RunningGateway) -> None:
    """The last of those that came together is answered; others are served meanwhile."""
    with opened(gateway) as sock, opened(gateway) as other:
        sock.sock.sendall(b"".join(frame(b"%d" % number, PING) for number in range(10_000)))
        began = time.monotonic()
        assert text_of(other.turn("chat/sim-text?text=well")) == "well"
        assert time.monotonic() - began < SOON
        while sock.message(PONG) != b"9999":
            pass


def test_a_message_that_is_too_large(start: Start, simulator: RunningSimulator) -> None:
    """W22: as large as a body may be, it is taken; beyond that 1009, after an error frame."""
    gateway = start(server=replace(SERVER, body_limit_bytes=1_000_000))
    with opened(gateway) as sock:
        assert answer_id(sock.turn("responses/sim-text", "x" * 999_000))
        [told] = sock.turn("responses/sim-text", "x" * 1_010_000)
        assert (told["status"], told["error"]["code"]) == (413, "request_too_large")
        assert answer_id(sock.turn("responses/sim-text"))
        sock.create("responses/sim-text", "x" * 1_100_000)
        told = sock.event()
        assert (told["type"], told["status"]) == ("error", 413)
        assert sock.closed().code == 1009
    assert not gateway.server.http.budget.used


def test_a_message_of_sixteen_megabytes(gateway: RunningGateway) -> None:
    """W22: it is no more than POST may carry."""
    with opened(gateway) as sock:
        sock.sock.settimeout(60)
        assert answer_id(sock.turn("responses/sim-text", "x" * (16 * 1024 * 1024)))


def packed(data: bytes) -> bytes:
    """A compressed message."""
    deflater = zlib.compressobj(9, wbits=-15)
    return (deflater.compress(data) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]


@pytest.mark.parametrize("pieces", [1, 50])
def test_compressed_bombs(gateway: RunningGateway, pieces: int) -> None:
    """What is inflated is bounded, in one frame and in many."""
    bomb = packed(b" " * 100_000_000)
    size = len(bomb) // pieces + 1
    with opened(gateway, sec_websocket_extensions="permessage-deflate") as sock:
        for at in range(0, len(bomb), size):
            first = (0x40 if not at else 0) | (0x80 if at + size >= len(bomb) else 0)
            try:
                sock.sock.sendall(frame(bomb[at : at + size], 0 if at else TEXT, first=first))
            except ConnectionError:
                break
        assert sock.closed().code == 1009
    assert not gateway.server.http.budget.used


@pytest.mark.parametrize("data", [b"\xff\xff\xff", packed(b"{}")[:-1] + b"\x07"])
def test_what_is_not_compressed(gateway: RunningGateway, data: bytes) -> None:
    with opened(gateway, sec_websocket_extensions="permessage-deflate") as sock:
        sock.sock.sendall(frame(data, first=0xC0))
        assert sock.closed().code == 1007


def test_no_memory_for_a_message(start: Start) -> None:
    """It is told to come again, by the code for that."""
    gateway = start(server=replace(SERVER, memory_limit_bytes=200_000))
    with opened(gateway) as sock:
        sock.create("chat/sim-text", "x" * 300_000)
        assert sock.event()["status"] in (400, 503)
        assert sock.closed().code == 1013
    assert not gateway.server.http.budget.used


def with_sockets(simulator: RunningSimulator, **settings: Any) -> Any:
    config = config_for(simulator.base_url)
    return replace(config, websocket=WebSocket(**settings))


def test_a_message_that_never_ends(
    start: Start, simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_websockets, "PING_S", 0.1)
    config = config_for(simulator.base_url)
    gateway = start(replace(config, server=replace(SERVER, body_timeout_s=0.3)))
    with opened(gateway) as sock:
        sock.sock.sendall(frame(b"x", first=0))
        assert sock.closed().code == 1008


def test_pings_and_a_client_that_does_not_answer(
    start: Start, simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W18: pings keep the way open; one that answers none is cut off with 1011, what it asked for
    is cancelled."""
    monkeypatch.setattr(edge_websockets, "PING_S", 0.1)
    gateway = start()
    with opened(gateway) as sock:
        assert text_of(sock.turn("chat/sim-text?words=3&delay_ms=200"))
        assert sock.pings >= 2
        sock.mute = True
        sock.create("chat/sim-text?first_ms=5000")
        assert sock.closed().code == 1011
    until(lambda: simulator.last.disconnected, seconds=SOON)


def test_a_silent_upstream_is_no_failure(start: Start, simulator: RunningSimulator) -> None:
    """W18, W19: the client is told something that changes nothing, with numbers that rise."""
    gateway = start(server=replace(SERVER, keepalive_s=0.1))
    for kind in ("chat", "responses"):
        with opened(gateway) as sock:
            found = sock.turn(f"{kind}/sim-text?fault=silence&after=7&ms=700&text=a+b+c+d+e+f")
            kinds = [event["type"] for event in found]
            assert kinds.count("response.in_progress") >= 4
            assert text_of(found) == "a b c d e f"
            numbers = [event["sequence_number"] for event in found]
            assert numbers == sorted(set(numbers))
            created = found[0]["response"]
            signs = [one for one in found if one["type"] == "response.in_progress"]
            assert all(sign["response"]["id"] == created["id"] for sign in signs)


def test_what_is_silent_by_default() -> None:
    """W18: a sign and a ping are well within what clients and proxies wait for. W19: an upstream
    may say nothing for ten minutes before its answer, and within it where pings tell that it is
    there."""
    assert Server().keepalive_s < 300
    assert edge_websockets.PING_S < 100
    assert Timeouts().first_byte_s >= 600
    assert Timeouts().idle_s >= 600


def test_signs_before_there_is_a_response(start: Start, simulator: RunningSimulator) -> None:
    """W18: only for Codex, which waits for any message; others have the pings."""
    server = replace(SERVER, keepalive_s=0.1, commit_after_s=0.1)
    gateway = start(server=server)
    for beta, signs in (("responses_websockets=2026-02-06", True), ("", False)):
        with opened(gateway, **({"openai_beta": beta} if beta else {})) as sock:
            kinds = [one["type"] for one in sock.turn("chat/sim-text?head_ms=700")]
            assert ("keepalive" in kinds) is signs
            assert kinds[-1] == "response.completed"


def test_ages(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of its time a connection says so in the words that have clients dial again; what
    runs is finished, what comes then is refused."""
    monkeypatch.setattr(edge_websockets, "PING_S", 0.3)
    monkeypatch.setattr(service, "MAX_AGE_S", 0.5)
    gateway = start()
    with opened(gateway) as sock:
        assert answer_id(sock.turn("chat/sim-text"))
        told = sock.event()
        assert (told["status"], told["error"]["code"]) == (
            400,
            "websocket_connection_limit_reached",
        )
        assert sock.closed().code == 1001
    with opened(gateway) as sock:
        sock.create("chat/sim-text?words=10&delay_ms=150", stream_id="a")
        time.sleep(0.8)
        sock.create("chat/sim-text", stream_id="b")
        ends = [sock.events()[-1], sock.events()[-1]]
        assert {one["stream_id"]: one["type"] for one in ends} == {
            "a": "response.completed",
            "b": "error",
        }
        assert sock.closed().code == 1001


@pytest.mark.parametrize(("kind", "end"), [("text", "response.completed"), ("400", "error")])
def test_an_end_does_not_cross_what_comes(
    start: Start,
    simulator: RunningSimulator,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    end: str,
) -> None:
    """What comes when the time is over is served, and the connection ends together with its answer,
    though there is work to do after that: who has the answer finds that it has to dial again."""
    run = Session._run

    async def slowly(*arguments: Any) -> None:
        await run(*arguments)
        await asyncio.sleep(0.3)

    monkeypatch.setattr(Session, "_run", slowly)
    monkeypatch.setattr(edge_websockets, "PING_S", 20.0)
    monkeypatch.setattr(service, "MAX_AGE_S", 0.1)
    gateway = start()
    with opened(gateway) as sock:
        time.sleep(0.15)
        assert sock.turn(f"chat/sim-{kind}")[-1]["type"] == end
        with suppress(OSError):
            sock.create("chat/sim-text")
        assert sock.closed().code == 1001
        assert not sock.frames


def test_idleness(
    start: Start, simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_websockets, "PING_S", 0.1)
    gateway = start(with_sockets(simulator, idle_timeout_s=0.4))
    with opened(gateway) as sock:
        assert answer_id(sock.turn("chat/sim-text?words=8&delay_ms=100"))
        closed = sock.closed()
        assert (closed.code, closed.reason) == (1001, "going away")
        assert not sock.frames


@pytest.mark.parametrize("grace", [5.0, 0.5])
def test_draining(simulator: RunningSimulator, grace: float) -> None:
    """Idle connections close with 1001, others finish what runs, also over WebSocket upstream; new
    requests are told to dial again. After the grace what runs is ended with an error, and no
    connection ends without."""
    config = dialling(simulator, server=replace(SERVER, shutdown_grace_s=grace))
    with (
        running_gateway(config) as gateway,
        opened(gateway) as idle,
        opened(gateway) as busy,
    ):
        assert answer_id(idle.turn("chat/sim-text"))
        busy.create("responses/sim-text?words=20&delay_ms=60", stream_id="a")
        busy.create("responses/sim-text?text=queued", stream_id="a")
        busy.event()
        gateway.stop()
        time.sleep(0.1)
        closed = idle.closed()
        assert (closed.code, closed.reason) == (1001, "going away")
        if grace > 1:
            busy.create("chat/sim-text", stream_id="b")
            ends = [busy.events()[-1] for _ in range(3)]
            refused = [one for one in ends if one["stream_id"] == "b"]
            assert refused[0]["error"]["code"] == "websocket_connection_limit_reached"
            finished = [one for one in ends if one["stream_id"] == "a"]
            assert [one["type"] for one in finished] == ["response.completed"] * 2
        else:
            ends = [busy.events()[-1] for _ in range(2)]
            assert {one["type"] for one in ends} == {"response.failed", "error"}
        assert busy.closed().code == 1001


def test_a_restart(simulator: RunningSimulator, tmp_path: Path) -> None:
    """In the middle of a turn, which is finished; after it the conversation goes on from what was
    stored, and what was not has to be sent anew, as clients do."""
    storage = Storage(path=str(tmp_path / "store.db"))
    config = replace(dialling(simulator), storage=storage)
    with running_gateway(config) as gateway, opened(gateway) as sock:
        kept = answer_id(sock.turn("responses/sim-text?text=one", "first", store=True))
        sock.create("responses/sim-text?words=10&delay_ms=50", "second", previous_response_id=kept)
        sock.event()
        gateway.stop()
        lost = answer_id(sock.events())
        assert sock.closed().code == 1001
    with running_gateway(config) as gateway, opened(gateway) as sock:
        [told] = sock.turn("responses/sim-text", "third", previous_response_id=lost)
        assert (told["status"], told["error"]["code"]) == (400, "previous_response_not_found")
        assert answer_id(sock.turn("responses/sim-text", "third", previous_response_id=kept))
        whole = str(simulator.last.json["input"])
        assert [text in whole for text in ("first", "one", "second", "third")] == [
            True,
            True,
            False,
            True,
        ]


def test_a_drain_refuses_handshakes(simulator: RunningSimulator) -> None:
    config = config_for(simulator.base_url)
    with running_gateway(config) as gateway:
        gateway.app.draining = True
        answer = refused(gateway, handshake())
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")


@needs_files
def test_a_thousand_idle_connections(start: Start) -> None:
    """They stand, others are served meanwhile, and nothing is left of them."""
    gateway = start(clients=None)
    socks = []
    try:
        for _ in range(edge_websockets.MOST_OF_A_CLIENT):
            socks.append(opened(gateway))  # noqa: PERF401  # those so far are closed in any case
        assert answer_id(socks[0].turn("chat/sim-text"))
        assert answer_id(socks[-1].turn("chat/sim-text"))
    finally:
        for sock in socks:
            sock.sock.close()
    until(lambda: not gateway.app.websockets.open, seconds=SOON)


@pytest.mark.parametrize("way", ["off", "on"])
def test_two_hundred_at_work(
    start: Start, simulator: RunningSimulator, way: Literal["off", "on"]
) -> None:
    """All at once, over as many connections upstream; each is answered, and nothing is left."""
    gateway = start(dialling(simulator, way))
    count = 200
    with ExitStack() as stack:
        socks = [stack.enter_context(opened(gateway)) for _ in range(count)]
        for number, sock in enumerate(socks):
            sock.create(f"responses/sim-text?text=t{number}&first_ms=2500")
        until(lambda: in_flight(gateway) == count, seconds=SOON)
        for number, sock in enumerate(socks):
            assert text_of(sock.events()) == f"t{number}"
        until(lambda: not in_flight(gateway), seconds=SOON)
    until(lambda: not gateway.app.websockets.open, seconds=SOON)
    until(lambda: not gateway.server.http.budget.used, seconds=SOON)


def test_no_memory_for_an_answer(start: Start, simulator: RunningSimulator) -> None:
    """Of an upstream over WebSocket: the request fails, and its account is as good as before."""
    server = replace(SERVER, memory_limit_bytes=400_000)
    gateway = start(dialling(simulator, server=server))
    with opened(gateway) as sock:
        end = sock.turn("responses/sim-text?words=200000&chunks=1", "hi")[-1]
        assert (end["status"], end["error"]["code"]) == (503, "server_is_overloaded")
        assert answer_id(sock.turn("responses/sim-text?words=10000&chunks=1"))
        assert not gateway.app.pool.state("responses-0").cooling
    until(lambda: not gateway.server.http.budget.used, seconds=SOON)


def test_closing_is_answered(gateway: RunningGateway) -> None:
    for code in (1000, 1001, 3000, 4999):
        with opened(gateway) as sock:
            sock.close(code)
            with pytest.raises(Closed):
                sock.message()
    with opened(gateway) as sock:
        sock.sock.sendall(frame(b"", CLOSE))
        assert sock.closed().code == 1005


def test_timeouts_of_upstreams_hold(start: Start) -> None:
    gateway = start(timeouts=Timeouts(first_byte_s=0.3, idle_s=0.3))
    with opened(gateway) as sock:
        [told] = sock.turn("chat/sim-text?first_ms=2000")
        assert told["status"] >= 500
        found = sock.turn("chat/sim-text?fault=silence&after=6&ms=2000&words=20")
        assert found[-1]["type"] == "response.failed"
