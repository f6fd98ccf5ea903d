"""The screen of MCP servers in a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from dragoman.server.testing import RunningGateway
from tests.dashboard.conftest import Problems
from tests.dashboard.pages import broken_rules, sign_in
from tests.mcp.serving import ADMIN, Desk, desk
from tests.mcp.stub import result, running_stub


@pytest.fixture(scope="module")
def tickets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    store = tmp_path_factory.mktemp("mcp") / "store.db"
    with running_stub() as stub, desk(stub, store) as running:
        failed = {"content": [], "isError": True}
        stub.answers["broken"] = lambda handler, message: handler.reply(result(7, failed))
        for tool in ("get_ticket", "get_ticket", "broken"):
            assert running.call(tool).status == 200
        yield running


@pytest.fixture(scope="module")
def gateway(tickets: Desk) -> RunningGateway:
    return tickets.gateway


def test_servers_with_their_calls_and_last_error(
    page: Page, gateway: RunningGateway, problems: Problems
) -> None:
    """Light and dark, and on a phone."""
    sign_in(page, gateway, ADMIN, path="/mcp")
    row = page.get_by_role("region", name="Servers").get_by_role("row").filter(has_text="tickets")
    for text in ("127.0.0.1", "a key", "all; interns: search_*; visitors: none"):
        expect(row).to_contain_text(text)
    expect(row).to_contain_text("broken: tool_failed")
    expect(row.get_by_role("cell").nth(4)).to_have_text("3")
    expect(row.get_by_role("cell").nth(5)).to_have_text("1")
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert broken_rules(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    expect(row).to_contain_text("broken: tool_failed")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390
    assert broken_rules(page) == []
    page.get_by_role("navigation", name="Screens on a phone").get_by_role(
        "link", name="MCP"
    ).click()
    expect(row).to_be_visible()
    assert (problems.console, problems.elsewhere) == ([], [])
