"""Who is calling: client keys in either vendor's header."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache

from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.canonical.losses import Policy
from dragoman.config import Client, matches
from dragoman.protocols import CODECS
from dragoman.protocols.dialects import Dialect


class Caller:
    """A client that may call. `policy` and `dialect` override the route's; `allows` tells which
    models, `restricted` that there are some that it may not ask for."""

    __slots__ = ("_models", "dialect", "name", "policy", "restricted")

    def __init__(
        self,
        name: str,
        policy: Policy | None = None,
        models: tuple[str, ...] | None = None,
        dialect: Dialect | None = None,
    ) -> None:
        self.name = name
        self.policy = policy
        self.dialect = dialect
        self._models = models
        self.restricted = models is not None

    def allows(self, model: str) -> bool:
        """Whether the client's list has `model`."""
        return self._models is None or any(matches(pattern, model) for pattern in self._models)

    def names(self, model: str) -> bool:
        """Whether the client's list spells `model` out, without a pattern."""
        return self._models is not None and model in self._models and "*" not in model

    def allows_below(self, name: str, model: str) -> bool:
        """Whether the client's list has `name`, which is `upstream/model`: `model` by itself, or by
        an entry that says what stands before the slash."""
        return self._models is None or any(
            matches(pattern, name if "/" in pattern else model) for pattern in self._models
        )


class Keyring:
    """The keys of all clients; with no client at all, everyone may call.

    A key is looked up by its SHA-256, so that how long it takes tells nothing about the keys:
    whoever guesses cannot choose what is compared. Keys that were valid are remembered as they were
    sent, under Python's own hash, which is seeded afresh for each process.
    """

    __slots__ = ("_anyone", "_callers", "_seen")

    def __init__(self, clients: Iterable[Client]) -> None:
        self._callers = {
            _digest(client.key.reveal().encode()): Caller(
                client.name, client.policy, client.models, client.dialect
            )
            for client in clients
        }
        self._seen: dict[bytes, Caller] = {}
        self._anyone = None if self._callers else Caller("anyone")

    def identify(self, headers: Mapping[bytes, bytes]) -> Caller:
        """The client whose key is in `headers` (lower-case names).

        Read on every path: the header of each protocol that has one, else `Authorization: Bearer`.

        Raises:
            DragomanError: UNAUTHENTICATED, with words that do not repeat the key.
        """
        if self._anyone is not None:
            return self._anyone
        key = presented_key(headers)
        if key is None:
            raise _refused(f"No API key was given. Send it as {' or '.join(_ways())}.")
        caller = self._seen.get(key)
        if caller is None:
            caller = self._callers.get(_digest(key))
            if caller is None:
                raise _refused("The API key is not valid for this gateway.")
            self._seen[key] = caller
        return caller


def presented_key(headers: Mapping[bytes, bytes]) -> bytes | None:
    """The key that a client sent, None if there is none. The headers of a protocol win over
    `Authorization: Bearer`, which all have."""
    for name in _key_headers(tuple(CODECS)):
        if name in headers and (key := headers[name].strip()):
            return key
    scheme, _, token = headers.get(b"authorization", b"").strip().partition(b" ")
    return token.strip() or None if scheme.lower() == b"bearer" else None


@lru_cache(maxsize=8)
def _key_headers(protocols: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(name for known in protocols for name in CODECS[known].endpoint.key_headers)


def _ways() -> list[str]:
    """The headers in which a key can be sent."""
    headers = _key_headers(tuple(CODECS))
    return ["'Authorization: Bearer KEY'", *(f"'{name.decode()}: KEY'" for name in headers)]


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _refused(message: str) -> DragomanError:
    return DragomanError(Fault(FaultKind.UNAUTHENTICATED, message, code="invalid_api_key"))
