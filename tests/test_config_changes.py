"""What distinguishes two configurations, and what of it needs a restart."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from dragoman.config import Config, ConfigError, parse_config
from dragoman.config.changes import MOST_NAMES, Names, changes, restart_fields, usable_now
from dragoman.config.settings import Server
from dragoman.config.source import Source, stamp

BEFORE = """
[server]
port = 8080
max_concurrent = 10
[[clients]]
name = "a"
key = "sk-client-of-tests"
[[upstreams]]
name = "x"
protocol = "openai_chat"
base_url = "http://127.0.0.1:1"
[[upstreams]]
name = "y"
protocol = "openai_chat"
base_url = "http://127.0.0.1:2"
[[accounts]]
name = "x-1"
upstream = "x"
key = "k-secret-one"
[[routes]]
match = "gpt-*"
upstream = "x"
[[routes]]
match = "o*"
upstream = "y"
[[prices]]
model = "gpt-*"
input = "1"
output = "2"
"""


def made(text: str) -> Config:
    return parse_config(text).config


def test_nothing() -> None:
    found = changes(made(BEFORE), made(BEFORE))
    assert not found
    assert str(found) == "nothing changed"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"k-secret-one"', '"k-secret-two"', "accounts changed: x-1"),
        ('name = "x-1"', 'name = "x-2"', "accounts added: x-2; accounts removed: x-1"),
        ("127.0.0.1:2", "127.0.0.1:3", "upstreams changed: y"),
        ('match = "o*"', 'match = "p*"', "routes added: p*; routes removed: o*"),
        ('input = "1"', 'input = "3"', "prices changed: gpt-*"),
        ("sk-client-of-tests", "sk-another-of-tests", "clients changed: a"),
        ("max_concurrent = 10", "max_concurrent = 11", "settings changed: server.max_concurrent"),
        ("port = 8080", "port = 8081", "needs a restart: server.port"),
        ("[[clients]]", '[storage]\npath = ""\n[[clients]]', "needs a restart: storage.path"),
        (
            "[[clients]]",
            '[admin]\nkey = "sk-admin-of-tests"\n[[clients]]',
            "settings changed: admin.key; needs a restart: request_log",
        ),
        ("[[clients]]", "[options]\nkeepalive = 'off'\n[[clients]]", "settings changed: options"),
    ],
)
def test_what_changed(old: str, new: str, told: str) -> None:
    assert BEFORE.count(old) == 1
    found = changes(made(BEFORE), made(BEFORE.replace(old, new)))
    assert told in str(found)
    assert "secret" not in str(found)
    assert "sk-" not in str(found)


def test_the_order_of_routes() -> None:
    first = '[[routes]]\nmatch = "gpt-*"\nupstream = "x"\n'
    other = BEFORE.replace(first, "").replace("[[prices]]", first + "[[prices]]")
    assert str(changes(made(BEFORE), made(other))) == "settings changed: order of routes"


def test_few_names_are_told_of_many() -> None:
    more = "".join(f'[[accounts]]\nname = "n{n}"\nupstream = "x"\n' for n in range(MOST_NAMES + 7))
    found = changes(made(BEFORE), made(BEFORE + more)).accounts
    assert (len(found.added.names), found.added.more) == (MOST_NAMES, 7)
    assert str(Names(("a", "b"), 3)) == "a, b and 3 more"


def test_what_needs_a_restart_stays() -> None:
    other = BEFORE.replace("8080", "8081").replace("max_concurrent = 10", "max_concurrent = 11")
    served = usable_now(made(BEFORE), made('[storage]\npath = "other.db"\n' + other))
    assert (served.server.port, served.server.max_concurrent) == (8080, 11)
    assert served.storage == made(BEFORE).storage
    assert {"host", "port", "workers", "log_level"} <= restart_fields(Server)
    assert "max_concurrent" not in restart_fields(Server)


def test_a_snapshot_is_the_same_whatever_the_files_say_then(tmp_path: Path) -> None:
    """Also in another process, and it shows no secret."""
    file, secret = tmp_path / "dragoman.toml", tmp_path / "key"
    secret.write_text("k-from-a-file\n")
    file.write_text(BEFORE.replace("k-secret-one", "file:key"))
    snapshot, loaded = Source(str(file), {"port": 9}).read()
    file.write_text("broken = ")
    secret.write_text("k-another\n")
    again = pickle.loads(pickle.dumps(snapshot)).parse()
    assert again == loaded
    assert again.config.server.port == 9
    key = again.config.accounts[0].key
    assert key is not None
    assert key.reveal() == "k-from-a-file"
    assert "k-from-a-file" not in repr(snapshot)
    assert snapshot.files(loaded.config) == (str(file), str(secret))
    with pytest.raises(ConfigError, match="not TOML"):
        Source(str(file)).read()
    file.write_text(BEFORE.replace("k-secret-one", "file:key"))
    other, _ = Source(str(file), {"port": 9}).read()
    assert other.digest != snapshot.digest


def test_a_link_that_is_led_elsewhere_is_another_file(tmp_path: Path) -> None:
    """As Kubernetes does with the files of a volume."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dragoman.toml").write_text(BEFORE)
    (tmp_path / "data").symlink_to("one")
    (tmp_path / "dragoman.toml").symlink_to("data/dragoman.toml")
    files = (str(tmp_path / "dragoman.toml"), str(tmp_path / "missing"))
    before = stamp(files)
    assert stamp(files) == before
    (tmp_path / "next").symlink_to("two")
    os.replace(tmp_path / "next", tmp_path / "data")
    assert stamp(files) != before
