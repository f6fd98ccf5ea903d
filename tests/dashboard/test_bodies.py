"""The bodies of a request, in a browser."""

from __future__ import annotations

import json

from playwright.sync_api import Page, expect

from dragoman.server.testing import RunningGateway
from tests.dashboard.conftest import Problems
from tests.dashboard.pages import ask, broken_rules, sign_in
from tests.gateway.administration import eventually
from tests.gateway.http import call


def test_bodies_are_read_and_opened_in_the_workbench(
    page: Page, gateway: RunningGateway, problems: Problems
) -> None:
    made = ask(gateway, "POST", "keys", {"name": "stored", "keep_bodies": True})
    assert isinstance(made, dict)
    body = {"model": "chat/sim-text", "messages": [{"role": "user", "content": "<img src=x>"}]}
    sent = json.dumps(body).encode()
    eventually(
        lambda: (
            call(gateway.base_url, "POST", "/v1/chat/completions", sent, key=made["secret"]).status
            == 200
        )
    )
    rows = eventually(lambda: _rows(gateway))
    sign_in(page, gateway, path=f"/requests/{rows[0]['id']}")
    page.get_by_role("button", name="Client request").click()
    expect(page.locator(".stored pre")).to_contain_text('"content": "<img src=x>"')
    assert page.locator("img").count() == 0
    assert broken_rules(page) == []
    page.get_by_role("link", name="Open in the workbench").click()
    expect(page.get_by_role("region", name="Chat request")).to_contain_text("<img src=x>")
    expect(page.get_by_role("region", name="Messages request")).to_contain_text("<img src=x>")
    assert (problems.console, problems.elsewhere) == ([], [])


def _rows(gateway: RunningGateway) -> list[dict[str, str]]:
    found = ask(gateway, "GET", "requests?key=stored")
    assert isinstance(found, dict)
    rows: list[dict[str, str]] = found["rows"]
    return rows
