"""The dashboard in a browser, over a gateway with ten thousand accounts."""

from __future__ import annotations

import csv
import json
import platform
import re
import time
from typing import Any

from playwright.sync_api import Page, Route, expect

from dragoman.server.testing import RunningGateway
from tests.dashboard.conftest import MOST, ODD, Problems
from tests.dashboard.pages import ask, sign_in
from tests.gateway.clients import body
from tests.gateway.http import call
from tests.gateway.services import until

WIDTHS = {"wide": (1440, 900), "phone": (390, 844)}


def test_a_wrong_key_shows_nothing(page: Page, gateway: RunningGateway) -> None:
    sign_in(page, gateway, "no-key-of-anybody-0000")
    expect(page.get_by_role("alert")).to_contain_text("This is no admin key of this gateway")
    assert page.locator("table").count() == 0


def test_overview(page: Page, gateway: RunningGateway, problems: Problems) -> None:
    ask(gateway, "POST", "accounts/do", {"do": "disable", "names": ["pool-00007"]})
    sign_in(page, gateway, path="")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    needs = page.get_by_label("Needs attention")
    expect(needs).to_contain_text("is disabled.")
    expect(page.get_by_label("Figures")).to_contain_text("In flight now")
    for chart in ("Requests", "First token", "Duration", "Tokens", "Cost"):
        expect(page.get_by_role("img", name=f"{chart}:")).to_be_visible()
    lost = page.locator("section", has=page.get_by_role("heading", name="Lost in translation"))
    expect(lost).to_contain_text("temperature")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("button", name="Compare", pressed=True)).to_be_visible()
    with page.expect_request(lambda request: "upstream=chat" in request.url):
        page.get_by_label("Upstream", exact=True).select_option("chat")
    expect(page).to_have_url(f"{gateway.base_url}/ui?vs=1&upstream=chat")
    page.reload()
    expect(page.get_by_role("button", name="Compare", pressed=True)).to_be_visible()
    expect(page.get_by_label("Upstream", exact=True)).to_have_value("chat")
    page.get_by_role("button", name="Requests as a table").click()
    expect(page.get_by_role("region", name="Requests as a table")).to_contain_text("answered")
    page.get_by_role("img", name="Duration:").hover()
    expect(page.locator("section", has=page.get_by_role("heading", name="Tokens"))).to_contain_text(
        "cached"
    )
    needs.get_by_role("link", name="Show accounts").click()
    expect(page.get_by_role("link", name="pool-00007")).to_be_visible()
    expect(page.locator(".table-foot .num")).to_have_text(f"1 of {MOST:,}")
    ask(gateway, "POST", "accounts/do", {"do": "enable", "names": ["pool-00007"]})
    assert (problems.console, problems.elsewhere) == ([], [])


def test_an_outage_of_accounts_needs_attention(page: Page, gateway: RunningGateway) -> None:
    """Refused keys of accounts are errors of the gateway, refused requests those of callers."""

    def outage(route: Route) -> None:
        answer = route.fetch()
        series = answer.json()
        requests = series["requests"]
        rest = [0] * (len(requests["answered"]) - 1)
        requests |= {"answered": [13, *rest], "client": [47, *rest], "limited": [0, *rest]}
        requests |= {"failed": [0, *rest], "left": [0, *rest]}
        series["errors"] = {
            "caller": {"invalid_request": 2},
            "gateway": {"forbidden": 41, "no_account": 4},
            "upstream": {"upstream_failed": 1},
        }
        route.fulfill(response=answer, json=series)

    page.route("**/admin/series?*", outage)
    sign_in(page, gateway, path="")
    needs = page.get_by_label("Needs attention")
    expect(needs).to_contain_text(
        "45 of 60 requests failed (75 %) through the gateway or its accounts,"
        " most often with forbidden."
    )
    expect(page.locator(".figure", has_text="Errors")).to_contain_text("77%")
    needs.get_by_role("link", name="Show requests").click()
    expect(page).to_have_url(f"{gateway.base_url}/ui/requests?error=forbidden")


def test_charts_of_a_young_instance_begin_where_data_begin(
    page: Page, gateway: RunningGateway
) -> None:
    begun = 0.0

    def young(route: Route) -> None:
        nonlocal begun
        answer = route.fetch()
        series = answer.json()
        steps = len(series["requests"]["answered"])
        for values in series["requests"].values():
            values[:] = [None] * (steps - 60) + [1] * 60
        # The time before is asked for, too.
        begun = max(begun, series["from"] + (steps - 60) * series["step_s"])
        route.fulfill(response=answer, json=series)

    page.route("**/admin/series?*", young)
    sign_in(page, gateway, path="")
    expect(page.get_by_role("img", name="Requests:")).to_be_visible()
    page.get_by_role("button", name="Requests as a table").click()
    rows = page.get_by_role("region", name="Requests as a table").locator("tbody tr")
    expect(rows).to_have_count(60)
    first = page.evaluate("(at) => new Date(at * 1000).toTimeString().slice(0, 8)", begun)
    expect(page.locator(".head .sub")).to_contain_text(f"{first} to ")


def test_accounts(page: Page, gateway: RunningGateway, problems: Problems) -> None:
    sign_in(page, gateway)
    expect(page.get_by_role("heading", name="Accounts")).to_be_visible()
    expect(page.locator(".table-foot .num")).to_have_text(f"{MOST:,} of {MOST:,}")
    assert page.locator("tbody tr").count() < 100  # only those that are seen are there
    expect(page.get_by_role("link", name=ODD, exact=True)).to_be_visible()
    assert page.locator("img").count() == 0

    page.locator("tbody a").first.focus()
    page.keyboard.press("End")
    expect(page.locator(f"[data-at='{MOST - 1}']")).to_be_focused()
    page.keyboard.press("Home")
    expect(page.locator("[data-at='0']")).to_be_focused()
    assert (problems.console, problems.elsewhere) == ([], [])


def test_what_an_account_did_is_in_its_row(page: Page, gateway: RunningGateway) -> None:
    """One that still is asked and fails everything is the worst, and accounts on trial count."""

    def mixed(route: Route) -> None:
        answer = route.fetch()
        table = answer.json()
        columns = table["columns"]
        place = columns["name"].index("pool-00500")
        columns |= {
            name: [value if at == place else one for at, one in enumerate(columns[name])]
            for name, value in (
                *(("requests", 11), ("errors", 11), ("in_flight", 3), ("cost_usd", "1.25")),
                *(("last_error", "connection_refused"), ("failed_at", 1_700_000_000.0)),
                ("last_used", time.time() - 90),
            )
        }
        columns["state"] = ["trial" if at < 7 else one for at, one in enumerate(columns["state"])]
        route.fulfill(response=answer, json=table)

    page.route("**/admin/accounts/table", mixed)
    sign_in(page, gateway)
    row = page.locator("tbody tr", has=page.get_by_role("link")).first
    for text in ("pool-00500", "chat", "connection_refused", "$1.25", "1 min"):
        expect(row).to_contain_text(text)
    heads = page.locator(".accounts-table th")
    wide = heads.all_text_contents()
    assert {"Upstream", "In flight", "Last error", "Cost", "Last used"} <= set(wide)
    expect(page.get_by_role("button", name="On trial 7")).to_be_visible()
    cut = "(cells) => cells.filter((one) => one.scrollWidth > one.clientWidth).length"
    assert heads.evaluate_all(cut) == 0
    row.get_by_role("link").click()  # which takes space for the panel
    expect(page.get_by_role("complementary")).to_be_visible()
    expect(heads.filter(has_text="Last used")).to_have_count(0)
    expect(heads.filter(has_text="Errors")).to_have_count(1)


def test_those_that_are_ticked_are_disabled_and_no_others(
    page: Page, gateway: RunningGateway, problems: Problems
) -> None:
    sign_in(page, gateway)
    find = page.get_by_label("Filter accounts")
    find.fill("pool-0123")
    expect(page.locator(".table-foot .num")).to_have_text(f"10 of {MOST:,}")
    wanted = ["pool-01231", "pool-01234", "pool-01238"]
    for name in wanted:
        page.get_by_label(f"Select {name}").check()
    find.fill("pool-0999")
    page.get_by_role("button", name="Disable…").click()
    page.get_by_label("Reason").fill("moved")
    page.get_by_role("dialog").get_by_role("button", name="Disable").click()
    expect(page.get_by_role("status")).to_contain_text("3 accounts disabled.")

    table = ask(gateway, "GET", "accounts/table")
    assert isinstance(table, dict)
    columns = table["columns"]
    states = dict(zip(columns["name"], columns["state"], strict=True))
    assert sorted(name for name, state in states.items() if state == "disabled") == wanted
    audit = json.dumps(ask(gateway, "GET", "audit?limit=10"))
    assert all(name in audit for name in wanted)

    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status")).to_contain_text("3 accounts enabled.")
    assert problems.console == []


def test_of_many_the_number_is_typed(
    page: Page, gateway: RunningGateway, problems: Problems
) -> None:
    sign_in(page, gateway)
    page.get_by_label("Filter accounts").fill("pool-005")
    expect(page.locator(".table-foot .num")).to_have_text(f"100 of {MOST:,}")
    page.get_by_label("Select all that the filter shows").check()
    page.get_by_role("button", name="Disable…").click()
    dialog = page.get_by_role("dialog", name="Disable 100 accounts")
    expect(dialog.get_by_text("and 92 more")).to_be_visible()
    dialog.get_by_label("Type 100 to confirm").fill("99")
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    dialog.get_by_label("Type 100 to confirm").fill("100")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("100 accounts disabled.")

    page.get_by_label("Select all that the filter shows").check()
    page.get_by_role("button", name="Enable…").click()
    dialog = page.get_by_role("dialog", name="Enable 100 accounts")
    dialog.get_by_label("Type 100 to confirm").fill("100")
    dialog.get_by_role("button", name="Enable").click()
    expect(page.get_by_role("status")).to_contain_text("100 accounts enabled.")
    assert (problems.console, problems.elsewhere) == ([], [])


def test_one_account(page: Page, gateway: RunningGateway, problems: Problems) -> None:
    for do in ("disable", "enable"):
        ask(gateway, "POST", "accounts/do", {"do": do, "names": ["pool-00042"]})
    sign_in(page, gateway, path="/accounts/pool-00042?q=pool-0004")
    side = page.get_by_role("complementary")
    expect(side.get_by_role("heading", name="pool-00042")).to_be_visible()
    expect(side).to_contain_text("set, never shown")
    states = side.get_by_role("img", name="States of the last 24 hours")
    expect(states).to_have_accessible_name(re.compile(r"hours: .*Active from \d\d:\d\d"))
    assert "sk-sim-p42" not in page.content()
    side.get_by_role("link", name="Close").click()
    expect(side).to_have_count(0)
    assert page.url.endswith("/ui/accounts?q=pool-0004")
    assert problems.console == []


def test_what_is_opened_on_a_phone_takes_the_place_of_the_list(
    page: Page, gateway: RunningGateway
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    sign_in(page, gateway, path="/accounts?q=pool-0004")
    page.get_by_role("link", name="pool-00042").click()
    side = page.get_by_role("complementary")
    expect(side.get_by_role("button", name="Disable…")).to_be_in_viewport()
    side.get_by_role("link", name="Close").click()
    expect(page.get_by_role("link", name="pool-00042")).to_be_in_viewport()


def test_requests(page: Page, gateway: RunningGateway, problems: Problems) -> None:
    sign_in(page, gateway, path="/requests")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(3)
    page.get_by_label("Filter requests").fill("eror:*")
    expect(page.locator("#unknown-fields")).to_contain_text("eror:*: no such filter.")
    page.get_by_label("Filter requests").fill("min_ms:600000")
    expect(rows).to_have_count(0)
    page.get_by_label("Filter requests").fill("")
    expect(rows).to_have_count(3)
    rows.nth(1).locator("a").first.click()
    newer, older = page.get_by_label("Newer request"), page.get_by_label("Older request")
    expect(newer).to_be_enabled()
    page.keyboard.press("[")
    expect(newer).to_be_disabled()
    page.keyboard.press("]")
    expect(newer).to_be_enabled()
    page.keyboard.press("]")
    expect(older).to_be_disabled()
    page.get_by_label("Back to the requests").click()
    page.get_by_label("Filter requests").fill("error:*")
    expect(rows).to_have_count(1)
    rows.locator("a").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("req_")
    expect(page.get_by_role("heading", name="Attempts")).to_be_visible()
    lane = page.locator(".lanes li", has_text="429")
    expect(lane).to_contain_text(re.compile(r"\d+ B sent, \d+ B received"))
    expect(page.locator(".loss-list")).to_contain_text("temperature")
    assert (problems.console, problems.elsewhere) == ([], [])


def test_a_refusal_of_the_gateway_itself_tells_its_words_and_limit(
    page: Page, gateway: RunningGateway
) -> None:
    made: Any = ask(gateway, "POST", "keys", {"name": "tight"})
    limit = {"kind": "requests", "amount": 1, "window": "day"}
    ask(gateway, "POST", "keys/tight/limits", limit)
    asked = body("chat", "chat/sim-text", "words that nobody may read")
    until(lambda: call(gateway.base_url, "GET", "/v1/models", key=made["secret"]).status == 200)
    answers = [
        call(gateway.base_url, "POST", "/v1/chat/completions", asked, key=made["secret"])
        for _ in range(2)
    ]
    assert [answer.status for answer in answers] == [200, 429]
    told = answers[1].json["error"]["message"]
    sign_in(page, gateway, path="/requests?key=tight&status=429")
    row = page.locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row.locator("td").nth(4)).to_have_attribute("title", told)
    row.get_by_role("link").click()
    note = page.get_by_role("note")
    expect(note).to_contain_text(told)
    expect(note).to_contain_text("no upstream was asked")
    note.get_by_role("link", name="Limit key:requests:day").click()
    expect(page.get_by_role("complementary", name="Key tight")).to_be_visible()


def test_the_page_says_which_instance_it_shows(page: Page, gateway: RunningGateway) -> None:
    sign_in(page, gateway)
    foot = page.locator(".rail .foot")
    expect(foot).to_contain_text(f"on {platform.node()}")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator(".topbar")).to_contain_text(platform.node())


def test_a_viewer_may_look(page: Page, gateway: RunningGateway) -> None:
    made = ask(gateway, "POST", "admins", {"name": "looker", "role": "viewer"})
    assert isinstance(made, dict)
    sign_in(page, gateway, made["secret"], "/accounts/pool-00042")
    side = page.get_by_role("complementary")
    expect(side).to_contain_text("Last 24 hours")
    assert side.get_by_role("button").count() == 0
    assert page.locator("tbody input[type=checkbox]").count() == 0
    assert page.get_by_role("button", name="CSV").count() == 0


def test_who_signs_out_is_out_everywhere(page: Page, gateway: RunningGateway) -> None:
    sign_in(page, gateway)
    page.get_by_role("button", name="Sign out").first.click()
    expect(page.get_by_label("Admin key")).to_be_visible()
    status = page.evaluate("fetch('/admin/accounts').then((answer) => answer.status)")
    assert status == 401


def saved(page: Page) -> list[dict[str, str]]:
    """The rows of the file that a table is saved as."""
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the rows shown as CSV").press("Enter")
    return list(csv.DictReader(download.value.path().read_text().splitlines()))


def test_what_is_shown_is_saved_as_csv(
    page: Page, gateway: RunningGateway, problems: Problems
) -> None:
    call(gateway.base_url, "POST", "/v1/chat/completions", body("chat", '=1+"1"'))
    sign_in(page, gateway)
    page.get_by_label("Filter accounts").fill("pool-0123")
    expect(page.locator(".table-foot .num")).to_have_text(f"10 of {MOST:,}")
    accounts = saved(page)
    assert {row["name"] for row in accounts} == {f"pool-0123{number}" for number in range(10)}
    assert {row["state"] for row in accounts} == {"active"}
    page.goto(f"{gateway.base_url}/ui/requests")
    expect(page.locator("tbody")).to_contain_text('=1+"1"')
    found: Any = ask(gateway, "GET", "requests")
    requests = {row["id"]: row["model"] for row in saved(page)}
    assert set(requests) == {row["id"] for row in found["rows"]}
    assert requests[found["rows"][0]["id"]] == '\'=1+"1"'
    assert (problems.console, problems.elsewhere) == ([], [])
