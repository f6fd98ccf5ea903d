"""WebSocket (RFC 6455): all of it for the server, and what a client needs.

    class Echo(WebSocket):
        def on_message(self, text: str) -> None:
            self.send(text_frame(text.encode()))

    async def app(request: Request) -> None:
        request.take_over(Echo(agree(request), b"", limits, clock, request.budget))

- `handshake` decides about an offer
- `frames` reads and writes frames without I/O, and undoes compression within bounds
- `connection` is a connection that stands
- `client` is the handshake of a client; upstream/sockets.py is its connection
"""

from dragoman.http.websocket.connection import WebSocket, WebSocketLimits
from dragoman.http.websocket.handshake import Agreed, BadOffer, agree, is_offered

__all__ = ["Agreed", "BadOffer", "WebSocket", "WebSocketLimits", "agree", "is_offered"]
