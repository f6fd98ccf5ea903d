"""The pool's rules as they are by default: requirements 133 to 144, on all six paths.

Where the default departs from the account-pool procedure, as with a 429 that passes, an upstream
may be set to the procedure's own rules (`account_rules = "sop"`).
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.gateway.testing import RunningGateway
from dragoman.simulator.accounts import KeyBehaviour
from dragoman.simulator.script import Failure, Fault
from dragoman.simulator.steering import FORBIDDEN_TEXTS
from dragoman.simulator.testing import RunningSimulator
from tests.gateway.clients import APIS, PATHS, body, completed, error_of, text_of
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import Answer, call

BAD, GOOD = "sk-sim-bad", "sk-sim-good"


class Path:
    """One client protocol, full or streamed, on a gateway whose accounts are all fresh."""

    def __init__(self, gateway: RunningGateway, client: str, stream: bool) -> None:
        self.gateway = gateway
        self.client = client
        self.stream = stream

    def ask(self, model: str = "sim-text") -> Answer:
        made = body(self.client, f"chat/{model}", stream=self.stream)
        return call(self.gateway.base_url, "POST", PATHS[self.client], made)

    def fails(self, answer: Answer, status: int) -> str:
        """Check the status of an error; its message."""
        assert answer.status == status
        assert answer.headers["content-type"] == "application/json"
        return str(error_of(self.client, answer)["message"])

    def answers(self) -> None:
        """Ask, and check that the answer is a good one."""
        answer = self.ask()
        assert answer.status == 200
        assert completed(self.client, answer.body) if self.stream else text_of(self.client, answer)


def six(gateway: RunningGateway, simulator: RunningSimulator) -> Iterator[Path]:
    """All six paths, nothing remembered from one to the next but whose turn it is."""
    for client, stream in itertools.product(APIS, (False, True)):
        for account in gateway.app.config.accounts:
            gateway.app.pool.enable(account.name)
        simulator.app.requests.clear()
        yield Path(gateway, client, stream)


def breaks(simulator: RunningSimulator, status: int, key: str = BAD, **failure: Any) -> None:
    """Have every request with `key` answered by an error."""
    fault = Fault("error", failure=Failure(status=status, **failure))
    simulator.app.keys.behaviours[key] = KeyBehaviour(fault)


def keys(simulator: RunningSimulator) -> list[str]:
    return [request.key or "" for request in simulator.requests]


def test_a_request_that_costs_too_much(start: Start, simulator: RunningSimulator) -> None:
    """No account could pay for it, so none is asked after the first. req: 133, 142"""
    for key in (BAD, GOOD):
        breaks(simulator, 403, key, message=FORBIDDEN_TEXTS["estimated_cost"])
    for path in six(start(keys=(BAD, GOOD)), simulator):
        assert "estimated cost" in path.fails(path.ask(), 403).lower()
        assert len(keys(simulator)) == 1


@pytest.mark.parametrize("words", ["insufficient_tokens", "upgrade", "limit"])
def test_an_account_with_too_little(start: Start, simulator: RunningSimulator, words: str) -> None:
    """The next one answers, and this one stays in its turn. req: 134, 142"""
    breaks(simulator, 403, message=FORBIDDEN_TEXTS[words])
    for path in six(start(keys=(BAD, GOOD)), simulator):
        path.answers()
        path.answers()
        assert keys(simulator) == [BAD, GOOD, BAD, GOOD]


@pytest.mark.parametrize(
    ("status", "rules", "disabled"),
    [
        (402, "default", False),
        (429, "default", False),
        (402, "sop", True),
        (429, "sop", True),
        (401, "default", True),
        (401, "sop", True),
    ],
)
def test_an_account_that_is_out(
    start: Start, simulator: RunningSimulator, status: int, rules: Any, disabled: bool
) -> None:
    """The next one answers. A refused key is out for good; a limit passes and quota comes back,
    unless the upstream is set to the procedure. req: 135, 136, 142"""
    breaks(simulator, status)
    config = config_for(simulator.base_url, keys=(BAD, GOOD))
    upstreams = tuple(replace(entry, account_rules=rules) for entry in config.upstreams)
    gateway = start(replace(config, upstreams=upstreams))
    for path in six(gateway, simulator):
        path.answers()
        path.answers()
        assert keys(simulator) == [BAD, GOOD, GOOD]
        assert bool(gateway.app.pool.state("chat-0").disabled) is disabled


@pytest.mark.parametrize("status", [400, 404, 409, 413, 422])
def test_a_request_that_is_at_fault(start: Start, simulator: RunningSimulator, status: int) -> None:
    """Back to the client at once, with its status and message."""
    for key in (BAD, GOOD):
        breaks(simulator, status, key, message="Told so.")
    for path in six(start(keys=(BAD, GOOD)), simulator):
        assert path.fails(path.ask(), status) == "Told so."
        assert len(keys(simulator)) == 1


@pytest.mark.parametrize(("status", "shown"), [(500, 502), (502, 502), (503, 503), (529, 503)])
def test_an_upstream_that_failed(
    start: Start, simulator: RunningSimulator, status: int, shown: int
) -> None:
    """Another account may reach a part of it that works. With none left its error is told."""
    breaks(simulator, status)
    for path in six(start(keys=(BAD, GOOD)), simulator):
        path.answers()
        assert keys(simulator) == [BAD, GOOD]
    breaks(simulator, status, GOOD)
    for path in six(start(keys=(BAD, GOOD)), simulator):
        overloaded = shown == 503 and path.client == "messages"
        message = path.fails(path.ask(), 529 if overloaded else shown)
        assert "No active accounts available" in message


def test_ten_attempts(start: Start, simulator: RunningSimulator) -> None:
    """Each with another account, and then a text that says so. req: 138"""
    names = tuple(f"sk-sim-poor{number}" for number in range(12))
    for name in names:
        breaks(simulator, 403, name, message=FORBIDDEN_TEXTS["limit"])
    for path in six(start(keys=names), simulator):
        assert "All accounts exhausted" in path.fails(path.ask(), 502)
        assert len(keys(simulator)) == len(set(keys(simulator))) == 10


def test_when_no_account_is_left(start: Start, simulator: RunningSimulator) -> None:
    """The reason, in the words of the procedure, and when to come back; of the later requests none
    is sent upstream. req: 144"""
    breaks(simulator, 429, retry_after="30")
    for path in six(start(keys=(BAD,)), simulator):
        for status in (429, 529 if path.client == "messages" else 503):
            answer = path.ask()
            assert "No active accounts available" in path.fails(answer, status)
            assert 0 < int(answer.headers["retry-after"]) <= 30
        assert keys(simulator) == [BAD]


def test_accounts_take_turns(start: Start, simulator: RunningSimulator) -> None:
    """The one used longest ago, whichever path asks; choosing it counts as use. req: 140"""
    gateway = start(keys=("sk-sim-a", "sk-sim-b", "sk-sim-c"))
    asked = []
    for path in six(gateway, simulator):
        path.answers()
        asked += keys(simulator)
    assert [key[-1] for key in asked] == ["a", "b", "c"] * 2


def test_an_unreachable_upstream(start: Start, simulator: RunningSimulator) -> None:
    """Its accounts are not to blame and stay active."""
    with socket.socket() as plug:
        plug.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{plug.getsockname()[1]}"
        gateway = start(config_for(nowhere, keys=(BAD, GOOD)))
        for path in six(gateway, simulator):
            path.fails(path.ask(), 502)
            for name in ("chat-0", "chat-1"):
                assert not gateway.app.pool.state(name).disabled


def test_a_connection_that_breaks_before_the_first_event(
    start: Start, simulator: RunningSimulator
) -> None:
    """Another account answers, and the client sees nothing of it. req: 142"""
    simulator.app.keys.behaviours[BAD] = KeyBehaviour(Fault("reset", after=0))
    for path in six(start(keys=(BAD, GOOD)), simulator):
        path.answers()
        assert keys(simulator) == [BAD, GOOD]


def test_an_upstream_that_tells_no_usage(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    """Zeros, not an error; a Chat client was not promised any. req: 143"""
    for path in six(gateway, simulator):
        answer = path.ask("sim-text?quirks=usage_none")
        assert answer.status == 200
        if path.client != "chat":
            assert b'"output_tokens":0' in answer.body
