"""Usage and cost: its sums are those of the command line, of `/metrics` and of the overview."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from dragoman.cli import main
from dragoman.config import Admin, Client, OwnPrice, Secret, Storage, Team
from dragoman.config.limits import Limit
from dragoman.lab.simulator.testing import running_simulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.dashboard.conftest import KEY, Problems
from tests.dashboard.pages import ask, sign_in
from tests.gateway.clients import PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import call
from tests.gateway.services import until

ODD = "=<b>odd</b>"
"""The name of an end user, which is text and nothing else."""
ASKED: tuple[tuple[str, str, str, dict[str, str], str], ...] = (
    ("sk-of-ci", "chat", "chat/sim-text", {"user": ODD}, "nightly,main"),
    ("sk-of-ci", "messages", "messages/sim-text?input=900&cached=600", {}, "nightly"),
    ("sk-of-ann", "responses", "chat/sim-text?words=300", {"user": "ann"}, ""),
    ("sk-of-ann", "chat", "responses/sim-reasoning", {"user": "ann"}, ""),
    ("sk-of-ann", "chat", "chat/sim-text?status=400&fault=error", {}, ""),
)
STORE_KEY = "a store key for tests"
REQUESTS = 2 * len(ASKED)


@dataclass
class Spent:
    """A gateway that answered, and what the command line says of its store."""

    gateway: RunningGateway
    command: Callable[..., Any]


@pytest.fixture(scope="module")
def spent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spent]:
    """Two keys of a team have asked for models with a price, and for one without."""
    folder = tmp_path_factory.mktemp("spent")
    file = folder / "dragoman.toml"
    file.write_text(f'[storage]\npath = "{folder}/dragoman.db"\nkey = "{STORE_KEY}"\n')

    def command(*arguments: str) -> Any:
        found = CliRunner().invoke(main, [*arguments, "--json", "--config", str(file)])
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout)

    with running_simulator() as simulator:
        monthly = Limit(kind="cost", amount="0.05", window="month", mode="soft", unpriced="allow")
        clients = (
            Client(name="ci", key=Secret("sk-of-ci"), team="core", limits=(monthly,)),
            Client(name="ann", key=Secret("sk-of-ann"), team="core"),
        )
        config = replace(
            config_for(simulator.base_url, clients=clients),
            teams=(Team(name="core"),),
            prices=(
                OwnPrice(model="sim-text*", input="3.25", cached="0.325", output="12.5"),
                OwnPrice(model="sim-text?*", input="1.11", cached="0.07", output="7.77"),
            ),
            storage=Storage(
                path=f"{folder}/dragoman.db", key=Secret("a store key for tests"), sync_s=0.1
            ),
            admin=Admin(key=Secret(KEY)),
        )
        with running_gateway(config) as gateway:
            for key, api, model, more, tags in ASKED * 2:
                headers = {"x-dragoman-tags": tags} if tags else {}
                call(
                    gateway.base_url, "POST", PATHS[api], body(api, model, **more), headers, key=key
                )
            until(lambda: _total(gateway)["requests"] == REQUESTS, lambda: str(_total(gateway)))
            yield Spent(gateway, command)


@pytest.fixture(scope="module")
def gateway(spent: Spent) -> RunningGateway:
    """The gateway that the pages are of."""
    return spent.gateway


def _total(gateway: RunningGateway) -> Any:
    found: Any = ask(gateway, "GET", "usage?by=key")
    return found["total"]


def _saved(page: Page, kind: str) -> str:
    with page.expect_download() as download:
        page.get_by_role("button", name=kind).press("Enter")
    return download.value.path().read_text()


def _metric(gateway: RunningGateway, name: str) -> Decimal:
    text = call(gateway.base_url, "GET", "/metrics", key=KEY).body.decode()
    found = re.findall(rf"^{name}(?:{{[^}}]*}})? ([\d.e+-]+)$", text, re.MULTILINE)
    return sum((Decimal(value) for value in found), Decimal(0))


def test_sums_are_those_of_everybody(page: Page, spent: Spent, problems: Problems) -> None:
    """Of the command line, of the metrics, of the overview: to the last digit, not the cent."""
    gateway = spent.gateway
    sign_in(page, gateway, path="/usage")
    expect(page.locator("tfoot")).to_contain_text("Total")
    for by in ("key", "team", "user", "model", "upstream", "account"):
        page.get_by_label("Group", exact=True).select_option(by)
        expect(page.locator("th").first).to_have_text(by.capitalize())
        rows = list(csv.DictReader(_saved(page, "Save the rows shown as CSV").splitlines()))
        told = spent.command("usage", "--by", by)
        total = told["total"]
        assert {row[by].removeprefix("'"): row["cost_usd"] for row in rows} == {
            row["by"][by]: row["cost_usd"] for row in told["rows"]
        }
        assert sum(Decimal(row["cost_usd"]) for row in rows) == Decimal(total["cost_usd"])
        assert json.loads(_saved(page, "JSON"))["total"] == total
        shown = page.locator("tfoot td").nth(1)
        expect(shown).to_have_attribute("title", f"${total['cost_usd']}")
    assert Decimal(total["cost_usd"]) > 0
    metrics = {
        "cost_usd": "dragoman_cost_usd_total",
        "unpriced": "dragoman_unpriced_requests_total",
        "requests": "dragoman_key_requests_total",
    }
    until(lambda: _metric(gateway, metrics["requests"]) == total["requests"])
    for field, metric in metrics.items():
        assert _metric(gateway, metric) == Decimal(str(total[field])), field
    tokens = {
        kind: _metric(gateway, rf'dragoman_tokens_total{{[^}}]*kind="{kind}"}}')
        for kind in ("input", "cached", "output")
    }
    assert tokens == {kind: total[kind] for kind in tokens}
    series: Any = {}

    def counted() -> bool:
        nonlocal series
        series = ask(gateway, "GET", "series")
        return bool(sum(n or 0 for n in series["unpriced"]) == total["unpriced"])

    until(counted)
    outcomes = series["requests"].values()
    assert sum(n or 0 for values in outcomes for n in values) == total["requests"]
    assert sum(Decimal(one or 0) for one in series["cost_usd"]) == Decimal(total["cost_usd"])
    assert (problems.console, problems.elsewhere) == ([], [])


def test_a_group_opens_into_another(page: Page, spent: Spent, problems: Problems) -> None:
    sign_in(page, spent.gateway, path="/usage")
    rows = page.locator(".usage-table tbody tr")
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="ci", exact=True).click()
    expect(page).to_have_url(f"{spent.gateway.base_url}/ui/usage?by=model&key=ci")
    expect(page.locator("tfoot td").nth(3)).to_have_text("4")
    page.reload()
    expect(page.locator("tfoot td").nth(3)).to_have_text("4")
    rows.first.get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"/ui/requests\?key=ci&model="))
    page.go_back()
    page.get_by_role("button", name="Show every key").click()
    expect(page.locator("tfoot td").nth(3)).to_have_text(str(REQUESTS))
    page.get_by_label("Group", exact=True).select_option("user")
    expect(page.get_by_role("button", name=ODD, exact=True)).to_be_visible()
    page.get_by_label("Group", exact=True).select_option("tag")
    expect(page.locator(".table-foot")).to_contain_text("counts for each of them")
    assert page.locator("main b", has_text="odd").count() == 0
    assert (problems.console, problems.elsewhere) == ([], [])


def test_what_has_no_price_is_named(page: Page, spent: Spent) -> None:
    sign_in(page, spent.gateway, path="/usage?by=upstream")
    note = page.get_by_label("Answers without a price")
    expect(note).to_contain_text("2 answers of responses/sim-reasoning at responses.")
    of_upstream = page.locator(".usage-table tbody tr", has_text="responses")
    expect(of_upstream.get_by_label("unknown: no price is known")).to_be_visible()
    note.get_by_role("link").click()
    expect(page.locator(".steps")).to_contain_text("the name begins with the upstream's")


def test_what_will_be_spent_is_projected(page: Page, spent: Spent) -> None:
    sign_in(page, spent.gateway, path="/usage")
    budget = page.locator("section", has=page.get_by_role("heading", name="Budgets"))
    row = budget.locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text(re.compile(r"ci key\s*cost, month.* of \$0\.05"))
    expect(row.locator("td").last).to_have_text(re.compile(r"^\s*(\$[\d.]+|< \$0\.0001)\s*$"))
    figure = page.locator(".figure", has_text="In 30 days, at this rate")
    expect(figure).to_contain_text(re.compile(r"\$\d.*as since"))
    page.goto(f"{spent.gateway.base_url}/ui/usage?key=ann")
    expect(page.locator("tfoot td").nth(3)).to_have_text("6")
    expect(budget).to_have_count(0)


def test_a_time_is_chosen(page: Page, spent: Spent) -> None:
    sign_in(page, spent.gateway, path="/usage")
    chart = page.get_by_role("img", name=re.compile("^Cost by hour: "))
    expect(chart.locator("path").first).to_be_visible()
    page.get_by_role("button", name="30 d").click()
    expect(page.get_by_role("img", name=re.compile(r"^Cost by day: "))).to_be_visible()
    page.get_by_role("button", name="Tokens", exact=True).click()
    page.get_by_role("button", name="Tokens by day as a table").click()
    whole = page.get_by_role("region", name="Tokens by day as a table").locator("tbody tr")
    expect(whole).to_have_count(30)
    page.get_by_label("To", exact=True).fill("2020-02-29")
    page.get_by_label("From", exact=True).fill("2020-02-28")
    expect(page.get_by_text("Nothing was used in this time.")).to_be_visible()
    expect(page).to_have_url(re.compile(r"to=2020-02-29&from=2020-02-28"))
    page.get_by_role("button", name="24 h").click()
    expect(page.locator("tfoot td").nth(3)).to_have_text(str(REQUESTS))


def test_days_are_those_of_the_zone_that_is_shown(page: Page, spent: Spent) -> None:
    zone = {"timezoneId": "Asia/Kathmandu"}
    page.context.new_cdp_session(page).send("Emulation.setTimezoneOverride", zone)
    with page.expect_request(re.compile(r"/usage\?.*zone=Asia%2FKat.*by=day")):
        sign_in(page, spent.gateway, path="/usage?t=30d&show=requests")
    page.get_by_role("button", name="Requests by day as a table").click()
    rows = page.get_by_role("region", name="Requests by day as a table").locator("tbody tr")
    expect(rows).to_have_count(30)
    counts = rows.locator("td:not(:first-child)").all_inner_texts()
    assert sum(map(int, counts)) == REQUESTS
    with page.expect_request(re.compile(r"/usage\?.*zone=UTC.*by=day")):
        page.get_by_role("button", name=re.compile("^Times in")).click()


def test_a_viewer_sees_it_and_saves_nothing(page: Page, spent: Spent) -> None:
    made: Any = ask(spent.gateway, "POST", "admins", {"name": "wall", "role": "viewer"})
    sign_in(page, spent.gateway, made["secret"], "/usage")
    expect(page.locator("tfoot")).to_contain_text("Total")
    assert page.get_by_role("button", name=re.compile("CSV|JSON")).count() == 0
