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
    """The ids of sessions of a configuration, made with the first of its secrets that no client
    knows, else with the keys of all clients: each worker and instance has that."""
    secrets = [
        config.server.envelope_key,
        config.storage.key,
        config.admin.key,
        *(server.key for server in config.mcp_servers),
        *(account.key for account in config.accounts),
    ]
    clients = "\0".join(one.reveal() for client in config.clients for one in client.secrets)
    key = next((one.reveal() for one in secrets if one is not None), clients)
    return SessionIds(key.encode())
