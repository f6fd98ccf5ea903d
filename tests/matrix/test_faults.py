"""Upstreams that fail: in every cell the client gets an explicit error, never a false success."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from dragoman.config import parse_config
from dragoman.lab.simulator.script import Failure, Fault, FaultKind, Pace, Scenario, Text
from dragoman.server.testing import running_gateway
from tests.matrix.bodies import Wish, body
from tests.matrix.cases import APIS
from tests.matrix.conftest import CONFIG, DIALLED, JUDGES, SOCKETS, UPSTREAMS, Stage, cells
from tests.matrix.judges import Api, Ask, Mode, Seen

STATUSES = (400, 401, 402, 403, 404, 413, 429, 500, 503, 529)
MODES: tuple[Mode, ...] = ("full", "helper", "raw")
GRID = [*cells(MODES), *SOCKETS]
UPSTREAM = """
[[upstreams]]
name = "{api}-{label}"
protocol = "{protocol}"
base_url = "{base_url}"
websocket = "{websocket}"
[upstreams.timeouts]
idle_s = {idle_s}

[[accounts]]
name = "{api}-{label}-1"
upstream = "{api}-{label}"
key = "{key}"
"""
SUCCESS = ("message_stop", "response.completed")


@pytest.fixture(scope="module")
def faulty(stage: Stage) -> Iterator[str]:
    """A gateway whose accounts fail with a status each; `calm` accounts do not, and
    `hasty` upstreams are not waited for."""
    simulator = stage.simulator
    text = CONFIG
    labels = ("calm", "hasty", *STATUSES)
    for (api, protocol), label in itertools.product(UPSTREAMS.items(), labels):
        text += UPSTREAM.format(
            api=api,
            protocol=protocol,
            label=label,
            base_url=simulator.base_url,
            key=f"sk-sim-{label}",
            websocket="on" if api == DIALLED else "off",
            idle_s=0.1 if label == "hasty" else 2.0,
        )
    with running_gateway(parse_config(text)) as gateway:
        yield gateway.base_url


def ask(stage: Stage, gateway: str, judge: str, client: Api, mode: Mode, model: str) -> Seen:
    return stage.judge(judge).ask(Ask(client, mode, gateway, body(client, model, Wish())))


def expected(status: int, client: Api) -> set[int]:
    """What a client may be told when the only account answers `status`.

    An account's trouble is not the client's: a 401 never reaches it as such.
    """
    if status in (400, 404, 413):
        return {status}
    if status == 429:
        return {429}
    if status in (401, 403):
        return {403}
    if status == 402:
        return {402, 429}
    return {500, 502, 503, 529}


def alternating() -> Iterator[tuple[int, Api, Api, Mode, str]]:
    """Each status in each cell, whole and streamed: the SDKs' two ways to stream meet it in turn,
    so that each client meets each status in both."""
    for (number, status), (client, upstream, mode, judge) in itertools.product(
        enumerate(STATUSES), GRID
    ):
        turn = MODES[1 + (number + APIS.index(upstream)) % 2]
        if mode not in MODES[1:] or judge not in JUDGES or mode == turn:
            yield status, client, upstream, mode, judge


@pytest.mark.parametrize(("status", "client", "upstream", "mode", "judge"), list(alternating()))
def test_errors_before_the_stream(
    stage: Stage, faulty: str, status: int, client: Api, upstream: Api, mode: Mode, judge: str
) -> None:
    """The SDK raises the class its user expects, with a message. req: 121, 137, 152, 153"""
    model = f"{upstream}-{status}/sim-text"
    seen = ask(stage, faulty, judge, client, mode, model)
    assert seen.error is not None
    assert seen.error.status in expected(status, client) | {503, 529}
    assert seen.error.type
    assert seen.error.message


BROKEN: dict[str, Fault] = {
    "error in the stream": Fault("error_in_stream", after=6, failure=Failure(status=529)),
    "truncation": Fault("truncate", after=6),
    "closed": Fault("close", after=6),
    "reset": Fault("reset", after=6),
    "silence without end": Fault("silence", after=6, ms=20_000),
}
ODD: dict[str, Fault] = {
    kind: Fault(kind) for kind in ("error_200", "html", "empty", "wrong_protocol")
}


def assert_no_success(seen: Seen) -> None:
    if seen.finish == "failed":
        return  # a Responses answer that says itself that it failed
    assert seen.error is not None, seen
    assert seen.error.code != "model_not_found"
    events = seen.final or ()
    assert not [event for event in events if event.get("type") in SUCCESS]


@pytest.mark.parametrize(("client", "upstream", "mode", "judge"), GRID)
@pytest.mark.parametrize("fault", list(BROKEN.values()), ids=list(BROKEN))
def test_a_broken_answer_is_an_error(
    stage: Stage, faulty: str, fault: Fault, client: Api, upstream: Api, mode: Mode, judge: str
) -> None:
    """Nothing cut short looks complete. req: 115, 155, 156, 163"""
    name = f"broken_{fault.kind}"
    scenario = Scenario(steps=(Text("one two three four five six seven"),), fault=fault)
    stage.script(name, scenario)
    patience = "hasty" if fault.kind == "silence" else "calm"
    seen = ask(stage, faulty, judge, client, mode, f"{upstream}-{patience}/sim-{name}")
    assert_no_success(seen)


@pytest.mark.parametrize(("client", "upstream", "mode", "judge"), GRID)
@pytest.mark.parametrize("fault", list(ODD.values()), ids=list(ODD))
def test_an_answer_that_cannot_be_believed_is_an_error(
    stage: Stage, faulty: str, fault: Fault, client: Api, upstream: Api, mode: Mode, judge: str
) -> None:
    """A 200 that is not an answer becomes an honest 5xx."""
    name = f"odd_{fault.kind}"
    stage.script(name, Scenario(steps=(Text("x"),), fault=fault))
    seen = ask(stage, faulty, judge, client, mode, f"{upstream}-calm/sim-{name}")
    assert seen.error is not None, seen
    assert seen.error.status in (500, 502, 503, 529)


@pytest.mark.parametrize(
    ("client", "upstream", "mode", "judge"),
    [*cells(["helper"]), *SOCKETS],
)
def test_a_long_silence_is_bridged(
    stage: Stage, client: Api, upstream: Api, mode: Mode, judge: str
) -> None:
    """Signs of life do not disturb any SDK. req: 129"""
    name = "quiet"
    stage.script(name, Scenario(steps=(Text("one two"),), pace=Pace(delay_ms=60)))
    seen = stage.ask(judge, client, mode, body(client, f"{upstream}/sim-{name}", Wish()))
    assert seen.error is None, seen.error
    assert seen.text == "one two"


KINDS: tuple[FaultKind, ...] = ("truncate", "close", "reset")


@pytest.mark.parametrize(
    ("client", "upstream", "mode", "judge"),
    [*((*pair, "raw", "python") for pair in itertools.product(APIS, APIS)), *SOCKETS],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_break_inside_tool_arguments_never_completes_the_call(
    stage: Stage, faulty: str, kind: FaultKind, client: Api, upstream: Api, mode: Mode, judge: str
) -> None:
    from dragoman.lab.simulator.script import ToolCall

    name = f"half_call_{kind}"
    call = ToolCall("get_weather", '{"city": "Paris and a very long way beyond it"}')
    # A call of Google's is one chunk: what breaks off there is the answer.
    after = 1 if upstream == "google" else 8
    stage.script(name, Scenario(steps=(call,), pace=Pace(size=3), fault=Fault(kind, after=after)))
    made = body(client, f"{upstream}-calm/sim-{name}", Wish(tools=("get_weather",)))
    seen = stage.judge(judge).ask(Ask(client, mode, faulty, made))
    assert_no_success(seen)
