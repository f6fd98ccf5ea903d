"""The configuration as the dashboard shows it: read-only, without secrets, with the audit."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from dragoman.config import Config, Secret, Storage, Upstream
from dragoman.gateway.admin.configuration import MASK, configuration_view
from dragoman.gateway.testing import RunningGateway
from tests.dashboard.conftest import KEY, Told
from tests.dashboard.test_screens import AXE, WIDTHS, ask, sign_in


def test_secrets_are_masked_wherever_they_are() -> None:
    upstream = Upstream(
        name="one",
        protocol="openai_chat",
        base_url="https://one.example",
        headers={"x-own": Secret("in-a-header")},
        proxies=(Secret("in-a-list"),),
    )
    config = replace(Config(), upstreams=(upstream,), storage=Storage(key=Secret("in-a-section")))
    view = configuration_view(config)
    assert all(secret not in str(view) for secret in ("in-a-header", "in-a-list", "in-a-section"))
    upstreams = view["upstreams"]
    assert isinstance(upstreams, list)
    told = {one["key"]: one["value"] for one in upstreams[0]["settings"]}
    assert (told["headers"], told["proxies"]) == ({"x-own": MASK}, (MASK,))


def test_what_runs_and_who_did_what(page: Page, gateway: RunningGateway, told: Told) -> None:
    for do in ("disable", "enable"):
        ask(gateway, "POST", "accounts/do", {"do": do, "names": ["pool-00021"]})
    sign_in(page, gateway, path="/config")
    expect(page.get_by_role("heading", name="admin")).to_be_visible()
    expect(page.locator("main")).to_contain_text(MASK)
    assert KEY not in page.content()
    page.get_by_role("button", name="Reload…").click()
    page.get_by_role("dialog").get_by_role("button", name="Reload").click()
    expect(page.get_by_role("alert")).to_contain_text("came from no file")
    page.get_by_role("link", name="Audit").click()
    enabled = page.locator("tbody tr").filter(has_text="pool-00021").first
    expect(enabled).to_contain_text("state: disabled → active")
    # The browser itself tells of an answer that is no success.
    assert [one for one in told.console if "409" not in one] == []
    assert told.elsewhere == []


def test_a_viewer_reads_it_and_reloads_nothing(page: Page, gateway: RunningGateway) -> None:
    made = ask(gateway, "POST", "admins", {"name": "config-looker", "role": "viewer"})
    assert isinstance(made, dict)
    sign_in(page, gateway, made["secret"], "/config")
    expect(page.get_by_role("button", name="Show defaults")).to_be_visible()
    assert page.get_by_role("button", name="Reload…").count() == 0
    status = page.evaluate(
        "fetch('/admin/session').then((a) => a.json()).then((s) => fetch('/admin/reload', {method:"
        " 'POST', headers: {'x-dragoman-csrf': s.csrf}})).then((a) => a.status)"
    )
    assert status == 403


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", ["/config", "/config/audit"])
def test_it_can_be_read(page: Page, gateway: RunningGateway, width: str, path: str) -> None:
    wide, high = WIDTHS[width]
    page.set_viewport_size({"width": wide, "height": high})
    sign_in(page, gateway, path=path)
    page.locator(".panel h2, tbody").first.wait_for()
    expect(page.locator("html")).to_have_js_property("scrollWidth", wide)
    page.evaluate(AXE.read_text())
    found = page.evaluate(
        "axe.run({resultTypes: ['violations']}).then((found) => found.violations"
        ".filter((one) => ['serious', 'critical'].includes(one.impact))"
        ".map((one) => one.id + ': ' + one.nodes.map((node) => node.target).join(' ')))"
    )
    assert found == []
