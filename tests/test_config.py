"""The configuration: what is accepted, what it means, and how a fault is told."""

from __future__ import annotations

import json
import pickle
import traceback
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.canonical.losses import Policy
from dragoman.config import (
    Config,
    ConfigError,
    Loaded,
    Problem,
    Secret,
    parse_config,
    read_config,
)
from dragoman.config.convert import Converter, Lookup
from dragoman.config.removed import REMOVED
from dragoman.protocols.settings import setting

KEY = "sk-very-secret-0123456789"
NO_HOME = "there is no home directory ~nobody-of-that-name"

WHOLE = """
[server]
host = "0.0.0.0"
port = 9000
workers = 2
keepalive_s = 5

[[clients]]
name = "me"
key = "env:DRAGOMAN_KEY"
policy = "strict"
models = ["gpt-*"]

[[upstreams]]
name = "openai"
protocol = "openai_responses"
base_url = "https://api.openai.com/v1"
headers = { "X-Team" = "env:TEAM" }
proxy = "http://me:pass@proxy.example:3128"
[upstreams.timeouts]
idle_s = 60
[upstreams.capabilities]
sampling = false

[[upstreams]]
name = "local"
protocol = "openai_chat"
base_url = "http://127.0.0.1:8000"

[[upstreams]]
name = "anthropic"
protocol = "anthropic_messages"
base_url = "https://api.anthropic.com"

[[accounts]]
name = "openai-1"
upstream = "openai"
key = "file:keys/openai"
models = ["gpt-5*"]

[[accounts]]
name = "anthropic-1"
upstream = "anthropic"
key = "sk-ant-literal"

[[accounts]]
name = "local"
upstream = "local"

[options]
responses_done = true
reasoning_field = "both"

[[routes]]
match = "gpt-*"
upstream = "openai"
model = "gpt-5.5"
policy = "lenient"
[routes.options]
reasoning_field = "reasoning"

[[routes]]
match = "*"
upstream = "local"

[models.aliases]
fast = "openai/gpt-5-mini"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/openai").write_text(f"{KEY}\n")
    (tmp_path / "dragoman.toml").write_text(WHOLE)
    return tmp_path


def whole(folder: Path) -> Config:
    environ = {"DRAGOMAN_KEY": "sk-client", "TEAM": "blue"}
    loaded = read_config(folder / "dragoman.toml", environ=environ)
    assert loaded.warnings == ()
    return loaded.config


def faults(text: str, **environ: str) -> list[str]:
    """The faults of a configuration text, each as `LINE: key: message`."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text, environ=environ)
    return [problem.located("")[1:] for problem in caught.value.problems]


def warned(text: str) -> list[str]:
    return [warning.located("")[1:] for warning in parse_config(text, environ={}).warnings]


UPSTREAM = '[[upstreams]]\nname = "up"\nprotocol = "openai_chat"\nbase_url = "http://x"\n'
ACCOUNT = '[[accounts]]\nname = "a"\nupstream = "up"\n'
ROUTE = '[[routes]]\nmatch = "a"\nupstream = "up"\n'


def test_whole_example(folder: Path) -> None:
    """Every table arrives typed, with its defaults and its references resolved."""
    config = whole(folder)
    assert (config.server.host, config.server.port, config.server.workers) == ("0.0.0.0", 9000, 2)
    assert config.server.keepalive_s == 5.0
    assert isinstance(config.server.keepalive_s, float)
    assert config.server.body_limit_bytes == 32 * 1024 * 1024
    (client,) = config.clients
    assert [key.reveal() for key in client.secrets] == ["sk-client"]
    assert client.policy is Policy.STRICT
    assert client.models == ("gpt-*",)
    openai, local, anthropic = config.upstreams
    assert openai.headers["X-Team"].reveal() == "blue"
    assert openai.timeouts.idle_s == 60.0
    assert openai.timeouts.connect_s == 10.0
    assert not openai.capabilities.sampling
    assert local.capabilities.sampling
    assert [up.auth_style for up in (openai, local, anthropic)] == ["bearer", "bearer", "x-api-key"]
    assert [account.key and account.key.reveal() for account in config.accounts] == [
        KEY,
        "sk-ant-literal",
        None,
    ]
    assert config.upstream("local") is local
    with pytest.raises(KeyError):
        config.upstream("nobody")


def test_routes_inherit_options(folder: Path) -> None:
    """A route sets what it names and takes the rest from the top-level options."""
    first, second = whole(folder).routes
    assert first.model == "gpt-5.5"
    assert setting(first.options, "reasoning_field") == "reasoning"
    assert setting(first.options, "responses_done")
    assert first.options.policy is Policy.LENIENT
    assert setting(second.options, "reasoning_field") == "both"
    assert second.options.policy is Policy.BALANCED


def test_builtin_names(folder: Path) -> None:
    """The shipped aliases, legacy names and prefixes. req: 145, 146, 147"""
    models = whole(folder).models
    assert models.aliases == {
        "fast": "openai/gpt-5-mini",
        "claude-sonnet-4-6": "anthropic/claude-sonnet-4-6",
        "claude-opus-4-6": "anthropic/claude-opus-4-6",
        "gpt-5-mini": "openai/gpt-5-mini",
    }
    assert models.legacy == {
        "claude-3-5-sonnet-20241022": "anthropic/claude-sonnet-4-5",
        "claude-3-opus-20240229": "anthropic/claude-opus-4-6",
    }
    assert models.prefixes == {
        "claude-*": "anthropic/",
        "gpt-*": "openai/",
        "gemini-*": "google/",
        "grok-*": "xai/",
    }


def test_builtin_names_can_be_changed_and_left_out() -> None:
    own = '[models]\nprefixes = { "gpt-*" = "azure/" }\n'
    prefixes = parse_config(own, environ={}).config.models.prefixes
    assert prefixes["gpt-*"] == "azure/"
    assert prefixes["grok-*"] == "xai/"
    bare = parse_config("[models]\nbuiltin = false\naliases = { a = 'up/b' }", environ={})
    assert bare.config.models.aliases == {"a": "up/b"}
    assert bare.config.models.legacy == bare.config.models.prefixes == {}


def test_an_empty_file_is_the_defaults() -> None:
    assert parse_config("", environ={}).config == Config()


@pytest.mark.parametrize(
    ("set_to", "expected"),
    [
        ("", "dragoman.db"),
        ("path = 'kept/here.db'", "kept/here.db"),
        ("path = '/var/lib/dragoman.db'", "/var/lib/dragoman.db"),
        ("path = ''", ""),
        ("url = 'postgresql://x/y'", ""),
        ("path = 'kept.db'\nurl = 'postgresql://x/y'", "kept.db"),
    ],
)
def test_the_store_is_beside_the_file(tmp_path: Path, set_to: str, expected: str) -> None:
    """And a configuration without a file keeps nothing."""
    text = f"[storage]\n{set_to}\n"
    (tmp_path / "dragoman.toml").write_text(text)
    path = read_config(tmp_path / "dragoman.toml", environ={}).config.storage.path
    assert path == (str(tmp_path / expected) if expected else "")
    assert Config().storage.path is None


def test_a_store_that_is_left_behind_is_told_of(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text("[storage]\nurl = 'postgresql://x/y'\n")
    before = read_config(file, environ={}).warnings
    (tmp_path / "dragoman.db").touch()
    (*others, told) = read_config(file, environ={}).warnings
    assert tuple(others) == before
    assert "dragoman store migrate" in told.message


def test_a_storage_key_has_a_least_length() -> None:
    short = "[storage]\nkey = 'fifteen letters'\nprevious_key = 'sixteen letters!'"
    (fault,) = faults(short)
    assert fault.startswith("2: storage.key: shorter than 16 characters")
    assert "fifteen" not in fault
    assert faults("[storage]\nprevious_key = 'sixteen letters!'") == [
        "2: storage.previous_key: has no effect without key"
    ]


_LISTS = ("upstreams", "routes", "clients", "teams", "limits")


@pytest.mark.parametrize("name", REMOVED)
def test_a_setting_that_was_removed_is_refused_with_what_to_do(name: str) -> None:
    *tables, setting = name.split(".")
    value: object = {setting: 1}
    for table in reversed(tables):
        value = {table: [value] if table in _LISTS else value}
    assert isinstance(value, dict)
    converter = Converter(Lookup(Secret))
    converter.convert(value, Config, ())
    told = [message for path, message in converter.faults if path[-1] == setting]
    assert told == [f"was removed: {REMOVED[name]}"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[server]\nwrokers = 2", "2: server.wrokers: unknown key; did you mean workers?"),
        ("[sever]\nport = 1", "1: sever: unknown key; did you mean server?"),
        ("[server]\nzzz = 2", "2: server.zzz: unknown key"),
        ('[server]\n\nport = "x"', "3: server.port: expected a whole number, got a text"),
        ("[server]\nport = 70000", "2: server.port: expected a whole number <= 65535"),
        ("[server]\nport = true", "2: server.port: expected a whole number, got true or false"),
        ("[server]\nworkers = 0", "2: server.workers: expected a whole number >= 1"),
        ("[server]\nkeepalive_s = -1", "2: server.keepalive_s: expected a number >= 0.0"),
        ("[server]\nkeepalive_s = nan", "2: server.keepalive_s: expected a number that is finite"),
        ('[server]\nhost = ""', "2: server.host: expected a text that is not empty"),
        ("server = 1", "1: server: expected a table: [server]"),
        ("[upstreams]\nname = 'x'", "1: upstreams: expected a list of tables: [[upstreams]]"),
        ("clients = 3", "1: clients: expected a list of tables: [[clients]]"),
        ("clients = [\n1]", "2: clients[0]: expected a table: [[clients]]"),
        (
            '[server]\nlog_level = "inf"',
            "2: server.log_level: expected one of debug, info, warning, error; did you mean info?",
        ),
        (
            UPSTREAM + "models = ['a',\n 3]",
            "6: upstreams[0].models[1]: expected a text, got a whole number",
        ),
        (UPSTREAM + "models = 'a'", "5: upstreams[0].models: expected a list, got a text"),
        (
            UPSTREAM + "[upstreams.headers]\n'a b' = 'x'",
            '6: upstreams[0].headers."a b": expected the name of an HTTP header',
        ),
        (
            UPSTREAM + "[upstreams.capabilities]\nsampling = 1",
            "6: upstreams[0].capabilities.sampling: expected true or false, got a whole number",
        ),
        (
            "[search]\nengine = 'searxng'",
            "1: search.url: is required: SearXNG runs on a server of your own",
        ),
        ("[search]\nkey = 'x'", "1: search.engine: is required: searxng, brave or tavily"),
        (
            UPSTREAM + "[options]\nhosted_tools = 'search'",
            "6: options.hosted_tools: search needs the engine of [search]",
        ),
        (
            UPSTREAM.replace("openai_chat", "anthropic_messages")
            + "capabilities.max_tokens_field = 'max_tokens'",
            "5: upstreams[0].capabilities.max_tokens_field: "
            "has no effect: anthropic_messages upstreams have no such capability",
        ),
        (
            UPSTREAM + "capabilities.thinking_budgets = { low = 1, high = 'x' }",
            "5: upstreams[0].capabilities.thinking_budgets.high: "
            "expected a whole number, got a text",
        ),
        (
            "[options]\npolicy = 'strct'",
            "2: options.policy: expected one of strict, balanced, lenient; did you mean strict?",
        ),
        (
            UPSTREAM + "[[routes]]\nmatch = 'a'\nupstream = 'up'\noptions.map_fats = true",
            "8: routes[0].options.map_fats: unknown key; did you mean map_fast?",
        ),
        (
            UPSTREAM.replace('"up"', '"a b"'),
            "2: upstreams[0].name: expected a name of at most 64 letters, digits, _ . and -",
        ),
        ("[[clients]]\nname = 'me'", "1: clients[0].key: required, but not set"),
        (
            UPSTREAM + ACCOUNT.replace('"up"', '"upp"'),
            "7: accounts[0].upstream: no upstream named upp; did you mean up?",
        ),
        (
            "[[routes]]\nmatch = 'a'\nupstream = 'up'",
            "3: routes[0].upstream: no upstream named up",
        ),
        (
            UPSTREAM + ROUTE + "fallbacks = [{upstream = 'upp'}]",
            "8: routes[0].fallbacks[0].upstream: no upstream named upp; did you mean up?",
        ),
        (
            UPSTREAM + ROUTE + "fallbacks = [{upstream = 'up'}]",
            "8: routes[0].fallbacks[0]: leads where the route itself leads: to up with the same "
            "model",
        ),
        (
            UPSTREAM
            + ROUTE
            + "fallbacks = [{upstream = 'up', model = 'b'}, {upstream = 'up', model = 'b'}]",
            "8: routes[0].fallbacks[1]: leads where fallbacks[0] leads: to up with the same model",
        ),
        (
            UPSTREAM + "proxies = ['http://user:secret@p:1', 'ftp://p']",
            "5: upstreams[0].proxies[1]: expected a URL with a host and one of the schemes http, "
            "https, socks5, socks5h",
        ),
        (
            UPSTREAM + ACCOUNT + "proxy = 'p:1'",
            "8: accounts[0].proxy: expected a URL with a host and one of the schemes http, https, "
            "socks5, socks5h",
        ),
        (
            UPSTREAM + UPSTREAM,
            "6: upstreams[1].name: up is already the name of upstreams[0]",
        ),
        (
            UPSTREAM + ACCOUNT + ACCOUNT,
            "9: accounts[1].name: a is already the name of accounts[0]",
        ),
        (
            "[[clients]]\nname='a'\nkey='a-key-of-a'\n[[clients]]\nname='a'\nkey='another-key'",
            "5: clients[1].name: a is already the name of clients[0]",
        ),
        (
            "[[clients]]\nname='a'\nkey='a-key-of-a'\n[[clients]]\nname='b'\nkey='a-key-of-a'",
            "6: clients[1].key: clients[0] has the same key",
        ),
        (
            UPSTREAM
            + "[[routes]]\nmatch = 'a'\nupstream = 'up'\npolicy = 'strict'\n"
            + "[routes.options]\npolicy = 'lenient'",
            "8: routes[0].policy: also set as options.policy: set one of them",
        ),
        (
            UPSTREAM.replace("http://x", "x.example"),
            "4: upstreams[0].base_url: "
            "expected a URL with a host and one of the schemes http, https",
        ),
        (
            UPSTREAM.replace("http://x", "http://[x"),
            "4: upstreams[0].base_url: not a URL",
        ),
        (
            UPSTREAM.replace("http://x", "https://x/v1#a"),
            "4: upstreams[0].base_url: a URL without # is needed: paths are added to it",
        ),
        (
            UPSTREAM.replace("http://x", "http://a host/v1"),
            "4: upstreams[0].base_url: a URL has no blanks",
        ),
        (
            UPSTREAM.replace("http://x", "https://x/v1/chat/completions"),
            "4: upstreams[0].base_url: expected it without /chat/completions, which is added to it",
        ),
        (
            UPSTREAM + ACCOUNT + "key = '\"sk-in-quotes\"'\n",
            "8: accounts[0].key: has quotes around it: take them off where it is",
        ),
        (
            "[storage]\nurl = 'postgresql://me:secret@[x'",
            "2: storage.url: cannot be read as the URL of a database",
        ),
        ("[server]\nport = ", "2: not TOML: Invalid value"),
        ("a = 1\na = 2", "2: not TOML: Cannot overwrite a value"),
        ("a = '''\n\n", "3: not TOML: Expected \"'''\""),
        ("a = " + "[" * 20_000 + "]" * 20_000, "1: not TOML: nested too deeply"),
        (
            '[server]\ntls_certificate = "a\\u0000"',
            "2: server.tls_certificate: no file can have a name with a NUL in it",
        ),
        ("[storage]\npath = '~nobody-of-that-name/a.db'", f"2: storage.path: {NO_HOME}"),
        ("[pricing]\ntable = '~nobody-of-that-name/a'", f"2: pricing.table: {NO_HOME}"),
    ],
)
def test_a_fault_is_told_with_its_line_and_key(text: str, expected: str) -> None:
    assert faults(text) == [expected]


def test_all_faults_are_told_in_order() -> None:
    text = (
        "[server]\nport = 'x'\nhots = 'y'\n"
        "[[upstreams]]\nname = 'up'\nprotocol = 'openai'\n"
        "[[accounts]]\nname = 'a'\nupstream = 'up'\nkey = 'env:NOT_SET'\n"
    )
    assert faults(text) == [
        "2: server.port: expected a whole number, got a text",
        "3: server.hots: unknown key; did you mean host?",
        "4: upstreams[0].base_url: required, but not set",
        "6: upstreams[0].protocol: expected one of openai_chat, anthropic_messages, "
        "openai_responses, google_generate_content, google_interactions; did you mean openai_chat?",
        "10: accounts[0].key: environment variable NOT_SET is not set",
    ]


def test_the_error_names_file_line_and_key(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text("[server]\nport = 'x'\n")
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    error = caught.value
    assert (error.file, error.line, error.key) == (str(file), 2, "server.port")
    assert str(error) == f"{file}:2: server.port: expected a whole number, got a text"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the file: No such file"):
        read_config(tmp_path / "none.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"a = 1\nb = '\xff'")
    with pytest.raises(ConfigError, match=r"binary\.toml:2: not UTF-8"):
        read_config(binary)


def test_a_number_of_more_digits_than_are_read() -> None:
    (told,) = faults("[server]\nport = " + "9" * 5000)
    assert told.startswith("1: not TOML: ")


def test_the_mark_of_an_encoding_is_no_part_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text("[server]\nport = 1\n", encoding="utf-8-sig")
    assert read_config(file).config.server.port == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_no_clients_on_loopback(host: str) -> None:
    assert parse_config(f"[server]\nhost = '{host}'", environ={}).config.server.host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "gateway.example"])
def test_no_clients_elsewhere_is_refused(host: str) -> None:
    (fault,) = faults(f"[server]\nhost = '{host}'")
    assert fault.startswith("2: server.host: anyone who reaches this address")
    with_client = f"[server]\nhost = '{host}'\n[[clients]]\nname = 'me'\nkey = 'my-own-key'"
    assert parse_config(with_client, environ={}).config.server.host == host


def test_a_route_that_is_never_reached_is_a_warning() -> None:
    routes = "".join(
        f"[[routes]]\nmatch = '{match}'\nupstream = 'up'\n"
        for match in ("gpt-5", "gpt-*", "gpt-5*", "*-mini", "gpt-*-mini", "claude-*", "*", "x")
    )
    assert warned(UPSTREAM + ACCOUNT + routes) == [
        "15: routes[2].match: never reached: routes[1] (gpt-*) matches first",
        "21: routes[4].match: never reached: routes[1] (gpt-*) matches first",
        "30: routes[7].match: never reached: routes[6] (*) matches first",
    ]


def test_other_warnings() -> None:
    assert warned("") == ["1: no [[upstreams]]: every request will be refused"]
    assert warned(UPSTREAM) == [
        "2: upstreams[0].name: has no account here: it is used only if the store has one"
    ]
    assert warned(UPSTREAM + ACCOUNT + "key = 'OPENAI_API_KEY'\n") == [
        '8: accounts[0].key: looks like the name of a variable, which is written "env:NAME"'
    ]


def test_a_proxy_of_the_environment_is_not_obeyed_without_a_word(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    environ = {"HTTPS_PROXY": "http://p:1"}

    def told(text: str) -> list[str]:
        file.write_text(text)
        return [one.key for one in read_config(file, environ=environ).warnings]

    assert told(UPSTREAM + ACCOUNT) == ["HTTPS_PROXY"]
    assert told(UPSTREAM + 'proxy = "env:HTTPS_PROXY"\n' + ACCOUNT) == []


@pytest.mark.parametrize(
    ("window", "is_told"),
    [("1m", False), ("59m", False), ("60m", True), ("5h", True), ("day", True), ("total", True)],
)
@pytest.mark.parametrize(
    "holder", ['[[clients]]\nname = "c"\nkey = "sk-0123456789"', "[[teams]]\nname = 't'"]
)
def test_long_limits_are_kept_somewhere(holder: str, window: str, is_told: bool) -> None:
    kind = "clients" if "clients" in holder else "teams"
    limit = f"[[{kind}.limits]]\nkind = 'requests'\namount = 5\nwindow = '{window}'\n"
    text = f"{UPSTREAM}\n{holder}\n{limit}"

    def told(storage: str) -> bool:
        return any("start again with" in line for line in warned(f"{text}[storage]\n{storage}"))

    assert told('path = ""') is is_told
    assert not told('path = "kept.db"')
    assert not told('path = ""\nurl = "postgresql://h/d"')


@pytest.mark.parametrize(
    ("url", "is_told"),
    [
        ("postgresql://u:secret@db.example/d", True),
        ("postgresql://u:secret@db.example/d?sslmode=require", True),
        ("postgresql://u:secret@db.example/d?sslmode=verify-ca", True),
        ("postgresql://u:secret@db.example/d?sslmode=verify-full", False),
        ("postgresql://u:secret@10.0.0.7:5433,127.0.0.1/d", True),
        ("postgresql://u:secret@127.0.0.1,[::1]/d", False),
        ("postgresql://u:secret@localhost/d", False),
        ("postgresql:///d?host=/run/postgresql", False),
        ("postgresql:///d?host=db.example", True),
    ],
)
def test_a_remote_database_that_is_not_verified_is_told(
    url: str, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGHOST", "PGSSLMODE"):
        monkeypatch.delenv(name, raising=False)
    text = f"{UPSTREAM}\n[storage]\nurl = '{url}'"
    found = [line for line in warned(text) if "verify-full" in line]
    assert bool(found) is is_told
    assert not any("secret" in line for line in found)
    if "sslmode" not in url:
        monkeypatch.setenv("PGSSLMODE", "verify-full")
        assert not any("verify-full" in line for line in warned(text))


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("env:EMPTY", "environment variable EMPTY is empty"),
        ("env:NOPE", "environment variable NOPE is not set"),
        ("file:/nowhere/key", "cannot read /nowhere/key: No such file or directory"),
        ("file:~nobody-of-that-name/key", NO_HOME),
        ("file:/dev/zero", "cannot read /dev/zero: it is no file"),
        ("file:/proc", "cannot read /proc: it is no file"),
        ("file:a\\u0000b", "no file can have a name with a NUL in it"),
        ("  ", "the value is empty"),
        ("sk-\\u00e9", "the value has characters that an HTTP header cannot carry"),
        ("sk-a\\r\\nX: y", "the value has characters that an HTTP header cannot carry"),
    ],
)
def test_a_secret_that_cannot_be_used(reference: str, reason: str) -> None:
    text = f'[[clients]]\nname = "me"\nkey = "{reference}"'
    assert faults(text, EMPTY="\n") == [f"3: clients[0].key: {reason}"]


def test_a_secret_shows_nothing(folder: Path) -> None:
    """Neither the whole configuration nor a fault beside a key shows the key."""
    secret = Secret(KEY)
    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", repr(whole(folder))]
    assert not [text for text in shown if KEY in text or "pass@" in text]
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    for encode in (msgspec.json.encode, json.dumps):
        with pytest.raises(TypeError):
            encode(secret)
    assert secret == Secret(KEY)
    assert secret != Secret("other")
    assert secret != KEY
    assert {secret, Secret(KEY)} == {secret}


@pytest.mark.parametrize(
    "text",
    [
        f"[[clients]]\nname = 'a'\nkey = '{KEY}'\n[[clients]]\nname = 'b'\nkey = '{KEY}'",
        f"[[clients]]\nname = 'a'\nkey = '{KEY}\\u00e9'".replace("'", '"'),
        f"[[clients]]\nname = 'a'\nkey = ['{KEY}']",
        f"[[clients]]\nname = 'a'\nkey = {{ value = '{KEY}' }}",
        UPSTREAM + f"proxy = 'ftp://me:{KEY}@proxy'",
        UPSTREAM + f"proxy = 'http://me:{KEY}@[proxy'",
        UPSTREAM.replace("http://x", f"http://me:{KEY}@x"),
        UPSTREAM + ACCOUNT + f"key = '{KEY}'\nkeys = '{KEY}'",
    ],
)
def test_a_fault_never_shows_a_secret(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, environ={})
    told = "".join(traceback.format_exception(caught.value, chain=False))
    assert KEY not in told


def test_settings_are_frozen(folder: Path) -> None:
    config: Any = whole(folder)
    for table in (config, config.server, config.clients[0], config.upstreams[0].timeouts):
        name = table.__struct_fields__[0]
        with pytest.raises(AttributeError):
            setattr(table, name, None)


def test_loaded_is_told_apart_from_problems() -> None:
    loaded = parse_config(UPSTREAM, environ={})
    assert isinstance(loaded, Loaded)
    assert loaded.warnings == (
        Problem(
            2,
            "upstreams[0].name",
            "has no account here: it is used only if the store has one",
        ),
    )


def test_a_dialect_sets_what_the_route_does_not() -> None:
    """The route's own options win over its dialect, that over the top-level ones."""
    text = """
        [options]
        responses_done = false
        keepalive = "numbered"
        [[upstreams]]
        name = "u"
        protocol = "openai_chat"
        base_url = "http://127.0.0.1:1"
        [[routes]]
        match = "a"
        upstream = "u"
        dialect = "antwort"
        [[routes]]
        match = "b"
        upstream = "u"
        dialect = "antwort"
        [routes.options]
        responses_done = false
    """
    first, second = parse_config(text).config.routes
    assert setting(first.options, "responses_done")
    assert setting(first.options, "failure_events") == "failed"
    assert first.options.keepalive == "numbered"
    assert not setting(second.options, "responses_done")
    assert setting(second.options, "failure_events") == "failed"


def test_only_a_responses_upstream_keeps_responses_itself() -> None:
    text = """
        [[upstreams]]
        name = "u"
        protocol = "openai_chat"
        base_url = "http://127.0.0.1:1"
        stored_responses = "pass"
    """
    with pytest.raises(ConfigError, match="only an openai_responses upstream"):
        parse_config(text)


@pytest.mark.parametrize(
    ("key", "told"),
    [("sk-client-of-the-test", "clients[0] has the same key"), ("short", "too short to be safe")],
)
def test_the_administration_has_a_token_of_its_own(key: str, told: str) -> None:
    clients = '[[clients]]\nname = "me"\nkey = "sk-client-of-the-test"\n'
    text = f'{clients}[admin]\nkey = "{key}"\n'
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    assert [(problem.line, problem.key) for problem in caught.value.problems] == [(5, "admin.key")]
    assert told in caught.value.problems[0].message


def test_accounts_may_be_in_the_store() -> None:
    text = '[[upstreams]]\nname = "up"\nprotocol = "openai_chat"\nbase_url = "http://h"\n'
    assert [warning.key for warning in parse_config(text).warnings] == ["upstreams[0].name"]
    assert parse_config(f'{text}[storage]\nkey = "a key of the store"\n').warnings == ()
