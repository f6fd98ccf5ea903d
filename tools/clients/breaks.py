"""`python -m tools.clients.breaks [--agent NAME]`: in which ways a Chat stream can break off in the
middle of a thought, and after which of them an agent asks again.

The stream comes from a server of its own, without a gateway: what is tried is the agent. The tables
of `docs/decisions/0035-after-a-break.md` were made by it.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from tests.clients.programs import run

PHRASE = "Provider returned error: the connection broke off"
SHOWN_S = 0.5
"""Between the thought and what follows it."""
AT_ONCE = 3

End = Literal["whole", "no terminator", "reset"]
"""Of the chunked body: with its last chunk, without, or with a reset of the connection."""


@dataclass(frozen=True)
class Break:
    """What follows the thought, as the data of events, and how the body ends."""

    name: str
    events: tuple[Any, ...] = ()
    end: End = "whole"


def _error(**more: Any) -> dict[str, Any]:
    return {"error": {"message": PHRASE, "type": "server_error", "code": None, **more}}


def _finish(reason: str, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {}, "finish_reason": reason}
    return {**_chunk({}), "choices": [choice], **more}


def _chunk(delta: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "some-model",
        "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
    }


BREAKS = (
    Break("error event (the gateway's)", (_error(),)),
    Break("the same, then [DONE]", (_error(), "[DONE]")),
    Break("the same, then no terminator", (_error(),), "no terminator"),
    Break("the same, then a reset", (_error(),), "reset"),
    Break("error with code 503", (_error(code=503),)),
    Break("error with code 429", (_error(code=429),)),
    Break("error with code ECONNRESET", (_error(code="ECONNRESET"),)),
    Break("error of type overloaded_error", (_error(type="overloaded_error"),)),
    Break("error and finish_reason error in one chunk", (_finish("error", **_error()),)),
    Break("finish_reason error, then [DONE]", (_finish("error"), "[DONE]")),
    Break("[DONE] alone", ("[DONE]",)),
    Break("end of the body alone"),
    Break("no terminator alone", (), "no terminator"),
    Break("reset alone", (), "reset"),
    Break("an event that is no JSON", ("{",)),
    Break("finish_reason length", (_finish("length"), "[DONE]")),
    Break("error of code context_length_exceeded", (_error(code="context_length_exceeded"),)),
)


class _Server(ThreadingHTTPServer):
    def shutdown_request(self, request: Any) -> None:
        """Close at once: a closing handshake would precede the reset."""
        self.close_request(request)


@contextmanager
def breaking(broken: Break) -> Iterator[tuple[str, list[bytes]]]:
    """A Chat upstream whose first answer breaks off so, while any further one is good; its address,
    and the bodies of the requests that it had."""
    asked: list[bytes] = []
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with lock:
                asked.append(body)
                first = len(asked) == 1
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            if first:
                self._send(_chunk({"role": "assistant", "reasoning_content": "A file "}))
                self._send(_chunk({"reasoning_content": "is wanted, and"}))
                # Else a reset could overtake the thought, which the agent would never have shown.
                time.sleep(SHOWN_S)
                for event in broken.events:
                    self._send(event)
                self._end(broken.end)
            else:
                self._send(_chunk({"role": "assistant", "content": "All of it is done."}))
                self._send(_finish("stop"))
                self._send("[DONE]")
                self._end("whole")

        def _send(self, event: Any) -> None:
            data = event if isinstance(event, str) else json.dumps(event)
            text = f"data: {data}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))

        def _end(self, end: End) -> None:
            if end == "whole":
                self.wfile.write(b"0\r\n\r\n")
                return
            self.close_connection = True
            if end == "reset":
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with _Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()


def asks_again(agent: str, broken: Break) -> bool:
    """Whether it sends a second request."""
    with breaking(broken) as (url, asked), tempfile.TemporaryDirectory() as folder:
        run(agent, url, "some-model", "Say that it is done.", Path(folder))
        return len(asked) > 1


def main() -> None:
    """Try every break with one agent, several at a time, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agent", default="cline-chat")
    agent = parser.parse_args().agent
    with ThreadPoolExecutor(AT_ONCE) as pool:
        again = pool.map(lambda one: asks_again(agent, one), BREAKS)
        for broken, whether in zip(BREAKS, again, strict=True):
            told = "asks again" if whether else "gives up"
            sys.stdout.write(f"| {broken.name} | {told} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
