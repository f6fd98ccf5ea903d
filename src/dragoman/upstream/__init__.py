"""One way to call an upstream: URL, proxy, TLS, time limits, cancellation. Knows no LLM protocol.

async with UpstreamClient() as client:
    request = UpstreamRequest(
        method="POST",
        url=join_url(base_url, "/v1/messages"),
        headers=(("x-api-key", key), ("content-type", "application/json")),
        body=body,
    )
    async with await client.send(request) as response:
        async for chunk in response:
            ...
"""

from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import (
    BadAnswer,
    BodyTooLarge,
    CallError,
    ConnectFailed,
    ConnectionReset,
    ConnectTimeout,
    FirstByteTimeout,
    IdleTimeout,
    ProxyFailed,
    TLSFailed,
    TotalTimeout,
    Truncated,
    UpstreamTimeout,
)
from dragoman.upstream.headers import Headers
from dragoman.upstream.request import Timeouts, UpstreamRequest
from dragoman.upstream.response import UpstreamResponse
from dragoman.upstream.urls import join_url

__all__ = [
    "BadAnswer",
    "BodyTooLarge",
    "CallError",
    "ConnectFailed",
    "ConnectTimeout",
    "ConnectionReset",
    "FirstByteTimeout",
    "Headers",
    "IdleTimeout",
    "ProxyFailed",
    "TLSFailed",
    "Timeouts",
    "TotalTimeout",
    "Truncated",
    "UpstreamClient",
    "UpstreamRequest",
    "UpstreamResponse",
    "UpstreamTimeout",
    "join_url",
]
