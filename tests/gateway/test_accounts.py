"""One bad account never reaches the client while a good one is left: the tiers, on every path."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Account, Client, Config, Secret, Server, Upstream
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault, FaultKind
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.app import Gateway
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import APIS, PATHS, body, completed, error_of, streamed_text, text_of
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import KEY, Answer, call
from tests.gateway.processes import until

PATHS_AND_MODES = list(itertools.product(APIS, (False, True)))
GOOD = "sk-sim-good"


def ask(gateway: RunningGateway, api: str, model: str, stream: bool = False, **more: Any) -> Answer:
    made = body(api, model, stream=stream, **more)
    return call(gateway.base_url, "POST", PATHS[api], made)


def is_good(api: str, answer: Answer, stream: bool) -> bool:
    if answer.status != 200:
        return False
    if stream:
        return completed(api, answer.body) and bool(streamed_text(api, answer.body))
    return bool(text_of(api, answer))


BAD_KEYS = [
    "sk-sim-401",
    "sk-sim-402",
    "sk-sim-403",
    "sk-sim-429",
    "sk-sim-500",
    "sk-sim-503",
    "sk-sim-529",
    "sk-sim-error_200",
    "sk-sim-html",
    "sk-sim-empty",
    "sk-sim-wrong_protocol",
]


@pytest.mark.parametrize("bad", BAD_KEYS)
@pytest.mark.parametrize(("api", "stream"), PATHS_AND_MODES)
def test_a_bad_account_does_not_reach_the_client(
    start: Start, simulator: RunningSimulator, api: str, stream: bool, bad: str
) -> None:
    """The same rules on all six paths. req: 10, 135, 136, 142"""
    gateway = start(keys=(bad, GOOD))
    upstream = {"chat": "messages", "messages": "responses", "responses": "chat"}[api]
    answer = ask(gateway, api, f"{upstream}/sim-text", stream)
    assert is_good(api, answer, stream)
    assert [request.key for request in simulator.requests] == [bad, GOOD]


@pytest.mark.parametrize(("api", "stream"), PATHS_AND_MODES)
def test_an_account_that_breaks_off_before_the_first_event(
    start: Start, simulator: RunningSimulator, api: str, stream: bool
) -> None:
    """A stream is tried again as long as the client was shown nothing of it. req: 142"""
    gateway = start(keys=("sk-sim-bad", GOOD))
    kinds: tuple[FaultKind, ...] = ("close", "reset", "error_in_stream")
    for kind in kinds:
        fault = Fault(kind, after=0, failure=Failure(status=529))
        simulator.app.keys.behaviours["sk-sim-bad"] = KeyBehaviour(fault)
        assert is_good(api, ask(gateway, api, "chat/sim-text", stream), stream)


@pytest.mark.parametrize(("api", "stream"), PATHS_AND_MODES)
def test_a_request_that_is_at_fault_is_not_tried_again(
    start: Start, simulator: RunningSimulator, api: str, stream: bool
) -> None:
    """Back to the client with its status, and no account pays for it. req: 133, 137"""
    gateway = start(keys=("sk-sim-a", "sk-sim-b"))
    for status in (400, 404, 413, 422):
        simulator.app.requests.clear()
        answer = ask(gateway, api, f"chat/sim-error?status={status}&message=Told", stream)
        assert answer.status == status
        assert "Told" in error_of(api, answer)["message"]
        assert len(simulator.requests) == 1
    simulator.app.requests.clear()
    answer = ask(gateway, api, "chat/sim-error?status=403&message=estimated_cost", stream)
    assert answer.status == 403
    assert "estimated cost" in error_of(api, answer)["message"].lower()
    assert len(simulator.requests) == 1
    assert all(gateway.app.pool.state(f"chat-{n}").cooling == {} for n in (0, 1))


@pytest.mark.parametrize("text", ["insufficient_tokens", "upgrade", "limit"])
def test_a_poor_account_stays_active(start: Start, simulator: RunningSimulator, text: str) -> None:
    """req: 134"""
    gateway = start(keys=("sk-sim-poor", GOOD))
    failure = Failure(status=403, message=_forbidden(text))
    simulator.app.keys.behaviours["sk-sim-poor"] = KeyBehaviour(Fault("error", failure=failure))
    for _ in range(2):
        assert ask(gateway, "chat", "chat/sim-text").status == 200
    keys = [request.key for request in simulator.requests]
    assert keys == ["sk-sim-poor", GOOD, "sk-sim-poor", GOOD]


def _forbidden(name: str) -> str:
    from dragoman.lab.simulator.steering import FORBIDDEN_TEXTS

    return FORBIDDEN_TEXTS[name]


def test_a_refused_key_is_disabled(start: Start, simulator: RunningSimulator) -> None:
    """req: 136"""
    gateway = start(keys=("sk-sim-401", GOOD))
    for _ in range(3):
        assert ask(gateway, "chat", "chat/sim-text").status == 200
    keys = [request.key for request in simulator.requests]
    assert keys == ["sk-sim-401", GOOD, GOOD, GOOD]
    assert gateway.app.pool.state("chat-0").disabled


@pytest.mark.parametrize(("status", "told"), [(401, 403), (402, 429)])
def test_an_upstream_that_refuses_every_account_empties_no_pool(
    start: Start, simulator: RunningSimulator, status: int, told: int
) -> None:
    """Fifty accounts and a sign-in that fails: clients are told at once, one account tries, and all
    are there when it is over."""
    keys = tuple(f"sk-sim-key{number}" for number in range(50))
    failure = Fault("error", failure=Failure(status=status))
    for key in keys:
        simulator.app.keys.behaviours[key] = KeyBehaviour(failure)
    gateway = start(keys=keys)
    ask(gateway, "chat", "chat/sim-text")
    attempts = len(simulator.requests)
    answer = ask(gateway, "chat", "chat/sim-text")
    assert answer.status == told
    assert "gateway's own accounts" in error_of("chat", answer)["message"]
    assert len(simulator.requests) == attempts
    simulator.app.keys.behaviours.clear()
    until(lambda: ask(gateway, "chat", "chat/sim-text").status == 200)
    simulator.requests.clear()
    for _ in keys:
        assert ask(gateway, "chat", "chat/sim-text").status == 200
    assert len({request.key for request in simulator.requests}) == len(keys)


def test_a_limited_account_rests_for_its_model(start: Start, simulator: RunningSimulator) -> None:
    gateway = start(keys=("sk-sim-limited", GOOD))
    failure = Failure(status=429, retry_after="20")
    fault = Fault("error", failure=failure, times=1)
    simulator.app.keys.behaviours["sk-sim-limited"] = KeyBehaviour(fault)
    for model in ("sim-text", "sim-text", "sim-multibyte"):
        assert ask(gateway, "chat", f"chat/{model}").status == 200
    keys = [request.key for request in simulator.requests]
    assert keys == ["sk-sim-limited", GOOD, GOOD, "sk-sim-limited"]


def test_accounts_take_turns(start: Start, simulator: RunningSimulator) -> None:
    """req: 140"""
    gateway = start(keys=("sk-sim-a", "sk-sim-b", "sk-sim-c"))
    for _ in range(6):
        ask(gateway, "chat", "chat/sim-text")
    keys = [request.key[-1] for request in simulator.requests]
    assert keys == ["a", "b", "c", "a", "b", "c"]


@pytest.mark.parametrize(("api", "stream"), PATHS_AND_MODES)
def test_no_account_left(start: Start, api: str, stream: bool) -> None:
    """With reasons, and when to come back. req: 139, 144"""
    gateway = start(keys=("sk-sim-a",))
    answer = ask(gateway, api, "chat/sim-error?status=429&retry_after=20", stream)
    assert answer.status == 429
    assert 0 < int(answer.headers["retry-after"]) <= 20
    assert "No active accounts available" in error_of(api, answer)["message"]
    answer = ask(gateway, api, "chat/sim-error?status=429&retry_after=20", stream)
    assert answer.status == (529 if api == "messages" else 503)
    assert 0 < int(answer.headers["retry-after"]) <= 20
    message = error_of(api, answer)["message"]
    assert message.startswith("No active accounts available")
    assert "rate limited: 1" in message


@pytest.mark.parametrize("api", APIS)
def test_our_accounts_trouble_is_not_told_as_the_clients(start: Start, api: str) -> None:
    for key in ("sk-sim-401", "sk-sim-403"):
        gateway = start(keys=(key,))
        for _ in range(2):  # tried, and known to be of no use
            answer = ask(gateway, api, "chat/sim-text")
            assert answer.status == 403
            assert "not your key" in error_of(api, answer)["message"]
            assert key not in answer.body.decode()


def test_ten_attempts_at_most(start: Start, simulator: RunningSimulator) -> None:
    """And no account twice. req: 138, 139"""
    keys = tuple(f"sk-sim-poor{number}" for number in range(12))
    gateway = start(keys=keys)
    failure = Failure(status=403, message=_forbidden("upgrade"))
    for key in keys:
        simulator.app.keys.behaviours[key] = KeyBehaviour(Fault("error", failure=failure))
    answer = ask(gateway, "chat", "chat/sim-text")
    assert answer.status == 502
    assert "All accounts exhausted" in error_of("chat", answer)["message"]
    asked = [request.key for request in simulator.requests]
    assert len(asked) == len(set(asked)) == 10


@pytest.mark.parametrize("asked", [True, False])
def test_sdks_can_be_told_not_to_try_again(start: Start, asked: bool) -> None:
    """Only when several accounts were tried."""
    gateway = start(keys=("sk-sim-a", "sk-sim-b"), server=Server(retry_headers=asked))
    answer = ask(gateway, "chat", "chat/sim-429")
    assert answer.headers.get("x-should-retry") == ("false" if asked else None)
    answer = ask(gateway, "chat", "chat/sim-400")
    assert "x-should-retry" not in answer.headers


def test_an_unreachable_upstream_is_no_fault_of_its_accounts(start: Start) -> None:
    """req: 141"""
    gateway = start(keys=("sk-sim-close", "sk-sim-reset", GOOD))
    for _ in range(2):
        assert ask(gateway, "chat", "chat/sim-text").status == 200
    assert all(not gateway.app.pool.state(f"chat-{n}").disabled for n in range(3))


def test_accounts_are_kept_to_their_models(start: Start, simulator: RunningSimulator) -> None:
    config = Config(
        clients=(Client(name="tester", key=Secret(KEY)),),
        upstreams=(Upstream(name="chat", protocol="openai_chat", base_url=simulator.base_url),),
        accounts=(
            Account(name="a", upstream="chat", key=Secret("sk-sim-a"), models=("sim-m*",)),
            Account(name="b", upstream="chat", key=Secret("sk-sim-b"), models=("sim-text",)),
        ),
    )
    gateway = start(config)
    for model, key in (("sim-text", "b"), ("sim-multibyte", "a"), ("sim-text", "b")):
        assert ask(gateway, "messages", f"chat/{model}").status == 200
        assert simulator.last.key == f"sk-sim-{key}"
    answer = ask(gateway, "chat", "chat/sim-length")
    assert answer.status == 403


def test_the_key_goes_upstream_in_the_upstreams_own_header(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    ask(gateway, "messages", "chat/sim-text")
    assert simulator.last.header("authorization") == "Bearer sk-sim-account"
    assert simulator.last.header("x-api-key") is None
    ask(gateway, "chat", "messages/sim-text")
    assert simulator.last.header("x-api-key") == "sk-sim-account"
    assert simulator.last.header("authorization") is None
    assert simulator.last.header("anthropic-version") == "2026-10-21"


def test_a_messages_client_keeps_its_version_and_betas(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "effort-2025-11-24"}
    made = body("messages", "messages/sim-text")
    call(gateway.base_url, "POST", "/v1/messages", made, headers)
    assert simulator.last.header("anthropic-version") == "2023-06-01"
    assert simulator.last.header("anthropic-beta") == "effort-2025-11-24"
    made = body("messages", "chat/sim-text")
    call(gateway.base_url, "POST", "/v1/messages", made, headers)
    assert simulator.last.header("anthropic-beta") is None


@pytest.mark.parametrize(("api", "stream"), PATHS_AND_MODES)
def test_usage_is_noted(
    gateway: RunningGateway, caplog: pytest.LogCaptureFixture, api: str, stream: bool
) -> None:
    """Of every answer, also where the upstream sends none. req: 143"""
    caplog.set_level("INFO", "dragoman.requests")
    answer = ask(gateway, api, "messages/sim-cached_usage", stream)
    assert answer.status == 200
    noted = '"usage":{"input":200,"output":50,"cached":64'
    # Written once the upstream's answer is at its end.
    until(lambda: any(noted in message for message in caplog.messages))


class TestTheProcedure:
    """The rule set that follows the account-pool procedure to the letter."""

    @pytest.fixture
    def sop(self, start: Start, simulator: RunningSimulator) -> Start:
        def started(keys: tuple[str, ...]) -> RunningGateway:
            config = config_for(simulator.base_url, keys=keys)
            upstreams = [replace(entry, account_rules="sop") for entry in config.upstreams]
            return start(replace(config, upstreams=tuple(upstreams)))

        return started

    @pytest.mark.parametrize("status", [402, 429])
    def test_exhausted_accounts_are_disabled(
        self, sop: Start, simulator: RunningSimulator, status: int
    ) -> None:
        """req: 135"""
        gateway = sop(keys=(f"sk-sim-{status}", GOOD))
        for _ in range(2):
            assert ask(gateway, "chat", "chat/sim-text").status == 200
        keys = [request.key for request in simulator.requests]
        assert keys == [f"sk-sim-{status}", GOOD, GOOD]
        assert gateway.app.pool.state("chat-0").disabled

    @pytest.mark.parametrize("api", APIS)
    def test_what_no_tier_names_goes_back_at_once(
        self, sop: Start, simulator: RunningSimulator, api: str
    ) -> None:
        """req: 137"""
        gateway = sop(keys=("sk-sim-a", "sk-sim-b"))
        answer = ask(gateway, api, "chat/sim-error?status=500&message=Broken")
        assert answer.status >= 500
        assert "Broken" in error_of(api, answer)["message"]
        assert len(simulator.requests) == 1

    @pytest.mark.parametrize("api", APIS)
    def test_the_texts_of_the_end(self, sop: Start, api: str) -> None:
        """req: 139"""
        gateway = sop(keys=("sk-sim-429",))
        for _ in range(2):
            answer = ask(gateway, api, "chat/sim-text")
            assert answer.status == (529 if api == "messages" else 503)
            message = error_of(api, answer)["message"]
            assert message.startswith("No active accounts available")


def test_the_application_can_be_built_without_a_server(simulator: RunningSimulator) -> None:
    assert Gateway(config_for(simulator.base_url)).pool.usable()
