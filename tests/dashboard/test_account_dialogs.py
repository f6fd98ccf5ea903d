"""Adding, importing and testing accounts, and giving one a new key, in a browser."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from dragoman.server.testing import RunningGateway
from tests.dashboard.conftest import Problems
from tests.dashboard.pages import ask, broken_rules, sign_in

LIST = """name,upstream,key
new-1,chat,sk-sim-new-one
new-2,chat,sk-sim-new-one
bad-1,nowhere,sk-sim-x
pool-00001,chat,sk-sim-y
"""


def test_a_list_is_looked_at_then_stored_tested_and_changed(
    page: Page, gateway: RunningGateway, problems: Problems
) -> None:
    sign_in(page, gateway, path="/accounts?q=new-")
    page.get_by_role("button", name="Import…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("List").fill(LIST)
    dialog.get_by_role("button", name="Preview").click()
    preview = dialog.get_by_label("Preview")
    expect(preview.get_by_role("status")).to_contain_text("4 rows: 2 new, 0 replaced, 2 bad")
    expect(preview.locator("tbody tr")).to_have_count(2)
    expect(preview).to_contain_text("no upstream named nowhere")
    expect(preview).to_contain_text("Same key: new-1 and new-2.")
    assert "sk-sim-new" not in preview.inner_text()
    assert broken_rules(page) == []
    assert "new-1" not in str(ask(gateway, "GET", "accounts?after=messages"))
    dialog.get_by_role("button", name="Import 2 good rows").click()
    expect(page.locator(".table-foot")).to_contain_text("2 of")

    page.get_by_label("Select all that the filter shows").check()
    page.get_by_role("button", name="Test…").click()
    dialog.get_by_label("Model").fill("sim-text")
    dialog.get_by_role("button", name="Test 2 accounts").click()
    expect(dialog.get_by_role("status")).to_have_text("2 of 2 tested: 2 answered, 0 did not.")
    assert broken_rules(page) == []
    dialog.get_by_role("button", name="Close").click()

    page.get_by_role("link", name="new-1").click()
    page.get_by_role("button", name="New key…").click()
    dialog.get_by_label("New key").fill("sk-sim-another")
    dialog.get_by_role("checkbox").uncheck()
    dialog.get_by_role("button", name="Replace the key").click()
    expect(page.get_by_role("status")).to_contain_text("new-1 has a new key.")

    page.get_by_role("button", name="Add…").click()
    dialog.get_by_label("Name").fill("new-2")
    dialog.get_by_label("Upstream").fill("chat")
    dialog.get_by_label("Key").fill("sk-sim-third")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("new-2")
    dialog.get_by_label("Name").fill("new-3")
    dialog.get_by_role("button", name="Add").click()
    expect(page.get_by_role("status")).to_contain_text("new-3 was added.")
    assert "sk-sim-third" not in page.content()
    ask(gateway, "POST", "accounts/do", {"do": "remove", "names": ["new-1", "new-2", "new-3"]})
    messages = [text for text in problems.console if "409" not in text]  # a name that is taken
    assert (messages, problems.elsewhere) == ([], [])
