"""Answers to what never becomes a request, in the shape of the protocol that was meant."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.edge.errors import rendered
from dragoman.edge.paths import codec_of
from dragoman.http.head import header_lines
from dragoman.http.problems import Problem
from dragoman.translation.call import mint_request_id

_RETRY_S = 1.0
_KINDS = {
    408: FaultKind.REQUEST_TIMEOUT,
    413: FaultKind.TOO_LARGE,
    500: FaultKind.INTERNAL,
    503: FaultKind.OVERLOADED,
}


def refuse(problem: Problem, path: str, headers: Mapping[bytes, bytes]) -> tuple[int, bytes, bytes]:
    """Status, header lines and body of the answer to a request that the server cannot serve."""
    status = problem.status
    retry_after = _RETRY_S if status == 503 else None
    kind = _KINDS.get(status, FaultKind.INVALID_REQUEST)
    request_id = mint_request_id()
    fault = Fault(kind, problem.message, retry_after=retry_after)
    _, body, own = rendered(codec_of(path, headers), fault, request_id)
    minted = request_id.encode()
    usual = [
        (b"x-request-id", minted),
        (b"request-id", minted),
        (b"content-type", b"application/json"),
    ]
    return status, header_lines(usual + own), body
