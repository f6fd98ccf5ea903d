"""`python -m tools.dashboard.pictures FOLDER`: each screen of the dashboard, light, dark and on a
phone, of a gateway that has clients, failures and losses."""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from playwright.sync_api import Browser, Page, sync_playwright

from dragoman.config import Account, Admin, Config, OwnPrice, Secret, Storage
from dragoman.lab.simulator import Failure, Fault
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.storage.series import SLOT_S, SeriesFile, merged
from tests.dashboard.conftest import _BROWSERS, KEY
from tests.gateway.clients import PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import call
from tests.gateway.services import services

TRAFFIC_S = 100.0
_PROGRAMS = ("claude-cli/2.1.0", "codex_cli_rs/0.80.0", "opencode/1.0.1", "OpenAI/Python 2.8.1")
_WIDTHS = {"": (1440, 900, "light"), "-dark": (1440, 900, "dark"), "-phone": (390, 844, "light")}
_POOL = 60
_SLOW = "chat/sim-text?first_ms=400&delay_ms=60"
_MODELS = (
    ("chat/sim-text?delay_ms=20", 60),
    ("messages/sim-text?words=40&delay_ms=10", 60),
    ("responses/sim-text?input=900&cached=600", 30),
    ("messages/sim-text?input=4000&cached=3600", 40),
    ("messages/sim-reasoning", 30),
    ("messages/sim-error?status=429", 1),
    ("chat/sim-error?status=500", 1),
    (_SLOW, 20),
)


def _secret(name: str, number: int) -> str:
    """Of an account that answers, or of one that is overloaded or refused."""
    sick = {3: "529", 9: "401"}.get(number)
    return f"sk-sim-{sick or ('a' if name == 'chat' else 'max')}-{name}-{number}"


def spend(simulator: RunningSimulator) -> None:
    """Let some accounts have used up one of their windows."""
    start, now = "anthropic-ratelimit-unified-", int(time.time())
    for number, window, left_s in ((4, "5h", 4300), (7, "7d", 190_000), (11, "5h", 9100)):
        told = {
            f"{start}5h-utilization": "0.31",
            f"{start}5h-reset": str(now + 2900),
            f"{start}7d-utilization": "0.64",
            f"{start}7d-reset": str(now + 290_000),
            f"{start}status": "rejected",
            f"{start}{window}-status": "rejected",
            f"{start}{window}-utilization": "1.0",
            f"{start}{window}-reset": str(now + left_s),
        }
        fault = Fault("error", failure=Failure(429))
        behaviour = KeyBehaviour(fault, headers=tuple(told.items()))
        simulator.app.keys.behaviours[_secret("messages", number)] = behaviour


def remember(path: Path) -> None:
    """Put two hours like what was counted lately before it, as if the gateway had served then."""
    now = time.time()
    file, made = SeriesFile(path), SeriesFile(path.with_name("made"))
    lately = [slots for _, slots in file.read(now - TRAFFIC_S, now, now) if slots]
    rng, begin = random.Random(7), int(now - TRAFFIC_S) // SLOT_S * SLOT_S
    for at in range(begin - 2 * 3600, begin, SLOT_S):
        # One or two of what was counted in as many seconds: the load goes up and down.
        several = rng.choices(lately, k=1 + (math.sin(at / 700) + rng.random() > 1.2))
        made.write(at, merged(several))
    for at, slots in file.read(begin, now, now):
        made.write(at, slots)
    os.replace(made.path, file.path)


def config(url: str, folder: Path) -> Config:
    """Some pools of accounts, prices, and who may look."""
    made = config_for(url)
    names = ("chat", "messages", "responses")
    more = [
        Account(name=f"{name}-{number:02}", upstream=name, key=Secret(_secret(name, number)))
        for name in names
        for number in range(_POOL // len(names))
    ]
    prices = tuple(OwnPrice(model=one, input="2.5", output="10") for one in ("sim-*", "sim-*?*"))
    return replace(
        made,
        accounts=(*made.accounts, *more),
        prices=prices,
        storage=Storage(path=str(folder / "dragoman.db"), key=Secret("a store key"), sync_s=0.2),
        admin=Admin(key=Secret(KEY)),
    )


def administer(gateway: RunningGateway, path: str, given: dict[str, Any]) -> Any:
    """Ask for a change."""
    headers = {"content-type": "application/json"}
    data = json.dumps(given).encode()
    return call(gateway.base_url, "POST", f"/admin/{path}", data, headers, key=KEY).json


def people(gateway: RunningGateway) -> list[str]:
    """Teams and keys with limits; returns the keys' secrets."""
    for team in ("platform", "research"):
        administer(gateway, "teams", {"name": team})
    monthly = {"kind": "cost", "amount": "400", "window": "month"}
    administer(gateway, "teams/platform/limits", monthly)
    secrets = []
    for name, team, limits in (
        ("ci-nightly", "platform", [("requests", 900, "hour"), ("output_tokens", 20_000, "day")]),
        ("code-review", "platform", [("tokens", 900_000, "5h")]),
        ("notebooks", "research", [("requests", 160, "1m")]),
        ("support-bot", "research", []),
    ):
        secrets.append(administer(gateway, "keys", {"name": name, "team": team})["secret"])
        for kind, amount, window in limits:
            limit = {"kind": kind, "amount": amount, "window": window}
            administer(gateway, f"keys/{name}/limits", limit)
    time.sleep(0.5)
    return secrets


def use(gateway: RunningGateway, secrets: list[str], stop: threading.Event) -> None:
    """Requests of all kinds, until told to stop."""
    rng = random.Random(5)
    models = [model for model, often in _MODELS for _ in range(often)]
    while not stop.is_set():
        api = rng.choice(("chat", "chat", "messages", "responses"))
        more: dict[str, Any] = {"temperature": 0.4}
        if api == "chat":
            more |= {"logit_bias": {"50256": -100}, "presence_penalty": 0.2}
        made = body(api, rng.choice(models), stream=rng.random() < 0.4, **more)
        program = {"user-agent": rng.choice(_PROGRAMS)}
        data = json.dumps(made).encode()
        headers = {"content-type": "application/json", **program}
        call(gateway.base_url, "POST", PATHS[api], data, headers, key=rng.choice(secrets))
        time.sleep(rng.random() * 0.1)


def _wait(page: Page) -> None:
    page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")
    page.wait_for_timeout(900)


def _failed_request(page: Page) -> None:
    page.locator("tbody tr", has_text="messages/sim-error").first.get_by_role("link").first.click()


def _key(page: Page) -> None:
    page.get_by_text("ci-nightly").first.click()


def _route(page: Page) -> None:
    page.get_by_label("Model", exact=True).fill("messages/sim-reasoning")
    page.keyboard.press("Enter")


def _retried_request(page: Page) -> None:
    tried = page.locator("tbody tr", has_text="tried").filter(has_text="first_ms")
    page.get_by_role("button", name="Pause").click()
    (tried if tried.count() else page.locator("tbody tr")).first.get_by_role("link").first.click()


def _one_account(page: Page) -> None:
    find = page.get_by_label("Filter accounts")
    find.fill("messages-04")
    page.locator("tbody a, .accounts-list a").first.click()
    if find.is_visible():  # on a phone the list is not
        find.fill("")


def _disable(page: Page) -> None:
    boxes = page.locator("tbody input[type=checkbox]")
    page.get_by_label("Filter accounts").fill("responses-0")
    if not boxes.count():  # as on a phone, where one is opened first
        page.locator(".accounts-list a", has_text="responses-07").click()
    for at in range(min(3, boxes.count())):
        boxes.nth(at).check()
    page.get_by_role("button", name="Disable…").first.click()


def _import(page: Page) -> None:
    page.get_by_role("button", name="Import…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("List").fill(
        "name,upstream,key\nmessages-new-1,messages,sk-ant-one\n"
        "messages-01,messages,sk-ant-two\nbroken,nowhere,sk-ant-three\n,messages,sk-ant-four\n"
    )
    dialog.get_by_role("button", name="Preview").click()


def _send(page: Page) -> None:
    page.get_by_role("button", name="Send…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Scenario").fill("reasoning_tool")
    dialog.get_by_role("button", name="Send", exact=True).click()
    page.get_by_text("Answered with 200").wait_for()
    page.get_by_role("region", name="Frames").scroll_into_view_if_needed()


def _make_key(page: Page) -> None:
    page.get_by_role("button", name="Create a key…").click()


def _prices(page: Page) -> None:
    page.get_by_label("Find prices").fill("sim")


def _nothing(page: Page) -> None:
    return


SCREENS: dict[str, tuple[str, Callable[[Page], None]]] = {
    "overview": ("", _nothing),
    "accounts": ("accounts", _nothing),
    "requests": ("requests", _nothing),
    "request": ("requests?error=*", _failed_request),
    "keys": ("keys", _key),
    "routes": ("routes", _route),
    "losses": ("losses", _nothing),
    "usage": ("usage?t=24h", _nothing),
    "workbench": ("workbench", _nothing),
    "clients": ("clients", _nothing),
    "configuration": ("config", _nothing),
    "account": ("accounts", _one_account),
    "disable": ("accounts", _disable),
    "import": ("accounts", _import),
    "retried": (
        "requests?model=chat%2Fsim-text%3Ffirst_ms%3D400%26delay_ms%3D60",
        _retried_request,
    ),
    "new-key": ("keys", _make_key),
    "sent": ("workbench", _send),
    "prices": ("config/prices", _prices),
    "audit": ("config/audit", _nothing),
    "empty": ("requests?error=nothing-of-the-kind", _nothing),
}


def take(browser: Browser, gateway: RunningGateway, folder: Path, names: list[str]) -> None:
    """Take the pictures."""
    for suffix, (width, height, scheme) in _WIDTHS.items():
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.goto(f"{gateway.base_url}/ui/config")
        page.get_by_label("Admin key").fill(KEY)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Sign out").locator("visible=true").first.wait_for()
        for name in names:
            path, act = SCREENS[name]
            page.goto(f"{gateway.base_url}/ui/{path}")
            _wait(page)
            act(page)
            _wait(page)
            page.screenshot(path=folder / f"{name}{suffix}.png")
        context.close()


MORE = """
[[routes]]
match = "gpt-6*"
upstream = "chat"
model = "sim-text"
[[accounts]]
name = "two"
upstream = "chat"
key = "sk-sim-two"
"""


def take_reload(browser: Browser, url: str, folder: Path) -> None:
    """Take the pictures of a file that says what is not served yet."""
    with tempfile.TemporaryDirectory() as name, services(Path(name), url) as running:
        running.start(settings=f'shutdown_grace_s = 1\n[admin]\nkey = "{KEY}"')
        file = running.folder / "gateway-0.toml"
        file.write_text(file.read_text() + MORE)
        for suffix, (width, height, scheme) in _WIDTHS.items():
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
            )
            page = context.new_page()
            page.goto(f"{running.url}/ui/config/reload")
            page.get_by_label("Admin key").fill(KEY)
            page.keyboard.press("Enter")
            page.get_by_role("button", name="Reload…").wait_for()
            page.screenshot(path=folder / f"reload{suffix}.png")
            context.close()


def main() -> None:
    """Serve, use and look."""
    parser = argparse.ArgumentParser(prog="tools.dashboard.pictures", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("screens", nargs="*", choices=[[], *SCREENS], default=[])
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    program = next(filter(None, map(shutil.which, _BROWSERS)))
    with (
        tempfile.TemporaryDirectory() as name,
        running_simulator() as simulator,
        running_gateway(config(simulator.base_url, Path(name))) as gateway,
        sync_playwright() as playwright,
    ):
        stop = threading.Event()
        client = threading.Thread(target=use, args=(gateway, people(gateway), stop))
        spend(simulator)
        client.start()
        time.sleep(TRAFFIC_S)
        remember(Path(name) / "dragoman.db-series")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        take(browser, gateway, chosen.folder, chosen.screens or list(SCREENS))
        take_reload(browser, simulator.base_url, chosen.folder)
        browser.close()
        stop.set()
        client.join()


if __name__ == "__main__":
    main()
