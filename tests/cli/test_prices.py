"""`dragoman prices` and `dragoman usage --cost`, on a store."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from dragoman.accounts.store import Batch, ChargeCount, ChargeKey, UsageCount, UsageKey
from dragoman.cli import main
from dragoman.config import read_config
from dragoman.lab.prices.making import Text, make_from
from dragoman.lab.prices.pages import PAGES
from dragoman.prices.loading import load_table
from dragoman.prices.table import make_table, read_table, write_table
from dragoman.storage.sqlite import SqliteStore
from tests.cli.conftest import Shop
from tests.upstream.conftest import self_signed

HOUR = int(time.time()) // 3600 * 3600
WHO = (HOUR, "fixed", "me", "gpt", "/v1/chat/completions")
OWN = """
[[prices]]
model = "sim-*"
input = "2"
output = "10"
"""


def counted(shop: Shop, *charges: tuple[ChargeKey, ChargeCount]) -> None:
    """Put charges into the store, and usage for each."""
    store = SqliteStore(shop.folder / "dragoman.db")
    usage = {UsageKey(*WHO): UsageCount(requests=sum(count.requests for _, count in charges))}
    store.exchange("w", Batch(usage=usage, charges=dict(charges)), 0)
    store.close()


def key(tier: str = "", above: int = 0, prices: str = "", model: str = "sim-text") -> ChargeKey:
    return ChargeKey(*WHO, "chat", model, tier, above, prices)


def test_usage_tells_its_cost(shop: Shop) -> None:
    counted(
        shop,
        (key(prices="v"), ChargeCount(requests=2, input=10, cost=1_500_000)),
        (key(model="odd"), ChargeCount(requests=3, unpriced=3, input=10)),
    )
    report = json.loads(shop.run("usage", "--by", "client", "--cost", "--json").stdout)
    (row,) = report["rows"]
    assert (row["by"], row["requests"]) == ({"client": "me"}, 5)
    assert (row["cost_usd"], row["unpriced"]) == ("0.0000015", 3)
    assert report["total"]["cost_usd"] == "0.0000015"
    heading, line, total = shop.run("usage", "--cost").stdout.splitlines()
    assert heading.split()[-3:] == ["COST", "USD", "UNPRICED"]
    assert line.split()[-2:] == total.split()[-2:] == ["0.0000015", "3"]
    assert "COST" not in shop.run("usage").stdout
    table = shop.run("usage", "--cost", "--csv").stdout.splitlines()
    assert table[0].endswith(",milliseconds,cost_usd,unpriced")
    assert table[1].endswith(",0.0000015,3")


def test_what_was_counted_is_priced_anew(shop: Shop) -> None:
    counted(
        shop,
        (key(), ChargeCount(requests=2, unpriced=2, input=1000, cached=500, output=10)),
        (key(prices="old"), ChargeCount(requests=1, input=1000, output=10, cost=7)),
        (key(model="odd"), ChargeCount(requests=1, unpriced=1, input=1)),
        (key(model="(other)", prices="old"), ChargeCount(requests=1, input=1, cost=5)),
    )
    shop.file.write_text(shop.file.read_text() + OWN)
    plan = json.loads(shop.run("prices", "reprice", "--dry-run", "--json").stdout)
    assert (plan["rows"], plan["changed"], plan["unpriced"]) == (4, 2, 1)
    assert (plan["before_usd"], plan["after_usd"]) == ("0.000000000012", "0.004200000005")
    assert "0.000000000012" in shop.run("usage", "--cost").stdout, "a dry run changes nothing"
    told = shop.run("prices", "reprice").stdout
    assert "2 of 4 rows are priced anew" in told
    assert "1 answer without a known price" in told
    report = json.loads(shop.run("usage", "--json").stdout)
    assert (report["total"]["cost_usd"], report["total"]["unpriced"]) == ("0.004200000005", 1)
    assert report["total"]["requests"] == 5
    # Rows that are priced by the same table now are one; once more changes nothing.
    again = json.loads(shop.run("prices", "reprice", "--json").stdout)
    assert (again["rows"], again["changed"]) == (3, 0)
    assert again["before_usd"] == again["after_usd"] == "0.004200000005"


def test_what_is_added_up_by_the_day_has_no_price_of_hours(shop: Shop) -> None:
    """What was used in them is not told apart any more."""
    day = (HOUR // 86400 - 70) * 86400
    old = replace(key(prices="old"), hour=day)
    recent = replace(old, hour=HOUR // 86400 * 86400)
    steady = replace(old, priced_as="steady")
    count = ChargeCount(requests=1, input=1000, cost=7)
    counted(shop, (old, count), (recent, count), (steady, count))
    hours = OWN + OWN.replace("2", "4") + 'hours = "12:00-13:00"\n'
    shop.file.write_text(shop.file.read_text() + hours + OWN.replace("sim-*", "steady"))
    told = json.loads(shop.run("prices", "reprice", "--since", "80d", "--json").stdout)
    assert (told["rows"], told["changed"]) == (3, 2)
    assert told["after_usd"] == "0.004000000007"


def test_prices_are_shown(shop: Shop) -> None:
    shop.file.write_text(shop.file.read_text() + OWN)
    told = shop.run("prices", "show").stdout
    assert "chat: no list applies" in told
    assert "from genai-prices" in told
    (price,) = json.loads(shop.run("prices", "show", "sim-text", "--json").stdout)["chat"]
    assert (price["input"], price["cached"], price["output"]) == ("2", "2", "10")
    assert "no price is known for odd" in shop.run("prices", "show", "odd", status=1).stderr
    listed = shop.run("prices", "show", "--provider", "anthropic", "claude-haiku-5-5").stdout
    assert "100000" in listed
    assert "no provider named x" in shop.run("prices", "show", "--provider", "x", status=1).stderr


def source(rate: float) -> bytes:
    """What genai-prices publishes, with one model."""
    model = {"id": "m", "match": {"equals": "m"}, "prices": {"input_mtok": rate}}
    provider = {"id": "openai", "name": "", "api_pattern": "https://x", "models": [model]}
    return json.dumps([provider]).encode()


@pytest.mark.parametrize("rate", [1, 1001])
def test_a_table_is_made_from_files_and_used(shop: Shop, rate: int) -> None:
    runner, out = CliRunner(), shop.folder / "prices.json"
    (shop.folder / "data.json").write_bytes(source(rate))
    before = shop.folder / "before.json"
    before.write_bytes(write_table(make_from(Text("", source(2)), None, 0).table))
    given = ["--from", str(shop.folder / "data.json"), "--no-check", "--against", str(before)]
    base = ["prices", "update", *given, str(out)]
    tried = runner.invoke(main, [*base, "--dry-run"])
    assert "changed (" in tried.output
    told = json.loads(runner.invoke(main, [*base, "--dry-run", "--force", "--json"]).output)
    whole = [page for page in PAGES if not page.model.prices[0].tier]
    assert (told["models"], bool(told["high"])) == (1 + len(whole), rate > 1000)
    assert not out.exists()
    made = runner.invoke(main, base)
    if rate > 1000:
        assert made.exit_code == 1
        assert not out.exists()
        made = runner.invoke(main, [*base, "--force"])
    assert made.exit_code == 0, made.output
    assert read_table(out.read_bytes()).sources[0].address == "data.json"
    shop.file.write_text(
        shop.file.read_text().replace('name = "chat"', 'name = "chat"\nprices = "openai"')
        + '[pricing]\ntable = "prices.json"\n'
    )
    (price,) = json.loads(shop.run("prices", "show", "m", "--json").stdout)["chat"]
    assert price["input"] == str(rate)
    listed = json.loads(shop.run("prices", "show", "--provider", "openai", "m", "--json").stdout)
    assert listed == {"openai": [price]}


@pytest.mark.parametrize(
    ("data", "more", "told"),
    [
        (b"[]", ("--no-check",), "no model has a price"),
        (b"", ("--no-check",), "not the data of genai-prices"),
        (source(1), ("--no-check",), "models are gone"),
        (source(1), ("--force", "--check", "none.json"), "cannot read none.json"),
        (source(1), ("--force", "--check", "empty.json"), "no model has a price"),
    ],
)
def test_a_table_stays_as_it_is_where_none_can_be_made(
    tmp_path: Path, data: bytes, more: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.json").write_bytes(data)
    Path("empty.json").write_bytes(b"{}")
    Path("prices.json").write_bytes(b"as it was")
    given = ["prices", "update", "--from", "data.json", *more]
    tried = CliRunner().invoke(main, given)
    assert (tried.exit_code, tried.exception.__class__) == (1, SystemExit)
    assert told in tried.output
    assert Path("prices.json").read_bytes() == b"as it was"
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "404 Not Found"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\n[{", "is not whole"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n[{", "truncated"),
    ],
)
def test_a_source_that_does_not_answer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes, told: str
) -> None:
    authority = self_signed(tmp_path, "IP:127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with authority.server.wrap_socket(listening.accept()[0], server_side=True) as client:
                client.recv(65536)
                client.sendall(answer)

        served = threading.Thread(target=serve)
        served.start()
        place = f"https://127.0.0.1:{listening.getsockname()[1]}/data.json"
        given = ["prices", "update", "--no-check", "--from", place, str(tmp_path / "prices.json")]
        tried = CliRunner().invoke(main, given)
        served.join()
    assert (tried.exit_code, tried.exception.__class__) == (1, SystemExit)
    assert told in tried.output
    assert not (tmp_path / "prices.json").exists()


def test_a_bad_table_or_list_is_a_fault(shop: Shop, tmp_path: Path) -> None:
    runner = CliRunner(env={"STORE_KEY": "the store's key for tests"})
    text = shop.file.read_text()
    for more, told in (
        ('[pricing]\ntable = "none.json"\n', "cannot read"),
        ('[pricing]\ntable = "dragoman.toml"\n', "not a table of prices"),
    ):
        shop.file.write_text(text + more)
        checked = runner.invoke(main, ["check", str(shop.file)])
        assert checked.exit_code == 1
        assert told in checked.output
    shop.file.write_text(text.replace('name = "chat"', 'name = "chat"\nprices = "opnai"'))
    assert "no provider named opnai" in runner.invoke(main, ["check", str(shop.file)]).output
    assert runner.invoke(main, ["serve", "--config", str(shop.file)]).exit_code == 1


def test_a_price_of_ones_own_is_printed_to_be_pasted(shop: Shop) -> None:
    before = shop.file.read_text()
    given = ("--input", "3", "--output", "8.5", "--upstream", "chat", "--cached", "0.3")
    table = shop.run("prices", "set", "gpt-*", *given).stdout
    told = shop.run("prices", "set", "gpt-*", "--input", "3", "--output", "9", "--json").stdout
    assert json.loads(told) == {"set": {"model": "gpt-*", "input": "3", "output": "9"}}
    assert shop.file.read_text() == before
    shop.file.write_text(f"{before}\n{table}")
    (price,) = read_config(shop.file, secrets_needed=False).config.prices
    assert (price.model, price.upstream, price.input, price.output) == ("gpt-*", "chat", "3", "8.5")
    assert price.cached == "0.3"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--input", "1001", "--output", "1"), "--force"),
        (("--input", "much", "--output", "1"), "error: input: expected"),
        (("--input", "NaN", "--output", "1"), "error: input: expected"),
        (("--input", "1", "--output", "1", "--upstream", "nowhere"), "nowhere"),
        (("--input", "1", "--output", "1", "--tier", "slow"), "tier"),
        (("--input", "1", "--output", "1", "--since", "soon"), "since"),
    ],
)
def test_a_price_that_cannot_be_is_not_printed(
    shop: Shop, arguments: tuple[str, ...], told: str
) -> None:
    refused = shop.run("prices", "set", "m", *arguments, status=1)
    assert told in refused.output
    assert "[[prices]]" not in refused.stdout


def test_a_high_price_may_be_meant(shop: Shop) -> None:
    table = shop.run("prices", "set", "m", "--input", "1001", "--output", "1", "--force").stdout
    assert 'input = "1001"' in table


def test_tables_are_compared(shop: Shop) -> None:
    table = load_table()
    old = shop.folder / "old.json"
    older = make_table("2020-01-01", table.sources, table.providers, table.models[1:])
    old.write_bytes(write_table(older))
    first = table.models[0]
    told = json.loads(shop.run("prices", "diff", str(old), "--json").stdout)
    assert (told["old"], told["new"]) == (older.version, table.version)
    assert told["changed"]
    assert all(f"{first.provider}/" in line for line in told["changed"])
    assert "0 changes" in shop.run("prices", "diff", str(old), str(old)).stdout
    assert told["changed"][0] in shop.run("prices", "diff", str(old)).stdout


@pytest.mark.parametrize("command", [("usage",), ("prices", "reprice")])
def test_a_time_does_not_end_before_it_begins(shop: Shop, command: tuple[str, ...]) -> None:
    told = shop.run(*command, "--since", "1h", "--until", "2h", status=1).output
    assert "since: expected a time that is not after `until`" in told
