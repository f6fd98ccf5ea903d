"""Where a program is played: a gateway before an upstream of one kind, heard on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from dragoman.canonical.options import Capabilities, Options
from dragoman.config import (
    Account,
    Client,
    Config,
    OwnPrice,
    Route,
    Secret,
    Server,
    Storage,
    Upstream,
    WebSocket,
)
from dragoman.config.limits import Limit
from dragoman.lab.simulator.recording import RecordedRequest
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import running_gateway
from tests.clients.programs import KEY, Api, Finished, run
from tests.clients.tap import Heard, Tap, tapped

UPSTREAMS: dict[Api, str] = {
    "chat": "openai_chat",
    "messages": "anthropic_messages",
    "responses": "openai_responses",
}


_Case = TypeVar("_Case")


def taking_turns(cases: Sequence[_Case]) -> list[tuple[Api, _Case]]:
    """Each case before one kind of upstream, and neighbours before different ones: where a program
    takes seconds, and what is asked does not depend on both."""
    kinds = tuple(UPSTREAMS)
    return [(kinds[number % len(kinds)], case) for number, case in enumerate(cases)]


GENERATING = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
_ANSWERED = tuple(f"POST {path}" for path in GENERATING)


@dataclass(frozen=True)
class Exchange:
    """One request for an answer: as the client sent it, what the upstream received of it, and what
    the gateway's log says was lost (`path` to `kind`)."""

    sent: Any
    received: Any
    losses: dict[str, str]
    heard: Heard
    recorded: RecordedRequest


@dataclass(frozen=True)
class Stage:
    """One gateway, all of whose models lead to the upstream `kind` under the name they were asked
    for by. `lines` are what it logged."""

    kind: Api
    simulator: RunningSimulator
    tap: Tap
    lines: list[dict[str, Any]]

    @property
    def url(self) -> str:
        """Where clients go, without `/v1`."""
        return self.tap.url

    def run(self, program: str, model: str, prompt: str, workdir: Path, **more: Any) -> Finished:
        """Run a program against this gateway; what was heard before is forgotten."""
        self.forget()
        return run(program, self.url, model, prompt, workdir, **more)

    def forget(self) -> None:
        """Forget what was heard so far."""
        self.simulator.app.requests.clear()
        self.tap.heard.clear()
        self.lines.clear()

    def exchanges(self) -> list[Exchange]:
        """The requests for answers since the program was started, in their order. Each must have
        gone to the upstream exactly once."""
        heard = [one for one in self.tap.heard if one.method == "POST" and one.path in GENERATING]
        recorded = [one for one in self.simulator.requests if one.path in GENERATING]
        self.simulator.wait_for(lambda: len(self._answers()) >= len(heard))
        answers = self._answers()
        assert len(heard) == len(recorded) == len(answers), (heard, recorded, answers)
        return [
            Exchange(one.json, other.json, _losses(line), one, other)
            for one, other, line in zip(heard, recorded, answers, strict=True)
        ]

    def _answers(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["route"] in _ANSWERED]


def _losses(line: dict[str, Any]) -> dict[str, str]:
    losses = line.get("losses", [])
    assert len(losses) == line.get("losses_total", 0), "the log line was cut"
    return dict(loss.rsplit(":", 1) for loss in losses)


@contextmanager
def playing(
    kind: Api,
    simulator: RunningSimulator,
    accounts: int = 1,
    store: Path | None = None,
    capabilities: Capabilities | None = None,
    key: str = "sk-sim-account",
    limits: tuple[Limit, ...] = (),
    options: Options = Options(),  # noqa: B008 -- frozen
    websocket: Literal["off", "on"] = "off",
    connections: WebSocket = WebSocket(),  # noqa: B008 -- frozen
    **more: Any,
) -> Iterator[Stage]:
    """A gateway before `simulator` as an upstream of that kind, with so many accounts, whose keys
    begin with `key`, and a store in the file `store`, while the context lasts. `limits` are those
    of its client, `options` those of all requests, `websocket` is that of the upstream, and
    `connections` says what those of clients are given. `more` are further tables."""
    config = Config(
        server=Server(keepalive_s=5.0, commit_after_s=10.0, shutdown_grace_s=2.0),
        clients=(Client(name="tester", key=Secret(KEY), limits=limits),),
        prices=(OwnPrice(model="*", input="1", output="1"),) if limits else (),
        upstreams=(
            Upstream(
                name=kind,
                protocol=UPSTREAMS[kind],
                base_url=simulator.base_url,
                capabilities=capabilities or Capabilities(),
                websocket=websocket,
            ),
        ),
        accounts=tuple(
            Account(name=f"{kind}-{number}", upstream=kind, key=Secret(f"{key}-{number}"))
            for number in range(accounts)
        ),
        routes=(Route(match="*", upstream=kind, options=options),),
        options=options,
        websocket=connections,
        storage=Storage(path=None if store is None else str(store)),
        **more,
    )
    lines: list[dict[str, Any]] = []
    with (
        running_gateway(config, lambda line: lines.append(msgspec.json.decode(line))) as gateway,
        tapped(gateway.port) as tap,
    ):
        yield Stage(kind, simulator, tap, lines)
