"""`dragoman accounts`, on the store itself: no gateway runs."""

from __future__ import annotations

import csv
import json
import os
import pty
import select
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import STORE_KEY, Shop

SECRET = "sk-sim-zebra-quagga"


def listed(shop: Shop, *filters: str) -> dict[str, dict[str, Any]]:
    page = json.loads(shop.run("accounts", "list", "--json", *filters).stdout)
    return {view["name"]: view for view in page["accounts"]}


def test_add_set_and_remove(shop: Shop) -> None:
    shop.run("accounts", "add", "a", "--upstream", "chat", "--priority", "3", given=f"{SECRET}\n")
    view = listed(shop)["a"]
    assert view["secrets"] == ["key"]
    assert (view["upstream"], view["priority"], view["origin"]) == ("chat", 3, "store")
    shop.run("accounts", "set", "a", "--model", "gpt-*", "--weight", "2", "--max-concurrent", "5")
    view = listed(shop)["a"]
    assert (view["models"], view["weight"], view["max_concurrent"]) == (["gpt-*"], 2.0, 5)
    assert view["secrets"] == ["key"]
    shop.run("accounts", "set", "a", "--reset", "models", "--reset", "key")
    view = listed(shop)["a"]
    assert (view["models"], view["secrets"]) == (None, [])
    assert shop.run("accounts", "remove", "a").stdout == "removed 1 account\n"
    assert list(listed(shop)) == ["fixed"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("add", "fixed", "--upstream", "chat", "--no-key"), "an account named fixed already"),
        (("add", "b", "--no-key"), "error: upstream: required"),
        (("add", "b", "--upstream", "chta", "--no-key"), "no upstream named chta; did you mean"),
        (("add", "b b", "--upstream", "chat", "--no-key"), "error: name: expected a name of"),
        (("add", "b", "--upstream", "chat", "--key", "env:NONE"), "variable NONE is not set"),
        (("set", "fixed", "--priority", "1"), "fixed is an account of the configuration file"),
        (("set", "nobody", "--priority", "1"), "no account named nobody"),
        (("show", "fixd"), "no account named fixd; did you mean fixed?"),
        (("remove", "fixed"), "fixed is an account of the configuration file"),
        (("list", "--upstream", "chta"), "no upstream named chta; did you mean chat?"),
        (("test", "--all", "--upstream", "chta"), "no upstream named chta"),
        (("disable", "fixed", "nobody"), "no account named nobody"),
        (("show", "x" * 10_000), "no account named xxxx"),
    ],
)
def test_what_cannot_be_done(shop: Shop, arguments: tuple[str, ...], told: str) -> None:
    result = shop.run("accounts", *arguments, status=1)
    assert told in result.stderr
    assert len(result.output) < 500
    assert list(listed(shop)) == ["fixed"]
    assert listed(shop)["fixed"]["state"] == "active"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--key", SECRET),
        ("--proxy", f"http://me:{SECRET}@proxy:1", "--no-key"),
    ],
)
def test_no_secret_is_taken_from_the_arguments(shop: Shop, arguments: tuple[str, ...]) -> None:
    result = shop.run("accounts", "add", "a", "--upstream", "chat", *arguments, status=2)
    assert "can be read by other processes" in result.stderr or "must be given as" in result.stderr
    assert SECRET not in result.output


def test_a_key_by_reference_file_and_prompt(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    (shop.folder / "key").write_text(f"{SECRET}\n")
    monkeypatch.setenv("ONE", SECRET)
    for number, source in enumerate(("env:ONE", "file:key", "-")):
        name = f"a{number}"
        shop.run(
            "accounts", "add", name, "--upstream", "chat", "--key", source, given=f"{SECRET}\n"
        )
        assert listed(shop)[name]["secrets"] == ["key"]
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "dragoman", "accounts", "add", "typed", "--upstream", "chat"]
    with subprocess.Popen(
        [*command, "--config", str(shop.file)],
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": os.environ["PATH"], "STORE_KEY": STORE_KEY},
    ) as process:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 20)[0], "nothing was asked"
        assert process.stdout.read(4) == b"Key:"
        os.write(leader, f"{SECRET}\n".encode())
        told = process.stdout.read()
        assert process.wait(20) == 0, told
    os.close(follower)
    os.close(leader)
    assert SECRET.encode() not in told
    assert listed(shop)["typed"]["secrets"] == ["key"]


def test_accounts_are_enabled_by_what_they_have_in_common(shop: Shop) -> None:
    for name, why in (("a", "sign-in failed"), ("b", "sign-in failed"), ("c", "on holiday")):
        shop.run("accounts", "add", name, "--upstream", "messages", "--no-key")
        shop.run("accounts", "disable", name, "--reason", why)
    told = shop.run("accounts", "enable", "--where", "state=disabled", "--where", "why=Sign-in")
    assert told.stdout == "enabled 2 accounts\n"
    assert list(listed(shop, "--state", "disabled")) == ["c"]
    shop.run("accounts", "disable", "--where", "upstream=messages")
    assert list(listed(shop, "--state", "disabled")) == ["a", "b", "c"]
    for wrong in ("state=broken", "name=a"):
        shop.run("accounts", "enable", "--where", wrong, status=2)
    shop.run("accounts", "enable", "--where", "why=x", "a", status=2)
    shop.run("accounts", "enable", status=2)
    shop.run("accounts", "enable", "--where", "why=nothing has this", status=1)


def test_list_show_and_history(shop: Shop) -> None:
    shop.run("accounts", "add", "a", "--upstream", "messages", "--no-key")
    shop.run("accounts", "disable", "a", "--reason", "on\x1b[2J a\nholiday \u202e")
    shop.run("accounts", "enable", "a")
    shop.run("accounts", "disable", "a", "--reason", "again")
    text = shop.run("accounts", "list").stdout.splitlines()
    assert text[0].split()[:3] == ["NAME", "UPSTREAM", "STATE"]
    assert [line.split()[:3] for line in text[1:]] == [
        ["a", "messages", "disabled"],
        ["fixed", "chat", "active"],
    ]
    assert list(listed(shop, "--upstream", "chat")) == ["fixed"]
    assert list(listed(shop, "--state", "disabled")) == ["a"]
    shown = shop.run("accounts", "show", "a").stdout
    assert "again" in shown
    assert "holiday" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    found = json.loads(shop.run("accounts", "show", "a", "--json", "--history", "2").stdout)
    assert [entry["change"] for entry in found["history"]] == ["disabled", "enabled"]


def test_a_test_takes_note_of_what_comes_back(shop: Shop) -> None:
    for key in ("good", "429", "401", "402"):
        shop.run("accounts", "add", key, "--upstream", "chat", given=f"sk-sim-{key}\n")
    result = shop.run("accounts", "test", "--all", status=1)
    told = {line.split(":")[0]: line for line in result.stdout.splitlines()}
    assert list(told) == ["401", "402", "429", "fixed", "good"]
    assert "answered in" in told["good"]
    assert "status 401" in told["401"]
    assert "the upstream refused its key" in told["401"]
    states = {name: view["state"] for name, view in listed(shop).items()}
    assert states == {
        "401": "disabled",
        "402": "exhausted",
        "429": "cooling",
        "fixed": "active",
        "good": "active",
    }
    history = json.loads(shop.run("accounts", "show", "402", "--json").stdout)["history"]
    assert [(entry["change"], entry["status"]) for entry in history] == [("exhausted", 402)]
    assert history[0]["source"] == "operator"
    # What a good answer restores: an account that ran dry, and one whose key works again.
    for name in ("401", "402"):
        shop.run("accounts", "set", name, "--key", "-", given="sk-sim-good-again\n")
    shop.run("accounts", "test", "401", "402")
    states = {name: view["state"] for name, view in listed(shop).items()}
    assert states["401"] == states["402"] == "active"
    finding = json.loads(shop.run("accounts", "test", "good", "--json").stdout)["accounts"][0]
    assert finding["passed"] is True
    assert finding["model"] == "sim-text"


def test_a_test_of_what_cannot_be_asked(shop: Shop) -> None:
    shop.run("accounts", "add", "m", "--upstream", "messages", given="sk-sim-m\n")
    # No model is named anywhere: it is one that the upstream lists.
    found = json.loads(shop.run("accounts", "test", "m", "--json").stdout)["accounts"][0]
    assert (found["passed"], found["model"].startswith("sim-")) == (True, True)
    shop.run("accounts", "add", "bad", "--upstream", "messages", given="sk-sim-401-x\n")
    found = json.loads(shop.run("accounts", "test", "bad", "--json", status=1).stdout)["accounts"][
        0
    ]
    assert (found["status"], found["model"]) == (401, "")
    shop.run("accounts", "test", "m", "--model", "sim-text")
    missing = shop.run("accounts", "test", "m", "--model", "sim-404", status=1).stdout
    assert "says nothing of the account" in missing or "as before" in missing or "stays" in missing
    assert listed(shop)["m"]["state"] == "active"


def rows(count: int, *, start: int = 0) -> str:
    lines = ["name,upstream,key,priority,models"]
    lines += [f"acc-{n},chat,{SECRET}-{n},{n % 3},sim-*;gpt-*" for n in range(start, start + count)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("kind", ["csv", "json", "jsonl"])
@pytest.mark.parametrize("by_name", [True, False])
def test_import_and_export(shop: Shop, kind: str, by_name: bool) -> None:
    table = list(csv.DictReader(StringIO(rows(7))))
    for row in table:
        row["models"] = row["models"].split(";")
        row["priority"] = int(row["priority"])
    text = {
        "csv": rows(7),
        "json": json.dumps(table, indent=1),
        "jsonl": "".join(json.dumps(row) + "\n" for row in table),
    }[kind]
    file = shop.folder / (f"accounts.{kind}" if by_name else "accounts")
    file.write_text(text)
    assert shop.run("accounts", "import", str(file)).stdout == "7 rows: 7 added, 0 changed\n"
    before = listed(shop)
    assert before["acc-4"]["models"] == ["sim-*", "gpt-*"]
    exported = shop.run("accounts", "export", "--format", kind).stdout
    assert SECRET not in exported
    file.write_text(exported)
    again = shop.run("accounts", "import", str(file), "--replace")
    assert again.stdout == "7 rows: 0 added, 7 changed\n"
    assert listed(shop) == before
    assert before["acc-4"]["secrets"] == ["key"]
    empty = shop.folder / "empty.csv"
    shop.run("accounts", "remove", *(f"acc-{n}" for n in range(7)))
    empty.write_text(shop.run("accounts", "export").stdout)
    assert shop.run("accounts", "import", str(empty)).stdout == "0 rows: 0 added, 0 changed\n"


def test_an_import_is_all_or_nothing_and_names_every_bad_row(shop: Shop) -> None:
    file = shop.folder / "accounts.csv"
    bad = "a b,chat,,0,\nacc-1,chat,,0,\nfixed,chat,,0,\nnew,chta,,high,\n"
    file.write_text(rows(3) + bad)
    result = shop.run("accounts", "import", str(file), status=1)
    assert result.stdout == ""
    told = [line.removeprefix(f"error: {file}:") for line in result.stderr.splitlines()]
    assert told == [
        "5: a b: name: expected a name of at most 64 letters, digits, _ . and -",
        "6: acc-1: name: is the name of row 3 already",
        "7: fixed: name: fixed is an account of the configuration file: change it there",
        "8: new: priority: expected a whole number",
        "Error: 4 of 7 rows cannot be used, so nothing was imported",
    ]
    assert list(listed(shop)) == ["fixed"]
    result = shop.run("accounts", "import", str(file), "--skip-bad", status=1)
    assert result.stdout == "7 rows: 3 added, 0 changed, 4 bad rows left out\n"
    assert list(listed(shop)) == ["acc-0", "acc-1", "acc-2", "fixed"]
    file.write_text(rows(3))
    result = shop.run("accounts", "import", str(file), status=1)
    assert "2: acc-0: name: there is an account of this name already" in result.stderr
    told_json = shop.run("accounts", "import", str(file), "--json", status=1).stdout
    assert [row["at"] for row in json.loads(told_json)["bad"]] == [2, 3, 4]
    assert SECRET not in result.output + told_json


def test_accounts_of_one_key_are_told(shop: Shop) -> None:
    text = f"name,upstream,key\na,chat,{SECRET}\nb,chat,{SECRET}\nc,messages,{SECRET}\n"
    result = shop.run("accounts", "import", "-", given=text)
    assert result.stdout == "3 rows: 3 added, 0 changed\n"
    assert result.stderr.count("warning") == 1
    assert "b has the same key as a" in result.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (b"name,upstream\n\xff,chat\n", "not UTF-8"),
        (b"openai-1,chat,sk-sim-zebra\n", "the first line must name the columns"),
        (b"{", "not JSON"),
        (b"", "the first line must name the columns"),
    ],
)
def test_a_file_that_is_no_list(shop: Shop, given: bytes, told: str) -> None:
    result = shop.run("accounts", "import", "-", given=given, status=1)
    assert told in result.stderr
    assert "zebra" not in result.output
    assert "Traceback" not in result.output


def test_ten_thousand_rows_take_little_memory(shop: Shop) -> None:
    file = shop.folder / "many.csv"
    file.write_text(rows(10_000))
    tracemalloc.start()
    try:
        result = shop.run("accounts", "import", str(file))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.stdout == "10000 rows: 10000 added, 0 changed\n"
    assert peak < 64 * 1024 * 1024
    page = json.loads(shop.run("accounts", "list", "--json").stdout)
    assert page["total"] == 10_001
    assert all(view["problem"] == "" for view in page["accounts"])
    assert SECRET.encode() not in shop.bytes_of_store()


def test_without_a_store(shop: Shop) -> None:
    shop.file.write_text(shop.file.read_text().replace("[storage]", '[storage]\npath = ""'))
    assert "nothing is stored" in shop.run("accounts", "list", status=1).stderr


def test_a_store_that_cannot_be_used(shop: Shop) -> None:
    (shop.folder / "dragoman.db").write_bytes(b"no database at all, but a text" * 100)
    result = shop.run("accounts", "list", status=1)
    assert "is not a database" in result.stderr
    assert "Traceback" not in result.output


def test_another_store_key(shop: Shop, tmp_path: Path) -> None:
    shop.run("accounts", "add", "a", "--upstream", "chat", given=f"{SECRET}\n")
    text = shop.file.read_text()
    shop.file.write_text(text.replace("env:STORE_KEY", "another key than before"))
    assert "another [storage] key" in listed(shop)["a"]["problem"]
    told = shop.run("accounts", "set", "a", "--weight", "2", status=1).stderr
    assert "another [storage] key" in told
    shop.file.write_text(text.replace('key = "env:STORE_KEY"', ""))
    told = shop.run("accounts", "add", "b", "--upstream", "chat", given=SECRET, status=1).stderr
    assert "[storage] key" in told


def test_no_command_tells_a_secret(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    (shop.folder / "header").write_text(f"{SECRET}-header")
    (shop.folder / "proxy").write_text(f"http://me:{SECRET}-proxy@127.0.0.1:9")
    bad = f"name,upstream,key,weight,headers\na,chat,{SECRET},heavy,{SECRET}\n,x,{SECRET},,\n"
    accounts = ("accounts",)
    told = [
        shop.run(
            *accounts,
            *("add", "a", "--upstream", "chat", "--json", "--header", "x-secret=file:header"),
            given=f"{SECRET}\n",
        ),
        shop.run(*accounts, "set", "a", "--proxy", "file:proxy", "--json"),
        shop.run(*accounts, "add", "a", "--upstream", "chat", given=f"{SECRET}\n", status=1),
        shop.run(*accounts, "add", "b", "--upstream", "chat", given=f"{SECRET}\x00\n", status=1),
        shop.run(*accounts, "import", "-", given=bad, status=1),
        shop.run(*accounts, "import", "-", "--json", given=bad, status=1),
        shop.run(*accounts, "import", "-", "--skip-bad", "--json", given=bad, status=1),
        shop.run(*accounts, "test", "a", status=1),
        shop.run(*accounts, "test", "a", "--json", status=1),
        shop.run(*accounts, "export", "--format", "json"),
    ]
    for command in (("list",), ("show", "a")):
        told += [shop.run(*accounts, *command, *more) for more in ((), ("--json",))]
    told.append(shop.run("usage"))
    assert listed(shop)["a"]["secrets"] == ["key", "headers", "proxy"]
    for result in told:
        assert "zebra" not in result.output
    assert "zebra" not in caplog.text
    assert b"zebra" not in shop.bytes_of_store()


def at_terminal(shop: Shop, *arguments: str, **environ: str) -> str:
    """What a command shows at a terminal."""
    reading, terminal = os.openpty()
    with os.fdopen(reading, "rb", buffering=0) as shown:
        with os.fdopen(terminal, "wb") as end:
            process = subprocess.Popen(
                [sys.executable, "-m", "dragoman", *arguments, "--config", str(shop.file)],
                stdin=end,
                stdout=subprocess.PIPE if "--json" in arguments else end,
                stderr=end,
                env={**os.environ, "STORE_KEY": STORE_KEY, **environ},
            )
        text = b""
        # The end of a terminal that nobody holds any more is an error.
        with suppress(OSError):
            while piece := shown.read(4096):
                text += piece
        process.communicate(timeout=60)
    assert process.returncode == 0, text
    return text.decode()


def test_colours_are_for_terminals_that_want_them(shop: Shop) -> None:
    assert "\x1b[32mactive" in at_terminal(shop, "accounts", "list", NO_COLOR="")
    assert "\x1b" not in at_terminal(shop, "accounts", "list", NO_COLOR="1")
    assert "\x1b" not in shop.run("accounts", "list").stdout


def test_a_test_of_many_shows_how_far_it_is(shop: Shop) -> None:
    keys = "".join(f"more-{number},chat,sk-sim-more{number}\n" for number in range(3))
    shop.run("accounts", "import", "-", "--format", "csv", given=f"name,upstream,key\n{keys}")
    told = at_terminal(shop, "accounts", "test", "--all", "--json")
    assert "testing" in told
    assert "4 accounts: 4 answered, 0 did not" in told
    done = shop.run("accounts", "test", "--all", "--json")
    assert len(json.loads(done.stdout)["accounts"]) == 4
    assert done.stderr == "4 accounts: 4 answered, 0 did not\n"
