"""WebSocket (RFC 6455) for the server, on the frames of `wsproto`.

    class Echo(WebSocket):
        def on_message(self, text: str) -> None:
            self.send(text.encode())

    async def app(request: Request) -> None:
        agreed = agree(request)
        request.take_over(Echo(agreed, limits, clock, budget))

- `handshake` decides about an offer, `inflation` undoes compression within bounds
- `connection` is a connection that stands
"""

from dragoman.http.websocket.connection import WebSocket, WebSocketLimits
from dragoman.http.websocket.handshake import Agreed, BadOffer, agree, is_offered

__all__ = ["Agreed", "BadOffer", "WebSocket", "WebSocketLimits", "agree", "is_offered"]
