"""Signing in to the page, and what the administration answers beside it."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import Page

from dragoman.server.testing import RunningGateway
from tests.dashboard.conftest import KEY
from tests.gateway.http import call

AXE = Path(__file__).parents[1] / "node" / "node_modules" / "axe-core" / "axe.min.js"


def ask(gateway: RunningGateway, method: str, path: str, body: object = None) -> object:
    """What the administration answers."""
    made = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    answer = call(gateway.base_url, method, f"/admin/{path}", made, headers, key=KEY)
    assert answer.status < 300, answer.body
    return answer.json


def sign_in(page: Page, gateway: RunningGateway, key: str = KEY, path: str = "/accounts") -> None:
    page.goto(f"{gateway.base_url}/ui{path}")
    page.get_by_label("Admin key").fill(key)
    page.keyboard.press("Enter")


def broken_rules(page: Page) -> object:
    """The rules of accessibility that a page breaks badly as it is."""
    page.evaluate(AXE.read_text())
    return page.evaluate(
        "axe.run({resultTypes: ['violations']}).then((found) => found.violations"
        ".filter((one) => ['serious', 'critical'].includes(one.impact))"
        ".map((one) => one.id + ': ' + one.nodes.map((node) => node.failureSummary)))"
    )
