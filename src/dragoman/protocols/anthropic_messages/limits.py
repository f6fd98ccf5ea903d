"""What Messages clients are told of rate limits: headers of the service's page on rate limits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime

from dragoman.protocols.base import RateStatus


def limit_headers(statuses: Iterable[RateStatus]) -> list[tuple[bytes, bytes]]:
    """The headers for what is left of each kind."""
    headers: list[tuple[bytes, bytes]] = []
    for status in statuses:
        name = b"anthropic-ratelimit-" + status.kind.replace("_", "-").encode()
        reset = datetime.fromtimestamp(math.ceil(status.resets_at), UTC)
        headers += (
            (name + b"-limit", b"%d" % status.limit),
            (name + b"-remaining", b"%d" % status.remaining),
            (name + b"-reset", reset.strftime("%Y-%m-%dT%H:%M:%SZ").encode()),
        )
    return headers
