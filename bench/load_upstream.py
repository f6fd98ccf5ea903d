"""A lean upstream: answers all four protocols from memory, full or as a paced stream.

Run as ``python -m bench.load_upstream``; it prints its port on the first line. The text of the
request steers it, whatever a gateway makes of the model's name: ``bench-e100-r50`` asks for 100
deltas at 50 deltas per second, ``r0`` for as many as the reader takes. Whether the answer is a
stream is taken from the request's ``stream``, or its path. ``GET /asked`` tells how often each
protocol was asked, as JSON: ``{"openai_chat": 1, "openai_chat stream": 2}``. Requests for
embeddings are answered with one vector.
"""

import argparse
import asyncio
import json
import random
import re
import ssl
import sys
from collections import Counter
from typing import cast

import uvloop

from bench.answers import ANSWERS, EMBEDDINGS, EMBEDDINGS_PATH, PATHS, Answers

_PROTOCOL_OF_PATH = {path.encode(): name for name, path in PATHS.items()}
_METHODS = {b"generateContent": b"", b"streamGenerateContent": b'"stream":true'}
"""Methods of a model that a path names, and what they say of the answer."""
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_STREAM = re.compile(rb'"stream" *: *true')
_CHUNKED = re.compile(rb"transfer-encoding: *chunked", re.IGNORECASE)
_LAST_CHUNK = b"0\r\n\r\n"
_PACE = re.compile(rb"bench-e(\d+)-r(\d+)")
_FLOOD_BATCH = 50

STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)


def _chunk(data: bytes) -> bytes:
    """A chunk of the body; an empty one would be its end."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


class LoadUpstream(asyncio.Protocol):
    """One connection, whose requests come one at a time.

    ``asked`` counts requests for all connections. A chunked body is left as it came: what is
    looked for in it is short and fits in a chunk.
    """

    def __init__(self, asked: Counter[str]) -> None:
        self.asked = asked
        self.loop = asyncio.get_running_loop()
        self.head: bytes = b""
        self.parts: list[bytes] = []
        self.missing = 0
        self.chunked = False
        self.writable = True
        self.timer: asyncio.Handle | None = None
        self.answers: Answers = ANSWERS["openai_chat"]
        self.sent = 0
        self.deltas = 0
        self.interval = 0.0
        self.due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        if self.interval == 0.0 and self.deltas:
            self._flood()

    def data_received(self, data: bytes) -> None:
        if not self.missing and not self.chunked:
            data = self.head + data
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self.head = data
                return
            self.head = data[:end]
            length = _LENGTH.search(self.head)
            self.missing = int(length[1]) if length else 0
            self.chunked = length is None and _CHUNKED.search(self.head) is not None
            data = data[end + 4 :]
        self.parts.append(data)
        self.missing -= len(data)
        if self.chunked:
            # The end may come in two parts.
            complete = b"".join(self.parts[-2:]).endswith(_LAST_CHUNK)
        else:
            complete = self.missing <= 0
        if complete:
            self.missing, self.chunked = 0, False
            self._answer()

    def _answer(self) -> None:
        body = b"".join(self.parts)
        path = self.head.split(b" ", 2)[1].partition(b"?")[0]
        self.head = b""
        self.parts.clear()
        protocol = _PROTOCOL_OF_PATH.get(path)
        if (says := _METHODS.get(path.rpartition(b":")[2])) is not None:
            protocol, body = "google_generate_content", body + says
        if protocol is None:
            if path == b"/asked":
                self._write_full(json.dumps(self.asked).encode())
            elif path == EMBEDDINGS_PATH.encode():
                self._write_full(EMBEDDINGS)
            else:
                self.transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return
        self.answers = answers = ANSWERS[protocol]
        if not _STREAM.search(body):
            self.asked[protocol] += 1
            self._write_full(answers.full)
            return
        self.asked[f"{protocol} stream"] += 1
        pace = _PACE.search(body)
        self.deltas, rate = (int(pace[1]), int(pace[2])) if pace else (1, 0)
        self.sent = 0
        self.transport.write(STREAM_HEAD + _chunk(answers.head))
        if rate == 0:
            self.interval = 0.0
            self._flood()
        else:
            self.interval = 1.0 / rate
            self._write_delta()
            # A phase of its own for each stream: events of many streams do not come in one burst.
            self.due = self.loop.time() + random.random() * self.interval
            self.timer = self.loop.call_at(self.due, self._tick)

    def _write_full(self, body: bytes) -> None:
        self.transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (len(body), body)
        )

    def _write_delta(self) -> None:
        self.transport.write(_chunk(self.answers.delta(self.sent)))
        self.sent += 1

    def _finish(self) -> None:
        self.transport.write(_chunk(self.answers.tail(self.deltas)) + b"0\r\n\r\n")
        self.deltas = 0
        self.timer = None

    def _tick(self) -> None:
        if self.sent >= self.deltas:
            self._finish()
            return
        self._write_delta()
        self.due += self.interval
        self.timer = self.loop.call_at(self.due, self._tick)

    def _flood(self) -> None:
        if not self.writable or self.transport.is_closing():
            return
        last = min(self.deltas, self.sent + _FLOOD_BATCH)
        batch = [_chunk(self.answers.delta(index)) for index in range(self.sent, last)]
        self.sent = last
        self.transport.write(b"".join(batch))
        if last == self.deltas:
            self._finish()
        else:
            self.timer = self.loop.call_soon(self._flood)


async def serve(port: int, tls: ssl.SSLContext | None) -> None:
    """Listen on loopback and print the port; serve until cancelled."""
    loop = asyncio.get_running_loop()
    asked: Counter[str] = Counter()
    server = await loop.create_server(
        lambda: LoadUpstream(asked), "127.0.0.1", port, ssl=tls, backlog=2048
    )
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--cert", help="PEM file with certificate and key: serve TLS")
    options = parser.parse_args()
    context: ssl.SSLContext | None = None
    if options.cert:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(options.cert)
    uvloop.run(serve(options.port, context))


if __name__ == "__main__":
    main()
