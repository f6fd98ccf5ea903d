"""Who may call: pages in a browser, guesses of keys, clients behind proxies."""

from __future__ import annotations

import asyncio
import json

import pytest
from msgspec.structs import replace

from dragoman.config import Admin, ConfigError, Secret, Server, parse_config
from dragoman.edge.logins import Logins, relay_logins
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.link.messages import Handlers
from dragoman.link.owner import Owner
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.clients import APIS, PATHS, body, error_of
from tests.gateway.conftest import SERVER, Start, config_for
from tests.gateway.http import JSON, KEY, Answer, call


@pytest.fixture
def unkeyed(start: Start) -> RunningGateway:
    return start(clients=())


HERE = ["localhost", "localhost:8080", "127.0.0.1", "127.0.0.1:80", "[::1]:8080", "a.localhost"]
ELSEWHERE = ["attacker.example", "localhost.attacker.example", "127.0.0.1.nip.io", "10.0.0.1"]


@pytest.mark.parametrize("api", APIS)
def test_without_clients_only_this_machine_is_meant(unkeyed: RunningGateway, api: str) -> None:
    """Not a name that somebody had lead here."""
    made = body(api, f"{api}/sim-text")
    for host in HERE:
        answer = call(unkeyed.base_url, "POST", PATHS[api], made, {"host": host}, key=None)
        assert answer.status == 200
    for host in ELSEWHERE:
        answer = call(unkeyed.base_url, "POST", PATHS[api], made, {"host": host}, key=None)
        assert answer.status == 403
        assert "Host" in error_of(api, answer)["message"]
        for path in ("/v1/models", "/metrics", "/healthz"):
            answer = call(unkeyed.base_url, "GET", path, None, {"host": host}, key=None)
            assert answer.status == 403


@pytest.mark.parametrize("api", APIS)
def test_without_clients_no_page_from_elsewhere_may_call(
    unkeyed: RunningGateway, simulator: RunningSimulator, api: str
) -> None:
    made = body(api, f"{api}/sim-text")
    for origin in (
        "https://attacker.example",
        "http://localhost.attacker.example",
        "null",
        "file://",
        "chrome-extension://localhost",
        "http://127.0.0.1@attacker.example",
    ):
        answer = call(unkeyed.base_url, "POST", PATHS[api], made, {"origin": origin}, key=None)
        assert answer.status == 403
        assert not any(name.startswith("access-control") for name in answer.headers)
    assert simulator.requests == []
    for origin in ("http://localhost:3000", "https://127.0.0.1", "http://[::1]:5173"):
        answer = call(unkeyed.base_url, "POST", PATHS[api], made, {"origin": origin}, key=None)
        assert answer.status == 200
        assert not any(name.startswith("access-control") for name in answer.headers)


def test_without_clients_a_page_must_name_its_content(unkeyed: RunningGateway) -> None:
    """What a page may send without asking first is no JSON; programs need not say what it is."""
    data = json.dumps(body("chat", "chat/sim-text")).encode()
    page = {"origin": "http://localhost:3000"}
    for headers, status in (
        (page, 415),
        ({**page, "content-type": "text/plain"}, 415),
        ({**page, **JSON}, 200),
        ({}, 200),
    ):
        answer = call(unkeyed.base_url, "POST", PATHS["chat"], data, headers, key=None)
        assert answer.status == status


def test_without_clients_no_page_is_granted_anything(unkeyed: RunningGateway) -> None:
    for origin in ("https://attacker.example", "http://localhost:3000"):
        headers = {"origin": origin, "access-control-request-method": "POST"}
        answer = call(unkeyed.base_url, "OPTIONS", PATHS["chat"], None, headers, key=None)
        assert not any(name.startswith("access-control") for name in answer.headers)


def test_with_clients_any_page_may_call_with_a_key(gateway: RunningGateway) -> None:
    headers = {"origin": "https://anywhere.example", "host": "gateway.example"}
    made = body("chat", "chat/sim-text")
    answer = call(gateway.base_url, "POST", PATHS["chat"], made, headers)
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "*"


PROXIED = replace(SERVER, trusted_proxies=("127.0.0.1",), failed_logins=3)


@pytest.mark.parametrize("api", APIS)
def test_an_address_may_not_guess_for_long(start: Start, api: str) -> None:
    gateway = start(server=PROXIED)
    made = body(api, f"{api}/sim-text")

    def status(address: str, key: str) -> int:
        headers = {"x-forwarded-for": address}
        return call(gateway.base_url, "POST", PATHS[api], made, headers, key=key).status

    guesses = [status("192.0.2.1", f"sk-guess-{number}") for number in range(5)]
    assert guesses == [401, 401, 401, 429, 429]
    # Nobody who has a key is refused for what others at the address tried.
    assert status("192.0.2.1", KEY) == 200
    assert status("192.0.2.1", "sk-guess") == 429
    assert status("192.0.2.2", "sk-guess") == 401
    headers = {"x-forwarded-for": "192.0.2.1"}
    answer = call(gateway.base_url, "POST", PATHS[api], made, headers, key=None)
    assert answer.status == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    error_of(api, answer)


@pytest.mark.parametrize("path", ["/admin/openapi.json", "/admin/session", "/metrics"])
def test_wrong_keys_of_the_administration_count(simulator: RunningSimulator, path: str) -> None:
    made = config_for(simulator.base_url, server=PROXIED)
    config = replace(made, admin=Admin(key=Secret("sk-admin-token-of-tests")))
    with running_gateway(config) as gateway:
        headers = {"x-forwarded-for": "192.0.2.1"}

        def answer(key: str) -> Answer:
            return call(gateway.base_url, "GET", path, None, headers, key=key)

        assert [answer(f"k{n}").status for n in range(5)] == [401, 401, 401, 429, 429]
        assert 1 <= int(answer("k").headers["retry-after"]) <= 60
        assert answer("sk-admin-token-of-tests").status == 200


def test_this_machine_may_fail_as_often_as_it_likes(start: Start) -> None:
    gateway = start(server=replace(SERVER, failed_logins=2))
    for _ in range(5):
        assert call(gateway.base_url, "GET", "/v1/models", key="sk-wrong").status == 401


def test_who_is_no_trusted_proxy_is_not_believed(start: Start) -> None:
    """Else whoever guesses would choose an address anew for each guess."""
    gateway = start(server=replace(PROXIED, trusted_proxies=("192.0.2.9",), failed_logins=1))
    for number in range(3):
        headers = {"x-forwarded-for": f"192.0.2.{number}"}
        answer = call(gateway.base_url, "GET", "/v1/models", None, headers, key="sk-wrong")
        assert answer.status == 401


def test_the_address_is_logged(simulator: RunningSimulator) -> None:
    lines: list[bytes] = []
    with running_gateway(config_for(simulator.base_url, server=PROXIED), lines.append) as gateway:
        for headers in ({"x-forwarded-for": "192.0.2.7"}, {}):
            call(gateway.base_url, "GET", "/v1/models", None, headers)
    first, second = (json.loads(line) for line in lines)
    assert first["address"] == "192.0.2.7"
    assert "address" not in second


def test_failures_are_forgotten() -> None:
    now = [100.0]
    owner = Owner()
    relay_logins(owner)
    logins = Logins(2, owner.join(Handlers()), lambda: now[0])
    for moment, wait in ((100.0, 0.0), (101.0, 0.0), (110.0, 50.0), (160.0, 0.0), (161.0, 0.0)):
        now[0] = moment
        assert logins.failed("192.0.2.1") == wait
    # A network of IPv6 is one customer's.
    assert [logins.failed(f"2001:db8::{number}") for number in range(3)] == [0.0, 0.0, 60.0]
    # However many addresses there are, few are remembered.
    for number in range(10_000):
        logins.failed(f"10.0.{number // 256}.{number % 256}")
    assert logins.failed("2001:db8::1") == 0.0
    off = Logins(0, owner.join(Handlers()))
    assert not any(off.failed("192.0.2.1") for _ in range(100))


async def test_failures_count_at_all_workers() -> None:
    owner = Owner()
    relay_logins(owner)
    logins = [Logins(2, owner.join(Handlers(), number)) for number in range(3)]
    for one in logins[:2]:
        assert not one.failed("192.0.2.1")
        await asyncio.sleep(0)
    assert logins[2].failed("192.0.2.1")


def test_a_trusted_proxy_is_an_address() -> None:
    with pytest.raises(ConfigError, match="trusted_proxies"):
        parse_config('[server]\ntrusted_proxies = ["nginx"]\n')
    told = ["10.0.0.0/8", "::1", "unix"]
    loaded = parse_config(f"[server]\ntrusted_proxies = {json.dumps(told)}\n")
    assert loaded.config.server == Server(trusted_proxies=tuple(told))
