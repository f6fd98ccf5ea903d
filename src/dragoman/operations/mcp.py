"""Operations on the MCP servers of the configuration."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlsplit

from msgspec import Struct

from dragoman.config.credentials import source_of
from dragoman.config.mcp import McpServer
from dragoman.operations.context import StoreContext
from dragoman.operations.key_fields import moment
from dragoman.operations.operation import Command, Http, operation, operations_in
from dragoman.operations.usage import TimeSpan, span_of


class McpServerView(Struct, frozen=True, kw_only=True):
    """An MCP server. `host` is where it is, `authorised_by` what it is called with; `tools` and
    `teams` are the patterns of the tools that may be used, `tools` None for all. `calls` are those
    of tools, prompts and resources, `errors` what the server failed, `last_error` its kind, and
    `last_failed` what it failed last."""

    name: str
    host: str
    authorised_by: str
    tools: tuple[str, ...] | None
    teams: dict[str, tuple[str, ...]]
    calls: int
    errors: int
    last_error: str | None
    last_failed: str | None
    failed_at: datetime | None


class McpServerList(Struct, frozen=True):
    """The MCP servers, in the order of the configuration."""

    servers: tuple[McpServerView, ...]


@operation(
    "mcp.list",
    "viewer",
    Http("GET", "mcp"),
    command=Command("mcp list", options={"since": "--since", "until": "--until"}),
)
def _list(context: StoreContext, asked: TimeSpan) -> McpServerList:
    """List the MCP servers, how often they were called, and what failed."""
    since, until = span_of(asked)
    attempts = context.store.attempts(since, until)
    last = context.store.last_errors()
    views = []
    for server in context.config.mcp_servers:
        counts, error = attempts.get(server.account), last.get(server.account)
        views.append(
            McpServerView(
                name=server.name,
                host=urlsplit(server.url).hostname or "",
                authorised_by=_authorised_by(server),
                tools=server.tools,
                teams=server.teams,
                calls=0 if counts is None else counts.attempts,
                errors=0 if counts is None else counts.failed,
                last_error=None if error is None else error.kind,
                last_failed=None if error is None else error.model,
                failed_at=None if error is None else moment(error.at),
            )
        )
    return McpServerList(tuple(views))


def _authorised_by(server: McpServer) -> str:
    if server.credentials is not None:
        return source_of(server.credentials)
    if server.key is not None:
        return "a key"
    return "headers" if server.headers else "nothing"


OPERATIONS = operations_in(globals())
