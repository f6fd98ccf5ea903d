"""Signing in to `/admin` as a browser does."""

from __future__ import annotations

import json
from typing import Any

from dragoman.server.testing import RunningGateway
from tests.gateway.administration import TOKEN
from tests.gateway.http import Answer, call

ORIGIN = {"origin": "http://localhost", "host": "localhost"}
JSON = {"content-type": "application/json"}


def ask(
    gateway: RunningGateway,
    method: str,
    path: str,
    value: Any = None,
    headers: dict[str, str] | None = None,
    key: str | None = None,
) -> Answer:
    data = None if value is None else json.dumps(value).encode()
    return call(
        gateway.base_url, method, f"/admin{path}", data, {**JSON, **(headers or {})}, key=key
    )


def made(gateway: RunningGateway, name: str, role: str) -> str:
    answer = ask(gateway, "POST", "/admins", {"name": name, "role": role}, key=TOKEN)
    assert answer.status == 201, answer.body
    secret: str = answer.json["secret"]
    return secret


def signed_in(gateway: RunningGateway, key: str) -> dict[str, str]:
    """The headers of a page whose operator has signed in."""
    answer = ask(gateway, "POST", "/session", {"key": key}, ORIGIN)
    assert answer.status == 200, answer.body
    cookie, *flags = answer.headers["set-cookie"].split("; ")
    assert set(flags) == {"HttpOnly", "SameSite=Strict", "Path=/admin", "Max-Age=43200"}
    return {"cookie": cookie, "x-dragoman-csrf": answer.json["csrf"], **ORIGIN}
