"""The states of a client's connection and what leads from one to the next.

idle        nothing of a request has come
head        a part of a request's head has come
receiving   a request is being served; its body is still coming
broken      a request is being served; the rest of its body cannot be parsed
serving     a request is being served; all of it is there
flushing    an answer is complete, and waits until the client has taken most of it
discarding  an answer is complete; the rest of the request's body is discarded
closing     the last answer is complete; what still comes is discarded until the connection ends
upgraded    the connection was switched to another protocol
closed      the connection is gone
"""

from __future__ import annotations

from typing import Final, Literal

State = Literal[
    "idle",
    "head",
    "receiving",
    "broken",
    "serving",
    "flushing",
    "discarding",
    "closing",
    "upgraded",
    "closed",
]
Event = Literal[
    "began", "request", "whole", "broken", "answered", "drained", "last", "upgraded", "lost"
]

PARSED: Final = frozenset[State]({"idle", "head", "receiving", "discarding"})
"""The states in which received bytes belong to the current request."""

TRANSITIONS: Final[dict[State, dict[Event, State]]] = {
    "idle": {"began": "head", "request": "receiving", "last": "closing", "lost": "closed"},
    "head": {"request": "receiving", "last": "closing", "lost": "closed"},
    "receiving": {
        "whole": "serving",
        "broken": "broken",
        "answered": "discarding",
        "last": "closing",
        "lost": "closed",
    },
    "broken": {"last": "closing", "lost": "closed"},
    "serving": {
        "answered": "flushing",
        "last": "closing",
        "upgraded": "upgraded",
        "lost": "closed",
    },
    "flushing": {"drained": "idle", "last": "closing", "lost": "closed"},
    "discarding": {"whole": "flushing", "last": "closing", "lost": "closed"},
    "closing": {"lost": "closed"},
    "upgraded": {"lost": "closed"},
    "closed": {},
}
"""The legal transitions; an event that is not in the row of its state is a bug.

    began     a first byte came that does not complete a head
    request   the head of a request is complete, and the application was called
    whole     the body is complete, also where it is empty
    broken    the body is no valid HTTP
    answered  an answer is complete, and the connection may carry another request
    drained   the client has taken the answer, but for a little
    last      nothing will be answered on this connection any more
    upgraded  the application switched to another protocol
    lost      the connection ended, whoever ended it
"""
