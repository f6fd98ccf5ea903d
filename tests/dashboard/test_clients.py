"""The screen of clients in a browser."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from dragoman.server.testing import RunningGateway
from tests.dashboard.conftest import Problems
from tests.dashboard.pages import broken_rules, sign_in


def test_a_guide_is_for_this_instance_and_the_doctor_runs(
    page: Page, gateway: RunningGateway, problems: Problems
) -> None:
    sign_in(page, gateway, path="/clients/codex?model=chat/sim-text")
    expect(page.get_by_role("heading", name="Codex")).to_be_visible()
    step = page.locator(".step").first
    expect(step).to_contain_text(f'base_url = "{gateway.base_url}/v1"')
    expect(step).to_contain_text('model = "chat/sim-text"')
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    step.get_by_role("button", name="Copy").click()
    expect(step.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == step.locator("pre").text_content()

    page.get_by_label("Clients").get_by_role("link", name="Claude Code").click()
    expect(page.locator(".step").first).to_contain_text("export ANTHROPIC_MODEL=chat/sim-text")
    page.get_by_role("button", name="Run for chat/sim-text").click()
    page.get_by_role("button", name="Show all checks").click()
    expect(page.locator(".checks")).to_contain_text("chat.done")
    assert broken_rules(page) == []
    assert (problems.console, problems.elsewhere) == ([], [])
