"""The routes of the MCP servers of a configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from dragoman.accounts.credentials.account_credentials import Credentials
from dragoman.canonical.errors import FaultKind
from dragoman.config import Config
from dragoman.config.mcp import PATH
from dragoman.edge.auth import Caller
from dragoman.edge.browsers import check_origin
from dragoman.edge.errors import refusal
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.mcp.exchange import Exchange, Parts, fail
from dragoman.mcp.servers import Method, Server
from dragoman.mcp.session_ids import session_ids_of
from dragoman.mcp.streams import Streams
from dragoman.serving.limits.admission import Admission
from dragoman.upstream.client import UpstreamClient

Handler = Callable[[IncomingRequest, Caller, Record], Awaitable[None]]


class McpEndpoints:
    """Serves the MCP servers of a configuration."""

    fail = staticmethod(fail)
    """Answers an error."""

    def __init__(
        self,
        config: Config,
        client: UpstreamClient,
        credentials: Credentials,
        admission: Admission,
        streams: Streams,
    ) -> None:
        self._servers = [Server(one, credentials) for one in config.mcp_servers]
        self._cors = config.server.cors
        self.streams = streams
        session_ids, keepalive_s = session_ids_of(config), config.server.keepalive_s
        self._parts = Parts(client, admission, session_ids, keepalive_s, streams)

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        """What serves each path, by method."""
        return {
            PATH + server.name: {
                "POST": partial(self._post, server),
                "GET": partial(self._other, server, "GET"),
                "DELETE": partial(self._other, server, "DELETE"),
            }
            for server in self._servers
        }

    async def _post(
        self, server: Server, incoming: IncomingRequest, caller: Caller, record: Record
    ) -> None:
        await self._exchange(server, incoming, caller, record).post()

    async def _other(
        self,
        server: Server,
        method: Method,
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
    ) -> None:
        await self._exchange(server, incoming, caller, record).other(method)

    def _exchange(
        self, server: Server, incoming: IncomingRequest, caller: Caller, record: Record
    ) -> Exchange:
        """
        Raises:
            DragomanError: the caller may not use the server, or a page of elsewhere asks.
        """
        if not self._cors:
            check_origin(incoming)
        tools = server.tools_of(caller.team)
        if not tools:
            message = f"The MCP server {server.name} may not be used with this key."
            raise refusal(FaultKind.FORBIDDEN, message)
        if self._cors and b"origin" in incoming.headers:
            exposed = (b"access-control-expose-headers", b"mcp-session-id, www-authenticate")
            incoming.shared.append(exposed)
        return Exchange(self._parts, server, incoming, caller, record, tools)
