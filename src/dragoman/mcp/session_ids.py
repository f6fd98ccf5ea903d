"""Ids of sessions, each bound to the client that began the session. Pure."""

from __future__ import annotations

import hmac
import re

from msgspec import Struct

from dragoman.config import Config

_VISIBLE = re.compile(r"[\x21-\x7e]{1,512}")


class SessionIds(Struct, frozen=True):
    """Makes the ids that clients have of the ids that servers gave, and back.

    A client's is the server's with an authentication code before it, over the names of server and
    client: nothing need be stored, and every worker and instance with the same `key` knows it.
    """

    key: bytes

    def bind(self, server: str, client: str, id: str) -> str | None:
        """The id for the client; None if the server's is not one."""
        return f"{self._code(server, client, id)}.{id}" if _VISIBLE.fullmatch(id) else None

    def open(self, server: str, client: str, bound: str) -> str | None:
        """The server's id; None if this client has no session of this id there."""
        code, _, id = bound.partition(".")
        is_own = code.isascii() and hmac.compare_digest(code, self._code(server, client, id))
        return id if is_own else None

    def _code(self, server: str, client: str, id: str) -> str:
        text = "\0".join((server, client, id)).encode("utf-8", "surrogatepass")
        return hmac.digest(self.key, b"mcp session\0" + text, "sha256")[:16].hex()


def session_ids_of(config: Config) -> SessionIds:
    """The ids of sessions of a configuration, made with the first secret of the gateway itself,
    else with all others together: no client knows them, and each worker and instance has them."""
    own = (config.server.envelope_key, config.storage.key, config.admin.key)
    others = [secret for client in config.clients for secret in client.secrets]
    keys = [*(one.key for one in config.mcp_servers), *(one.key for one in config.accounts)]
    others += [key for key in keys if key is not None]
    others += [secret for one in config.mcp_servers for secret in one.headers.values()]
    first = next((one.reveal() for one in own if one is not None), None)
    return SessionIds((first or "\0".join(one.reveal() for one in others)).encode())
