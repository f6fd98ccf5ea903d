"""Idempotency keys of clients, as upstreams are sent them.

The gateway keeps no answers by them: a repeated request is a new one here, and the upstream may
know that it has answered it.
"""

from __future__ import annotations

import hashlib

HEADER = b"idempotency-key"


def key_for(client: str, key: bytes, account: str, body: bytes) -> str:
    """The key to send upstream for a client's key and a body for an account.

    It is the same for every attempt with an account, in any worker, and another for each account:
    services look keys up by the owner of the account, so that the same key would bring one account
    the failure of another. Clients that choose the same key do not meet either. Another body, as
    without the reasoning that the account refused, has a key of its own: services refuse a key that
    comes with another body.
    """
    digest = hashlib.sha256()
    for part in (client.encode(), key, account.encode(), body):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return f"dragoman-{digest.hexdigest()[:40]}"
