"""A gateway that people sign in to, a provider on this machine, and a browser without a screen."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from msgspec.structs import replace

from dragoman.config import Admin, Config, Secret, Storage, Team
from dragoman.config.access_rules import SignInRule
from dragoman.config.sign_in import SignIn
from dragoman.lab.provider import CLIENT_ID, Provider
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.conftest import config_for
from tests.gateway.http import Answer, call
from tests.upstream.servers import free_port

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
ADA, BOB, EVE = "ada@example.com", "bob@example.com", "eve@elsewhere.example"
PEOPLE = {ADA: ["engineers"], BOB: ["interns"], EVE: []}
RULES = (
    SignInRule(groups=("engineers",), team="eng"),
    SignInRule(domains=("Example.com",), models=("chat/sim-text",)),
)
ADMIN = "admin-token-of-the-test"
PUBLIC = "http://127.0.0.1:1"
"""The address that several gateways of a test have in common; nobody opens it."""
LOGGED: list[bytes] = []


def config(upstream: str, store: Path, provider: Provider, **more: Any) -> Config:
    """A gateway's configuration; `more` are settings of the sign-in."""
    settings = {
        "issuer": provider.url,
        "client_id": CLIENT_ID,
        "client_secret": Secret("secret of the client"),
        "rules": RULES,
        "login_notice": "Be kind.",
        **more,
    }
    made = config_for(upstream)
    return replace(
        made,
        upstreams=tuple([replace(one, endpoints=("realtime",)) for one in made.upstreams]),
        clients=(),
        teams=(Team(name="eng"),),
        storage=Storage(path=str(store), key=Secret("a key of the store"), sync_s=0.05),
        admin=Admin(key=Secret(ADMIN)),
        sign_in=SignIn(**settings),
    )


def post(url: str, path: str, form: Mapping[str, str], **headers: str) -> Answer:
    """Send a form."""
    own = {"content-type": "application/x-www-form-urlencoded", **headers}
    return call(url, "POST", path, urlencode(form).encode(), own, key=None)


def ask(url: str, token: str, model: str = "chat/sim-text") -> Answer:
    """Ask for an answer."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    return call(url, "POST", "/v1/chat/completions", body, key=token)


@dataclass
class Browser:
    """A browser: it keeps one cookie, and says where a form comes from. `public` is the address
    that it believes the gateway to have."""

    url: str
    public: str
    cookie: str = ""
    page: str = ""
    seen: list[Answer] = field(default_factory=list)

    def get(self, path: str) -> Answer:
        """Open a page of the gateway."""
        return self._noted(call(self.url, "GET", path, None, self._headers(), key=None))

    def submit(self, path: str, form: Mapping[str, str], **headers: str) -> Answer:
        """Send the form of the page that is open."""
        hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', self.page))
        own = {**self._headers(), "sec-fetch-site": "same-origin", "origin": "null", **headers}
        return self._noted(post(self.url, path, {**hidden, **form}, **own))

    def sign_in(self, answer: Answer, email: str) -> Answer:
        """Follow an answer to the provider, be somebody there, and come back."""
        assert answer.status == 303, answer.body
        there = answer.headers["location"]
        parts = urlsplit(there)
        sent = call(
            f"{parts.scheme}://{parts.netloc}",
            "GET",
            f"{parts.path}?{parts.query}&{urlencode({'as': email})}",
            key=None,
        )
        assert sent.status == 303, sent.body
        back = urlsplit(sent.headers["location"])
        assert f"{back.scheme}://{back.netloc}" == self.public
        return self.get(f"{back.path}?{back.query}")

    def _headers(self) -> dict[str, str]:
        return {"cookie": self.cookie} if self.cookie else {}

    def _noted(self, answer: Answer) -> Answer:
        self.seen.append(answer)
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        self.page = unescape(answer.body.decode())
        return answer


@dataclass
class Served:
    """A gateway that people sign in to, at an address of this machine, and its provider."""

    provider: Provider
    url: str
    public: str = PUBLIC
    """The address that the gateway believes to have."""

    def browser(self) -> Browser:
        return Browser(self.url, self.public)

    def begin(self) -> dict[str, Any]:
        """A program begins a sign-in."""
        answer = post(self.url, "/oauth/device_authorization", {"surface": "claude_code"})
        assert answer.status == 200, answer.body
        found: dict[str, Any] = answer.json
        return found

    def poll(self, begun: Mapping[str, Any]) -> Answer:
        """The program asks what became of it."""
        form = {"grant_type": DEVICE_GRANT, "device_code": begun["device_code"]}
        return post(self.url, "/oauth/token", form)

    def approve(self, begun: Mapping[str, Any], email: str, decision: str = "approve") -> Answer:
        """A person enters the code, signs in at the provider, and decides."""
        browser = self.browser()
        browser.get(f"/device?user_code={begun['user_code']}")
        answer = browser.sign_in(
            browser.submit("/device", {"user_code": begun["user_code"]}), email
        )
        if answer.status != 200:
            return answer
        assert email in browser.page
        assert begun["user_code"] in browser.page
        return browser.submit("/oauth/approve", {"decision": decision})

    def session(self, email: str = ADA) -> dict[str, Any]:
        """The tokens of a person who has signed in."""
        begun = self.begin()
        answer = self.approve(begun, email)
        assert answer.status == 200, answer.body
        answer = self.poll(begun)
        assert answer.status == 200, answer.body
        found: dict[str, Any] = answer.json
        return found

    def refresh(self, token: str) -> Answer:
        """A program renews its tokens."""
        return post(
            self.url, "/oauth/token", {"grant_type": "refresh_token", "refresh_token": token}
        )

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """What the administration answers."""
        return call(self.url, method, f"/admin{path}", body, key=ADMIN)

    def audited(self) -> list[tuple[str, str]]:
        """What was done, and to whom, the latest last."""
        lines = self.admin("GET", "/audit?kind=person").json["changes"]
        return [(line["action"], line["name"]) for line in reversed(lines)]


@dataclass
class House(Served):
    """A gateway in this process."""

    gateway: RunningGateway = field(kw_only=True)


def aged(home: House, **fields: float) -> None:
    """Make all sessions look as if time had passed."""

    async def work() -> None:
        sync = home.gateway.app.account_sync
        assert sync is not None

        def change(store: Any) -> None:
            for session in store.people.sessions():
                store.people.save_session(replace(session, **fields))

        await sync.ask(change)

    asyncio.run_coroutine_threadsafe(work(), home.gateway.app._client._loop).result(30)


def sign_in_table(provider: Provider, public: str = PUBLIC) -> str:
    """The settings of a gateway that is a process of its own: everybody at example.com may."""
    return (
        f'[sign_in]\npublic_url = "{public}"\nissuer = "{provider.url}"\n'
        f'client_id = "{CLIENT_ID}"\nrules = [{{ domains = ["example.com"] }}]\n'
    )


@contextmanager
def house(
    upstream: str, store: Path, provider: Provider, *, port: int | None = None, **more: Any
) -> Iterator[House]:
    """A gateway that knows its own address."""
    port = port or free_port()
    made = config(upstream, store, provider, **{"public_url": f"http://127.0.0.1:{port}", **more})
    with running_gateway(made, LOGGED.append, port) as running:
        settings = made.sign_in
        assert settings is not None
        yield House(provider, running.base_url, settings.public_url, gateway=running)
