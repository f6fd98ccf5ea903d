"""AWS Signature Version 4, over the bytes that are sent."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec import Struct

ALGORITHM = "AWS4-HMAC-SHA256"

Headers = Sequence[tuple[str, str]]

_RESERVED = re.compile(rb"[^A-Za-z0-9_.~-]")
_RESERVED_IN_PATHS = re.compile(rb"[^A-Za-z0-9_.~/-]")
_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")
_SIGNED = re.compile(r"host|content-type|x-amzn?-.*|anthropic-.*", re.IGNORECASE)
_UNSIGNED = frozenset({"x-amzn-trace-id"})
"""Headers that servers between the gateway and the service may change."""


class AwsKeys(Struct, frozen=True):
    """Keys that requests to AWS are signed with; `token` is empty for those of a user."""

    id: str
    secret: str
    token: str = ""

    def __repr__(self) -> str:
        return "AwsKeys(...)"


class Scope(Struct, frozen=True):
    """What a signature is valid for: a region, and a service by its signing name."""

    region: str
    service: str


class Signable(Struct, frozen=True):
    """A request as it is sent. `path` is the request target, query included; `headers` are those
    that are signed, `host` among them."""

    method: str
    path: str
    headers: Headers
    body: bytes = b""


class Signer:
    """Signs requests with the keys of one account. The signing key of a day is computed once."""

    __slots__ = ("_day", "_key", "keys", "scope")

    def __init__(self, keys: AwsKeys, scope: Scope) -> None:
        self.keys = keys
        self.scope = scope
        self._day = ""
        self._key = b""

    def headers(self, request: Signable, now: float) -> tuple[tuple[str, str], ...]:
        """The headers to add to a request that is sent at `now`, in Unix seconds."""
        time = stamp(now)
        added = [("x-amz-date", time)]
        if self.keys.token:
            added.append(("x-amz-security-token", self.keys.token))
        lines, names = canonical_headers([*request.headers, *added])
        digest = hashlib.sha256(request.body).hexdigest()
        canonical = canonical_request(request.method, request.path, lines, names, digest)
        signature = self._signature(canonical, time)
        credential = f"{self.keys.id}/{self._scoped(time)}"
        value = f"{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
        return (*added, ("authorization", value))

    def presigned(self, method: str, host: str, query: Headers, seconds: int, now: float) -> str:
        """The URL, without its scheme, by which anyone may make a request to the root of `host` for
        so many seconds."""
        time = stamp(now)
        pairs = [
            *query,
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", f"{self.keys.id}/{self._scoped(time)}"),
            ("X-Amz-Date", time),
            ("X-Amz-Expires", str(seconds)),
            ("X-Amz-SignedHeaders", "host"),
        ]
        if self.keys.token:
            pairs.append(("X-Amz-Security-Token", self.keys.token))
        sent = "&".join(
            f"{_encoded(name.encode())}={_encoded(value.encode())}" for name, value in pairs
        )
        lines, names = canonical_headers([("host", host)])
        empty = hashlib.sha256(b"").hexdigest()
        canonical = canonical_request(method, f"/?{sent}", lines, names, empty)
        return f"{host}/?{sent}&X-Amz-Signature={self._signature(canonical, time)}"

    def _scoped(self, time: str) -> str:
        return f"{time[:8]}/{self.scope.region}/{self.scope.service}/aws4_request"

    def _signature(self, canonical: str, time: str) -> str:
        day = time[:8]
        if day != self._day:
            key = f"AWS4{self.keys.secret}".encode()
            for part in (day, self.scope.region, self.scope.service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._day, self._key = day, key
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"{ALGORITHM}\n{time}\n{self._scoped(time)}\n{digest}"
        return hmac.digest(self._key, text.encode(), "sha256").hex()


def signed_headers(host: str, headers: Iterable[tuple[str, str]]) -> Headers:
    """Those of a request's headers that are signed: no others, since servers in between may change
    them."""
    found = [
        (name, value)
        for name, value in headers
        if _SIGNED.fullmatch(name) and name.lower() not in _UNSIGNED
    ]
    return [("host", host), *found]


def canonical_request(method: str, path: str, lines: str, names: str, digest: str) -> str:
    """The canonical form of a request whose body has that SHA-256."""
    place, _, query = path.partition("?")
    where = f"{_canonical_path(place)}\n{_canonical_query(query)}"
    return f"{method}\n{where}\n{lines}\n{names}\n{digest}"


def canonical_headers(headers: Headers) -> tuple[str, str]:
    """The canonical lines of headers, and their names."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(" ".join(value.split()))
    ordered = sorted(values)
    return "".join(f"{name}:{','.join(values[name])}\n" for name in ordered), ";".join(ordered)


def _canonical_path(path: str) -> str:
    """The path with its dot segments and empty segments removed, encoded once more than sent."""
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    ends = path.endswith("/") and kept
    return _encoded(f"/{'/'.join(kept)}{'/' if ends else ''}".encode(), _RESERVED_IN_PATHS)


def _canonical_query(query: str) -> str:
    """The pairs of a query, ordered by name and then by value."""
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    encoded = sorted((_recoded(name), _recoded(value)) for name, _, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)


def _recoded(text: str) -> str:
    return _encoded(_ESCAPED.sub(lambda found: bytes((int(found[1], 16),)), text.encode()))


def _encoded(text: bytes, reserved: re.Pattern[bytes] = _RESERVED) -> str:
    return reserved.sub(lambda found: b"%%%02X" % found[0][0], text).decode()


def stamp(now: float) -> str:
    """A time in Unix seconds as signatures have it."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
