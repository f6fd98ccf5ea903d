"""Keys that may use a share of what an upstream's accounts have in their window, over sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Admin, Config, Fallback, Route, Secret
from dragoman.config.limits import Limit
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from dragoman.serving import pool_shares
from tests.gateway.http import KEY, Answer
from tests.gateway.processes import until
from tests.gateway.test_keys import TOKEN, admin
from tests.gateway.test_limits import OTHER_KEY, ask, config, error_of, serving, told
from tests.gateway.test_quotas import codex, unified
from tests.gateway.test_reload import adopt

STEP = 0.01
"""The share that each answer uses."""


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_shares, "_LOOK_S", 0.02)


class Vendor:
    """An upstream of one account, each of whose answers uses as much of its window."""

    def __init__(
        self, simulator: RunningSimulator, upstream: str, tell: Callable[..., Any]
    ) -> None:
        self._keys = simulator.app.keys
        self._upstream = upstream
        self._tell = tell
        self._used = 0.1

    def answer(self, gateway: RunningGateway, key: str) -> Answer:
        """The answer to one more request with a key."""
        told = KeyBehaviour(headers=self._tell(self._used + STEP))
        self._keys.behaviours["sk-sim-account"] = told
        answer = ask(gateway, model=f"{self._upstream}/sim-text", key=key, max_tokens=20)
        if answer.status == 200:
            self._used += STEP
        return answer


def share(upstream: str, window: str = "5h", **fields: Any) -> Limit:
    return Limit(kind="cost", share="25%", upstream=upstream, window=window, **fields)


def route(name: str, upstream: str, model: str, then: str) -> Route:
    """A route that falls back to another upstream."""
    sure = Fallback(upstream=then, model="sim-text")
    return Route(match=name, upstream=upstream, model=model, fallbacks=(sure,))


@contextmanager
def shares(
    simulator: RunningSimulator, folder: Path, *limits: Limit, **more: Any
) -> Iterator[tuple[RunningGateway, Config]]:
    made = config(simulator.base_url, *limits, store=str(folder / "kept.db"), **more)
    made = replace(
        made,
        storage=replace(made.storage, sync_s=0.02),
        admin=Admin(key=Secret(TOKEN)),
        routes=(
            route("either", "chat", "sim-text", "messages"),
            route("other", "chat", "sim-429", "responses"),
            route("none", "chat", "sim-429", "messages"),
        ),
    )
    with serving(made) as (gateway, _):
        yield gateway, made


def has_seen(gateway: RunningGateway, upstream: str) -> bool:
    """Whether it is known how far the window of 5 hours was used when it was first seen."""
    return bool(gateway.app._services.limits.pools._pools[upstream, "5h"].learner._seen)


@pytest.mark.parametrize(("upstream", "tell"), [("messages", unified), ("responses", codex)])
def test_a_key_has_its_share_and_others_go_on(
    simulator: RunningSimulator, tmp_path: Path, upstream: str, tell: Callable[..., Any]
) -> None:
    vendor = Vendor(simulator, upstream, tell)
    limits = share(upstream), share(upstream, "7d")
    with shares(simulator, tmp_path, *limits) as (gateway, made):

        def stand() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = told(gateway)["limits"]
            return found

        assert [one["amount"] for one in stand()] == [None, None]
        assert told(gateway)["data"] == {"limit": None, "usage": None, "limit_remaining": None}
        answer = ask(gateway, model=f"{upstream}/sim-text", max_tokens=20)
        assert answer.status == 200, "nothing is refused that is not known"
        each = float(stand()[0]["used"])
        assert vendor.answer(gateway, OTHER_KEY).status == 200
        until(lambda: has_seen(gateway, upstream))
        for _ in range(30):
            assert vendor.answer(gateway, OTHER_KEY).status == 200
        # 100 of these requests are the whole window, and 25 the share of this key. Rows of usage
        # are written a little later than the share is told.
        mine = 0
        while answer.status == 200:
            mine += 1
            until(lambda: float(stand()[0]["amount"] or 0) == pytest.approx(25 * each, rel=0.2))
            answer = vendor.answer(gateway, KEY)
        assert 18 <= mine <= 32
        first, second = stand()
        assert float(first["used"]) == pytest.approx(mine * each)
        assert float(first["remaining"]) < 8 * each
        assert (first["share"], first["upstream"]) == ("25%", upstream)
        assert (second["amount"], second["remaining"], second["exhausted_at"]) == (None,) * 3
        assert error_of(answer)["code"] == "project_spend_limit_exceeded"
        assert answer.headers["x-dragoman-limit"] == "key:cost:5h"
        assert vendor.answer(gateway, OTHER_KEY).status == 200
        # What goes elsewhere is of no concern to it.
        assert ask(gateway, model="chat/sim-text", max_tokens=20).status == 200
        assert stand()[0]["used"] == first["used"]
        adopt(gateway, replace(made, clients=made.clients[:1]))
        assert stand()[0]["amount"] is not None
    with shares(simulator, tmp_path, *limits) as (gateway, _):
        assert stand()[0]["amount"] is not None
        # What was learned may have grown a little at the end.
        until(lambda: vendor.answer(gateway, KEY).status == 429)
        used = stand()[0]["used"]
    (tmp_path / "kept.db-limits").unlink()
    with shares(simulator, tmp_path, *limits) as (gateway, _):
        assert stand()[0]["amount"] is None
        assert stand()[0]["used"] == used, "by the rows of usage"
        assert vendor.answer(gateway, KEY).status == 200


def test_operators_set_and_see_shares(simulator: RunningSimulator, tmp_path: Path) -> None:
    with shares(simulator, tmp_path) as (gateway, _):
        limit = {"kind": "cost", "share": "40%", "upstream": "messages", "window": "7d"}
        admin(gateway, "POST", "/keys", {"name": "ci"})
        assert admin(gateway, "POST", "/keys/ci/limits", limit).status == 201
        (one,) = admin(gateway, "GET", "/keys/ci/limits").json["limits"]
        assert one["limit"] == limit
        assert (one["state"]["amount"], one["state"]["remaining"]) == (None, None)
        question = {"model": "messages/sim-text", "output_tokens": 10}

        def simulated() -> Any:
            return admin(gateway, "POST", "/keys/ci/simulate", question).json

        # The gateway knows the key a moment later.
        until(lambda: bool(simulated()["limits"]))
        (answer,) = simulated()["limits"]
        assert (answer["limit"], answer["remaining"]) == ("key:cost:7d", None)
        assert answer["admits"] is True
        question["model"] = "chat/sim-text"
        assert (simulated()["admitted"], simulated()["limits"]) == (True, [])
        wrong = admin(gateway, "POST", "/keys/ci/limits", limit | {"upstream": "mesages"})
        assert wrong.status == 400
        assert "upstream" in wrong.body.decode()


def test_a_model_without_a_price_is_refused_only_where_it_counts(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    with shares(simulator, tmp_path, share("messages"), prices=()) as (gateway, _):
        assert ask(gateway, model="messages/sim-text").status == 403
        assert ask(gateway, model="chat/sim-text").status == 200
        # It may go to the one, but goes to the other.
        assert ask(gateway, model="either").status == 200
        assert ask(gateway, model="other").status == 200
        assert ask(gateway, model="none").status == 503, "the fallback has no price"
