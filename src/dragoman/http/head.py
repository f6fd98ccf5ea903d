"""Message heads: rules for received ones beyond what the parser checks, and lines for
those that go.

The parser (llhttp, not lenient) has refused by then: line ends that are not CR LF, folded lines,
spaces before a colon, characters that no name or value may have, lengths that are no number or come
twice, and a length beside a transfer coding.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import unquote_to_bytes

import httptools

from dragoman.http.problems import Problem

Fields = Sequence[tuple[bytes, bytes]]

_is_host = lru_cache(maxsize=16)(
    re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?").fullmatch
)
"""Matches what a `Host` may be: few are asked for, and the latest are remembered."""

_DOTS = re.compile(r"[/\\]\.{1,2}(?:[/\\]|$)")
_SINGLE = frozenset({b"host", b"content-type", b"content-encoding", b"expect"})
_MOST_FIELDS = 256
_LONGEST_TARGET = 8192
"""Bytes of a path and query: to decode one of 64 KB takes 15 ms."""

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

_PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus}
STATUS_LINES = {
    status: b"HTTP/1.1 %d %b\r\n" % (status, _PHRASES.get(status, b""))
    for status in range(100, 1000)
}
"""The first lines of answers."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class BadHead(Exception):
    """A head that is well-formed and yet cannot be served."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def read_fields(fields: Fields, version: str) -> tuple[dict[bytes, bytes], int]:
    """Headers by lower-case name, and the bytes of the body that follows, -1 for one in chunks.

    Raises:
        BadHead: one came twice that may come once, there are too many, the host is missing, or the
            coding cannot be undone.
    """
    if len(fields) > _MOST_FIELDS:
        raise BadHead(Problem.HEAD_TOO_LARGE)
    headers = dict(fields)
    if len(headers) != len(fields):
        headers = _combined(fields)
    if version != "1.1" and version != "1.0":
        # The parser takes a line without a version for HTTP/0.9.
        raise BadHead(Problem.MALFORMED if version == "0.9" else Problem.VERSION)
    host = headers.get(b"host")
    if version == "1.1" if host is None else _is_host(host) is None:
        raise BadHead(Problem.MALFORMED)
    if b"transfer-encoding" not in headers:
        return headers, int(headers.get(b"content-length", 0))
    codings = [one.strip() for one in headers[b"transfer-encoding"].lower().split(b",")]
    if version == "1.0" or codings[-1] != b"chunked":
        # RFC 9112, 6.1 and 6.3
        raise BadHead(Problem.MALFORMED)
    if len(codings) > 1:
        raise BadHead(Problem.CODING)
    return headers, -1


def _combined(fields: Fields) -> dict[bytes, bytes]:
    """Headers of which some are repeated (RFC 9110, 5.3)."""
    headers: dict[bytes, bytes] = {}
    for name, value in fields:
        if name not in headers:
            headers[name] = value
        elif name in _SINGLE:
            raise BadHead(Problem.MALFORMED)
        else:
            headers[name] += (b"; " if name == b"cookie" else b", ") + value
    return headers


@lru_cache(maxsize=256)
def split_target(method: str, target: bytes) -> tuple[str, bytes]:
    """Path, decoded, and query of a request target.

    Raises:
        BadHead: it is none of the forms a server takes (RFC 9112, 3.2), or too long.
    """
    if method == "CONNECT":
        raise BadHead(Problem.METHOD)
    if len(target) > _LONGEST_TARGET:
        raise BadHead(Problem.TARGET)
    if b"#" in target:
        raise BadHead(Problem.MALFORMED)
    if not target.startswith(b"/"):
        if target == b"*" and method == "OPTIONS":
            return "*", b""
        try:
            url = httptools.parse_url(target)
        except httptools.HttpParserInvalidURLError:
            raise BadHead(Problem.MALFORMED) from None
        if url.schema not in (b"http", b"https") or not url.host:
            raise BadHead(Problem.MALFORMED)
        return _path(url.path or b"/"), url.query or b""
    path, _, query = target.partition(b"?")
    return _path(path), query


def _path(given: bytes) -> str:
    """A path, decoded.

    Raises:
        BadHead: it has dot segments. Clients and proxies resolve them (RFC 3986, 5.2.4); one that
            arrives is to get past a rule for paths.
    """
    path = unquote_to_bytes(given).decode("utf-8", "replace") if b"%" in given else given.decode()
    if _DOTS.search(path) is not None:
        raise BadHead(Problem.PATH)
    return path


def asks_for_websocket(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the head of a request (lower-case names) asks for a WebSocket."""
    upgrade = headers.get(b"upgrade", b"")
    return b"websocket" in [token.strip().lower() for token in upgrade.split(b",")]


def header_lines(headers: Fields) -> bytes:
    """Header lines for an answer, each with its line end.

    Raises:
        ValueError: a name or value has a line break.
    """
    if not headers:
        return b""
    lines = b"".join([b"%b: %b\r\n" % header for header in headers])
    count = len(headers)
    if lines.count(b"\n") != count or lines.count(b"\r") != count or lines.find(b"\0") >= 0:
        raise ValueError("a header of the answer has a line break or a null character")
    return lines


def http_date(seconds: float) -> str:
    """The value of `Date` for a time in seconds (RFC 9110, 5.6.7)."""
    at = time.gmtime(seconds)
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    return f"{day}, {at.tm_mday:02} {month} {at.tm_year} {time.strftime('%H:%M:%S', at)} GMT"
