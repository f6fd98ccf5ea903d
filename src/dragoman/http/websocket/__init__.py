"""WebSocket connections of the server. Framing and handshakes are those of `websockets` (Sans-I/O).

    class Echo(WebSocket):
        def on_message(self, data: bytes) -> None:
            self.send(text_frame(data))

    async def app(request: Request) -> None:
        request.switch_to(Echo(accept(request, limits), clock, request.budget))

- `handshake` accepts or rejects the request for a connection
- `messages` writes text frames, and reads the payload of a message in bounded pieces
- `connection` is an open connection

The client side is in upstream/client_socket.py.
"""

from websockets.frames import CloseCode

from dragoman.http.websocket.connection import WebSocket
from dragoman.http.websocket.handshake import (
    Accepted,
    BadHandshake,
    WebSocketLimits,
    accept,
)
from dragoman.http.websocket.messages import text_frame

__all__ = [
    "Accepted",
    "BadHandshake",
    "CloseCode",
    "WebSocket",
    "WebSocketLimits",
    "accept",
    "text_frame",
]
