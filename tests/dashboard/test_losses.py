"""The screen of losses in a browser."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, expect

from dragoman.server.testing import RunningGateway
from tests.dashboard.conftest import Problems
from tests.dashboard.pages import ask, sign_in
from tests.gateway.clients import body
from tests.gateway.http import call


@pytest.fixture(scope="module")
def lossy(gateway: RunningGateway) -> RunningGateway:
    """The gateway, after requests whose settings two upstreams do not have."""
    for model, agent in (
        ("messages/sim-text", "opencode/1.0"),
        ("messages/sim-text", "opencode/1.0"),
        ("responses/sim-text", "<i>odd</i>/1.0"),
    ):
        sent = body("chat", model, seed=3, logit_bias={"1": 2})
        answer = call(gateway.base_url, "POST", "/v1/chat/completions", sent, {"user-agent": agent})
        assert answer.status == 200
    until = time.monotonic() + 10
    while not ask(gateway, "GET", "losses?client=opencode")["rows"]:  # type: ignore[index]
        assert time.monotonic() < until
        time.sleep(0.1)
    return gateway


def test_who_loses_what(page: Page, lossy: RunningGateway, problems: Problems) -> None:
    sign_in(page, lossy, path="/losses")
    lost = page.get_by_role("region", name="What was lost")
    row = lost.locator("tr", has_text="seed").filter(has_text="opencode")
    expect(row).to_contain_text("C→M")
    expect(row.locator("td").nth(4)).to_have_text("2")
    page.get_by_role("button", name="opencode, Chat to Messages").click()
    expect(page).to_have_url(
        f"{lossy.base_url}/ui/losses?client=opencode&pair=openai_chat%3Eanthropic_messages"
    )
    expect(lost.locator("tbody tr")).to_have_count(2)
    page.get_by_role("button", name="content that was left out").click()
    expect(page.get_by_text("No loss fits the filter.")).to_be_visible()
    page.get_by_role("button", name="content that was left out").click()
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Lost in translation")).to_be_visible()
    assert (problems.console, problems.elsewhere) == ([], [])
