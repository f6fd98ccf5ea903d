"""The doctor finds nothing wrong with this gateway, and each fault of a spoiled one."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from dragoman.demo import KEY, demo_config
from dragoman.edge.continuation import ConnectionMemory
from dragoman.lab.doctor import PROTOCOLS, Findings, NoModel, State, Unreachable, Weight, examine
from dragoman.lab.doctor.checks import GENERAL, PROTOCOL_CHECKS
from dragoman.lab.simulator.testing import running_simulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.doctor.faults import FAULTS, Fault
from tests.doctor.spoiler import Reply, Spoiler, spoiling

UPSTREAMS = ("chat", "messages", "responses", "google", "interactions")
THINKS = "messages/sim-reasoning_tool"
"""A model that thinks, and calls a tool where there is one."""


@pytest.fixture(scope="module")
def gateway() -> Iterator[RunningGateway]:
    with (
        running_simulator() as simulator,
        running_gateway(demo_config(simulator.base_url), None) as running,
    ):
        yield running


def look(
    url: str, *, key: str = KEY, model: str | None = "sim-messages", protocols: object = PROTOCOLS
) -> Findings:
    return asyncio.run(examine(url, key, model, protocols))  # type: ignore[arg-type]


def problems(findings: Findings) -> dict[str, str]:
    return {
        finding.check.id: finding.problem
        for finding in findings
        if finding.state in (State.BROKEN, State.WARNING)
    }


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_nothing_is_wrong_with_this_gateway(gateway: RunningGateway, upstream: str) -> None:
    """All checks, for clients of all protocols over an upstream of each; together they leave none
    unseen. req: 157, 158, 159, 160, 161, 162"""
    findings = look(gateway.base_url, model=f"sim-{upstream}")

    assert problems(findings) == {}
    unseen = {found.check.id for found in findings if found.state is State.NOT_SEEN}
    assert unseen <= {"messages.signature", "google.signature", "interactions.signature"}
    thought = look(
        gateway.openai_base_url,
        model=f"{upstream}/sim-reasoning",
        protocols=["anthropic_messages"],
    )
    states = {found.check.id: found.state for found in thought}
    assert states["messages.signature"] is State.OK


@pytest.mark.parametrize("check", FAULTS)
def test_a_fault_is_found_for_its_reason(gateway: RunningGateway, check: str) -> None:
    """Each thing a client needs is spoiled, alone, and told as what it is.
    req: 157, 158, 159, 160, 161, 162, 163, 164"""
    protocol, spoiled = FAULTS[check]
    place, _, name = check.partition(".")
    signs = name == "signature" and place != "google"
    model = f"{place}/sim-reasoning" if signs else "sim-messages"

    with spoiling(Spoiler(gateway.port, spoiled.spoil)) as server:
        found = look(server.url, model=model, protocols=[protocol])

    told = problems(found)
    assert check in told
    assert spoiled.told in told[check]
    assert told.keys() - {check} <= spoiled.also, told
    weights = {one.check.id: one.check.weight for one in found}
    assert found.broken == any(weights[name] is Weight.BROKEN for name in told)


KEYS: dict[str, tuple[Callable[[dict[str, str]], object], Callable[[dict[str, str]], bool]]] = {
    "server.auth": (
        lambda headers: headers.update({"authorization": f"Bearer {KEY}"}),
        lambda headers: False,
    ),
    "server.bearer": (lambda headers: None, lambda headers: "authorization" in headers),
    "server.x_api_key": (lambda headers: None, lambda headers: "x-api-key" in headers),
}


@pytest.mark.parametrize("check", KEYS)
def test_a_fault_with_keys_is_found(gateway: RunningGateway, check: str) -> None:
    """Any key is taken; the key is only taken from one of the two headers. req: 158"""
    ask, refuse = KEYS[check]

    with spoiling(Spoiler(gateway.port, ask=ask, refuse=refuse)) as server:
        found = look(server.url)

    told = problems(found)
    assert "status" in told[check]
    others = {other for other in KEYS if other != check}
    assert not others & told.keys()
    assert found.broken


SOCKETS = {
    "responses.websocket": ("responses/sim-length", "it ends as response.incomplete"),
    "responses.websocket_memory": ("sim-responses", "previous_response_not_found"),
}


@pytest.mark.parametrize("check", SOCKETS)
def test_a_fault_over_websocket_is_found(
    gateway: RunningGateway, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that ends in another way; a connection that remembers nothing."""
    monkeypatch.setattr(ConnectionMemory, "store", lambda memory, remembered: None)
    model, told = SOCKETS[check]
    found = look(gateway.base_url, model=model, protocols=["openai_responses"])
    assert told in problems(found)[check]


def test_websocket_is_not_missed_where_it_is_not_offered(gateway: RunningGateway) -> None:
    with spoiling(Spoiler(gateway.port)) as server:
        found = look(server.url, protocols=["openai_responses"])
    states = {one.check.id: one.state for one in found}
    assert {states[check] for check in SOCKETS} == {State.NOT_SEEN}
    assert not found.broken


def test_every_check_is_shown_to_fail() -> None:
    checks = {check.id for check in GENERAL}
    checks |= {check.id for _, own in PROTOCOL_CHECKS.values() for check in own}

    assert checks == FAULTS.keys() | KEYS.keys() | SOCKETS.keys()


def test_an_end_without_a_finish_reason_is_no_end(gateway: RunningGateway) -> None:
    """An error inside a stream is a failure; so is [DONE] without a finish_reason. req: 163"""
    _, unfinished = FAULTS["chat.finish"]
    error = b'data: {"error":{"message":"It broke.","type":"server_error"}}\n\ndata: [DONE]\n\n'

    def torn(reply: Reply) -> None:
        if reply.streamed:
            reply.body = reply.body.split(b"\n\n", 1)[0] + b"\n\n" + error

    found = {}
    for name, fault in (("unfinished", unfinished), ("torn", Fault(torn))):
        with spoiling(Spoiler(gateway.port, fault.spoil)) as server:
            found[name] = problems(look(server.url, protocols=["openai_chat"]))

    assert "chat.finish" in found["unfinished"]
    assert found["torn"]["chat.stream"] == "it ends in an error: It broke."


def test_an_answer_of_any_shape_is_no_accident(gateway: RunningGateway) -> None:
    """What is no answer of the protocol at all is told, and ends nothing."""

    def odd(reply: Reply) -> None:
        if reply.streamed:
            reply.body = b'data: {"choices": [7], "type": 7, "item": 7, "delta": 7}\n\n'
        elif reply.full:
            reply.answer(
                200, {"choices": 7, "output": [7], "content": 7, "candidates": [7], "usage": [7]}
            )

    with spoiling(Spoiler(gateway.port, odd)) as server:
        found = look(server.url)

    assert {f"{place}.full_shape" for place in UPSTREAMS} <= problems(found).keys()
    assert found.broken


def test_nothing_there_and_nothing_to_ask(gateway: RunningGateway) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(Unreachable):
        look(f"http://127.0.0.1:{port}")
    with pytest.raises(ValueError, match="http"):
        look("localhost:8080")

    with (
        spoiling(Spoiler(gateway.port, FAULTS["server.models"][1].spoil)) as server,
        pytest.raises(NoModel),
    ):
        look(server.url, model=None)


def test_whoever_gives_no_key_is_told_so(gateway: RunningGateway) -> None:
    done = run(gateway.base_url, DRAGOMAN_KEY="")
    assert done.returncode == 1
    assert "is refused with 401: give the key that clients send, with --key" in done.stderr


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dragoman", "doctor", *arguments],
        capture_output=True,
        check=False,
        env={**os.environ, **environ},
        text=True,
        timeout=60,
    )


def test_the_command_tells_one_line_a_check(gateway: RunningGateway) -> None:
    """Status 0 and a line for each check; the key may come from the environment. req: 157"""
    done = run(gateway.base_url, "--model", "sim-chat", DRAGOMAN_KEY=KEY)

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(line.split()[:2] == ["ok", "responses.sequence_number"] for line in lines)
    assert lines[-1].startswith(f"{len(lines) - 4} ok, 0 BROKEN, 0 warning, 3 not seen")
    assert KEY not in done.stdout + done.stderr


def test_the_command_tells_what_breaks_and_what_to_do(gateway: RunningGateway) -> None:
    """Status 1; three lines for what is wrong: what, in which client, what to do. req: 157"""
    _, spoiled = FAULTS["responses.item_id"]
    with spoiling(Spoiler(gateway.port, spoiled.spoil)) as server:
        done = run(
            *(server.url, "--key", KEY, "--model", "sim-chat"),
            *("--protocol", "openai_responses"),
        )

    assert done.returncode == 1
    lines = done.stdout.splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("BROKEN"))
    assert lines[place].split()[:2] == ["BROKEN", "responses.item_id"]
    assert "breaks: opencode, cline and the AI SDK" in lines[place + 1]
    assert "do: put the item's id into item_id" in lines[place + 2]
    assert "1 BROKEN" in lines[-1]
    assert not any("chat.done" in line for line in lines)


def test_the_command_prints_json(gateway: RunningGateway) -> None:
    done = run(f"http://127.0.0.1:{gateway.port}", "--key", KEY, "--model", "sim-chat", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["broken"]) == (0, False)
    assert {"server.models", "chat.done"} <= {check["check"]["id"] for check in found["checks"]}
    assert {check["state"] for check in found["checks"]} <= {"ok", "warning", "not seen"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["http://127.0.0.1:1"], "reached: Connection refused"),
        (["ftp://example.com"], "http"),
        (["http://127.0.0.1:1", "--key", "schlüssel"], "no header"),
    ],
)
def test_the_command_says_why_it_cannot_look(arguments: list[str], told: str) -> None:
    done = run(*arguments)

    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr
