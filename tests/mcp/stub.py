"""An MCP server that does what a test needs, on a real socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests import small_servers
from tests.small_servers import handling

TOOLS = ("search_tickets", "get_ticket", "delete_ticket")
SESSION = "mcp-session-id"
BEGUN = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "stub", "version": "1"},
}


@dataclass
class Received:
    """A request as it arrived; header names in lower case."""

    method: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Stub:
    """What the server has received, and how it behaves. `answers` replace those to a tool's call:
    each is given the handler and the message."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)
    answers: dict[str, Callable[[Handler, Any], None]] = field(default_factory=dict)
    resumed: Callable[[Handler], None] | None = None
    """Answers GET."""
    streams: bool = False
    """Lists tools in a stream."""
    release: threading.Event = field(default_factory=threading.Event)
    """Ends the stream of GET."""
    left: threading.Event = field(default_factory=threading.Event)
    """Somebody left a stream."""


class Handler(small_servers.Handler):
    """One request."""

    stub: Stub

    def post(self) -> None:
        stub = self._note()
        message = stub.received[-1].json
        rpc, id = message.get("method"), message.get("id")
        if rpc == "initialize":
            session = f"session-{len(stub.sessions)}"
            stub.sessions.add(session)
            self.reply(result(id, BEGUN), {SESSION: session})
        elif self._has_unknown_session():
            self.reply(b"", status=404)
        elif id is None:
            self.reply(b"", status=202)
        elif rpc == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            listed = result(id, {"tools": tools, "nextCursor": "more"})
            if stub.streams:
                self.begin_stream()
                self.chunk(b"id: 1\ndata:\n\n")
                self.chunk(b"id: 2\r\nevent: message\r\ndata: " + listed + b"\r\n\r\n")
                self.end_stream()
            else:
                self.reply(listed)
        elif rpc == "tools/call" and message["params"]["name"] in stub.answers:
            stub.answers[message["params"]["name"]](self, message)
        else:
            self.reply(result(id, {"content": [{"type": "text", "text": "done"}]}))

    def get(self) -> None:
        stub = self._note()
        if self._has_unknown_session():
            self.reply(b"", status=404)
            return
        if stub.resumed is not None:
            stub.resumed(self)
            return
        self.begin_stream()
        place = self.headers.get("last-event-id", "0")
        self.chunk(f"retry: 500\nid: {place}-next\ndata: {{}}\n\n".encode())
        try:
            while not stub.release.wait(0.02):
                self.chunk(b": still here\n\n")
            self.end_stream()
        except OSError:
            stub.left.set()

    def delete(self) -> None:
        stub = self._note()
        stub.sessions.discard(self.headers.get(SESSION, ""))
        self.reply(b"", status=200)

    def _note(self) -> Stub:
        self.stub.received.append(Received(self.command, self.names(), self.taken()))
        return self.stub

    def _has_unknown_session(self) -> bool:
        given = self.headers.get(SESSION)
        return given is not None and given not in self.stub.sessions

    def begin_stream(self) -> None:
        """Begin a stream of events."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        """Send some of it."""
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end_stream(self) -> None:
        """Send its end."""
        self.wfile.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """Close the connection within it."""
        self.close_connection = True
        self.connection.close()


def result(id: Any, value: Any) -> bytes:
    """The answer to a request."""
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": value}).encode()


@contextmanager
def running_stub() -> Iterator[Stub]:
    """A server while the context lasts."""
    found = Stub()

    class Own(Handler):
        stub = found

    with handling(Own) as url:
        found.url = f"{url}/mcp"
        try:
            yield found
        finally:
            found.release.set()
