"""Large messages: counted before they are decoded, and read in another process, as bodies are."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.config import Server
from dragoman.protocols.openai_responses.websocket import read_event
from dragoman.server.testing import RunningGateway
from tests.gateway.conftest import Start
from tests.gateway.services import until
from tests.websocket.client import BINARY, TEXT, Closed, Socket, frame, opened, text_of

DEFLATE = "permessage-deflate"
HALF_CHARACTER = b'"\\ud800"'
"""Half of a surrogate pair: it makes the decoder start again, with all values."""


def packed(data: bytes, opcode: int = TEXT) -> bytes:
    """A message in one compressed frame."""
    deflater = zlib.compressobj(wbits=-15)
    payload = deflater.compress(data) + deflater.flush(zlib.Z_SYNC_FLUSH)
    return frame(payload[:-4], opcode, first=0xC0)


@pytest.fixture(autouse=True)
def read_here(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the messages that are read in the gateway's own process."""
    sizes: list[int] = []
    read = read_event

    def watched(data: bytes) -> Any:
        sizes.append(len(data))
        return read(data)

    monkeypatch.setattr("dragoman.responses.websocket.session.read_event", watched)
    return sizes


def refused(sock: Socket) -> dict[str, Any]:
    event = sock.event()
    assert event["type"] == "error", event
    return event


MANY_VALUES: dict[str, Callable[[], bytes]] = {
    "objects": lambda: b'{"y":' + HALF_CHARACTER + b',"x":[' + b"{}," * 10_000_000 + b"{}]}",
    "lists in lists": lambda: b'{"x":' + b"[" * 2_000_000 + b"]" * 2_000_000 + b"}",
    "members": lambda: b"{" + b",".join(b'"%d":0' % number for number in range(1_500_000)) + b"}",
}


@pytest.mark.parametrize("case", MANY_VALUES)
def test_values_are_counted_before_they_are_decoded(
    gateway: RunningGateway, read_here: list[int], case: str
) -> None:
    """Few bytes on the wire may be millions of values: refused with the error of POST, and the
    connection goes on."""
    with opened(gateway, sec_websocket_extensions=DEFLATE) as sock:
        sock.sock.sendall(packed(MANY_VALUES[case]()))
        event = refused(sock)
        assert (event["status"], "values" in event["error"]["message"]) == (413, True), event
        assert text_of(sock.turn("chat/sim-text?text=well")) == "well"
    assert max(read_here) < 1000
    until(lambda: not gateway.server.http.budget.used)


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_blanks_and_broken_json(gateway: RunningGateway, read_here: list[int], opcode: int) -> None:
    with opened(gateway, sec_websocket_extensions=DEFLATE) as sock:
        for data in (b" " * 3_000_000, b'{"a":' + b" " * 2_000_000, b"[" + b"1" * 2_000_000):
            sock.sock.sendall(packed(data, opcode))
            assert refused(sock)["status"] == 400
    assert not read_here
    until(lambda: not gateway.server.http.budget.used)


@pytest.mark.parametrize("size", [33 * 1024 * 1024, 2**30, 2**62, 2**63])
@pytest.mark.parametrize("begun", [b"", frame(b"x" * 1000, first=0)])
def test_a_frame_that_announces_too_much_is_answered_at_its_header(
    gateway: RunningGateway, size: int, begun: bytes
) -> None:
    """Nobody waits for the bytes, of a first frame or of one that goes on."""
    opcode = b"\x80" if begun else b"\x81"
    with opened(gateway) as sock:
        sock.sock.sendall(begun + opcode + b"\xff" + size.to_bytes(8, "big"))
        assert refused(sock)["status"] == 413
        with pytest.raises(Closed) as closed:
            sock.event()
    assert closed.value.code == 1009
    until(lambda: not gateway.server.http.budget.used)


def test_others_are_served_meanwhile(gateway: RunningGateway) -> None:
    """Eight connections that send what takes seconds to refuse."""
    data = packed(MANY_VALUES["objects"]())
    socks = [opened(gateway, sec_websocket_extensions=DEFLATE) for _ in range(8)]
    with opened(gateway) as other:
        for sock in socks:
            sock.sock.sendall(data)
        for _ in range(5):
            assert text_of(other.turn("chat/sim-text?text=well")) == "well"
        for sock in socks:
            assert refused(sock)["status"] == 413
            sock.__exit__()


def test_the_next_message_waits_for_a_large_one(
    gateway: RunningGateway, read_here: list[int]
) -> None:
    """Also one that came with it in one read; a client may leave while its message is read."""
    large = {"type": "response.create", "model": "chat/sim-text?text=first", "store": False}
    large |= {"input": "é" * 1_000_000}
    small = {**large, "model": "chat/sim-text?text=second", "input": "a"}
    sent = [frame(json.dumps(one, ensure_ascii=False).encode()) for one in (large, small)]
    with opened(gateway) as sock:
        sock.sock.sendall(b"".join(sent))
        assert [text_of(sock.events()) for _ in range(2)] == ["first", "second"]
        assert max(read_here) < 1000
        sock.sock.sendall(sent[0])
    until(lambda: not gateway.app.websockets.open)
    until(lambda: not gateway.server.http.budget.used)


def test_memory_is_reserved_for_a_frame_that_is_not_whole(start: Start) -> None:
    """Two messages that there is no room for at once."""
    gateway = start(server=Server(memory_limit_bytes=48 * 1024 * 1024))
    head = b"\x81\xff" + (30_000_000).to_bytes(8, "big") + b"\0\0\0\0"
    with opened(gateway) as first, opened(gateway) as second:
        first.sock.sendall(head + b" " * 29_000_000)
        until(lambda: gateway.server.http.budget.used > 28_000_000)
        # Little more than there is room for: sending on after the refusal ends in a reset.
        second.sock.sendall(head + b" " * 21_600_000)
        assert second.closed().code == 1013
        assert gateway.server.http.budget.used < 48 * 1024 * 1024
    until(lambda: not gateway.server.http.budget.used)
