"""A gateway with many accounts and some traffic, and a browser of Debian's that looks at it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, expect, sync_playwright

from dragoman.config import Account, Admin, Config, OwnPrice, Secret, Storage
from dragoman.lab.simulator.testing import running_simulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.clients import body
from tests.gateway.conftest import config_for
from tests.gateway.http import call

KEY = "operators-key-0123456789"
ODD = "<img src=x onerror=alert(1)>"
"""The name of an account, which is text and nothing else."""
MOST = 10_000
SCREENS = {
    "": ".chart svg",
    "/requests": "tbody tr",
    "/usage": "tbody tr",
    "/losses": ".panel",
    "/accounts?q=pool-0123": "tbody a, .accounts-list a",
    "/accounts/pool-00042?q=pool-00042": "aside .hist, aside dl",
    "/keys": "tbody tr",
    "/people": ".panel",
    "/mcp": ".panel",
    "/routes": "main input",
    "/workbench": ".ledger",
    "/clients": ".step",
    "/config": ".panel h2",
    "/config/reload": ".banner",
    "/config/prices?q=sim": "tbody tr, .empty",
    "/config/audit": "tbody tr",
}
"""The screens, and what is there when they are drawn."""

WAIT_MS = 60_000
"""For what a page shows in the end, on a machine that has other work for all of its cores."""
expect.set_options(timeout=WAIT_MS)

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class Problems:
    """What must not happen on a page: messages in its console, and requests to other hosts."""

    console: list[str]
    elsewhere: list[str]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """One that was asked for something that one account failed, and another answered."""
    path = tmp_path_factory.mktemp("dashboard") / "dragoman.db"
    store = Storage(path=str(path), key=Secret("a store key"))
    with (
        running_simulator() as simulator,
        running_gateway(_with_many(config_for(simulator.base_url), store)) as gateway,
    ):
        for model in ("chat/sim-text", "messages/sim-error?status=429", "messages/sim-text"):
            call(
                gateway.base_url,
                "POST",
                "/v1/chat/completions",
                body("chat", model, temperature=0.5),
            )
        yield gateway


def _with_many(config: Config, store: Storage) -> Config:
    upstream = config.accounts[0].upstream
    more = [
        Account(name=f"pool-{number:05}", upstream=upstream, key=Secret(f"sk-sim-p{number}"))
        for number in range(MOST - len(config.accounts) - 1)
    ]
    odd = Account(name=ODD, upstream=upstream, key=Secret("sk-sim-odd"))
    return replace(
        config,
        accounts=(*config.accounts, odd, *more),
        prices=(OwnPrice(model="priced-by-hand", input="3.25", output="12"),),
        storage=store,
        admin=Admin(key=Secret(KEY)),
    )


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The browser that is installed. What drives it runs an event loop, so it ends before tests of
    other folders begin theirs."""
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if program is None:
        if os.environ.get("DRAGOMAN_REQUIRE_SERVICES"):
            pytest.fail("Chromium is not installed")
        pytest.skip("Chromium is not installed (apt install chromium)")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def problems() -> Problems:
    """The problems of the page of this test."""
    return Problems([], [])


@pytest.fixture
def page(browser: Browser, gateway: RunningGateway, problems: Problems) -> Iterator[Page]:
    """A page of 1440 by 900 points that has nobody signed in."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.on("console", lambda message: problems.console.append(message.text))
    page.on("pageerror", lambda error: problems.console.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((gateway.base_url, "data:"))
            else problems.elsewhere.append(request.url)
        ),
    )
    yield page
    context.close()
