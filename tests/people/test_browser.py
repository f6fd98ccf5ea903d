"""Programs sign in by the browser: authorization code and PKCE."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from dragoman.sign_in import base
from dragoman.sign_in.grants import challenge_of
from tests.gateway.http import Answer
from tests.people.signing_in import ADA, Browser, House, ask, post

VERIFIER = "v" * 43
URI = "http://127.0.0.1:14551/callback"
ASKED = {
    "response_type": "code",
    "client_id": "codex",
    "redirect_uri": URI,
    "code_challenge": challenge_of(VERIFIER),
    "code_challenge_method": "S256",
    "state": "of the program",
}


def sent_to(answer: Answer) -> dict[str, str]:
    """What a browser is sent to the program with."""
    assert answer.status == 303, answer.body
    address, _, query = answer.headers["location"].partition("?")
    assert address == URI
    return dict(parse_qsl(query))


def decided(home: House, decision: str = "approve") -> dict[str, str]:
    browser = home.browser()
    answer = browser.sign_in(browser.get(f"/oauth/authorize?{urlencode(ASKED)}"), ADA)
    assert answer.status == 200
    assert "Codex" in browser.page
    return sent_to(browser.submit("/oauth/approve", {"decision": decision}))


def redeem(home: House, code: str, **changed: str) -> Answer:
    form = {
        "grant_type": "authorization_code",
        "client_id": "codex",
        "redirect_uri": URI,
        "code_verifier": VERIFIER,
        "code": code,
    }
    return post(home.url, "/oauth/token", {**form, **changed})


def test_a_program_on_this_computer_is_signed_in(home: House) -> None:
    result = decided(home)
    assert result["state"] == "of the program"
    answer = redeem(home, result["code"])
    assert answer.status == 200, answer.body
    assert ask(home.url, answer.json["access_token"]).status == 200
    assert home.refresh(answer.json["refresh_token"]).status == 200


def test_a_stolen_code_is_worth_nothing(home: House) -> None:
    code = decided(home)["code"]
    assert redeem(home, code, code_verifier="w" * 43).json["error"] == "invalid_grant"
    assert redeem(home, code).status == 200
    assert redeem(home, code).json["error"] == "invalid_grant"


def test_who_denies_gives_nothing(home: House) -> None:
    assert decided(home, "deny") == {"error": "access_denied", "state": "of the program"}


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "other"},
        {"client_id": ""},
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": "http://127.0.0.1:14551/elsewhere"},
        {"redirect_uri": "http://127.0.0.1:14551@evil.example/callback"},
        {"redirect_uri": ""},
    ],
)
def test_nobody_is_sent_to_an_unknown_address(home: House, changed: dict[str, str]) -> None:
    answer = home.browser().get(f"/oauth/authorize?{urlencode({**ASKED, **changed})}")
    assert answer.status == 400
    assert "location" not in answer.headers


@pytest.mark.parametrize(
    "changed",
    [
        {"code_challenge_method": "plain"},
        {"code_challenge_method": ""},
        {"code_challenge": ""},
        {"code_challenge": "short"},
        {"response_type": "token"},
    ],
)
def test_without_proof_there_is_no_code(home: House, changed: dict[str, str]) -> None:
    answer = home.browser().get(f"/oauth/authorize?{urlencode({**ASKED, **changed})}")
    result = sent_to(answer)
    assert result["error"] in ("invalid_request", "unsupported_response_type")
    assert "code" not in result


def test_the_provider_is_told_no_more_than_it_needs(home: House) -> None:
    browser: Browser = home.browser()
    answer = browser.get(f"/oauth/authorize?{urlencode(ASKED)}")
    query = dict(parse_qsl(urlsplit(answer.headers["location"]).query))
    assert query["redirect_uri"] == f"{home.url}/oauth/callback"
    assert query["code_challenge_method"] == "S256"
    assert query["state"] != ASKED["state"]
    assert query["nonce"]
    assert query["scope"].split()[0] == "openid"


def test_one_address_cannot_keep_others_from_signing_in(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, browser = home.begin(), home.browser()
    browser.get("/device")
    monkeypatch.setattr(base, "MOST_BEGUN", 0)
    assert post(home.url, "/oauth/device_authorization", {}).status == 503
    assert browser.submit("/device", {"user_code": begun["user_code"]}).status == 503
    assert browser.get(f"/oauth/authorize?{urlencode(ASKED)}").status == 503
    monkeypatch.undo()
    assert home.begin()


def test_a_state_that_fills_the_store_is_refused(home: House) -> None:
    asked = {**ASKED, "state": "s" * 1025}
    assert home.browser().get(f"/oauth/authorize?{urlencode(asked)}").status == 400
