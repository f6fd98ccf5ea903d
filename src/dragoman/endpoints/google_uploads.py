"""Uploads of Google's files. The service gives out a URL, at which a file comes in one request or
more, also after a break; the client is given that of the gateway instead.

Clients send no key to that URL: who knows it may send the file. So the store has a digest of it,
with whose it is and which account knows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final
from urllib.parse import parse_qs

from dragoman.edge.auth import query_without_keys
from dragoman.edge.errors import Headers

MODELS: Final = "models/"
UPLOAD_LIFE_S: Final = 48 * 3600.0
"""Seconds for which an upload can be gone on with."""
_PREFIX: Final = "x-goog-upload-"
_URLS: Final = frozenset({f"{_PREFIX}url", f"{_PREFIX}control-url"})
_SIZE: Final = f"{_PREFIX}header-content-length".encode()
_MEDIA: Final = f"{_PREFIX}header-content-type".encode()
COMMAND: Final = f"{_PREFIX}command".encode()
OFFSET: Final = f"{_PREFIX}offset".encode()
_MOST_FIELDS: Final = 20
_MOST_DIGITS: Final = 18


def upload_name(query: bytes) -> str:
    """The id that the upload of a URL with this query has in the store; empty if it has none."""
    try:
        given = parse_qs(query.decode("latin-1"), max_num_fields=_MOST_FIELDS).get("upload_id")
    except ValueError:
        return ""
    return f"uploads/{sha256(repr(given).encode()).hexdigest()}" if given else ""


def upload_headers(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    """The headers of a request that say what it does to an upload: they are passed on."""
    return {
        name.decode(): value.decode("latin-1")
        for name, value in headers.items()
        if name.startswith(_PREFIX.encode())
    }


def declared_size(headers: Mapping[bytes, bytes]) -> int:
    """The size of the whole file, where the beginning of its upload declares it, else 0."""
    size = headers.get(_SIZE, b"")
    return int(size) if size.isdigit() and len(size) <= _MOST_DIGITS else 0


def begins_lines(headers: Mapping[bytes, bytes]) -> bool:
    """Whether what begins an upload declares a file of lines, as those of batches are."""
    media = headers.get(_MEDIA, b"").lower()
    return any(word in media for word in (b"jsonl", b"json-lines", b"ndjson"))


def answered_headers(headers: Mapping[str, str], base: str) -> tuple[Headers, str]:
    """The headers of an answer that say how an upload stands, with the URL `base` in place of the
    service's; and the id of the upload, if it has just begun."""
    shown: Headers = []
    name = ""
    for header, value in headers.items():
        if header in _URLS:
            query = query_without_keys(value.partition("?")[2].encode())
            name = upload_name(query)
            value = f"{base}?{query.decode()}"
        if header.startswith(_PREFIX):
            shown.append((header.encode(), value.encode("latin-1", "replace")))
    return shown, name
