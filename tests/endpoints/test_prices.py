"""What endpoints cost, by every unit, and that none is free by accident."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from dragoman.accounts.pool import AccountPool
from dragoman.config import Admin, OwnPrice, Secret, Storage
from dragoman.config.limits import Limit
from dragoman.edge.auth import Caller
from dragoman.endpoints.pricing import charge_of
from dragoman.endpoints.table import ROWS
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.prices.loading import load_prices
from dragoman.serving.plan import Plans
from dragoman.serving.routing import Router
from tests.endpoints.serving import REQUESTS, config, post, serving, upstream
from tests.endpoints.takers import FORM, form, part, saying, taking
from tests.gateway.administration import TOKEN, eventually
from tests.gateway.http import call
from tests.gateway.sessions import ask


def price(**rates: Any) -> OwnPrice:
    return OwnPrice(**{"model": "*", "input": "1", "output": "2", **rates})


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


class Metered(NamedTuple):
    """An endpoint of a service that counts: what is asked, what it answers, and what it has counted
    then, by two numbers that are others each time. `tokens` are those of input and output, None
    where nobody reports any; `bill` is in millionths of a dollar."""

    upstream: str
    tariff: str
    path: str
    request: Mapping[str, Any] | tuple[bytes, ...]
    answer: Callable[[int, int], dict[str, Any] | bytes]
    tokens: Callable[[int, int], tuple[int, int]] | None
    bill: Callable[[int, int], float]


def told(a: int, b: int) -> dict[str, Any]:
    usage = {"prompt_tokens": a, "completion_tokens": b, "total_tokens": a + b}
    return {"choices": [], "usage": {**usage, "prompt_tokens_details": {"cached_tokens": a // 2}}}


def drawn(a: int, b: int) -> dict[str, Any]:
    return {
        "input_tokens": a + b,
        "output_tokens": b,
        "input_tokens_details": {"text_tokens": a, "image_tokens": b},
        "output_tokens_details": {"image_tokens": b},
    }


def heard(a: int, b: int) -> dict[str, Any]:
    details = {"text_tokens": a, "audio_tokens": b}
    usage = {"input_tokens": a + b, "input_token_details": details, "output_tokens": a}
    return {"text": "x", "usage": {"type": "tokens", **usage}}


def streamed(*values: dict[str, Any]) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in values)


def infilled(a: int, b: int) -> dict[str, Any]:
    return {"content": "", "stop": True, "tokens_evaluated": a, "tokens_predicted": b}


VECTOR = {"object": "embedding", "index": 0, "embedding": [0.5]}
SCORES = {"results": [{"index": 0, "relevance_score": 0.5}]}
CONTENT = {"content": {"parts": [{"text": "x"}]}}
GIVEN, RANKED = {"prompt": "x"}, {"query": "x", "documents": ["x"]}
PICTURE, SOUND = part("image", b"x", "a.png"), part("file", b"x", "a.wav")
FIM, BETA, INFILL = "/v1/fim/completions", "/beta/completions", "/infill"
EDIT, VARY = "/v1/images/edits", "/v1/images/variations"
HEARD, TRANSLATED = "/v1/audio/transcriptions", "/v1/audio/translations"
MODERATE, COMPLETE = "/v1/moderations", "/v1/completions"
EMBEDDED = "/v1beta/models/{model}:embedContent"
ALL_EMBEDDED = "/v1beta/models/{model}:batchEmbedContents"
EVENTS = "text/event-stream"
COUNTED = ("openai", "tokens")
PIECES = ("openai", "pieces")

METERED = [
    Metered(
        *COUNTED, EMBED, {"input": "x"},
        lambda a, b: {"data": [VECTOR], "usage": {"prompt_tokens": a, "total_tokens": a}},
        lambda a, b: (a, 0), lambda a, b: a,
    ),
    Metered(
        "cohere", "tokens", EMBED, {"input": "x"},
        lambda a, b: {
            "embeddings": {"float": [[0.5]]}, "meta": {"billed_units": {"input_tokens": a}}
        },
        lambda a, b: (a, 0), lambda a, b: a,
    ),
    Metered(
        "google", "tokens", EMBEDDED, CONTENT,
        lambda a, b: {"embedding": {"values": [0.5]}, "usageMetadata": {"promptTokenCount": a}},
        lambda a, b: (a, 0), lambda a, b: a,
    ),
    Metered(
        "google", "tokens", ALL_EMBEDDED, {"requests": [CONTENT, CONTENT]},
        lambda a, b: {
            "embeddings": [{"values": [0.5], "statistics": {"tokenCount": one}} for one in (a, b)]
        },
        lambda a, b: (a + b, 0), lambda a, b: a + b,
    ),
    Metered(
        *COUNTED, "/v1/rerank", RANKED, lambda a, b: {**SCORES, "usage": {"total_tokens": a}},
        lambda a, b: (a, 0), lambda a, b: a,
    ),
    Metered(
        "cohere", "tokens", "/v2/rerank", RANKED,
        lambda a, b: {**SCORES, "meta": {"billed_units": {"search_units": a}}},
        lambda a, b: (0, 0), lambda a, b: 3000 * a,
    ),
    *(
        Metered(
            "openai", tariff, MODERATE, {"input": "x"}, lambda a, b: {"id": "x", "results": []},
            lambda a, b: (0, 0), bill,
        )
        for tariff, bill in (("tokens", lambda a, b: 0), ("requests", lambda a, b: 1000))
    ),
    *(
        Metered(
            *COUNTED, path, {**GIVEN, "stream": stream},
            (lambda a, b: streamed(told(a, b)) + b"data: [DONE]\n\n") if stream else told,
            lambda a, b: (a, b), lambda a, b: a - a // 2 + a // 2 / 2 + 2 * b,
        )
        for path in (COMPLETE, FIM, BETA)
        for stream in (False, True)
    ),
    *(
        Metered(
            *COUNTED, INFILL, {"input_prefix": "x", "input_suffix": "x", "stream": stream},
            (lambda a, b: streamed(infilled(a, b))) if stream else infilled,
            lambda a, b: (a, b), lambda a, b: a + 2 * b,
        )
        for stream in (False, True)
    ),
    Metered(
        *COUNTED, IMAGE, GIVEN, lambda a, b: {"data": [{"b64_json": "x"}], "usage": drawn(a, b)},
        lambda a, b: (a + b, b), lambda a, b: a + 10 * b + 40 * b,
    ),
    Metered(
        *COUNTED, IMAGE, {**GIVEN, "stream": True},
        lambda a, b: streamed(
            {"type": "image_generation.completed", "b64_json": "x", "usage": drawn(a, b)}
        ),
        lambda a, b: (a + b, b), lambda a, b: a + 10 * b + 40 * b,
    ),
    *(
        Metered(
            *PIECES, path, asked, lambda a, b: {"data": [{"b64_json": "x"}] * a},
            None, lambda a, b: 40_000 * a,
        )
        for path, asked in ((IMAGE, GIVEN), (VARY, (PICTURE,)))
    ),
    Metered(
        *COUNTED, EDIT, (PICTURE,),
        lambda a, b: {
            "data": [{"b64_json": "x"}], "usage": drawn(a, b),
            "svg_usage": {"input_tokens": b, "output_tokens": a},
        },
        lambda a, b: (a + 2 * b, a + b), lambda a, b: a + b + 10 * b + 2 * a + 40 * b,
    ),
    Metered(
        *COUNTED, SPEECH, {"input": "x", "voice": "v", **SSE},
        lambda a, b: streamed(
            {"type": "speech.audio.done", "usage": {"input_tokens": a, "output_tokens": b}}
        ),
        lambda a, b: (a, b), lambda a, b: a + 12 * b,
    ),
    Metered(
        *PIECES, SPEECH, {"input": "hällo", "voice": "v"}, lambda a, b: b"x" * a,
        None, lambda a, b: 15 * len("hällo"),
    ),
    *(
        Metered(
            *COUNTED, path, (SOUND,), heard,
            lambda a, b: (a + b, a), lambda a, b: a + 6 * b + 2 * a,
        )
        for path in (HEARD, TRANSLATED)
    ),
    Metered(
        *PIECES, HEARD, (SOUND,),
        lambda a, b: {"text": "x", "usage": {"type": "duration", "seconds": a / 2}},
        lambda a, b: (0, 0), lambda a, b: 100 * a / 2,
    ),
]  # fmt: skip
TARIFFS = (
    price(
        model="tokens*", cached="0.5", search="3", image_input="10", image_output="40",
        audio_input="6", audio_output="12",
    ),
    price(model="pieces*", image="0.04", character="15", second="0.0001"),
    price(model="requests*", input="0", output="0", request="1"),
)  # fmt: skip


def test_the_store_has_what_the_service_has_counted(tmp_path: Path) -> None:
    """Of each endpoint that is passed, over several requests: tokens, and what they cost."""
    paths = {one.path for one in METERED}
    assert paths == {row.path for row in ROWS if row.way in ("held", "relayed")}
    numbers, expected = Random(7), {}
    with taking() as taker:
        made = config(
            upstream("openai", taker.url),
            upstream("cohere", taker.url, embeddings="cohere", rerank="cohere"),
            upstream("google", taker.url, "google_generate_content"),
            prices=TARIFFS,
        )
        store = Storage(path=str(tmp_path / "store.db"), sync_s=0.05)
        made = replace(made, storage=store, admin=Admin(key=Secret(TOKEN)))
        with serving(made) as (gateway, _):
            for place, one in enumerate(METERED):
                name = f"{one.upstream}/{one.tariff}-{place}"
                given, written, bill = 0, 0, 0.0
                for _ in range(2):
                    a, b = numbers.randint(1, 9), numbers.randint(1, 9)
                    said = one.answer(a, b)
                    media = EVENTS if one.tokens else "audio/mpeg"
                    saying(taker, said, media if isinstance(said, bytes) else "application/json")
                    path = one.path.replace("{model}", name)
                    if isinstance(one.request, tuple):
                        body = form(part("model", name.encode()), *one.request)
                        answer = call(gateway.base_url, "POST", path, body, FORM)
                    else:
                        answer = post(gateway, path, {"model": name, **one.request})
                    assert answer.status == 200, (path, answer.body)
                    counted = one.tokens(a, b) if one.tokens else (0, 0)
                    given, written = given + counted[0], written + counted[1]
                    bill += one.bill(a, b)
                expected[name] = (2, given, written) if one.tokens else (2, None, None), bill

            def rows() -> Any:
                found = ask(gateway, "GET", "/usage?by=model", key=TOKEN).json["rows"]
                return found if sum(row["requests"] for row in found) == 2 * len(METERED) else None

            found = {}
            for row in eventually(rows):
                counts = (None, None) if row["estimated"] else (row["input"], row["output"])
                assert row["estimated"] in (0, 2)
                bill = round(1e6 * float(row["cost_usd"]), 3)
                found[row["by"]["model"]] = (row["requests"], *counts), bill
    assert found == expected
