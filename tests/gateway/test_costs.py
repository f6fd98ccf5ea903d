"""What requests cost: in the log, in a header, and in the store."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Admin, Config, Fallback, OwnPrice, Pricing, Route, Secret, Storage
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.prices.rates import dollars
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.storage.opening import store_for
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.conftest import PROTOCOLS, config_for
from tests.gateway.http import call
from tests.gateway.odd_upstream import answering

SIM = OwnPrice(
    model="sim-*", input="1", cached="0.1", cache_write="2", output="10", reasoning="100"
)
FAILING = Route(
    match="m",
    upstream="messages",
    model="sim-error_in_stream?after=1",
    fallbacks=(Fallback(upstream="chat", model="sim-429"),),
)
ASKED = "[[sim: scenario=cached_usage]]"
PAIRS = list(itertools.product(APIS, APIS))

# The scenario has 104 tokens of plain input, 64 read from a cache and 32 written to one, 30 of
# output and 20 of reasoning.
COST = "0.0024744"


@contextmanager
def serving(config: Config) -> Iterator[tuple[RunningGateway, list[Any]]]:
    """A gateway and the lines of its log."""
    lines: list[Any] = []
    with running_gateway(config, lambda line: lines.append(json.loads(line))) as gateway:
        yield gateway, lines


def priced(base_url: str, *prices: OwnPrice, header: bool = True, **upstream: Any) -> Config:
    config = config_for(base_url)
    return replace(
        config,
        pricing=Pricing(header=header),
        prices=prices,
        upstreams=tuple(replace(one, **upstream) for one in config.upstreams),
    )


def ask(gateway: RunningGateway, api: str, model: str, text: str = "Hello", **more: Any) -> Any:
    if api == "responses":
        more["store"] = False
    return call(gateway.base_url, "POST", PATHS[api], body(api, model, text, **more))


@pytest.mark.parametrize(("api", "upstream"), PAIRS)
def test_every_pair_is_charged_alike_whole_and_streamed(
    simulator: RunningSimulator, api: str, upstream: str
) -> None:
    # Chat and Responses upstreams of the simulator do not tell what was written to a cache.
    with serving(priced(simulator.base_url, SIM)) as (gateway, lines):
        whole = ask(gateway, api, f"{upstream}/sim-text", ASKED)
        assert whole.status == 200, whole.body
        stream = ask(gateway, api, f"{upstream}/sim-text", ASKED, stream=True)
        assert stream.status == 200
    usage = lines[0]["usage"]
    written = usage["cache_write"] or 0
    expected = COST if written else "0.0024424"
    assert (usage["input"], usage["cached"], usage["output"]) == (200, 64, 50)
    assert [line["cost_usd"] for line in lines] == [expected, expected]
    assert whole.headers["x-dragoman-cost-usd"] == expected
    # A stream's head is sent before its cost is known.
    assert "x-dragoman-cost-usd" not in stream.headers


def test_no_header_unless_it_is_asked_for(simulator: RunningSimulator) -> None:
    with serving(priced(simulator.base_url, SIM, header=False)) as (gateway, lines):
        assert "x-dragoman-cost-usd" not in ask(gateway, "chat", "chat/sim-text").headers
    assert lines[0]["cost_usd"] != "0"


CHAT: dict[str, Any] = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5.5",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}
    ],
    "usage": {
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "total_tokens": 1100,
        "prompt_tokens_details": {"cached_tokens": 400},
    },
    "service_tier": "priority",
}
MESSAGE: dict[str, Any] = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5-5",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 1000,
        "cache_read_input_tokens": 2000,
        "cache_creation_input_tokens": 700,
        "cache_creation": {"ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": 500},
        "output_tokens": 100,
        "server_tool_use": {"web_search_requests": 2},
        "service_tier": "standard",
        "speed": "fast",
    },
}
RESPONSE: dict[str, Any] = {
    "id": "r",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "gpt-6.1-sol",
    "output": [
        {
            "type": "message",
            "id": "i",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
        }
    ],
    "usage": {
        "input_tokens": 300_000,
        "input_tokens_details": {"cached_tokens": 100_000, "cache_write_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 300_010,
    },
    "service_tier": "flex",
    "tool_usage": {"web_search": {"num_requests": 1}},
}
SSE: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "chat": [
        ("", CHAT | {"object": "chat.completion.chunk", "choices": [
            {"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}], "usage": None}),
        ("", CHAT | {"object": "chat.completion.chunk", "choices": []}),
    ],
    "messages": [
        ("message_start", {"type": "message_start", "message": MESSAGE | {
            "content": [], "stop_reason": None}}),
        ("content_block_start", {"type": "content_block_start", "index": 0,
                                 "content_block": {"type": "text", "text": ""}}),
        ("content_block_delta", {"type": "content_block_delta", "index": 0,
                                 "delta": {"type": "text_delta", "text": "Hi"}}),
        ("content_block_stop", {"type": "content_block_stop", "index": 0}),
        ("message_delta", {"type": "message_delta", "delta": {
            "stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 100}}),
        ("message_stop", {"type": "message_stop"}),
    ],
    "responses": [
        ("response.created", {"type": "response.created", "sequence_number": 0,
                              "response": RESPONSE | {"status": "in_progress", "output": [],
                                                      "usage": None}}),
        ("response.output_item.added", {"type": "response.output_item.added",
                                        "sequence_number": 1, "output_index": 0, "item":
                                        RESPONSE["output"][0] | {"content": []}}),
        ("response.content_part.added", {"type": "response.content_part.added",
                                         "sequence_number": 2, "output_index": 0,
                                         "content_index": 0, "item_id": "i", "part": {
                                             "type": "output_text", "text": "",
                                             "annotations": []}}),
        ("response.output_text.delta", {"type": "response.output_text.delta", "item_id": "i",
                                        "sequence_number": 3, "output_index": 0,
                                        "content_index": 0, "delta": "Hi"}),
        ("response.completed", {"type": "response.completed", "sequence_number": 4,
                                "response": RESPONSE}),
    ],
}  # fmt: skip
TOLD: dict[str, dict[str, Any]] = {"chat": CHAT, "messages": MESSAGE, "responses": RESPONSE}
LISTS = {"chat": "openai", "messages": "anthropic", "responses": "openai"}
COSTS = {
    # priority: 600 at 12.5, 400 cached at 1.25, 100 of output at 75
    "chat": "0.0155",
    # fast: 1000 at 8, 2000 cached at 0.4, 200 written at 10 and 500 at 16, 100 of output at 40;
    # searches are counted where the answer is passed through: 2 at a cent
    "messages": "0.0228",
    # flex above 272,000: 200,000 at 2, 100,000 cached at 0.1, 10 of output at 7.5; a search
    "responses": "0.410075",
}
SEARCHES = {"chat": 0, "messages": 2, "responses": 1}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("api", "upstream"), PAIRS)
def test_tiers_long_prompts_written_tokens_and_searches_are_charged_as_told(
    api: str, upstream: str, streamed: bool
) -> None:
    frames = [
        (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"
        for name, data in SSE[upstream]
    ]
    done = "data: [DONE]\n\n" if upstream == "chat" else ""
    media = "text/event-stream" if streamed else "application/json"
    told = "".join([*frames, done]) if streamed else json.dumps(TOLD[upstream])
    with answering(200, media, told.encode()) as base_url:
        config = priced(base_url, header=False, prices=LISTS[upstream])
        with serving(config) as (gateway, lines):
            model = f"{upstream}/{TOLD[upstream]['model']}"
            answer = ask(gateway, api, model, stream=streamed)
            assert answer.status == 200, answer.body
    searches = SEARCHES[upstream] if api == upstream else 0
    expected = round(float(COSTS[upstream]) + searches / 100, 9)
    assert float(lines[0]["cost_usd"]) == expected, lines


@pytest.mark.parametrize("told", [{}, {"service_tier": None}], ids=["absent", "null"])
@pytest.mark.parametrize("api", APIS)
def test_a_tier_may_be_told_at_the_beginning_of_a_stream_alone(
    api: str, told: dict[str, Any]
) -> None:
    (_, first), (_, last) = SSE["chat"]
    usage = {name: value for name, value in last.items() if name != "service_tier"} | told
    frames = [f"data: {json.dumps(one)}\n\n" for one in (first, usage)]
    with (
        answering(200, "text/event-stream", "".join([*frames, "data: [DONE]\n\n"]).encode()) as url,
        serving(priced(url, header=False, prices="openai")) as (gateway, lines),
    ):
        assert ask(gateway, api, "chat/gpt-5.5", stream=True).status == 200
    assert (lines[0]["usage"]["tier"], lines[0]["cost_usd"]) == ("priority", COSTS["chat"])


def test_what_has_no_price_is_said_to_have_none(
    simulator: RunningSimulator, caplog: pytest.LogCaptureFixture
) -> None:
    config = priced(simulator.base_url)
    with caplog.at_level(logging.WARNING), serving(config) as (gateway, lines):
        for _ in range(3):
            answer = ask(gateway, "chat", "chat/sim-text")
            assert "x-dragoman-cost-usd" not in answer.headers
    assert [(line["unpriced"], "cost_usd" in line) for line in lines] == [(True, False)] * 3
    told = [record for record in caplog.records if "no price is known" in record.getMessage()]
    assert len(told) == 1
    assert "sim-text" in told[0].getMessage()


def test_counting_tokens_and_refused_requests_cost_nothing(simulator: RunningSimulator) -> None:
    with serving(priced(simulator.base_url, SIM)) as (gateway, lines):
        count = body("messages", "messages/sim-text")
        del count["max_tokens"]
        assert call(gateway.base_url, "POST", "/v1/messages/count_tokens", count).status == 200
        assert ask(gateway, "chat", "nowhere").status == 404
    refusal = b'{"error": {"message": "No."}}'
    with (
        answering(400, "application/json", refusal) as base_url,
        serving(priced(base_url, SIM)) as (gateway, others),
    ):
        assert ask(gateway, "chat", "chat/sim-text").status == 400
    lines += others
    assert len(lines) == 3
    assert not any("cost_usd" in line or "unpriced" in line for line in lines), lines


def test_costs_add_up_in_the_store(simulator: RunningSimulator, tmp_path: Path) -> None:
    kept = Storage(path=str(tmp_path / "kept.db"), sync_s=0.05)
    cheap = replace(priced(simulator.base_url, SIM, header=False), storage=kept)
    with serving(cheap) as (gateway, lines):
        for api, upstream in PAIRS:
            for streamed in (False, True):
                ask(gateway, api, f"{upstream}/sim-text", ASKED, stream=streamed)
    told = sum(round(float(line["cost_usd"]) * 10**12) for line in lines)
    store = store_for(cheap)
    assert store is not None
    charges = store.charges(0, 2**40)
    assert sum(count.cost for count in charges.values()) == told > 0
    assert sum(count.requests for count in charges.values()) == len(lines) == 18
    assert {key.upstream for key in charges} == set(PROTOCOLS)
    assert {key.model for key in charges} == {f"{name}/sim-text" for name in PROTOCOLS}
    store.close()


def test_a_price_list_that_is_not_known_is_a_fault(simulator: RunningSimulator) -> None:
    with pytest.raises(ValueError, match="no provider named opnai"):
        running_gateway(priced(simulator.base_url, prices="opnai")).__enter__()


def test_a_broken_off_stream_without_usage_is_charged_by_an_estimate(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    """What was streamed was generated, and vendors charge for it."""
    kept = Storage(path=str(tmp_path / "kept.db"), sync_s=0.05)
    config = replace(priced(simulator.base_url, SIM), storage=kept)
    with serving(config) as (gateway, lines):
        ask(gateway, "chat", "chat/sim-text", "[[sim: fault=close after=3]]", stream=True)
    assert lines[0]["estimated"]
    store = store_for(config)
    assert store is not None
    [sums] = store.charges(0, 2**40).values()
    assert dollars(sums.cost) == lines[0]["cost_usd"] != "0"
    assert sums.output == lines[0]["usage"]["output"] > 0
    store.close()


def test_the_administration_tells_prices_and_prices_anew(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    kept = Storage(path=str(tmp_path / "kept.db"), sync_s=0.05)
    token = "a-token-of-the-admin"
    config = replace(
        priced(simulator.base_url), storage=kept, admin=Admin(key=Secret(token)), clients=()
    )

    def admin(gateway: RunningGateway, method: str, path: str) -> Any:
        answer = call(gateway.base_url, method, f"/admin{path}", key=token)
        assert answer.status == 200, answer.body
        return answer.json

    with serving(config) as (gateway, _):
        ask(gateway, "responses", "chat/sim-text", ASKED)
        assert "prices" not in admin(gateway, "GET", "/prices")
    with serving(replace(config, prices=(SIM,))) as (gateway, lines):
        assert admin(gateway, "GET", "/prices")["sources"][0]["name"] == "genai-prices"
        shown = admin(gateway, "GET", "/prices?model=sim-text")["prices"]["chat"]
        assert [row["output"] for row in shown] == ["10"]
        before = admin(gateway, "GET", "/usage?by=client")
        assert before["rows"][0]["unpriced"] == 1
        done = admin(gateway, "POST", "/prices/reprice?dry_run=true")
        assert (done["changed"], done["unpriced"]) == (1, 0)
        again = admin(gateway, "GET", "/usage?by=client")
        assert again["rows"] == before["rows"]
        assert admin(gateway, "POST", "/prices/reprice")["after_usd"] == done["after_usd"]
        after = admin(gateway, "GET", "/usage?by=client")["rows"][0]
        assert (after["cost_usd"], after["unpriced"]) == (done["after_usd"], 0)
        [line] = admin(gateway, "GET", "/audit?kind=prices")["changes"]
        assert (line["who"], line["after"]["cost_usd"]) == ("admin", done["after_usd"])
        # A further request costs as much as the one that was priced later.
        ask(gateway, "responses", "chat/sim-text", ASKED)
    assert lines[-1]["cost_usd"] == done["after_usd"]


def test_what_a_failed_attempt_used_is_not_charged_to_the_next(simulator: RunningSimulator) -> None:
    """The first account tells what it read and fails before any content; the next one refuses."""
    config = config_for(simulator.base_url, routes=(FAILING,))
    with serving(replace(config, prices=(SIM,))) as (gateway, lines):
        asked = ask(gateway, "chat", "m", stream=True)
    assert asked.status >= 400
    assert lines[0]["upstream"] == "chat"
    assert "usage" not in lines[0]
    assert "cost_usd" not in lines[0]
