"""A small OpenID provider on this machine, to try sign-in with: whoever opens its page chooses who
to be. `python -m dragoman.lab.provider ada@example.com:engineers bob@example.com` serves it."""

from __future__ import annotations

import argparse
import hashlib
import json
import secrets
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID = "dragoman"
_ID_TOKEN_S = 300


class Provider:
    """People, what was given for them, and the key that signs it.

    `people` has their groups by e-mail address. `claims_of` and `signed` can be replaced, as can
    `status` (of the token endpoint; 0 for the usual answers), to try what a provider gets wrong.
    """

    def __init__(self, url: str, people: Mapping[str, list[str]]) -> None:
        self.url = url
        self.people = dict(people)
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
        self.status = 0
        self.asked: list[dict[str, str]] = []
        """The forms that the token endpoint was sent."""
        self.given: list[str] = []
        """All that must stay secret."""
        self._codes: dict[str, dict[str, str]] = {}
        self._refresh: dict[str, str] = {}

    def metadata(self) -> dict[str, Any]:
        """The discovery document."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def keys(self) -> dict[str, Any]:
        """The public keys."""
        return {"keys": [self.key.as_dict(private=False)]}

    def claims_of(self, email: str, nonce: str | None) -> dict[str, Any]:
        """The claims of a person's ID token."""
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.url,
            "aud": CLIENT_ID,
            "sub": hashlib.sha256(email.encode()).hexdigest()[:16],
            "email": email,
            "email_verified": True,
            "groups": self.people[email],
            "iat": now,
            "exp": now + _ID_TOKEN_S,
        }
        return claims if nonce is None else {**claims, "nonce": nonce}

    def signed(self, claims: dict[str, Any]) -> str:
        """An ID token with these claims."""
        return jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.key)

    def code_for(self, email: str, query: Mapping[str, str]) -> str:
        """A code for whoever chose to be this person."""
        code = secrets.token_urlsafe()
        self._codes[code] = {**query, "as": email}
        self.given.append(code)
        return code

    def token(self, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """The answer of the token endpoint."""
        self.asked.append(dict(form))
        if self.status:
            return self.status, {"error": "temporarily_unavailable"}
        if form.get("grant_type") == "refresh_token":
            email, nonce = self._refresh.pop(form.get("refresh_token", ""), ""), None
        else:
            begun = self._codes.pop(form.get("code", ""), {})
            hashed = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            challenge = urlsafe_b64encode(hashed).decode().rstrip("=")
            is_right = begun.get("code_challenge") == challenge
            email, nonce = begun["as"] if is_right else "", begun.get("nonce")
        if email not in self.people:
            return 400, {"error": "invalid_grant"}
        refresh = secrets.token_urlsafe()
        self._refresh[refresh] = email
        token = self.signed(self.claims_of(email, nonce))
        self.given += [refresh, token]
        return 200, {
            "access_token": secrets.token_urlsafe(),
            "token_type": "Bearer",
            "expires_in": _ID_TOKEN_S,
            "refresh_token": refresh,
            "id_token": token,
        }


class _Handler(BaseHTTPRequestHandler):
    provider: Provider

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, dict(parse_qsl(urlsplit(self.path).query))
        if path == "/.well-known/openid-configuration":
            self._reply(200, json.dumps(self.provider.metadata()))
        elif path == "/keys":
            self._reply(200, json.dumps(self.provider.keys()))
        elif path == "/authorize" and query.get("as") in self.provider.people:
            code = self.provider.code_for(query["as"], query)
            back = urlencode({"code": code, "state": query.get("state", "")})
            self._reply(303, "", {"location": f"{query['redirect_uri']}?{back}"})
        elif path == "/authorize":
            people = "".join(
                f'<li><a href="?{escape(urlencode({**query, "as": one}))}">{escape(one)}</a></li>'
                for one in self.provider.people
            )
            page = (
                f"<!doctype html><title>Test provider</title><h1>Who are you?</h1><ul>{people}</ul>"
            )
            self._reply(200, page, {"content-type": "text/html"})
        else:
            self._reply(404, "{}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        status, answer = self.provider.token(dict(parse_qsl(body)))
        self._reply(status, json.dumps(answer))

    def _reply(self, status: int, body: str, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        data = body.encode()
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: addresses have codes in them."""


@contextmanager
def serving(people: Mapping[str, list[str]], port: int = 0) -> Iterator[Provider]:
    """Serve a provider on loopback while the context lasts."""
    handler = type("Handler", (_Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        handler.provider = Provider(f"http://127.0.0.1:{server.server_port}", people)  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield handler.provider  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()


def main() -> None:
    """Serve the people of the command line."""
    parser = argparse.ArgumentParser(description="A provider to try sign-in with, on 127.0.0.1.")
    parser.add_argument("people", nargs="+", metavar="EMAIL[:GROUP,GROUP]")
    parser.add_argument("--port", type=int, default=9000)
    given = parser.parse_args()
    pairs = (one.partition(":") for one in given.people)
    people = {email: [one for one in groups.split(",") if one] for email, _, groups in pairs}
    with serving(people, given.port) as provider:
        print(f"issuer = {provider.url!r}\nclient_id = {CLIENT_ID!r}")  # noqa: T201
        threading.Event().wait()


if __name__ == "__main__":
    main()
