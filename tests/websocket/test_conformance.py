"""The classes of cases that the Autobahn test suite has (RFC 6455; tools/autobahn.py runs
the suite itself), against the server's WebSocket on a bare socket."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.http.serving import Running, read_all, running
from tests.websocket.client import BINARY, CLOSE, PING, PONG, TEXT, frame, handshake
from tools.autobahn import app

BAD_CODES = [*range(0, 1000, 333), 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535]
GOOD_CODES = [*range(1000, 1004), *range(1007, 1015), 3000, 3999, 4000, 4999]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(app) as server:
        yield server


def said(server: Running, data: bytes) -> list[tuple[int, bytes]]:
    """The frames of the server until it closes its side, which it has to do by itself: opcodes and
    payloads."""
    return frames_of(exchanged(server, data, []))


def exchanged(server: Running, data: bytes, cuts: list[int]) -> bytes:
    """What the server sends after its handshake, until it closes; `data` comes cut there."""
    headers = handshake(sec_websocket_extensions="permessage-deflate")
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with server.connect() as sock:
        sock.sendall(f"GET / HTTP/1.1\r\nhost: x\r\n{head}\r\n".encode())
        for start, end in pairwise([0, *sorted(cuts), len(data)]):
            sock.sendall(data[start:end])
        return read_all(sock).partition(b"\r\n\r\n")[2]


def frames_of(rest: bytes) -> list[tuple[int, bytes]]:
    found = []
    while rest:
        size, start = rest[1], 2
        if size == 126:
            size, start = int.from_bytes(rest[2:4], "big"), 4
        found.append((rest[0] & 0x0F, rest[start : start + size]))
        assert rest[0] & 0xF0 == 0x80
        rest = rest[start + size :]
    return found


def closing(code: int, reason: bytes = b"") -> bytes:
    return frame(struct.pack("!H", code) + reason, CLOSE)


LEAVE = closing(1000)
LEFT = (CLOSE, b"\x03\xe8")


def test_messages_come_back(server: Running) -> None:
    """1: of every length that has another head, text and binary; nothing in between."""
    for size in (0, 1, 125, 126, 127, 128, 65535):
        for opcode in (TEXT, BINARY):
            sent = frame(b"*" * size, opcode) + LEAVE
            assert said(server, sent) == [(opcode, b"*" * size), LEFT]


def test_pings(server: Running) -> None:
    """2, 5: each of ten is answered, in order, before the message that it came in is whole; pongs
    that nobody asked for are passed over."""
    payloads = [b"", b"ping", bytes(range(125)), *(b"%d" % number for number in range(7))]
    pings = b"".join(frame(one, PING) for one in payloads)
    assert said(server, pings + LEAVE) == [*((PONG, one) for one in payloads), LEFT]
    within = frame(b"a", first=0) + pings + frame(b"b", 0)
    expected = [*((PONG, one) for one in payloads), (TEXT, b"ab"), LEFT]
    assert said(server, within + LEAVE) == expected
    assert said(server, frame(b"x", PONG) + frame(b"a") + LEAVE) == [(TEXT, b"a"), LEFT]


def test_what_may_not_be_sent(server: Running) -> None:
    """3, 4, 5, 7: reserved bits and opcodes, fragments out of order. What came before
    is answered, then the server closes, and waits for nothing."""
    reserved = [frame(b"a", first=0x80 | bits) for bits in range(0x10, 0x40, 0x10)]
    reserved += [frame(b"a", first=0) + frame(b"b", 0, first=0xC0)]
    reserved += [frame(b"a", PING, first=0x80 | bits) for bits in range(0x10, 0x80, 0x10)]
    reserved += [frame(b"a", CLOSE, first=0x90)]
    unknown = [frame(b"a", opcode) for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)]
    fragments = [frame(b"a", 0), frame(b"a", 0, first=0), frame(b"a", first=0) + frame(b"b")]
    fragments += [frame(b"a", PING, first=0), frame(b"a", PONG, first=0), frame(b"x" * 126, PING)]
    for bad in (*reserved, *unknown, *fragments):
        *before, (opcode, payload) = said(server, frame(b"hi") + bad + frame(b"hi"))
        assert before == [(TEXT, b"hi")], bad
        assert (opcode, payload[:2]) == (CLOSE, struct.pack("!H", 1002)), bad


def test_texts(server: Running) -> None:
    """6: UTF-8 that is well formed, whole and one byte in a frame; what is not closes with 1007."""
    texts = ["κόσμε", "\0", "\x7f", "\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\ufffd"]
    texts += ["\uffff", "\U00010000", "\U0010ffff", "\ufdd0\U0001fffe"]
    for text in texts:
        data = text.encode()
        pieces = [frame(data[at : at + 1], 0 if at else TEXT, first=0) for at in range(len(data))]
        sent = frame(data) + b"".join(pieces) + frame(b"", 0) + LEAVE
        assert said(server, sent) == [(TEXT, data), (TEXT, data), LEFT], text
    bad = [b"\x80", b"\xbf", b"\xc0\xaf", b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf", b"\xc1\xbf"]
    bad += [b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xfe"]
    bad += [b"\xff", b"\xce", b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce", b"a\xc3(b"]
    for data in bad:
        for sent in (frame(data), frame(data[:1], first=0) + frame(data[1:], 0)):
            [(opcode, payload)] = said(server, sent + LEAVE)
            assert (opcode, payload[:2]) == (CLOSE, struct.pack("!H", 1007)), data


def test_closing(server: Running) -> None:
    """7: codes and reasons that may be sent are sent back; nothing after a close is looked at."""
    assert said(server, frame(b"", CLOSE)) == [(CLOSE, b"")]
    for code in GOOD_CODES:
        sent = closing(code, b"x" * 123) + frame(b"late") + frame(b"late", PING)
        assert said(server, sent) == [(CLOSE, struct.pack("!H", code))]
    bad = [closing(code) for code in BAD_CODES]
    bad += [frame(b"\x03", CLOSE), frame(b"\x03\xe8" + b"x" * 124, CLOSE)]
    for sent in bad:
        [(opcode, payload)] = said(server, sent)
        assert (opcode, payload[:2]) == (CLOSE, struct.pack("!H", 1002)), sent
    [(_, payload)] = said(server, closing(1000, b"\xce\xba\xe1\xbd\xb9\xed\xa0\x80"))
    assert payload[:2] == struct.pack("!H", 1007)
    # A close within a message is none of a message.
    assert said(server, frame(b"a", first=0) + LEAVE) == [LEFT]


def test_limits(server: Running) -> None:
    """9: a megabyte, in one frame, in fragments of 64 bytes, in pieces of TCP of 1,000 bytes."""
    data = b"*" * (1 << 20)
    head = "".join(f"{name}: {value}\r\n" for name, value in handshake().items())
    pieces = [
        frame(data[at : at + 64], 0 if at else TEXT, first=0x80 if at + 64 >= len(data) else 0)
        for at in range(0, len(data), 64)
    ]
    for sent in (frame(data), b"".join(pieces)):
        with server.connect() as sock:
            sock.sendall(f"GET / HTTP/1.1\r\nhost: x\r\n{head}\r\n".encode())
            for at in range(0, len(sent), 1000):
                sock.sendall(sent[at : at + 1000])
            sock.sendall(LEAVE)
            told = read_all(sock).partition(b"\r\n\r\n")[2]
        assert told == b"\x81\x7f" + len(data).to_bytes(8, "big") + data + b"\x88\x02\x03\xe8"


def test_cuts(server: Running) -> None:
    """12, 13: messages, compressed or not, in any number of frames and pieces of TCP."""
    chosen = random.Random(1)
    for _ in range(40):
        texts = ["x" * chosen.choice((0, 1, 200, 9000)) + "é" for _ in range(3)]
        data = b""
        for text in texts:
            payload, packed = text.encode(), chosen.random() < 0.5
            if packed:
                deflater = zlib.compressobj(wbits=-15)
                payload = (deflater.compress(payload) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]
            places = sorted(chosen.randrange(len(payload) + 1) for _ in range(chosen.randrange(4)))
            parts = [payload[at:end] for at, end in pairwise([0, *places, len(payload)])]
            for number, part in enumerate(parts):
                first = 0x80 if number == len(parts) - 1 else 0
                first |= 0x40 if packed and not number else 0
                data += frame(part, 0 if number else TEXT, first=first)
        data += LEAVE
        cuts = [chosen.randrange(len(data)) for _ in range(chosen.randrange(6))]
        found = frames_of(exchanged(server, data, cuts))
        assert found == [*((TEXT, text.encode()) for text in texts), LEFT]


def test_noise(server: Running) -> None:
    """Whatever comes, the server closes by a code of RFC 6455, or waits for more."""
    chosen = random.Random(2)
    for _ in range(200):
        data = frame(b"hi") + chosen.randbytes(chosen.randrange(1, 60))
        found = frames_of(exchanged(server, data + frame(b"x" * 70_000) * 2 + LEAVE, []))
        closes = [payload for opcode, payload in found if opcode == CLOSE]
        codes = {int.from_bytes(payload[:2], "big") for payload in closes if payload}
        assert found[0] == (TEXT, b"hi")
        assert codes <= {1000, 1002, 1003, 1007, 1008, 1009}
