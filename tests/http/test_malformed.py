"""What is no HTTP/1.1, and what is but cannot be served."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http.serving import Running, running, statuses


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as made:
        yield made


P = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = P + b"Transfer-Encoding: chunked\r\n\r\n"

HEADS = {
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\nhost: x\r\nhost: x\r\n\r\n", 400),
    "an empty host": (b"GET / HTTP/1.1\r\nhost: \r\n\r\n", 400),
    "a port alone": (b"GET / HTTP/1.1\r\nhost: :80\r\n\r\n", 400),
    "a star, and not OPTIONS": (b"GET * HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "no such host": (b"GET / HTTP/1.1\r\nhost: a b\r\n\r\n", 400),
    "a dot segment": (b"GET /a/../b HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "a dot at the end": (b"GET /a/. HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "an escaped dot segment": (b"GET /a/%2e%2E/b HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "a dot segment with an escaped slash": (b"GET /a/..%2fb HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "a dot segment of a backslash": (b"GET /a\\..\\b HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "a dot segment in an absolute form": (b"GET http://x/../b HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "a path as a host": (b"GET / HTTP/1.1\r\nhost: a/b\r\n\r\n", 400),
    "two hosts in one": (b"GET / HTTP/1.1\r\nhost: a, b\r\n\r\n", 400),
    "length and chunks": (P + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n", 400),
    "chunks and length": (P + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n", 400),
    "two lengths": (P + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello!", 400),
    "one length twice": (P + b"content-length: 5\r\ncontent-length: 5\r\n\r\nhello", 400),
    "lengths in one": (P + b"content-length: 5, 5\r\n\r\nhello", 400),
    "no length": (P + b"content-length:\r\n\r\nhello", 400),
    "a length with a sign": (P + b"content-length: +5\r\n\r\nhello", 400),
    "a negative length": (P + b"content-length: -5\r\n\r\nhello", 400),
    "a length beyond 64 bits": (P + b"content-length: 18446744073709551616\r\n\r\n", 400),
    "a hexadecimal length": (P + b"content-length: 0x5\r\n\r\nhello", 400),
    "a length in pieces": (P + b"content-length: 1 0\r\n\r\nhello", 400),
    "a length with an underscore": (P + b"content-length: 1_0\r\n\r\nhello", 400),
    "a huge length": (P + b"content-length: 9223372036854775807\r\n\r\n", 413),
    "a folded line": (P + b"a: b\r\n c\r\n\r\n", 400),
    "a folded first line": (b"GET / HTTP/1.1\r\n host: x\r\n\r\n", 400),
    "a bare LF": (P + b"a: b\n\r\n", 400),
    "bare LFs": (b"GET / HTTP/1.1\nhost: x\n\n", 400),
    "a bare LF at the end": (P + b"a: b\r\n\n", 400),
    "a bare CR": (P + b"a: b\rc: d\r\n\r\n", 400),
    "NUL in a value": (P + b"a: b\0c\r\n\r\n", 400),
    "NUL in a name": (P + b"a\0b: c\r\n\r\n", 400),
    "NUL in a path": (b"GET /\0 HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "NUL first": (b"\0GET / HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "a space before the colon": (P + b"a : b\r\n\r\n", 400),
    "a line without a name": (P + b": b\r\n\r\n", 400),
    "a line without a colon": (P + b"ab\r\n\r\n", 400),
    "a name that is no token": (P + b"a(: b\r\n\r\n", 400),
    "a control character": (P + b"a: \x01\r\n\r\n", 400),
    "a coding that is not known": (P + b"transfer-encoding: gzip\r\n\r\n", 400),
    "chunks of a coding": (P + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "chunks not last": (P + b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400),
    "chunks twice": (P + b"transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400),
    "two codings": (P + b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n", 400),
    "nearly chunked": (P + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    "chunked in disguise": (P + b"transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    "chunks of HTTP/1.0": (b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "HTTP/2 by name": (b"GET / HTTP/2.0\r\nhost: x\r\n\r\n", 505),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400),
    "HTTP/0.9 by name": (b"GET / HTTP/0.9\r\n\r\n", 400),
    "HTTP/1.2": (b"GET / HTTP/1.2\r\nhost: x\r\n\r\n", 400),
    "another protocol": (b"OPTIONS rtsp://x RTSP/1.0\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "a tunnel": (b"CONNECT x:443 HTTP/1.1\r\nhost: x:443\r\n\r\n", 501),
    "a fragment": (b"GET /#a HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "a path that is none": (b"GET a HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "another scheme": (b"GET ftp://x/ HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "a space in the path": (b"GET /a b HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "a byte in the path": (b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "a method in small letters": (b"get / HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "no such method": (b"NONSENSE / HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "an expectation": (P + b"expect: miracles\r\n\r\n", 417),
    "too many headers": (P + b"a: b\r\n" * 300 + b"\r\n", 431),
    "70 KB in one": (P + b"a: " + b"b" * 70_000 + b"\r\n\r\n", 431),
    "70 KB in lines": (P + (b"a: " + b"b" * 1000 + b"\r\n") * 70 + b"\r\n", 431),
    "a path of 9 KB": (b"GET /" + b"%00" * 3000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 414),
    "a query of 9 KB": (b"GET /?" + b"a" * 9000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 414),
    "a path of 70 KB": (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 431),
    "nothing but empty lines": (b"\r\n" * 40_000, 431),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADS)
def test_heads(server: Running, name: str) -> None:
    """Refused in HTTP; what comes behind it is not taken for a request."""
    data, status = HEADS[name]
    before = len(server.seen)
    behind = b"GET /behind HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    answered = statuses(server.say(data + behind))
    assert answered == [status]
    assert all(request.path != "/behind" for request in server.seen[before:])


CHUNKS = {
    "a size that is none": b"x\r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "a negative size": b"-5\r\nhello\r\n0\r\n\r\n",
    "a size with a sign": b"+5\r\nhello\r\n0\r\n\r\n",
    "a size with its base": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a size beyond 64 bits": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "a size with a space": b"5 \r\nhello\r\n0\r\n\r\n",
    "a space before the size": b" 5\r\nhello\r\n0\r\n\r\n",
    "too short": b"4\r\nhello\r\n0\r\n\r\n",
    "too long": b"6\r\nhello\r\n0\r\n\r\n",
    "a bare LF behind the size": b"5\nhello\r\n0\r\n\r\n",
    "a bare LF behind the chunk": b"5\r\nhello\n0\r\n\r\n",
    "a bare CR behind the size": b"5\rhello\r\n0\r\n\r\n",
    "no end": b"5\r\nhello0\r\n\r\n",
    "NUL in the size": b"5\0\r\nhello\r\n0\r\n\r\n",
    "a bare LF in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "NUL in an extension": b"5;a\0\r\nhello\r\n0\r\n\r\n",
    "a bare LF in the trailers": b"5\r\nhello\r\n0\r\na: b\n\r\n",
    "a trailer without a colon": b"5\r\nhello\r\n0\r\nab\r\n\r\n",
    "a folded trailer": b"5\r\nhello\r\n0\r\na: b\r\n c\r\n\r\n",
}


@pytest.mark.parametrize("name", CHUNKS)
def test_chunks(server: Running, name: str) -> None:
    """The application learns of it, and nothing of what follows is a request."""
    before = len(server.seen)
    behind = b"GET /behind HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    data = server.say(CHUNKED + CHUNKS[name] + behind)
    assert statuses(data) == [400]
    assert data.endswith(b"BODY_MALFORMED")
    assert [request.path for request in server.seen[before:]] == ["/"]


def test_a_huge_chunk_is_too_large(server: Running) -> None:
    with server.connect() as sock:
        sock.sendall(CHUNKED + b"7fffffffffffffff\r\n" + b"x" * 1_100_000)
        data = sock.recv(1000)
    assert data.startswith(b"HTTP/1.1 413 ")
