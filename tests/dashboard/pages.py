"""Signing in to the page, and what the administration answers beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
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


def load_axe(page: Page) -> None:
    """Load what finds broken rules of accessibility. Skips the test where it is not installed; with
    DRAGOMAN_REQUIRE_SERVICES=1 fails instead."""
    if not AXE.exists():
        reason = "axe-core is not installed (run `make node`)"
        if os.environ.get("DRAGOMAN_REQUIRE_SERVICES"):
            pytest.fail(reason)
        pytest.skip(reason)
    page.evaluate(AXE.read_text())


def broken_rules(page: Page) -> object:
    """The rules of accessibility that a page breaks badly as it is."""
    load_axe(page)
    return page.evaluate(
        "axe.run({resultTypes: ['violations']}).then((found) => found.violations"
        ".filter((one) => ['serious', 'critical'].includes(one.impact))"
        ".map((one) => one.id + ': ' + one.nodes.map((node) => node.failureSummary)))"
    )
