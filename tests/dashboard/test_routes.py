"""The screen of models and routes in a browser."""

from __future__ import annotations

from msgspec.structs import replace
from playwright.sync_api import Page, expect

from dragoman.config import Admin, Route, Secret
from dragoman.lab.simulator.testing import running_simulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.dashboard.conftest import KEY, Problems
from tests.dashboard.pages import sign_in
from tests.gateway.conftest import config_for


def test_a_route_that_is_never_reached_is_marked(page: Page) -> None:
    matches = ("gpt-4*", "gpt-*", "gpt-5", "o3", "*", "claude-*")
    routes = tuple(Route(match=match, upstream="chat") for match in matches)
    with running_simulator() as simulator:
        config = config_for(simulator.base_url, routes=routes)
        with running_gateway(replace(config, admin=Admin(key=Secret(KEY)))) as gateway:
            sign_in(page, gateway, path="/routes")
            rows = page.get_by_role("region", name="Routes").locator("tbody tr")
            expect(rows).to_have_count(len(matches))
            marked = rows.filter(has_text="never reached")
            expect(marked).to_have_count(2)
            expect(marked.nth(0)).to_contain_text("gpt-5 never reached, since 2 fits")
            expect(marked.nth(1)).to_contain_text("claude-* never reached, since 5 fits")


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
