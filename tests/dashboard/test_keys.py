"""The screen of keys and teams in a browser."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page, expect

from dragoman.server.testing import RunningGateway
from tests.dashboard.conftest import Problems
from tests.dashboard.pages import ask, sign_in
from tests.gateway.clients import body
from tests.gateway.http import call


def limits_of(gateway: RunningGateway, path: str) -> Any:
    found: Any = ask(gateway, "GET", path)
    return found["limits"]


def test_a_key_is_made_limited_and_ended(
    page: Page, gateway: RunningGateway, problems: Problems
) -> None:
    sign_in(page, gateway, path="/keys")
    page.get_by_role("button", name="Create a team…").click()
    page.get_by_label("Name", exact=True).fill("ops")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("region", name="Teams")).to_contain_text("ops")

    page.get_by_role("button", name="Create a key…").click()
    page.get_by_label("Name", exact=True).fill("ci")
    page.get_by_label("Team; empty for none").fill("ops")
    page.get_by_role("button", name="Create", exact=True).click()
    secret = page.locator(".once code").text_content()
    assert secret is not None
    assert re.fullmatch(r"sk-drg-\w+", secret)
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_text(secret)).to_have_count(0)

    page.get_by_role("link", name="ci", exact=True).click()
    side = page.get_by_role("complementary", name="Key ci")
    side.get_by_role("button", name="Add a limit…").click()
    page.get_by_label("Of", exact=True).select_option("requests")
    page.get_by_label("Amount; a cost in US dollars").fill("4")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(side.locator(".limit-list")).to_contain_text("0 of 4")
    sent = body("chat", "chat/sim-text")
    assert call(gateway.base_url, "POST", "/v1/chat/completions", sent, key=secret).status == 200
    expect(side.locator(".limit-list")).to_contain_text("1 of 4")
    side.get_by_role("button", name="Grant more…").click()
    page.get_by_label("How much more").fill("6")
    page.get_by_role("button", name="Grant it").click()
    expect(side.locator(".limit-list")).to_contain_text("1 of 10")
    assert limits_of(gateway, "keys/ci/limits")[0]["limit"]["granted"] == 6

    side.get_by_role("button", name="Change…").click()
    dialog = page.get_by_role("dialog", name="Change a limit")
    expect(dialog.get_by_label("Amount; a cost in US dollars")).to_have_value("4")
    dialog.get_by_label("Amount; a cost in US dollars").fill("5")
    page.keyboard.press("Enter")
    expect(side.locator(".limit-list")).to_contain_text("1 of 11")

    side.get_by_role("button", name="Add a limit…").click()
    page.get_by_label("Of", exact=True).select_option("cost")
    page.get_by_label("Amount; a cost in US dollars").fill("2.50")
    page.get_by_label("Within: 1m").fill("5h")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(side.locator(".limit-list li").nth(1)).to_contain_text("cost, 5h")

    side.get_by_role("button", name="New secret…").click()
    page.get_by_label("Hours until the old secret ends").fill("0")
    page.get_by_role("button", name="Create it").click()
    other = page.locator(".once code").text_content()
    assert other != secret
    page.get_by_role("button", name="Done").click()
    side.get_by_role("button", name="Disable").click()
    expect(side.get_by_role("button", name="Enable")).to_be_visible()
    for key in (secret, other):
        assert call(gateway.base_url, "GET", "/v1/models", key=key).status == 401
    changes: Any = ask(gateway, "GET", "audit?kind=key&name=ci")
    assert {"add", "rotate", "change"} <= {one["action"] for one in changes["changes"]}
    assert (problems.console, problems.elsewhere) == ([], [])


def test_a_viewer_looks_on(page: Page, gateway: RunningGateway) -> None:
    made: Any = ask(gateway, "POST", "admins", {"name": "wall", "role": "viewer"})
    sign_in(page, gateway, made["secret"], path="/keys")
    expect(page.get_by_role("region", name="Keys")).to_be_visible()
    ask(gateway, "POST", "keys", {"name": "watched"})
    ask(gateway, "POST", "keys/watched/limits", {"kind": "concurrent", "amount": 2})
    page.goto(f"{gateway.base_url}/ui/keys/key/watched")
    expect(page.get_by_role("complementary")).to_contain_text("concurrent requests")
    writes = re.compile("Create|Add|Change|Grant|Remove")
    expect(page.get_by_role("button", name=writes)).to_have_count(0)


def test_amounts_and_resets_are_seen_on_every_width(page: Page, gateway: RunningGateway) -> None:
    ask(gateway, "POST", "keys", {"name": "wide-amounts"})
    limit = {"kind": "tokens", "amount": 123_456_789, "window": "month"}
    ask(gateway, "POST", "keys/wide-amounts/limits", limit)
    sign_in(page, gateway, path="/keys?q=wide-amounts")
    used = page.get_by_role("region", name="Keys").locator("td", has_text="of 123 M")
    expect(used.locator("span")).to_have_attribute("title", "0 of 123,456,789")
    fits = "(cell) => cell.scrollWidth <= cell.clientWidth"
    for width in (1440, 390, 320):
        page.set_viewport_size({"width": width, "height": 844})
        expect(used).to_be_in_viewport(ratio=1)
        assert used.evaluate(fits), width
        if width < 720:
            reset = page.locator("td", has_text=re.compile(r"\d+ [dhms]"))
            expect(reset).to_be_in_viewport(ratio=1)
            named = reset.evaluate("(cell) => getComputedStyle(cell, '::before').content")
            assert named == '"Resets in "'


def test_when_a_key_of_the_file_was_used_last(page: Page, gateway: RunningGateway) -> None:
    sign_in(page, gateway, path="/keys/key/tester")
    side = page.get_by_role("complementary", name="Key tester")
    found: Any = ask(gateway, "GET", "requests?key=tester&limit=1")
    expect(side).to_contain_text(re.compile(r"Last used: .*\d\d:\d\d:\d\d"))
    last = page.evaluate(
        "(at) => new Date(at).toTimeString().slice(0, 8)", found["rows"][0]["at"] * 1000
    )
    expect(side).to_contain_text(last)


def test_of_many_keys_the_page_asks_for_those_it_shows(page: Page, gateway: RunningGateway) -> None:
    limit = {"kind": "requests", "amount": 3, "window": "day"}
    ask(gateway, "POST", "teams", {"name": "crowd"})
    for number in range(130):
        rules = {"limits": [limit], **({"team": "crowd"} if number % 50 == 7 else {})}
        ask(gateway, "POST", "keys", {"name": f"many-{number:03}", **rules})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    sign_in(page, gateway, path="/keys")
    keys = page.get_by_role("region", name="Keys")
    rows, panel = keys.locator("tbody tr"), page.locator("section", has=keys)
    expect(rows).to_have_count(100)
    expect(panel).to_contain_text("1 to 100")
    page.get_by_role("button", name="Next keys").click()
    expect(keys).to_contain_text("many-129")
    expect(keys).not_to_contain_text("many-000")
    expect(panel).to_contain_text("101 to ")
    expect(page.get_by_role("button", name="Next keys")).to_have_count(0)

    page.get_by_role("link", name="many-129", exact=True).click()
    side = page.get_by_role("complementary", name="Key many-129")
    expect(side.locator(".limit-list")).to_contain_text("0 of 3")
    page.get_by_label("Filter keys").fill("MANY-00")
    expect(rows).to_have_count(10)
    expect(keys).to_contain_text("many-000")
    expect(side.locator(".limit-list")).to_contain_text("0 of 3")
    page.get_by_label("Filter keys").fill("crowd")
    expect(rows).to_have_count(3)
    page.get_by_label("Filter keys").fill("nobody at all")
    expect(panel).to_contain_text("No key fits the filter.")
    page.get_by_label("Filter keys").fill("")
    expect(rows).to_have_count(100)
    page.goto(f"{gateway.base_url}/ui/keys/key/nobody")
    expect(rows).to_have_count(100)
    expect(page.get_by_role("complementary")).to_have_count(0)
    urls = [url for url in asked if "/admin/keys?" in url]
    assert urls
    assert all("limit=100" in url for url in urls)
