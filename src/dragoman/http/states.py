"""The states of a client's connection and what leads from one to the next.

idle        nothing of a request has come
head        a part of a request's head has come
receiving   a request is being served; its body is still coming
serving     a request is being served; all of it is there
flushing    an answer is complete, and waits until the client has taken most of it
discarding  an answer is complete; the rest of the request's body is thrown away
closing     the last answer is complete; what comes is thrown away until the connection ends
taken       the connection belongs to another protocol (an upgrade)
closed      the connection is gone
"""

from __future__ import annotations

from typing import Final, Literal

State = Literal[
    "idle", "head", "receiving", "serving", "flushing", "discarding", "closing", "taken", "closed"
]
Event = Literal["began", "request", "whole", "answered", "drained", "last", "taken", "lost"]

PARSED: Final = frozenset[State]({"idle", "head", "receiving", "discarding"})
"""The states in which what comes is a part of a request whose turn it is."""

TRANSITIONS: Final[dict[State, dict[Event, State]]] = {
    "idle": {"began": "head", "request": "receiving", "last": "closing", "lost": "closed"},
    "head": {"request": "receiving", "last": "closing", "lost": "closed"},
    "receiving": {
        "whole": "serving",
        "answered": "discarding",
        "last": "closing",
        "lost": "closed",
    },
    "serving": {"answered": "flushing", "last": "closing", "taken": "taken", "lost": "closed"},
    "flushing": {"drained": "idle", "last": "closing", "lost": "closed"},
    "discarding": {"whole": "flushing", "last": "closing", "lost": "closed"},
    "closing": {"lost": "closed"},
    "taken": {"lost": "closed"},
    "closed": {},
}
"""The legal transitions; an event that is not in the row of its state is a mistake of the server.

    began     a first byte came that does not complete a head
    request   the head of a request is complete, and the application was called
    whole     the body is complete, also where it is empty
    answered  an answer is complete, and the connection may carry another request
    drained   the client has taken the answer, but for a little
    last      nothing will be answered on this connection any more
    taken     the application took the connection over
    lost      the connection ended, by whoever's doing
"""
