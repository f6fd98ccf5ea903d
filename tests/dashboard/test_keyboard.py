"""The dashboard without a mouse."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from dragoman.server.testing import RunningGateway
from tests.dashboard.conftest import MOST, SCREENS, Problems
from tests.dashboard.pages import sign_in


def test_letters_lead_everywhere(page: Page, gateway: RunningGateway, problems: Problems) -> None:
    sign_in(page, gateway, path="")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("Overview")
    expect(page.get_by_label("Figures")).to_be_visible()  # what hears of keys is there, too
    for letter, title in (
        ("r", "Requests"),
        ("u", "Usage and cost"),
        ("l", "Losses"),
        ("a", "Accounts"),
        ("k", "Keys and teams"),
        ("m", "Models and routes"),
        ("w", "Workbench"),
        ("c", "Clients"),
        ("f", "Configuration"),
        ("o", "Overview"),
    ):
        page.keyboard.press("g")
        page.keyboard.press(letter)
        expect(heading).to_have_text(title)
    page.keyboard.press("1")
    expect(page.get_by_role("button", name="15 min", pressed=True)).to_be_visible()
    page.keyboard.press("?")
    page.get_by_label("Single-letter shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    expect(page.get_by_role("button", name="15 min", pressed=True)).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Screen, account")).to_be_focused()
    with page.expect_request(lambda request: "/admin/keys?q=pool-00042&limit=" in request.url):
        page.keyboard.type("pool-00042")
    expect(page.get_by_role("option", name="pool-00042 Account")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary")).to_contain_text("pool-00042")
    assert (problems.console, problems.elsewhere) == ([], [])


def test_an_account_is_disabled_and_enabled_without_a_mouse(
    page: Page, gateway: RunningGateway, problems: Problems
) -> None:
    sign_in(page, gateway, path="/accounts")
    expect(page.locator(".table-foot .num")).to_have_text(f"{MOST:,} of {MOST:,}")
    page.keyboard.press("/")
    page.keyboard.type("pool-0321")
    expect(page.locator(".table-foot")).to_contain_text("10 of")
    page.keyboard.press("Escape")
    expect(page.get_by_label("Filter accounts")).to_have_value("")
    page.keyboard.type("pool-03210")
    expect(page.locator(".table-foot")).to_contain_text("1 of")
    page.keyboard.press("Escape")
    page.keyboard.type("pool-03210")
    expect(page.locator(".table-foot")).to_contain_text("1 of")
    page.get_by_label("Filter accounts").blur()
    page.keyboard.press("j")
    row = page.get_by_role("link", name="pool-03210")
    expect(row).to_be_focused()
    page.keyboard.press("Enter")
    side = page.get_by_role("complementary")
    expect(side.get_by_role("button", name="Disable…")).to_be_visible()
    page.keyboard.press("d")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Disable 1 account")
    for _ in range(12):  # the focus stays within
        page.keyboard.press("Tab")
        assert page.evaluate(
            "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(row).to_be_focused()
    page.keyboard.press("d")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("moved")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("1 account disabled.")
    expect(side.get_by_role("button", name="Enable")).to_be_visible()
    page.keyboard.press("e")
    expect(page.get_by_role("status")).to_contain_text("1 account enabled.")
    page.keyboard.press("Escape")
    expect(side).to_have_count(0)
    assert problems.console == []


MISSING = """() => [...document.querySelectorAll(
    'main a[href], main button:not([disabled]), main input, main select, main summary'
  )].filter((one) => one.getClientRects().length && one.tabIndex >= 0 && !one.dataset.reached)
  .map((one) => one.outerHTML.slice(0, 120))"""
"""What can be done, and was not come by."""
ARRIVED = """() => {
  const one = document.activeElement;
  const framed = [one, one.closest('.field')].some((each) => {
    const style = each && getComputedStyle(each);
    return style && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
  });
  one.dataset.reached = 'yes';
  const where = one === document.body ? 'out' : one.closest('main') ? 'in' : 'around';
  return [where, framed || where === 'out' ? '' : one.outerHTML.slice(0, 120)];
}"""
"""Where the focus is, and what it is on if nothing frames that."""
MOST_STOPS = 400


def test_all_that_can_be_done_is_reached_and_framed(page: Page, gateway: RunningGateway) -> None:
    """By the tabulator alone."""
    sign_in(page, gateway, path="/config")
    page.locator(SCREENS["/config"]).first.wait_for()
    faults = []
    for path, drawn in SCREENS.items():
        page.goto(f"{gateway.base_url}/ui{path}")
        page.locator(drawn).first.wait_for()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        expect(page.get_by_text("Loading…")).to_have_count(0)
        entered = False
        for _ in range(MOST_STOPS):
            page.keyboard.press("Tab")
            where, bare = page.evaluate(ARRIVED)
            faults += [(path, "without a frame", bare)] if bare else []
            if entered and where != "in":
                break
            entered = entered or where == "in"
        faults += [(path, "not reached", one) for one in page.evaluate(MISSING)]
    assert faults == []
