"""An upstream that gives the answers it was set to give, and records what it was sent."""

from __future__ import annotations

import json
import socketserver
import threading
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the upstream. `stream` is given to requests that ask for a stream, `whole` to
    others. `is_cut`: the connection ends before the answer does.
    """

    whole: bytes = b"{}"
    stream: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    is_cut: bool = False


@dataclass(slots=True)
class Script:
    """What the upstream answers next, the last answer to all further requests, and what it was sent
    since."""

    answers: tuple[Answer, ...] = ()
    sent: list[Json] = field(default_factory=list)


class Replay(socketserver.ThreadingTCPServer):
    """The upstream. One request is expected at a time."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.script = Script()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def answer(self, target: str, headers: Json, body: bytes) -> tuple[bytes, bool]:
        """The bytes of the answer to a request, which is recorded, and whether the connection goes
        on behind it."""
        script = self.script
        sent = {"path": target, "headers": headers, "body": body.decode("utf-8", "replace")}
        script.sent.append(sent)
        if "token" in target:
            return _rendered(Answer(b'{"input_tokens":7}'), False)
        answer = script.answers[min(len(script.sent), len(script.answers)) - 1]
        return _rendered(answer, _asks_stream(body))


def _asks_stream(body: bytes) -> bool:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("stream") is True


def _rendered(answer: Answer, streams: bool) -> tuple[bytes, bool]:
    streams = streams and answer.status == 200
    body = answer.stream if streams else answer.whole
    kind = "text/event-stream" if streams else "application/json"
    lines = [f"HTTP/1.1 {answer.status} Replayed", f"content-type: {kind}"]
    lines += [f"{name}: {value}" for name, value in answer.headers]
    if streams:
        lines.append("transfer-encoding: chunked")
        rest = b"" if answer.is_cut else b"0\r\n\r\n"
        body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + rest
    else:
        lines.append(f"content-length: {len(body) + answer.is_cut}")
    head = "".join(f"{line}\r\n" for line in lines) + "\r\n"
    return head.encode() + body, not answer.is_cut


class _Connection(socketserver.StreamRequestHandler):
    """A connection of the gateway, one request after another."""

    server: Replay

    def handle(self) -> None:
        while line := self.rfile.readline().strip().decode("latin-1"):
            headers: dict[str, str] = {}
            while field := self.rfile.readline().strip().decode("latin-1"):
                name, _, value = field.partition(":")
                headers[name.lower()] = value.strip()
            answer, goes_on = self.server.answer(line.split(" ")[1], headers, self._body(headers))
            self.wfile.write(answer)
            if not goes_on:
                return

    def _body(self, headers: dict[str, str]) -> bytes:
        if "chunked" not in headers.get("transfer-encoding", ""):
            return self.rfile.read(int(headers.get("content-length", 0)))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)
