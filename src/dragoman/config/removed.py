"""Settings that former versions had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REMOVED: Final[Mapping[str, str]] = {
    "server.idempotency_s": "delete it; a request that is repeated with its Idempotency-Key is a"
    " new one, for which the upstream is sent the same key again",
}
"""What to do instead of setting each of them."""
