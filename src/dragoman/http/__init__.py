"""HTTP/1.1 on a parser without I/O: a server, and what it shares with the client in `upstream`.

Knows nothing of what is asked and answered.

    async def app(request: Request) -> None:
        body = await request.body(1_000_000)
        request.respond(200, b"content-type: text/plain\\r\\n", body)

    server = Server(app)
    await server.serve([socket])

- `server` accepts connections, `connection` carries requests, `states` is the table it follows
- `request` is a request and its answer, `head` the rules for message heads
- `limits` and `problems`: what a client may use, and the answers beyond that
- `clock` and `decoding` serve both faces
- `websocket` is what a connection can become
"""

from dragoman.http.limits import Budget, Limits
from dragoman.http.problems import BodyRefused, ClientGone, Problem
from dragoman.http.request import Request, UpgradedConnection
from dragoman.http.server import Server

__all__ = [
    "BodyRefused",
    "Budget",
    "ClientGone",
    "Limits",
    "Problem",
    "Request",
    "Server",
    "UpgradedConnection",
]
