"""What can be wrong with a request before an application has a say in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum


class Problem(Enum):
    """Why the server itself cannot serve a request. The value is the status of the answer."""

    MALFORMED = 400, "This is not a valid HTTP/1.1 request."
    PATH = 400, "The path has segments that are a dot or two."
    HEAD_TIMEOUT = 408, "The request's head did not arrive in time."
    TARGET = 414, "The request's path and query are too long."
    HEAD_TOO_LARGE = 431, "The request's head is too large."
    METHOD = 501, "The method CONNECT is not served here."
    CODING = 501, "The request's transfer coding is not supported; use chunked or none."
    EXPECTATION = 417, "The request has an expectation that this server does not support."
    VERSION = 505, "Only HTTP/1.1 and HTTP/1.0 are spoken here."
    BODY_TOO_LARGE = 413, "The request body is too large."
    BODY_TIMEOUT = 408, "The request body did not arrive in time."
    BODY_MALFORMED = 400, "The request body is not framed as HTTP/1.1 frames it."
    NO_MEMORY = 503, "The server is out of memory for requests."
    CONNECTIONS = 503, "There are too many connections."
    FAILED = 500, "The server failed unexpectedly."

    @property
    def status(self) -> int:
        """The status of the answer."""
        return self.value[0]

    @property
    def message(self) -> str:
        """The message for the client."""
        return self.value[1]

    # A problem has a name and is the only one of it; Enum would hash the name each time.
    __hash__ = object.__hash__


class BodyRefused(Exception):
    """A request's body will not be had; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class ClientGone(Exception):
    """The client closed its connection before it was answered."""


Refuse = Callable[[Problem, str, Mapping[bytes, bytes]], tuple[int, bytes, bytes]]
"""Renders the answer to a request that never reached the application: given what is wrong, and the
path and headers as far as they were read, it returns status, header lines and body."""


def refuse_plainly(
    problem: Problem, path: str, headers: Mapping[bytes, bytes]
) -> tuple[int, bytes, bytes]:
    """An answer in plain text."""
    return problem.status, b"content-type: text/plain\r\n", problem.message.encode()
