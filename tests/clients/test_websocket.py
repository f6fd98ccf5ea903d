"""Programs that hold their conversation over a WebSocket: not by falling back to POST, and with the
same requests upstream as if they had posted."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.edge import websockets as edge_websockets
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.responses.websocket import service
from tests.clients.asking import CONTENT, SAID, ask
from tests.clients.programs import Api, Finished
from tests.clients.reading import called
from tests.clients.stage import GENERATING, Stage, playing, taking_turns
from tests.websocket.timing import SOON

ROUNDS = 9
AT_ONCE = 2
CODEX = "model_providers.gateway"
SOCKETS: dict[str, dict[str, Any]] = {
    "codex": {"arguments": ("-c", f"{CODEX}.supports_websockets=true")},
    "openai-agents-responses": {"environment": {"TRANSPORT": "websocket"}},
    "openai-agents-js": {"environment": {"TRANSPORT": "websocket"}},
}
"""How programs are told to use a WebSocket."""
MODEL = "gpt-5.5"


@pytest.fixture(scope="module")
def socket_upstream(simulator: RunningSimulator) -> Iterator[Stage]:
    """A gateway that itself calls its upstream over WebSocket."""
    with playing("responses", simulator, websocket="on") as stage:
        yield stage


def run(stage: Stage, program: str, prompt: str, folder: Path, **more: Any) -> Finished:
    """Run a program over a WebSocket."""
    return stage.run(program, MODEL, prompt, folder, **SOCKETS[program], **more)


def received(stage: Stage) -> list[Any]:
    """What the upstream was asked, without what differs from run to run."""
    asked = [one for one in stage.simulator.requests if one.method == "POST"]
    assert {one.path for one in asked} <= set(GENERATING)
    return [_settled(one.json) for one in asked]


_MARKS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|(?:call|toolu)_\w+")
_SEALED = ("encrypted_content", "signature", "client_metadata", "prompt_cache_key", "user_id", "id")
"""Members that are made anew each time. Items have no ids where nobody stores them."""


def _settled(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: one for name, one in value.items() if name not in _SEALED}
        return {name: _settled(one) for name, one in kept.items() if one is not None}
    if isinstance(value, list):
        return [_settled(one) for one in value]
    return _MARKS.sub("MARK", value) if isinstance(value, str) else value


def upgrades(stage: Stage) -> list[str | None]:
    """Of each request that the gateway heard, what it upgrades to."""
    return [one.headers.get("upgrade") for one in stage.tap.heard if one.path == "/v1/responses"]


def check_ten_turns(stage: Stage, program: str, tmp_path: Path) -> None:
    target = tmp_path / "work" / "notes.txt"
    prompt = ask(target, f"calls={AT_ONCE}", f"rounds={ROUNDS}")

    posted = stage.run(program, MODEL, prompt, tmp_path)
    assert posted.status == 0, posted
    right = received(stage)
    assert upgrades(stage) == [None] * len(right)
    for path in target.parent.iterdir():
        path.unlink()

    finished = run(stage, program, prompt, tmp_path)

    assert finished.status == 0, finished
    assert SAID in finished.output
    written = [path.read_text().rstrip("\n") for path in target.parent.iterdir()]
    assert written == [CONTENT] * (ROUNDS * AT_ONCE)
    assert upgrades(stage) == ["websocket"], "one connection for all turns, and nothing posted"
    bodies = received(stage)
    assert len(bodies) == len(right) == ROUNDS + 1
    for sent, wanted in zip(bodies, right, strict=True):
        assert sent == wanted
    assert len(called(stage.simulator.last.json)) == ROUNDS * AT_ONCE


@pytest.mark.parametrize(("stage", "program"), taking_turns(list(SOCKETS)), indirect=["stage"])
def test_ten_turns_of_parallel_tools(stage: Stage, program: str, tmp_path: Path) -> None:
    """Thinking, two calls at once, nine times, and the end: each request upstream is what it is
    where the program posts."""
    check_ten_turns(stage, program, tmp_path)


@pytest.mark.parametrize("program", ["codex", "openai-agents-js"])
def test_ten_turns_to_an_upstream_over_websocket(
    socket_upstream: Stage, program: str, tmp_path: Path
) -> None:
    """Sockets on both sides: an agent, and a program of an SDK."""
    check_ten_turns(socket_upstream, program, tmp_path)
    asked = [one for one in socket_upstream.simulator.requests if one.method == "POST"]
    assert None not in {one.header("sec-websocket-key") for one in asked}


@pytest.mark.parametrize(("stage", "program"), taking_turns(list(SOCKETS)), indirect=["stage"])
def test_an_error_ends_the_turn(stage: Stage, program: str, tmp_path: Path) -> None:
    """It is told once, and nothing is tried by POST after it."""
    prompt = ask(tmp_path / "notes.txt", 'fault=error status=400 message="no way"')

    finished = run(stage, program, prompt, tmp_path)

    assert finished.status == 1, finished
    told = finished.output + finished.errors
    # @openai/agents has a name of its own for any error, and leaves out the words.
    assert ("ModelBehaviorError" if program == "openai-agents-js" else "no way") in told
    assert upgrades(stage) == ["websocket"]
    assert len(received(stage)) == 1


def test_codex_tries_again_on_another_connection(stage: Stage, tmp_path: Path) -> None:
    """Where its turn was cut off: with all of the conversation, and not by POST."""
    target = tmp_path / "work" / "notes.txt"
    arguments = (*SOCKETS["codex"]["arguments"], "-c", f"{CODEX}.stream_max_retries=3")
    prompt = ask(target, "fault=reset after=3 times=1")

    finished = stage.run("codex", MODEL, prompt, tmp_path, arguments=arguments)

    assert finished.status == 0, finished
    assert target.read_text().rstrip("\n") == CONTENT
    assert upgrades(stage) == ["websocket"] * 2
    assert len(received(stage)) == 3


@pytest.mark.parametrize(("kind", "program"), taking_turns(list(SOCKETS)))
def test_programs_dial_again(
    simulator: RunningSimulator,
    kind: Api,
    program: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where connections end while they work: nothing is lost, nothing posted."""
    target = tmp_path / "work" / "notes.txt"
    monkeypatch.setattr(service, "MAX_AGE_S", 0.8)
    monkeypatch.setattr(edge_websockets, "PING_S", 0.2)
    with playing(kind, simulator) as stage:
        finished = run(stage, program, ask(target, "rounds=5", "first_ms=300"), tmp_path)

        assert finished.status == 0, finished
        assert SAID in finished.output
        assert len(list(target.parent.iterdir())) == 5
        assert set(upgrades(stage)) == {"websocket"}
        assert len(upgrades(stage)) > 1
        assert len(received(stage)) == 5 + 1


@pytest.mark.parametrize(("kind", "program"), taking_turns(list(SOCKETS)))
def test_a_program_that_is_killed_ends_its_turn(
    simulator: RunningSimulator, kind: Api, program: str, tmp_path: Path
) -> None:
    """Its upstream is let go, which else would be silent for a minute; how soon that is,
    `tests/websocket/test_faults.py` measures."""
    endless = "Go. [[sim: scenario=reasoning_tool fault=silence after=3 ms=60000]]"
    with playing(kind, simulator) as stage:
        killed = run(
            stage, program, endless, tmp_path, killed_when=lambda: len(received(stage)) > 0
        )
        ended = time.monotonic()
        assert killed.status is None, killed
        assert upgrades(stage) == ["websocket"]
        simulator.wait_for(lambda: simulator.last.disconnected)
        assert time.monotonic() - ended < SOON
