"""The configuration as the dashboard shows it: read-only, without secrets, with the audit."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from playwright.sync_api import Browser, Page, expect

from dragoman.admin.configuration import MASK, configuration_view
from dragoman.config import Config, Secret, Storage, Upstream
from dragoman.lab.simulator.testing import running_simulator
from dragoman.server.testing import RunningGateway
from tests.dashboard.conftest import KEY, Problems
from tests.dashboard.pages import ask, sign_in
from tests.gateway.services import needs_linux, services


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
    settings = {one.key: one.value for one in view.upstreams[0].settings}
    assert (settings["headers"], settings["proxies"]) == ({"x-own": MASK}, (MASK,))


def test_what_runs_and_who_did_what(
    page: Page, gateway: RunningGateway, problems: Problems
) -> None:
    for do in ("disable", "enable"):
        ask(gateway, "POST", "accounts/do", {"do": do, "names": ["pool-00021"]})
    sign_in(page, gateway, path="/config")
    expect(page.get_by_role("heading", name="admin")).to_be_visible()
    expect(page.locator("main")).to_contain_text(MASK)
    assert KEY not in page.content()
    page.get_by_role("link", name="Reload").click()
    expect(page.get_by_role("alert")).to_contain_text("came from no file")
    page.get_by_role("link", name="Audit").click()
    enabled = page.locator("tbody tr").filter(has_text="pool-00021").first
    expect(enabled).to_contain_text("state: disabled → active")
    page.get_by_label("Find in the audit").fill("pool-00021 action:disable who:admin")
    expect(page.locator("tbody tr")).to_have_count(1)
    with page.expect_download() as begun:
        page.get_by_role("button", name="CSV").click()
    sheet = begun.value.path().read_text()
    assert len(sheet.splitlines()) == 2
    assert "pool-00021" in sheet
    page.get_by_label("Find in the audit").fill("nobody")
    expect(page.get_by_text("No such change.")).to_be_visible()
    # The browser itself tells of an answer that is no success.
    assert [one for one in problems.console if "409" not in one] == []
    assert problems.elsewhere == []


MORE = """
[[routes]]
match = "more-*"
upstream = "chat"
model = "sim-text"
[[prices]]
model = "priced-by-hand"
input = "3.25"
output = "12"
"""


@needs_linux
def test_what_a_reload_would_change(browser: Browser, tmp_path: Path) -> None:
    """The changes are shown before; a file that changed since is read again."""
    with running_simulator() as simulator, services(tmp_path, simulator.base_url) as running:
        running.start(settings=f'shutdown_grace_s = 1\n[admin]\nkey = "{KEY}"')
        file = running.folder / "gateway-0.toml"
        page = browser.new_page()
        page.goto(f"{running.url}/ui/config/reload")
        page.get_by_label("Admin key").fill(KEY)
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_contain_text("Nothing: the file is what is served.")
        text = file.read_text()
        file.write_text(text + MORE)
        page.get_by_role("button", name="Check again").click()
        expect(page.locator("main")).to_contain_text("routes added: more-*")
        file.write_text(text + MORE.replace("more-", "other-"))
        reload, confirm = page.get_by_role("button", name="Reload…"), page.get_by_role("dialog")
        reload.click()
        expect(confirm).to_contain_text("routes added: more-*")
        confirm.get_by_role("button", name="Reload").click()
        expect(page.get_by_role("alert")).to_contain_text("changed meanwhile")
        expect(page.locator("main")).to_contain_text("routes added: other-*")
        reload.click()
        confirm.get_by_role("button", name="Reload").click()
        expect(page.locator(".banner.quiet")).to_contain_text("Configuration 2 is served")
        expect(page.locator("main")).to_contain_text("Nothing: the file is what is served.")
        page.get_by_role("link", name="Prices").click()
        row = page.locator("tbody tr").filter(has_text="priced-by-hand")
        expect(row).to_contain_text("own")
        expect(row).to_contain_text("3.25")
        file.write_text(text + "[server2]\n")
        page.get_by_role("link", name="Reload", exact=True).click()
        expect(page.locator("main")).to_contain_text("unknown key")
        assert reload.count() == 0
        page.close()


def test_prices_are_found(page: Page, gateway: RunningGateway, problems: Problems) -> None:
    sign_in(page, gateway, path="/config/prices?q=nothing-is-called-so")
    expect(page.get_by_text("No price fits.")).to_be_visible()
    assert problems.console == []


def test_a_viewer_reads_it_and_reloads_nothing(page: Page, gateway: RunningGateway) -> None:
    made = ask(gateway, "POST", "admins", {"name": "config-looker", "role": "viewer"})
    assert isinstance(made, dict)
    sign_in(page, gateway, made["secret"], "/config")
    expect(page.get_by_role("button", name="Show defaults")).to_be_visible()
    page.get_by_role("link", name="Reload").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert page.get_by_role("button", name="Reload…").count() == 0
    status = page.evaluate(
        "fetch('/admin/reload', {method: 'POST', headers: {'x-dragoman-csrf':"
        " localStorage.getItem('session-token')}}).then((a) => a.status)"
    )
    assert status == 403
