"""Screens that show what happens as it happens."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from dragoman.server.testing import RunningGateway
from tests.dashboard.conftest import Problems
from tests.dashboard.pages import sign_in
from tests.gateway.clients import body
from tests.gateway.http import call


def _ask(gateway: RunningGateway, model: str) -> None:
    call(gateway.base_url, "POST", "/v1/chat/completions", body("chat", model))


def test_requests_come_by_themselves(
    page: Page, gateway: RunningGateway, problems: Problems
) -> None:
    """Those that fit the filter, without a request for the list; none while it is paused."""
    asked: list[str] = []
    sign_in(page, gateway, path="/requests?model=chat%2Fsim-text%3Fwords%3D2")
    expect(page.get_by_text("live, the latest first")).to_be_visible()
    expect(page.locator(".table-foot")).to_contain_text("0 shown")
    page.on("request", lambda request: asked.append(request.url))
    _ask(gateway, "chat/sim-text")
    _ask(gateway, "chat/sim-text?words=2")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("words=2")
    assert asked == []
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("paused")).to_be_visible()
    _ask(gateway, "chat/sim-text?words=2")
    page.get_by_role("button", name="Resume").click()
    expect(rows).to_have_count(2)
    assert (problems.console, problems.elsewhere) == ([], [])


SAMPLED = """
const fetched = window.fetch;
window.fetch = (path, options) => {
  if (!path.startsWith("/admin/events?")) return fetched(path, options);
  const events = 'event: requests\\ndata: {"rows": [], "seen": 500, "shown": 5}\\n\\n'.repeat(100);
  const start = (body) => body.enqueue(new TextEncoder().encode(events));
  return Promise.resolve(new Response(new ReadableStream({ start })));
};
"""
"""Stands for a connection that tells of more requests than it shows, and stays open."""


def test_a_sample_says_that_it_is_one(
    page: Page, gateway: RunningGateway, problems: Problems
) -> None:
    page.add_init_script(SAMPLED)
    sign_in(page, gateway, path="/requests")
    expect(page.get_by_text("live, a sample: 1.0 % of all requests")).to_be_visible()
    expect(page.locator("tbody tr").first).to_be_visible()
    assert problems.console == []


def test_it_is_asked_for_where_it_does_not_come(page: Page, gateway: RunningGateway) -> None:
    page.route("**/admin/events?*", lambda route: route.fulfill(status=503))
    sign_in(page, gateway, path="/requests?model=chat%2Fsim-text%3Fwords%3D4")
    expect(page.get_by_text("not live: updated every 3 s")).to_be_visible()
    _ask(gateway, "chat/sim-text?words=4")
    expect(page.locator("tbody tr")).to_have_count(1)


def test_a_page_signed_out_elsewhere_shows_the_form(page: Page, gateway: RunningGateway) -> None:
    sign_in(page, gateway, path="/requests")
    expect(page.get_by_text("live, the latest first")).to_be_visible()
    other = page.context.new_page()
    other.goto(f"{gateway.base_url}/ui/config")
    other.get_by_role("button", name="Sign out").first.click()
    expect(page.get_by_label("Admin key")).to_be_visible()


def test_figures_of_this_second(page: Page, gateway: RunningGateway, problems: Problems) -> None:
    sign_in(page, gateway, path="")
    figures = page.get_by_label("Figures")
    expect(figures).to_contain_text("/s now")
    assert (problems.console, problems.elsewhere) == ([], [])
