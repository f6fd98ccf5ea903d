"""The screen of people in a browser, and who signs in to the page with the company's account."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from dragoman.config.access_rules import SignInRule
from dragoman.lab.provider import serving
from dragoman.lab.simulator.testing import running_simulator
from dragoman.server.testing import RunningGateway
from tests.dashboard.conftest import Problems
from tests.dashboard.pages import broken_rules, sign_in
from tests.people.signing_in import ADA, ADMIN, BOB, PEOPLE, House, ask, house

RULES = (
    SignInRule(groups=("engineers",), role="admin"),
    SignInRule(domains=("example.com",), role="viewer"),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    store = tmp_path_factory.mktemp("people") / "store.db"
    with (
        running_simulator() as simulator,
        serving(PEOPLE) as provider,
        house(simulator.base_url, store, provider, rules=RULES) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def gateway(home: House) -> RunningGateway:
    return home.gateway


def test_sessions_are_ended_and_people_refused(page: Page, home: House, problems: Problems) -> None:
    ada = home.session(ADA)
    assert ask(home.url, ada["access_token"]).status == 200
    other = home.session(ADA)
    bob = home.session(BOB)
    sign_in(page, home.gateway, ADMIN, path="/people")
    people = page.get_by_role("region", name="People", exact=True)
    sessions = page.get_by_role("region", name="Sessions", exact=True)
    row = people.get_by_role("row").filter(has_text=ADA)
    expect(row).to_contain_text("engineers")
    expect(sessions.get_by_role("row").filter(has_text=ADA)).to_have_count(2)
    assert broken_rules(page) == []

    sessions.get_by_role("row").filter(has_text=ADA).first.get_by_role("button", name="End").click()
    expect(sessions.get_by_role("row").filter(has_text=ADA)).to_have_count(1)
    assert sorted(home.refresh(one["refresh_token"]).status for one in (ada, other)) == [200, 401]
    row.get_by_role("button", name="Disable").click()
    expect(row).to_contain_text("disabled")
    expect(sessions.get_by_role("row").filter(has_text=ADA)).to_have_count(0)
    assert home.refresh(other["refresh_token"]).status == 401
    row.get_by_role("button", name="Enable").click()
    expect(row).to_contain_text("active")

    row.get_by_role("link", name="Requests").click()
    expect(page.get_by_role("row").filter(has_text=ADA).first).to_be_visible()
    page.go_back()
    people.get_by_role("link", name=BOB).click()
    expect(page.get_by_text(f"Sessions of {BOB}")).to_be_visible()
    people.get_by_role("row").filter(has_text=BOB).get_by_role(
        "button", name="End sessions"
    ).click()
    expect(page.get_by_text("There is no session.")).to_be_visible()
    assert home.refresh(bob["refresh_token"]).status == 401
    assert (problems.console, problems.elsewhere) == ([], [])


def test_the_page_says_who_would_get_what(page: Page, home: House, problems: Problems) -> None:
    sign_in(page, home.gateway, ADMIN, path="/people")
    heading = page.get_by_role("heading", name="Who would get what")
    panel = page.locator("section.panel").filter(has=heading)
    panel.get_by_label("E-mail address").fill("new@example.com")
    expect(panel).to_contain_text("viewer")
    panel.get_by_label("Groups").fill("engineers, others")
    expect(panel).to_contain_text("admin")
    panel.get_by_label("E-mail address").fill("eve@elsewhere.example")
    panel.get_by_label("Groups").fill("")
    expect(panel).to_contain_text("No rule of [[sign_in.rules]] matches.")
    assert broken_rules(page) == []
    assert (problems.console, problems.elsewhere) == ([], [])


def test_a_person_opens_the_page_with_the_company_s_account(page: Page, home: House) -> None:
    page.goto(f"{home.url}/ui/people")
    page.get_by_role("link", name="Sign in with the company").click()
    page.get_by_role("link", name=BOB).click()
    expect(page.get_by_role("link", name="People").first).to_be_visible()
    assert "sign-in" not in page.url
    page.goto(f"{home.url}/ui/people")
    people = page.get_by_role("region", name="People", exact=True)
    expect(people.get_by_role("row").filter(has_text=BOB)).to_be_visible()
    expect(people.get_by_role("button")).to_have_count(0)
    page.get_by_role("button", name="Sign out").first.click()
    expect(page.get_by_label("Admin key")).to_be_visible()
