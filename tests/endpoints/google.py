"""Uploads to Google in pieces, by hand."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from tests.endpoints.bound import ME
from tests.gateway.http import Answer, call


def named(listed: Any) -> list[str]:
    """The names of what was listed."""
    return [one.name for one in listed]


def begun(gateway_url: str, size: int, media: str = "text/plain") -> str:
    """The URL of an upload."""
    headers = {
        "host": urlsplit(gateway_url).netloc,
        "x-goog-upload-protocol": "resumable",
        "x-goog-upload-command": "start",
        "x-goog-upload-header-content-length": str(size),
        "x-goog-upload-header-content-type": media,
    }
    body: dict[str, Any] = {"file": {}}
    answer = call(gateway_url, "POST", "/upload/v1beta/files", body, key=ME, headers=headers)
    assert answer.headers["x-goog-upload-status"] == "active"
    return answer.headers["x-goog-upload-url"]


def piece(
    url: str, command: str, offset: int = 0, content: bytes = b"", key: str | None = None
) -> Answer:
    """The answer to a piece of an upload. It has no key, as those of the SDK have none."""
    headers = {"x-goog-upload-command": command, "x-goog-upload-offset": str(offset)}
    path = url.removeprefix(base_of(url))
    return call(base_of(url), "POST", path, content, key=key, headers=headers)


def base_of(url: str) -> str:
    """The base URL of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
