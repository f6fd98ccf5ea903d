"""The workbench in a browser."""

from __future__ import annotations

import json
from functools import partial

from playwright.sync_api import Page, Request, expect

from dragoman.protocols import CODECS
from dragoman.server.testing import RunningGateway
from tests.dashboard.conftest import Problems
from tests.dashboard.pages import ask, broken_rules, sign_in

CHAT = {"model": "m", "seed": 7, "messages": [{"role": "user", "content": "<img src=x>" * 30}]}
CURL = f"""curl https://llm.example.com/v1/chat/completions -H 'Authorization: Bearer sk-secret' \\
  -d '{json.dumps(CHAT)}'"""


def test_a_request_side_by_side(page: Page, gateway: RunningGateway, problems: Problems) -> None:
    sign_in(page, gateway, path="/workbench?example=tools")
    messages = page.get_by_role("region", name="Messages request")
    expect(messages.locator("li.lost-knob").first).to_contain_text('"top_k": 40')
    responses = page.get_by_role("region", name="Responses request")
    expect(responses).to_contain_text("max_output_tokens")
    lit = page.locator(".panes li.lit")
    page.keyboard.press("n")
    expect(messages.locator("li.lit")).to_have_count(1)
    first = lit.first.get_attribute("data-path")
    page.keyboard.press("n")
    expect(lit.first).not_to_have_attribute("data-path", first or "")
    verdicts = page.locator(".verdicts")
    expect(verdicts.get_by_text("400")).to_have_count(4)

    page.get_by_role("button", name="Paste…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Request").fill('{"model": "m",\n"messages"}')
    dialog.get_by_role("button", name="Show").click()
    expect(dialog.get_by_role("alert")).to_contain_text("line 2, column")
    dialog.get_by_label("Request").fill(CURL)
    dialog.get_by_role("button", name="Show").click()

    chat = page.get_by_role("region", name="Chat request")
    expect(chat.locator("li.lost-knob")).to_contain_text('"seed": 7')
    assert "sk-secret" not in page.content()
    assert page.locator("img").count() == 0
    asked = {"from": "openai_chat", "body": json.dumps(CHAT)}
    made = ask(gateway, "POST", "translate", asked)
    assert isinstance(made, dict)
    losses = {loss["path"] for one in made["targets"] for loss in one["losses"]}
    expect(page.locator(".ledger tbody tr")).to_have_count(len(losses))
    assert (problems.console, problems.elsewhere) == ([], [])


def _is_translation(page: Page, example: str, asked: Request) -> bool:
    return asked.url.endswith("/admin/translate") and page.url.endswith(f"example={example}")


def test_each_example_can_be_read(page: Page, gateway: RunningGateway, problems: Problems) -> None:
    """As it stands, in the protocol that it says; most have something that others lack."""
    sign_in(page, gateway, path="/workbench")
    chosen = page.get_by_label("Example")
    expect(chosen.locator("option")).to_have_count(12)
    names = chosen.locator("option").evaluate_all("all => all.map((one) => one.value)")
    lossless = set()
    for name in names:
        # Not one for the example before, nor one that the page gives up for the next.
        with page.expect_request_finished(partial(_is_translation, page, name)) as asked:
            page.goto(f"{gateway.base_url}/ui/workbench?example={name}")
        answer = asked.value.response()
        assert answer is not None
        assert answer.status == 200, (name, answer.text())
        targets = answer.json()["targets"]
        assert len(targets) == len(CODECS) - 1
        if not any(target["losses"] for target in targets):
            lossless.add(name)
    assert lossless <= {"calls", "schema"}, lossless
    assert (problems.console, problems.elsewhere) == ([], [])


def test_what_is_sent_is_seen_frame_by_frame(
    page: Page, gateway: RunningGateway, problems: Problems
) -> None:
    sign_in(page, gateway, path="/workbench?example=tools")
    page.get_by_role("button", name="Send…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Scenario").fill("reasoning_tool")
    dialog.get_by_role("button", name="Send", exact=True).click()
    frames = page.get_by_role("region", name="Frames")
    expect(frames).to_contain_text("Attempt 1")
    expect(page.get_by_text("Answered with 200")).to_be_visible()
    expect(frames.get_by_text("message_stop")).to_have_count(1)
    expect(frames.get_by_text("reasoning_content").first).to_be_visible()

    page.get_by_role("button", name="Send…").click()
    dialog.get_by_label("By a route").check()
    dialog.get_by_label("Model").fill("chat/sim-text?text=seven")
    dialog.get_by_role("button", name="Send", exact=True).click()
    expect(frames).to_contain_text("seven")
    link = page.locator(".frames-panel .note a")
    expect(link).to_have_attribute("href", f"/ui/requests/{link.text_content()}")
    assert broken_rules(page) == []
    assert (problems.console, problems.elsewhere) == ([], [])
