"""People sign in to the dashboard with the company's account."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.config.access_rules import SignInRule
from dragoman.lab.provider import Provider, serving
from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.http import Answer, call
from tests.gateway.processes import until
from tests.people.signing_in import ADA, BOB, EVE, PEOPLE, House, aged, ask, house

RULES = (
    SignInRule(groups=("engineers",), role="admin"),
    SignInRule(domains=("example.com",), role="viewer"),
    SignInRule(),
)


@pytest.fixture
def home(simulator: RunningSimulator, provider: Provider, tmp_path: Path) -> Iterator[House]:
    with house(simulator.base_url, tmp_path / "s.db", provider, rules=RULES) as running:
        yield running


class Page:
    """The page of the dashboard in a browser."""

    def __init__(self, home: House, email: str) -> None:
        self.home, self.headers = home, dict[str, str]()
        self.browser = home.browser()
        self.back = self.browser.sign_in(self.browser.get("/oauth/dashboard"), email)

    @property
    def code(self) -> str:
        address, _, code = self.back.headers["location"].partition("#sign-in=")
        assert address == f"{self.home.url}/ui"
        return code

    def begin(self, code: str, cookie: str | None = None) -> Answer:
        sent = {"cookie": self.browser.cookie if cookie is None else cookie}
        own = {"sec-fetch-site": "same-origin"}
        return call(
            self.home.url, "POST", "/admin/session", {"code": code}, {**sent, **own}, key=None
        )

    def sign_in(self) -> Answer:
        answer = self.begin(self.code)
        assert answer.status == 200, answer.body
        self.headers = {
            "cookie": answer.headers["set-cookie"].partition(";")[0],
            "x-dragoman-csrf": answer.json["csrf"],
            "sec-fetch-site": "same-origin",
            "content-type": "application/json",
        }
        return answer

    def ask(self, method: str, path: str) -> int:
        body = b"{}" if method == "POST" else None
        return call(self.home.url, method, f"/admin{path}", body, self.headers, key=None).status


def test_the_role_of_a_person_is_that_of_the_rule(home: House) -> None:
    ada, bob = Page(home, ADA), Page(home, BOB)
    found = ada.sign_in().json
    assert (found["name"], found["role"]) == (ADA, "admin")
    assert bob.sign_in().json["role"] == "viewer"
    assert (ada.ask("GET", "/people"), bob.ask("GET", "/people")) == (200, 200)
    assert bob.ask("POST", f"/people/{ADA}/disable") == 403
    assert ada.ask("POST", f"/people/{BOB}/disable") == 200
    assert bob.ask("GET", "/people") == 401
    assert ada.ask("GET", "/people") == 200
    whose = {(line["who"], line["action"]) for line in home.admin("GET", "/audit").json["changes"]}
    assert {(ADA, "sign_in"), (ADA, "change")} <= whose


def test_a_session_ends_by_sign_out_and_by_revoking(home: House) -> None:
    first, second = Page(home, ADA), Page(home, ADA)
    first.sign_in()
    second.sign_in()
    assert [one["client"] for one in home.admin("GET", "/sessions").json["sessions"]] == [
        "dashboard",
        "dashboard",
    ]
    assert first.ask("DELETE", "/session") == 200
    assert first.ask("GET", "/people") == 401
    assert second.ask("GET", "/people") == 200
    assert home.admin("POST", f"/people/{ADA}/revoke", {}).json == {"ended": 1}
    deadline = time.monotonic() + 30
    while second.ask("GET", "/people") != 401:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_code_is_taken_once_and_in_its_own_browser(home: House) -> None:
    page, other = Page(home, ADA), Page(home, BOB)
    code = page.code
    assert page.begin(code, other.browser.cookie).status == 401
    assert page.begin(code, "").status == 401
    assert page.begin("none").status == 401
    assert page.begin(code).status == 200
    assert page.begin(code).status == 401
    assert "state" not in page.back.headers["location"]


def test_who_was_removed_at_the_provider_is_signed_out(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    """The provider is asked about sessions in the dashboard, as about those of programs: whom it
    removed is signed out, groups count anew, and while it is away nothing changes."""
    with (
        serving(PEOPLE) as provider,
        house(simulator.base_url, tmp_path / "s.db", provider, rules=RULES) as home,
    ):
        kept, gone, bob = (Page(home, email) for email in (ADA, ADA, BOB))
        for page in (kept, gone, bob):
            page.sign_in()

        def is_confirmed_after(page: Page, status: int) -> bool:
            found = page.ask("GET", "/people")
            asked = [form["grant_type"] for form in provider.asked]
            return found == status and asked[-1] == "refresh_token"

        assert (kept.ask("GET", "/people"), len(provider.asked)) == (200, 3)
        provider.status = 503
        aged(home, renewed=0.0)
        until(lambda: is_confirmed_after(kept, 200))
        provider.status = 0
        del provider.people[ADA]
        provider.people[BOB] = ["engineers"]
        until(lambda: is_confirmed_after(gone, 401))
        assert ("refuse refresh", ADA) in home.audited()
        until(lambda: bob.ask("POST", f"/people/{ADA}/disable") == 200)


def test_a_person_who_has_left_is_removed(home: House) -> None:
    """Out of the list, with all sessions, but for the name; another sign-in is the same person."""
    home.session(BOB)
    page = Page(home, ADA)
    page.sign_in()
    assert page.ask("DELETE", f"/people/{BOB}") == 200
    names = [one["name"] for one in home.admin("GET", "/people").json["people"]]
    assert names == [ADA]
    assert [one["person"] for one in home.admin("GET", "/sessions").json["sessions"]] == [ADA]
    assert ("remove", BOB) in home.audited()
    assert home.admin("POST", f"/people/{BOB}/disable").status == 200
    assert home.approve(home.begin(), BOB).status == 403
    assert home.admin("POST", f"/people/{BOB}/enable").status == 200
    token = home.session(BOB)["access_token"]
    assert ask(home.url, token).status == 200
    (bob,) = [one for one in home.admin("GET", "/people").json["people"] if one["name"] == BOB]
    assert (bob["state"], bob["groups"]) == ("active", ["interns"])


def test_who_may_only_call_does_not_open_the_dashboard(home: House) -> None:
    page = Page(home, EVE)
    assert page.back.status == 403
    assert b"dashboard" in page.back.body
    token = home.session(EVE)["access_token"]
    assert call(home.url, "GET", "/admin/people", key=token).status == 401
    token = home.session(ADA)["access_token"]
    assert call(home.url, "GET", "/admin/people", key=token).status == 401


def test_keys_still_open_it(home: House) -> None:
    told = call(home.url, "GET", "/admin/session", key=None).json
    assert told == {"name": None, "provider": True}
    assert home.admin("GET", "/people").status == 200
