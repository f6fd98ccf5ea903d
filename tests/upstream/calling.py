"""A request to an upstream."""

from __future__ import annotations

from dragoman.upstream import (
    UpstreamRequest,
)


def post(url: str, body: bytes = b"{}", **more: object) -> UpstreamRequest:
    return UpstreamRequest(method="POST", url=url, body=body, **more)  # type: ignore[arg-type]
