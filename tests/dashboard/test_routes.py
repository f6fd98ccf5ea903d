"""The screen of models and routes in a browser."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from dragoman.server.testing import RunningGateway
from tests.dashboard.conftest import Problems
from tests.dashboard.pages import sign_in


def test_a_name_is_explained_as_one_types(
    page: Page, gateway: RunningGateway, problems: Problems
) -> None:
    sign_in(page, gateway, path="/routes")
    page.get_by_label("Model", exact=True).fill("chat/sim-text")
    steps = page.locator(".steps")
    expect(steps).to_contain_text("the name begins with the upstream's")
    expect(steps).to_contain_text("chat Chat as sim-text")
    expect(page).to_have_url(f"{gateway.base_url}/ui/routes?model=chat%2Fsim-text")
    page.get_by_label("Name of a key").fill("<b>nobody</b>")
    expect(steps).to_contain_text("<b>nobody</b> may not ask for it. There is no such key")
    page.get_by_label("Model", exact=True).fill("no-such-model")
    expect(page.locator(".banner")).to_contain_text("clients get the answer that there is no such")
    assert (problems.console, problems.elsewhere) == ([], [])
