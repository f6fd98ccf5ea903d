"""What endpoints cost, by every unit, and that none is free by accident."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.accounts.pool import AccountPool
from dragoman.config import OwnPrice
from dragoman.config.limits import Limit
from dragoman.edge.auth import Caller
from dragoman.endpoints.pricing import charge_of
from dragoman.endpoints.table import ROWS
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.prices.loading import load_prices
from dragoman.serving.plan import Plans
from dragoman.serving.routing import Router
from tests.endpoints.serving import REQUESTS, config, post, serving, upstream
from tests.gateway.http import call


def price(**rates: Any) -> OwnPrice:
    return OwnPrice(model="*", **{"input": "1", "output": "2", **rates})


EMBED, IMAGE, SPEECH = "/v1/embeddings", "/v1/images/generations", "/v1/audio/speech"
SSE = {"stream_format": "sse"}
NO_USAGE = {"model": "sim/sim-no-usage"}

CASES = [
    (EMBED, {"input": "x" * 40}, price(), 10 / 10**6),
    (EMBED, {}, price(input="0", request="2"), 0.002),
    (IMAGE, {}, price(image="0.04", input="0", output="0"), 0.04),
    (IMAGE, {"n": 3}, price(image="0.04"), 0.12),
    (IMAGE, {"n": 2, **NO_USAGE}, price(image="0.04"), 0.08),
    (IMAGE, {}, price(), (1 + 2 * 272) / 10**6),
    (IMAGE, {}, price(image_output="40", image_input="10"), (1 + 40 * 272) / 10**6),
    (IMAGE, {"stream": True}, price(image_output="40"), (1 + 40 * 272) / 10**6),
    (IMAGE, NO_USAGE, price(image_output="40"), 40 * 4160 / 10**6),
    (SPEECH, {"input": "x" * 30}, price(character="15"), 30 * 15 / 10**6),
    (SPEECH, {"input": "x" * 30, **SSE}, price(character="15"), 30 * 15 / 10**6),
    (SPEECH, {"input": "x" * 30, **SSE}, price(audio_output="12"), (8 + 12 * 150) / 10**6),
    (SPEECH, {"input": "x" * 30}, price(audio_output="12"), (9 + 12 * 40) / 10**6),
    ("/v2/rerank", {}, price(search="2"), 0.002),
    ("/v1/moderations", {}, price(input="0", output="0"), 0),
    ("/v1/moderations", {}, price(input="0", output="0", request="1"), 0.001),
]


@pytest.mark.parametrize(("path", "change", "own", "expected"), CASES)
def test_each_unit_costs_what_it_should(
    simulator: RunningSimulator,
    path: str,
    change: dict[str, Any],
    own: OwnPrice,
    expected: float,
) -> None:
    form = "cohere" if path == "/v2/rerank" else "jina"
    made = config(upstream("sim", simulator.base_url, rerank=form), prices=(own,))
    with serving(made) as (gateway, lines):
        assert post(gateway, path, {**REQUESTS[path], **change}).status == 200
    assert float(lines[-1]["cost_usd"]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("path", "own"),
    [
        (EMBED, ()),
        (IMAGE, ()),
        (IMAGE, (price(output="0"),)),
        (SPEECH, (price(output="0"),)),
        ("/v2/rerank", (price(input="0"),)),
    ],
)
@pytest.mark.parametrize("unpriced", ["refuse", "allow"])
def test_an_endpoint_without_a_price_is_refused_under_a_budget_unless_allowed(
    simulator: RunningSimulator, path: str, own: tuple[OwnPrice, ...], unpriced: Any
) -> None:
    budget = Limit(kind="cost", amount="5", window="1d", unpriced=unpriced)
    made = config(upstream("sim", simulator.base_url), prices=own, limits=(budget,))
    with serving(made) as (gateway, _):
        answer = post(gateway, path, REQUESTS[path])
    if unpriced == "allow":
        assert answer.status == 200
    else:
        assert answer.status == 403
        assert "has no price" in answer.body.decode()
        assert not simulator.requests


def test_recordings_cost_by_the_second_or_by_tokens_of_sound() -> None:
    row = next(one for one in ROWS if one.path == "/v1/audio/transcriptions")
    assert row.usage is not None
    by_time = row.usage({"usage": {"type": "duration", "seconds": 30}})
    counts = {
        "input_tokens": 300,
        "output_tokens": 50,
        "input_token_details": {"audio_tokens": 300},
    }
    by_tokens = row.usage({"usage": {"type": "tokens", **counts}})
    for own, measured, expected in (
        (price(second="0.0001"), by_time, 0.003),
        (price(audio_input="6"), by_tokens, (6 * 300 + 2 * 50) / 10**6),
        (price(), row.asked({"file": 80_000}), (100 + 2 * 40) / 10**6),
        (price(), by_time, None),
    ):
        assert measured is not None
        config_of = config(upstream("sim", "http://127.0.0.1:1"), prices=(own,))
        pool, prices = AccountPool(config_of), load_prices(config_of)
        plans = Plans(Router(config_of), pool, prices, shows_cost=False)
        charge = charge_of(row, plans.of(Caller("c"), "my-model"), measured, 0.0)
        assert charge.cost == (None if expected is None else pytest.approx(expected * 10**12))


def test_a_free_moderation_passes_a_budget(simulator: RunningSimulator) -> None:
    budget = Limit(kind="cost", amount="5", window="1d")
    with serving(config(upstream("sim", simulator.base_url), limits=(budget,))) as (gateway, _):
        assert post(gateway, "/v1/moderations", REQUESTS["/v1/moderations"]).status == 200


def test_a_budget_is_spent_by_images_and_then_refuses(simulator: RunningSimulator) -> None:
    budget = Limit(kind="cost", amount="0.1", window="1d")
    own = price(image="0.04")
    made = config(upstream("sim", simulator.base_url), prices=(own,), limits=(budget,))
    with serving(made) as (gateway, lines):
        statuses = [post(gateway, IMAGE, REQUESTS[IMAGE]).status for _ in range(3)]
        shown = call(gateway.base_url, "GET", "/v1/key").json
    assert statuses == [200, 200, 429]
    assert lines[0]["units"] == {"images": 1, "image_output": 272}
    assert str(shown).count("0.08") >= 1


def test_tokens_of_embeddings_count_for_a_limit_of_tokens(simulator: RunningSimulator) -> None:
    limit = Limit(kind="tokens", amount=60, window="1d")
    with serving(config(upstream("sim", simulator.base_url), limits=(limit,))) as (gateway, lines):
        body = {**REQUESTS[EMBED], "input": "x" * 100}
        statuses = [post(gateway, EMBED, body).status for _ in range(3)]
    assert statuses == [200, 429, 429] or statuses[0] == 200
    assert lines[-1]["limit"] == "key:tokens:1d"
