"""A server that passes requests on to a gateway and spoils what comes back, in one way."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.small_servers import Handler, handling

Json = dict[str, Any]
PLACES = {
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
    "/v1/responses": "responses",
    "/v1/interactions": "interactions",
}
_OWN_HEADERS = frozenset({"transfer-encoding", "content-length", "connection", "keep-alive"})


@dataclass
class Reply:
    """What was asked, and the answer that may be changed. Header names are in lower case.

    `pause` are seconds to wait before anything is sent.
    """

    method: str
    path: str
    asked_headers: dict[str, str]
    asked: Any
    status: int
    headers: dict[str, str]
    body: bytes
    pause: float = 0.0

    @property
    def place(self) -> str:
        """The short name of the protocol; empty where no model is asked."""
        if self.method != "POST":
            return ""
        return "google" if ":" in self.path else PLACES.get(self.path, "")

    @property
    def streamed(self) -> bool:
        """Whether it is a stream."""
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def full(self) -> bool:
        """Whether it is a whole answer of a model."""
        others = (":countTokens", ":streamGenerateContent")
        answers = bool(self.place) and not self.path.endswith(others)
        return answers and self.status == 200 and not self.streamed

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def answer(self, status: int, value: Any) -> None:
        """Replace the answer by a JSON value."""
        self.status, self.body = status, json.dumps(value).encode()
        self.headers["content-type"] = "application/json"

    def change_json(self, change: Callable[[Json], object]) -> None:
        """Change the body of a whole answer."""
        value = self.json
        change(value)
        self.body = json.dumps(value).encode()

    def change_events(self, change: Callable[[Event], list[Event] | None]) -> None:
        """Put other events in place of each: None leaves it as `change` made it."""
        found: list[Event] = []
        for event in events(self.body):
            made = change(event)
            found += [event] if made is None else made
        self.body = b"".join(event.encoded for event in found)


@dataclass
class Event:
    """One event of a stream; its data is changed in place. `[DONE]` is its data as text."""

    name: str
    data: Any

    @property
    def type(self) -> str:
        return str(self.data.get("type", "")) if isinstance(self.data, dict) else ""

    @property
    def encoded(self) -> bytes:
        head = f"event: {self.name}\n" if self.name else ""
        data = self.data if isinstance(self.data, str) else json.dumps(self.data)
        return f"{head}data: {data}\n\n".encode()


def events(body: bytes) -> list[Event]:
    """The events of a stream as our own gateway writes it."""
    found = []
    for block in body.decode().split("\n\n"):
        lines = dict(line.partition(": ")[::2] for line in block.split("\n") if line[:1] != ":")
        if "data" in lines:
            data = lines["data"]
            done = data == "[DONE]"
            found.append(Event(lines.get("event", ""), data if done else json.loads(data)))
    return found


@dataclass
class Spoiler:
    """Serves on loopback. `ask` may change the headers on the way to the gateway, `spoil` the
    answer; requests that `refuse` picks get a 401 in the gateway's own shape."""

    target: int
    spoil: Callable[[Reply], object] = lambda reply: None
    ask: Callable[[dict[str, str]], object] = lambda headers: None
    refuse: Callable[[dict[str, str]], bool] = lambda headers: False
    url: str = field(default="", init=False)

    def reply(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        """The gateway's answer, spoiled."""
        if "upgrade" in headers:
            return Reply(method, path, headers, None, 426, {}, b"")
        sent = {name: value for name, value in headers.items() if name != "host"}
        if self.refuse(headers):
            sent |= {"authorization": "Bearer sk-refused", "x-api-key": "sk-refused"}
        self.ask(sent)
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=20)
        try:
            connection.request(method, path, body or None, sent)
            answer = connection.getresponse()
            given = {name.lower(): value for name, value in answer.getheaders()}
            kept = {name: value for name, value in given.items() if name not in _OWN_HEADERS}
            asked = json.loads(body) if body else None
            reply = Reply(method, path, headers, asked, answer.status, kept, answer.read())
        finally:
            connection.close()
        self.spoil(reply)
        return reply


@contextmanager
def spoiling(spoiler: Spoiler) -> Iterator[Spoiler]:
    """Serve while the context lasts; sets `spoiler.url`."""

    class Own(Handler):
        def serve(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            headers = self.names()
            reply = spoiler.reply(self.command, self.path, headers, self.rfile.read(size))
            time.sleep(reply.pause)
            lines = [f"HTTP/1.1 {reply.status} Spoiled", f"content-length: {len(reply.body)}"]
            lines += [f"{name}: {value}" for name, value in reply.headers.items()]
            head = "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1")
            self.wfile.write(head + reply.body)
            self.close_connection = True

        do_GET = do_POST = do_OPTIONS = serve  # noqa: N815  # names of the base class

    with handling(Own) as spoiler.url:
        yield spoiler
