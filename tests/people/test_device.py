"""Programs sign in by a code that a person enters."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.gateway.http import call
from tests.people.signing_in import ADA, BOB, EVE, House, ask, post


def test_a_program_is_told_where_to_sign_in(home: House) -> None:
    answer = call(home.url, "GET", "/.well-known/oauth-authorization-server", key=None)
    told = answer.json
    assert told["issuer"] == home.url
    assert told["device_authorization_endpoint"] == f"{home.url}/oauth/device_authorization"
    assert told["token_endpoint_auth_methods_supported"] == ["none"]
    assert told["gateway_protocol_version"] == 1


def test_a_person_signs_a_program_in(home: House) -> None:
    begun = home.begin()
    assert begun["login_notice"] == "Be kind."
    assert len(begun["device_code"]) >= 43
    waiting = home.poll(begun)
    assert (waiting.status, waiting.json["error"]) == (400, "authorization_pending")
    assert home.approve(begun, ADA).status == 200
    answer = home.poll(begun)
    assert answer.status == 200, answer.body
    tokens = answer.json
    assert (tokens["email"], tokens["token_type"], tokens["expires_in"]) == (ADA, "Bearer", 3600)
    assert home.poll(begun).json["error"] == "invalid_grant"
    assert ask(home.url, tokens["access_token"]).status == 200
    person = call(home.url, "GET", "/v1/key", key=tokens["access_token"])
    assert person.json["name"] == ADA
    assert ("sign_in", ADA) in home.audited()
    assert ("approve", ADA) in home.audited()


def test_rights_follow_from_the_first_rule_that_matches(home: House) -> None:
    ada, bob = home.session(ADA)["access_token"], home.session(BOB)["access_token"]
    assert ask(home.url, ada, "messages/sim-text").status == 200
    refused = ask(home.url, bob, "messages/sim-text")
    assert refused.status in (403, 404)
    assert ask(home.url, bob).status == 200
    lists = [call(home.url, "GET", "/v1/models", key=one).json["data"] for one in (ada, bob)]
    assert len(lists[0]) >= len(lists[1])


def test_whom_no_rule_matches_is_told_so(home: House) -> None:
    begun = home.begin()
    answer = home.approve(begun, EVE)
    assert answer.status == 403
    assert b"no rule of this gateway" in answer.body
    assert home.poll(begun).json["error"] == "access_denied"
    assert ("refuse sign_in", EVE) in home.audited()


def test_a_program_hears_that_it_was_denied(home: House) -> None:
    begun = home.begin()
    assert home.approve(begun, ADA, "deny").status == 200
    assert home.poll(begun).json["error"] == "access_denied"
    assert ("deny", ADA) in home.audited()


def test_a_program_that_asks_too_often_is_slowed_down(home: House) -> None:
    begun = home.begin()
    errors = [home.poll(begun).json["error"] for _ in range(2)]
    assert errors == ["authorization_pending", "slow_down"]


def test_no_page_can_be_framed_or_runs_a_script(home: House) -> None:
    begun = home.begin()
    browser = home.browser()
    browser.get("/device")
    assert home.approve(begun, ADA).status == 200
    browser.get("/oauth/callback?state=none&code=none")
    browser.get("/oauth/authorize")
    for answer in browser.seen:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "script" not in policy
        assert b"<script" not in answer.body
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers


def test_a_code_in_the_address_is_text(home: House) -> None:
    answer = home.browser().get('/device?user_code="><script>')
    assert b"<script" not in answer.body


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "", "origin": "https://elsewhere.example"},
    ],
)
def test_a_form_of_another_page_is_refused(home: House, headers: dict[str, str]) -> None:
    begun, browser = home.begin(), home.browser()
    browser.get("/device")
    code = {"user_code": begun["user_code"]}
    assert browser.submit("/device", code, **headers).status == 403


def test_a_form_without_the_token_of_its_page_is_refused(home: House) -> None:
    begun, browser, other = home.begin(), home.browser(), home.browser()
    other.get("/device")
    code = {"user_code": begun["user_code"]}
    assert browser.submit("/device", code).status == 403
    browser.get("/device")
    browser.page = other.page
    assert browser.submit("/device", code).status == 403
    browser.page = ""
    for path in ("/device", "/oauth/approve"):
        assert browser.submit(path, {**code, "decision": "approve"}).status == 403


def test_the_sign_in_of_another_browser_cannot_be_ended(home: House) -> None:
    """Whoever is sent an address of the provider cannot be signed in with it elsewhere."""
    begun, attacker, victim = home.begin(), home.browser(), home.browser()
    attacker.get("/device")
    sent = attacker.submit("/device", {"user_code": begun["user_code"]})
    assert victim.sign_in(sent, ADA).status == 400
    assert home.poll(begun).json["error"] == "authorization_pending"


def test_who_plants_a_cookie_cannot_approve_for_the_person_who_follows(home: House) -> None:
    """Whoever controls another host of the domain can give a browser the cookie of its own, and
    knows the state that it then sends a person to the provider with."""
    begun, attacker, victim = home.begin(), home.browser(), home.browser()
    attacker.get("/device")
    sent = attacker.submit("/device", {"user_code": begun["user_code"]})
    attacker.get("/device")
    victim.cookie = attacker.cookie
    assert victim.sign_in(sent, ADA).status == 200
    state = parse_qs(urlsplit(sent.headers["location"]).query)["state"][0]
    forged = {"state": state, "decision": "approve"}
    assert attacker.submit("/oauth/approve", forged).status == 400
    assert home.poll(begun).json["error"] == "authorization_pending"
    assert victim.submit("/oauth/approve", {"decision": "deny"}).status == 200


def test_an_answer_of_the_provider_is_taken_once(home: House) -> None:
    begun, browser = home.begin(), home.browser()
    browser.get("/device")
    sent = browser.submit("/device", {"user_code": begun["user_code"]})
    assert browser.sign_in(sent, ADA).status == 200
    assert browser.sign_in(sent, ADA).status == 400


def test_a_code_is_decided_once_and_by_whom_is_audited(home: House) -> None:
    """Whoever has another's code, and decides too late, gains and changes nothing; whoever was
    talked into approving one is in the audit, and one command ends what it gave."""
    begun, ada, bob = home.begin(), home.browser(), home.browser()
    for browser, email in ((ada, ADA), (bob, BOB)):
        browser.get("/device")
        sent = browser.submit("/device", {"user_code": begun["user_code"]})
        assert browser.sign_in(sent, email).status == 200
    assert ada.submit("/oauth/approve", {"decision": "approve"}).status == 200
    assert bob.submit("/oauth/approve", {"decision": "deny"}).status == 400
    tokens = home.poll(begun).json
    assert tokens["email"] == ADA
    assert home.audited()[-2:] == [("approve", ADA), ("sign_in", ADA)]
    assert home.admin("POST", f"/people/{ADA}/revoke", {}).status == 200
    assert home.refresh(tokens["refresh_token"]).status == 401


def test_a_get_approves_nothing(home: House) -> None:
    begun, browser = home.begin(), home.browser()
    browser.get("/device")
    sent = browser.submit("/device", {"user_code": begun["user_code"]})
    browser.sign_in(sent, ADA)
    state = browser.page.partition('name="state" value="')[2].partition('"')[0]
    assert state
    assert browser.get(f"/oauth/approve?state={state}&decision=approve").status == 405
    assert home.poll(begun).json["error"] == "authorization_pending"


def test_a_code_is_entered_five_times_at_most(home: House) -> None:
    begun, browser = home.begin(), home.browser()
    browser.get("/device")
    statuses = []
    for _ in range(6):
        statuses.append(browser.submit("/device", {"user_code": begun["user_code"]}).status)
        browser.get("/device")
    assert statuses == [303] * 5 + [400]


def test_any_fields_may_be_missing_or_more(home: House) -> None:
    for form in ({}, {"client_id": "codex", "scope": "x"}, {"surface": "other", "a": "b"}):
        assert post(home.url, "/oauth/device_authorization", form).status == 200


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({}, "invalid_request"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "refresh_token"}, "invalid_request"),
        ({"grant_type": "refresh_token", "refresh_token": "rt-drg-none"}, "invalid_grant"),
        ({"grant_type": "authorization_code", "code": "x"}, "invalid_request"),
    ],
)
def test_a_token_request_is_refused_as_oauth_says(
    home: House, form: dict[str, str], error: str
) -> None:
    answer = post(home.url, "/oauth/token", form)
    assert 400 <= answer.status < 402
    assert answer.json["error"] == error
    assert answer.headers["cache-control"] == "no-store"
