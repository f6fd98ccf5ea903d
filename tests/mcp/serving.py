"""A gateway over an MCP server, and clients of it without an SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from dragoman.config import Admin, Client, Config, Secret, Storage, Team
from dragoman.config.limits import Limit
from dragoman.config.mcp import McpServer
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.conftest import SERVER, config_for
from tests.gateway.http import Answer, Connection, call, events
from tests.mcp.stub import SESSION, Stub

ADA, BOB, EVE = "sk-key-of-ada", "sk-key-of-bob", "sk-key-of-eve"
ADMIN = "admin-key-of-the-tests"
SERVER_KEY = "the-key-of-the-tickets"
PATH = "/mcp/tickets"


def config(url: str, store: Path | None = None, *, cors: bool = True, **server: Any) -> Config:
    """Ada is in a team that may do all, Bob in one that may only search; Eve may call the server
    twice in an hour. `server` are settings of the MCP server."""
    settings = {
        "key": Secret(SERVER_KEY),
        "teams": {"interns": ("search_*",), "visitors": ()},
        **server,
    }
    hourly = Limit(kind="requests", amount=2, window="1h", models=("mcp:tickets/*",))
    return replace(
        config_for("http://127.0.0.1:9", server=replace(SERVER, keepalive_s=0.2, cors=cors)),
        clients=(
            Client(name="ada", key=Secret(ADA), team="support"),
            Client(name="bob", key=Secret(BOB), team="interns"),
            Client(name="eve", key=Secret(EVE), limits=(hourly,)),
            Client(name="zoe", key=Secret("sk-key-of-zoe"), team="visitors"),
            Client(name="max", key=Secret("sk-key-of-max"), paths=("/v1/*",)),
        ),
        teams=(Team(name="support"), Team(name="interns"), Team(name="visitors")),
        storage=Storage(path="" if store is None else str(store), sync_s=0.05),
        admin=Admin(key=Secret(ADMIN)),
        mcp_servers=(McpServer(name="tickets", url=url, **settings),),
    )


@dataclass
class Desk:
    """A running gateway, the server behind it, and the lines of its log."""

    gateway: RunningGateway
    stub: Stub
    log: list[Any] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.gateway.base_url

    def post(self, body: Any, key: str | None = ADA, **headers: str) -> Answer:
        """Send a message."""
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        own = {name.replace("_", "-"): value for name, value in headers.items()}
        own = {"content-type": "application/json", **own}
        return call(self.url, "POST", PATH, sent, own, key=key)

    def ask(self, method: str, params: Any = None, key: str = ADA, **headers: str) -> Answer:
        """Send a request."""
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}
        return self.post(message, key, **headers)

    def call(self, tool: str, key: str = ADA, **headers: str) -> Answer:
        """Call a tool."""
        return self.ask("tools/call", {"name": tool, "arguments": {"q": "secret words"}}, key)

    def begin(self, key: str = ADA) -> str:
        """Begin a session; its id as the client knows it."""
        return self.ask("initialize", key=key).headers[SESSION]

    def stream(self, key: str, **headers: str) -> Connection:
        """Open the stream of notifications; whoever calls closes it."""
        connection = Connection(self.url)
        own = {name.replace("_", "-"): value for name, value in headers.items()}
        auth = {"authorization": f"Bearer {key}", "accept": "text/event-stream"}
        connection.send("GET", PATH, None, {**auth, **own})
        return connection

    def admin(self, path: str) -> Any:
        return call(self.url, "GET", f"/admin/{path}", key=ADMIN).json


def answered(answer: Answer) -> Any:
    """The JSON-RPC answer, whole or in a stream."""
    if answer.headers["content-type"] == "application/json":
        return answer.json
    return next(data for _, data in events(answer.body.replace(b"\r\n", b"\n")) if "id" in data)


@contextmanager
def desk(stub: Stub, store: Path | None = None, **server: Any) -> Iterator[Desk]:
    """A gateway over a stub."""
    lines: list[Any] = []
    with running_gateway(
        config(stub.url, store, **server), lambda line: lines.append(json.loads(line))
    ) as gateway:
        yield Desk(gateway, stub, lines)
