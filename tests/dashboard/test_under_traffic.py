"""Every screen while clients ask, and upstreams refuse, limit, fail, hang and tear answers."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, expect

from dragoman.config import Account, Admin, Client, OwnPrice, Secret, Storage, Timeouts
from dragoman.lab.simulator.testing import running_simulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.dashboard.conftest import KEY, MOST, ODD, SCREENS, WAIT_MS
from tests.dashboard.pages import ask, load_axe, sign_in
from tests.gateway.clients import PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import KEY as CLIENT
from tests.gateway.http import call
from tests.gateway.services import until

SICK = {0: "429", 1: "401", 2: "500", 3: "truncate", 4: "silence", 5: "529"}
"""What keys of accounts do, of each twelve."""
ASKED = (
    ("chat", "chat/sim-text"),
    ("messages", "chat/sim-text?words=40&delay_ms=5"),
    ("responses", "messages/sim-reasoning"),
    ("chat", "messages/sim-text?fault=truncate&after=3"),
    ("chat", "responses/sim-text?status=400&fault=error"),
    ("messages", "messages/sim-text?fault=silence&ms=20000"),
    ("responses", "responses/sim-tool"),
    ("chat", "chat/sim-text?fault=error&status=500"),
    ("chat", f"none/{ODD}"),
)
PAUSE_S = 0.2
"""Between the requests of a client: the browser shares the processors with all of them."""
WIDTHS = {"wide": (1440, 900), "phone": (390, 844)}
NARROWER = {"wide": 1024, "phone": 320}
WIDER = """(wide) => document.documentElement.scrollWidth <= wide ? [] :
  [...document.querySelectorAll('body *')].filter((one) => !one.children.length
    && one.getBoundingClientRect().right > wide).slice(0, 4)
  .map((one) => `${one.parentElement.outerHTML.slice(0, 80)} ${one.outerHTML.slice(0, 200)}`)"""
"""The innermost elements that reach over the right edge of a page that is too wide."""
FOUND = """(rules) => axe.run({resultTypes: ['violations'], ...rules}).then((all) => all.violations
  .filter((one) => ['serious', 'critical'].includes(one.impact))
  .map((one) => one.id + ': ' + one.nodes.map((node) => node.target).join(' ')))"""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway whose clients ask until the last of these tests has ended."""
    path = tmp_path_factory.mktemp("busy") / "dragoman.db"
    stop = threading.Event()
    with running_simulator() as simulator:
        config = config_for(
            simulator.base_url, timeouts=Timeouts(connect_s=2, first_byte_s=1.5, idle_s=1.5)
        )
        names = [upstream.name for upstream in config.upstreams]
        pool = tuple(
            Account(
                name=f"pool-{number:05}",
                upstream=names[number % 3],
                key=Secret(f"sk-sim-{SICK.get(number // 3 % 12, 'p')}-{number}"),
            )
            for number in range(MOST - 1)
        )
        odd = Account(name=ODD, upstream=names[0], key=Secret("sk-sim-odd"))
        config = replace(
            config,
            accounts=(*pool, odd),
            clients=(*config.clients, Client(name="bench", key=Secret("sk-the-bench-key"))),
            prices=(OwnPrice(model="sim-text", input="3.25", output="12"),),
            storage=Storage(path=str(path), key=Secret("a store key"), sync_s=0.2),
            admin=Admin(key=Secret(KEY)),
        )
        with running_gateway(config) as gateway:
            ask(gateway, "POST", "teams", {"name": "platform"})
            ask(gateway, "POST", "teams/platform/limits", _LIMIT)
            clients = [
                threading.Thread(target=_use, args=(gateway, stop, number)) for number in range(3)
            ]
            for client in clients:
                client.start()
            try:
                yield gateway
            finally:
                stop.set()
                for client in clients:
                    client.join()


_LIMIT = {"kind": "requests", "amount": 500, "window": "day"}


def _use(gateway: RunningGateway, stop: threading.Event, first: int) -> None:
    for number in itertools.count(first):
        if stop.wait(PAUSE_S):
            return
        api, model = ASKED[(number * 4) % len(ASKED)]
        made = body(api, model, stream=number % 2 == 0, temperature=0.5)
        agent = {"user-agent": ("opencode/1.0", "claude-cli/2.1.0", ODD)[number % 3]}
        call(gateway.base_url, "POST", PATHS[api], made, agent, key=CLIENT)


def _kinds(gateway: RunningGateway) -> set[str]:
    found: Any = ask(gateway, "GET", "requests?limit=500")
    return {row["error"] for row in found["rows"] if row["error"]}


def test_the_log_tells_of_all_that_goes_wrong(busy: RunningGateway) -> None:
    """Before screens are judged by what they show of it."""
    until(lambda: len(_kinds(busy)) >= 4, lambda: str(_kinds(busy)))
    accounts: Any = ask(busy, "GET", "accounts/table")
    assert len(accounts["columns"]["name"]) == MOST
    until(lambda: {"cooling", "disabled"} <= _states(busy), lambda: str(_states(busy)))


def _states(gateway: RunningGateway) -> set[str]:
    table: Any = ask(gateway, "GET", "accounts/table")
    return set(table["columns"]["state"])


class Looked:
    """A page of one width, and the messages of its console."""

    def __init__(self, browser: Browser, width: str) -> None:
        wide, high = WIDTHS[width]
        self._context = browser.new_context(
            viewport={"width": wide, "height": high},
            reduced_motion="reduce",  # else colours take a while to change
        )
        self._messages: list[str] = []
        self._asked: list[str] = []

    def __enter__(self) -> tuple[Page, Callable[[RunningGateway], list[str]]]:
        page = self._context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda message: self._messages.append(message.text))
        page.on("pageerror", lambda error: self._messages.append(str(error)))
        page.on("request", lambda request: self._asked.append(request.url))
        return page, self._faults

    def _faults(self, gateway: RunningGateway) -> list[str]:
        own = (gateway.base_url, "data:")
        return [*self._messages, *(url for url in self._asked if not url.startswith(own))]

    def __exit__(self, *_: object) -> None:
        self._context.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_all_screens_can_be_read(busy: RunningGateway, browser: Browser, width: str) -> None:
    """Light and dark. Nothing is wider than the page, no rule of accessibility is broken badly, no
    text from outside became markup, no error was logged, and no other host was asked."""
    broken = []
    found: Any = ask(busy, "GET", "requests?limit=500")
    request = max(found["rows"], key=lambda row: row["attempts"])["id"]
    more = {
        f"/requests/{request}": ".lanes",
        "/routes?model=chat/sim-text": ".steps",
        "/keys/team/platform": ".limit-list",
    }
    with Looked(browser, width) as (page, faults):
        sign_in(page, busy, path="/config")
        page.locator(SCREENS["/config"]).first.wait_for()
        for path, drawn in (SCREENS | more).items():
            page.goto(f"{busy.base_url}/ui{path}")
            page.locator(drawn).locator("visible=true").first.wait_for()
            expect(page.get_by_text("Loading…")).to_have_count(0)
            assert page.locator("main img").count() == 0, path
            for across in (NARROWER[width], WIDTHS[width][0]):
                page.set_viewport_size({"width": across, "height": WIDTHS[width][1]})
                if (most := page.evaluate("document.documentElement.scrollWidth")) > across:
                    broken.append((path, f"{most} wide, on {across}"))
            load_axe(page)
            page.emulate_media(color_scheme="light")
            broken += [(path, one) for one in page.evaluate(FOUND, {})]
            if width == "wide":  # dark differs in its colours alone, which are those of all widths
                page.emulate_media(color_scheme="dark")
                found = page.evaluate(FOUND, {"runOnly": ["color-contrast"]})
                broken += [(path, f"dark: {one}") for one in found]
        # The browser itself tells of an answer that is no success: there is no file to reload.
        problems = [one for one in faults(busy) if "409" not in one]
    assert (broken, problems) == ([], [])


CLICKED = """async () => {
  const wait = () => new Promise((done) => setTimeout(done, 40));
  const all = [...document.querySelectorAll('main button')];
  for (const one of all) {
    if (!one.isConnected) continue;
    one.click();
    await wait();
    for (const dialog of document.querySelectorAll('dialog[open]'))
      dialog.querySelector('form').requestSubmit();
    await wait();
    for (const dialog of document.querySelectorAll('dialog[open]')) dialog.close();
  }
  return all.length;
}"""
ASKS_ONLY = ("/admin/translate",)


def test_a_viewer_finds_no_way_to_change_anything(busy: RunningGateway, browser: Browser) -> None:
    """Whatever is there to be pressed is pressed, and each dialog that comes is sent."""
    made: Any = ask(busy, "POST", "admins", {"name": "wall", "role": "viewer"})
    before: Any = ask(busy, "GET", "audit?limit=1")
    written: list[str] = []
    with Looked(browser, "wide") as (page, faults):
        sign_in(page, busy, made["secret"], path="/config")
        page.locator(SCREENS["/config"]).first.wait_for()
        page.on(
            "request",
            lambda request: written.append(request.url) if request.method != "GET" else None,
        )
        pressed = 0
        for path, drawn in SCREENS.items():
            page.goto(f"{busy.base_url}/ui{path}")
            page.locator(drawn).first.wait_for()
            page.keyboard.press("e")
            page.keyboard.press("d")
            page.keyboard.press("t")
            pressed += page.evaluate(CLICKED)
        assert pressed > 40
        assert [url for url in written if not url.endswith(ASKS_ONLY)] == []
        # The browser itself tells of an answer that is no success.
        assert [one for one in faults(busy) if "Failed to load resource" not in one] == []
    after: Any = ask(busy, "GET", "audit?limit=5")
    new = [line for line in after["changes"] if line["id"] > before["changes"][0]["id"]]
    assert [line["action"] for line in new] == ["sign_in"]


def test_the_overview_tells_of_what_goes_wrong(busy: RunningGateway, browser: Browser) -> None:
    with Looked(browser, "wide") as (page, faults):
        sign_in(page, busy, path="/requests?error=*")
        expect(page.locator("tbody tr").first).to_be_visible()
        page.goto(f"{busy.base_url}/ui")
        kinds = page.locator("section", has=page.get_by_role("heading", name="Errors by kind"))
        expect(kinds.get_by_role("link").nth(2)).to_be_visible()
        expect(page.get_by_label("Needs attention")).to_contain_text("disabled.")
        assert faults(busy) == []


def test_an_account_tells_what_it_was_used_for(busy: RunningGateway, browser: Browser) -> None:
    def names() -> list[str]:
        used: Any = ask(busy, "GET", "usage?by=account&upstream=chat")
        return [row["by"]["account"] for row in used["rows"] if float(row["cost_usd"])]

    # What was used is written to the store now and then.
    until(lambda: bool(names()), lambda: "nothing was used")
    with Looked(browser, "wide") as (page, faults):
        sign_in(page, busy, path=f"/accounts/{names()[0]}")
        facts = page.get_by_role("complementary").locator("dt")
        for fact, pattern in (
            ("Tokens in, cached", r"[1-9][\d.]*( [kM])?, \d+ %"),
            ("Tokens out", r"[1-9][\d.]*( [kM])?"),
            ("Cost at list price", r"\$\d+\.\d+|< \$0\.0001"),
        ):
            value = facts.filter(has_text=re.compile(f"^{fact}$")).locator("+ dd")
            expect(value).to_have_text(re.compile(f"^({pattern})$"))
        assert faults(busy) == []


def test_latencies_are_drawn_by_their_magnitude(busy: RunningGateway, browser: Browser) -> None:
    with Looked(browser, "wide") as (page, faults):
        sign_in(page, busy, path="/overview")
        chart = page.get_by_role("img", name=re.compile("^Duration:"))
        expect(chart.locator("path.ln").first).to_be_visible()
        ticks = chart.locator("text[text-anchor=end]").filter(has_text=re.compile(r"^[\d.]+ m?s$"))
        seconds = [
            float(text.split()[0]) / (1000 if text.endswith("ms") else 1)
            for text in ticks.all_text_contents()
        ]
        steps = [high / low for low, high in pairwise(seconds)]
        assert len(steps) >= 2
        assert all(2.9 < step < 10.1 for step in steps)
        assert faults(busy) == []
