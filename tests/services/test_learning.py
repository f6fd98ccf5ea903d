"""Services that do not know what their protocol has by now: told once, remembered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dragoman.config import Account, Client, Config, Secret, Upstream
from dragoman.config.settings import ServiceName
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.serving.learnt import Learnt
from tests.faults.conftest import SERVER, TIMEOUTS
from tests.faults.upstream import Upstream as Server
from tests.faults.upstream import answer, running_upstream, whole
from tests.gateway.clients import body
from tests.gateway.http import KEY, Answer, call
from tests.upstream.servers import Call

SERVICES: tuple[ServiceName, ...] = ("bedrock_invoke", "vertex", "plain")
DATE, BETAS = "2026-10-21", "a-2025-01-01,b-2025-01-01"

Judge = Callable[[dict[str, Any], dict[str, str]], str]
"""Why a request is refused, from its body and headers; empty if it is not."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_upstream() as server:
        yield server


@pytest.fixture
def gateway(server: Server) -> Iterator[RunningGateway]:
    """A gateway that knows nothing yet."""
    server.calls.clear()
    config = Config(
        server=SERVER,
        clients=(Client(name="tester", key=Secret(KEY)),),
        upstreams=tuple(
            Upstream(
                name=name,
                protocol="anthropic_messages",
                service=name,
                base_url=server.url,
                timeouts=TIMEOUTS,
            )
            for name in SERVICES
        ),
        accounts=tuple(
            Account(name=f"{name}-{number}", upstream=name, key=Secret("k"))
            for name in SERVICES
            for number in range(2)
        ),
    )
    with running_gateway(config) as gateway:
        yield gateway


def judged(server: Server, judge: Judge) -> None:
    """Have the server refuse what `judge` does not like, in the words of the service."""

    async def handle(call: Call) -> None:
        refusal = judge(json.loads(call.body), dict(call.headers))
        if not refusal:
            await call.send(answer(whole("messages", "Good")))
            return
        error = {"type": "invalid_request_error", "message": refusal}
        value = {"message": refusal} if "/model/" in call.target else {"type": "error"}
        await call.send(answer(json.dumps({**value, "error": error}).encode(), 400))

    server.behaviours["k"] = handle


def ask(gateway: RunningGateway, service: str, policy: str = "", **more: Any) -> Answer:
    headers = {"anthropic-version": DATE, "anthropic-beta": BETAS}
    if policy:
        headers["x-dragoman-policy"] = policy
    asked = body("messages", f"{service}/m", **more)
    return call(gateway.base_url, "POST", "/v1/messages", asked, headers)


def betas_of(body: dict[str, Any], headers: dict[str, str]) -> list[str]:
    named = headers.get("anthropic-beta", "")
    return [*body.get("anthropic_beta", []), *(named.split(",") if named else [])]


def all_active(gateway: RunningGateway) -> bool:
    states = [gateway.app.pool.state(one.name) for one in gateway.app.config.accounts]
    return not any(state.disabled or state.exhausted or state.cooling for state in states)


@pytest.mark.parametrize("service", ["bedrock_invoke", "vertex"])
def test_a_version_that_a_service_refuses(
    service: str, gateway: RunningGateway, server: Server
) -> None:
    documented = {"bedrock_invoke": "bedrock-2023-05-31", "vertex": "vertex-2023-10-16"}[service]

    def judge(body: dict[str, Any], headers: dict[str, str]) -> str:
        given = body["anthropic_version"]
        return "" if given == documented else f"anthropic_version: {given} is not supported"

    judged(server, judge)
    assert ask(gateway, service).status == 200
    versions = [json.loads(one.body)["anthropic_version"] for one in server.calls]
    assert versions == [DATE, documented]
    assert ask(gateway, service).status == 200
    assert json.loads(server.calls[-1].body)["anthropic_version"] == documented
    assert len(server.calls) == 3
    assert all_active(gateway)


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("names", [True, False], ids=["named", "unnamed"])
def test_a_beta_that_a_service_does_not_know(
    service: str, names: bool, gateway: RunningGateway, server: Server
) -> None:
    """The named one is left out, else all."""

    def judge(body: dict[str, Any], headers: dict[str, str]) -> str:
        unknown = "a-2025-01-01" in betas_of(body, headers)
        return f"invalid beta flag{': a-2025-01-01' if names else ''}" if unknown else ""

    judged(server, judge)
    for calls in (2, 3):
        told = ask(gateway, service)
        assert told.status == 200, told.body
        assert "anthropic-beta" in told.headers["x-dragoman-losses"]
        assert len(server.calls) == calls
        last = server.calls[-1]
        left = betas_of(json.loads(last.body), dict(last.headers))
        assert left == (["b-2025-01-01"] if names else [])
    assert all_active(gateway)
    strict = ask(gateway, service, "strict")
    assert strict.status == 400
    assert len(server.calls) == 3


TOOL = {"name": "f", "input_schema": {"type": "object"}, "defer_loading": True}


@pytest.mark.parametrize("service", SERVICES)
def test_a_member_that_a_service_does_not_know(
    service: str, gateway: RunningGateway, server: Server
) -> None:
    """One after another, as a service names them."""

    def judge(body: dict[str, Any], headers: dict[str, str]) -> str:
        for number, tool in enumerate(body["tools"]):
            if "defer_loading" in tool:
                return f"tools.{number}.custom.defer_loading: Extra inputs are not permitted"
        return "context_management: Extra inputs are not permitted" * ("context_management" in body)

    judged(server, judge)
    more: Any = {"tools": [TOOL, {**TOOL, "name": "g"}], "context_management": {"edits": []}}
    for calls in (3, 4):
        told = ask(gateway, service, **more)
        assert told.status == 200, told.body
        for path in ("tools[0].defer_loading", "tools[1].defer_loading", "context_management"):
            assert path in told.headers["x-dragoman-losses"]
        assert len(server.calls) == calls
    assert all_active(gateway)
    assert ask(gateway, service, "strict", **more).status == 400


def test_a_member_that_is_needed_is_not_left_out(gateway: RunningGateway, server: Server) -> None:
    judged(server, lambda body, headers: "messages: Extra inputs are not permitted")
    told = ask(gateway, "vertex")
    assert told.status == 400
    assert len(server.calls) == 1


def test_a_service_that_refuses_without_end(gateway: RunningGateway, server: Server) -> None:
    """Each call of one request leaves out what the last one was refused for, a few times."""
    more: Any = {f"m{number}": 1 for number in range(20)}

    def judge(body: dict[str, Any], headers: dict[str, str]) -> str:
        first = next((name for name in more if name in body), None)
        return f"{first}: Extra inputs are not permitted"

    judged(server, judge)
    assert ask(gateway, "vertex", **more).status == 400
    assert len(server.calls) == 5


def test_what_a_service_does_not_know_is_remembered_for_a_day() -> None:
    """What refusals say else is kept for an hour."""
    now = 0.0
    learnt = Learnt(lambda: now)
    of_service = {"omit_betas": ("*",), "client_versions": False}
    learnt.learn("me", {("u", "m"): of_service, ("u", "n"): {"final_assistant": False}})
    known = learnt._of(("me", "u", "m")), learnt._of(("me", "u", "n"))
    assert known == (of_service, {"final_assistant": False})
    now = 3_601.0
    assert learnt._of(("me", "u", "m")) == of_service
    assert not learnt._of(("me", "u", "n"))
    now = 24 * 3_600.0
    assert not learnt._of(("me", "u", "m"))
