"""Limits of keys and teams, over real sockets: who is refused, in which words, and what is left."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.canonical.options import Capabilities
from dragoman.config import Fallback, OwnPrice, Route
from dragoman.config.limits import Weights
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.protocols.settings import make_capabilities
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.http import AUTH, KEY, Answer, Connection, call
from tests.gateway.limited import OTHER_KEY, PRICE, ask, config, limit, serving, told
from tests.gateway.processes import until
from tests.gateway.slow_upstream import slow_upstream
from tests.gateway.stored_keys import admin, made, settings

PAIRS = list(itertools.product(APIS, APIS))


def waiting(gateway: RunningGateway) -> int:
    """How many requests wait for their turn at a limit."""
    assert gateway.app.common is not None
    return gateway.app.common.limits.waiting


def error_of(answer: Answer) -> Any:
    return answer.json["error"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_a_rate_is_told_in_the_clients_words(
    simulator: RunningSimulator, api: str, stream: bool
) -> None:
    with serving(config(simulator.base_url, limit("requests", 2, "30s"))) as (gateway, lines):
        for _ in range(2):
            assert ask(gateway, api, stream=stream).status == 200
        asked = len(simulator.requests)
        answer = ask(gateway, api, stream=stream)
        assert len(simulator.requests) == asked, "no upstream was asked"
        assert answer.status == 429
        error = error_of(answer)
        expected = "rate_limit_error" if api == "messages" else "requests"
        assert error["type"] == expected
        if api != "messages":
            assert error["code"] == "rate_limit_exceeded"
        assert "(limit 2, used 2, requested 1)" in error["message"]
        wait = re.search(r"Please try again in ([0-9.]+)s\.$", error["message"])
        assert wait is not None
        milliseconds = int(answer.headers["retry-after-ms"])
        assert 25_000 < milliseconds <= 30_200
        assert abs(float(wait[1]) * 1000 - milliseconds) < 50
        assert int(answer.headers["retry-after"]) == -(-milliseconds // 1000)
        assert "x-should-retry" not in answer.headers
        assert answer.headers["x-dragoman-limit"] == "key:requests:30s"
        # A request's line is written after its answer.
        until(lambda: lines[-1].get("limit") == "key:requests:30s")
        assert lines[-1]["error"] == "rate_limited"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_a_spent_budget_is_told_so_that_nobody_comes_again(
    simulator: RunningSimulator, api: str, stream: bool
) -> None:
    budget = limit("cost", "100", "total", mode="enforce")
    with serving(config(simulator.base_url, budget)) as (gateway, _):
        assert ask(gateway, api, stream=stream).status == 200
        spent = told(gateway)["limits"][0]["used"]
        assert float(spent) > 0
        asked = len(simulator.requests)
        answer = ask(gateway, api, text="x" * 400_000, stream=stream)
        assert len(simulator.requests) == asked
        error = error_of(answer)
        if api == "messages":
            assert (answer.status, error["type"]) == (402, "billing_error")
        else:
            assert (answer.status, error["type"]) == (429, "insufficient_quota")
            assert error["code"] == "project_spend_limit_exceeded"
        assert answer.headers["x-should-retry"] == "false"
        assert "retry-after" not in answer.headers
        assert "retry-after-ms" not in answer.headers
        assert answer.headers["x-dragoman-limit"] == "key:cost:total"
        if not re.search("429|50[0234]|524", error["message"]):
            assert f"used ${spent}" in error["message"]


def test_a_limit_that_is_long_in_coming_back_is_told_like_a_budget(
    simulator: RunningSimulator,
) -> None:
    """SDKs wait as long as they are told to."""
    with serving(config(simulator.base_url, limit("requests", 1, "month"))) as (gateway, _):
        assert ask(gateway).status == 200
        answer = ask(gateway)
        assert (answer.status, error_of(answer)["code"]) == (429, "insufficient_quota")
        assert answer.headers["x-should-retry"] == "false"
        assert "retry-after" not in answer.headers
        assert re.search(r"It resets at 20\d\d-\d\d-01T00:00:00Z", error_of(answer)["message"])


@pytest.mark.parametrize("api", APIS)
def test_a_budget_that_is_only_reserved_is_not_told_to_be_spent(api: str) -> None:
    """What is under way gives most of it back: whoever waits is let in."""
    with (
        slow_upstream() as upstream,
        serving(config(upstream.url, limit("cost", "1.5", "month"))) as (gateway, lines),
        Connection(gateway.base_url) as first,
    ):
        upstream.takes_s = 0.0
        upstream.held = held = threading.Event()
        first.send("POST", PATHS["chat"], body("chat", "chat/sim-text"), AUTH)
        until(lambda: bool(upstream.now))
        upstream.held = None
        reserved = told(gateway)["limits"][0]["reserved"]
        assert 1 < float(reserved) < 1.1
        asked: dict[str, Any] = {"max_tokens": 1000} if api == "messages" else {}
        refused = ask(gateway, api, **asked)
        error = error_of(refused)
        assert refused.status == 429
        assert error["type"] == ("rate_limit_error" if api == "messages" else "tokens")
        assert error.get("code", "rate_limit_exceeded") == "rate_limit_exceeded"
        assert "There is no room at the moment in the budget of this API key" in error["message"]
        assert re.search(r"Please try again in (1s|\d+ms)\.$", error["message"])
        assert refused.headers["retry-after"] == "1"
        assert 0 < int(refused.headers["retry-after-ms"]) <= 1000
        assert "x-should-retry" not in refused.headers
        # A line is written after its answer.
        until(lambda: "key:cost:month" in [line.get("limit") for line in lines])
        # An answer is read to its end even where its client leaves: only that gives it back.
        held.set()
        assert first.answer().status == 200
        until(lambda: bool(told(gateway)["limits"][0]["reserved"] == "0"))
        assert ask(gateway, api).status == 200


def test_a_request_that_costs_more_than_a_budget_has_is_told_so(
    simulator: RunningSimulator,
) -> None:
    """Waiting until it begins anew would not help."""
    with serving(config(simulator.base_url, limit("cost", "1", "month"))) as (gateway, _):
        for api in APIS:
            asked: dict[str, Any] = {} if api == "responses" else {"max_tokens": 5000}
            answer = ask(gateway, api, text="x" * 20_000, **asked)
            assert answer.status == (402 if api == "messages" else 429)
            message = error_of(answer)["message"]
            assert message.startswith("Request too large: it may cost more than this API key may")
            assert "resets" not in message
            assert answer.headers["x-should-retry"] == "false"
        assert ask(gateway, max_tokens=50).status == 200


def test_a_request_that_can_never_fit_is_told_so(simulator: RunningSimulator) -> None:
    with serving(config(simulator.base_url, limit("output_tokens", 100))) as (gateway, _):
        answer = ask(gateway, max_tokens=5000)
        assert answer.status == 429
        assert error_of(answer)["type"] == "tokens"
        assert error_of(answer)["message"].startswith("Request too large")
        assert answer.headers["x-should-retry"] == "false"
        assert "retry-after" not in answer.headers
        assert ask(gateway, max_tokens=50).status == 200


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (403, "permission_error"), (429, "rate_limit_error")],
)
def test_the_status_of_a_spent_budget_can_be_chosen(
    simulator: RunningSimulator, status: int, kind: str
) -> None:
    from dragoman.protocols.settings import make_options

    made = config(simulator.base_url, limit("cost", "0", "day"))
    made = replace(made, options=make_options(budget_status=status))
    with serving(made) as (gateway, _):
        for api in APIS:
            answer = ask(gateway, api, "messages/sim-text")
            expected = kind if api == "messages" else "insufficient_quota"
            assert (answer.status, error_of(answer)["type"]) == (status, expected)
            assert answer.headers["x-should-retry"] == "false"


def test_amounts_are_hidden_where_that_is_wanted(simulator: RunningSimulator) -> None:
    limits = (limit("requests", 1, "1m"), limit("cost", "77", "day"))
    with serving(config(simulator.base_url, *limits, show_amounts=False)) as (gateway, _):
        first = ask(gateway)
        assert not [name for name in first.headers if "ratelimit" in name]
        refused = ask(gateway)
        assert refused.status == 429
        assert "(" not in error_of(refused)["message"]
        assert refused.headers["x-dragoman-limit"] == "key:requests:1m"
        shown = told(gateway)
        assert "data" not in shown
        assert set(shown["limits"][0]) == {"scope", "kind", "window", "zone", "mode", "resets_at"}


@pytest.mark.parametrize("stream", [False, True])
def test_answers_tell_what_is_left(simulator: RunningSimulator, stream: bool) -> None:
    limits = (
        limit("requests", 10, "1m"),
        limit("requests", 5, "1h"),
        limit("tokens", 100_000, "1m"),
        limit("cost", "1000", "day"),
    )
    with serving(config(simulator.base_url, *limits)) as (gateway, _):
        chat = ask(gateway, stream=stream, max_tokens=100).headers
        assert chat["x-ratelimit-limit-requests"] == "5"
        assert chat["x-ratelimit-remaining-requests"] == "4"
        assert re.fullmatch(r"1h0m[0-9.]+s", chat["x-ratelimit-reset-requests"])
        assert chat["x-ratelimit-limit-tokens"] == "100000"
        assert 99_000 < int(chat["x-ratelimit-remaining-tokens"]) < 100_000
        messages = ask(gateway, "messages", stream=stream).headers
        assert messages["anthropic-ratelimit-requests-limit"] == "5"
        assert messages["anthropic-ratelimit-requests-remaining"] == "3"
        assert messages["anthropic-ratelimit-tokens-limit"] == "100000"
        assert re.fullmatch(
            r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", messages["anthropic-ratelimit-requests-reset"]
        )
        other = ask(gateway, key=OTHER_KEY).headers
        assert not [name for name in other if "ratelimit" in name]


def test_rates_are_told_by_the_names_of_the_protocol(simulator: RunningSimulator) -> None:
    """Of several of one name the tightest by then; none that never begins anew."""
    limits = (
        limit("input_tokens", 2000, "1m"),
        limit("output_tokens", 1000, "day"),
        limit("tokens", 10**6, "total"),
    )
    with serving(config(simulator.base_url, *limits)) as (gateway, _):
        chat = ask(gateway, max_tokens=900).headers
        assert (chat["x-ratelimit-limit-tokens"], chat["x-ratelimit-remaining-tokens"]) == (
            "1000",
            "100",
        )
        messages = ask(gateway, "messages", max_tokens=100).headers
        told = {name: value for name, value in messages.items() if "ratelimit" in name}
        assert told["anthropic-ratelimit-input-tokens-limit"] == "2000"
        assert told["anthropic-ratelimit-output-tokens-limit"] == "1000"
        assert len(told) == 6
        chat = ask(gateway, text="word " * 1000, max_tokens=100).headers
        assert chat["x-ratelimit-limit-tokens"] == "2000"


def test_the_holder_of_a_key_sees_its_limits(simulator: RunningSimulator) -> None:
    limits = (
        limit("requests", 10, "1m"),
        limit("cost", "12.50", "month", zone="Europe/Berlin"),
        limit("concurrent", 3),
    )
    team = (limit("requests", 100, "day", models=("chat/*",)),)
    with serving(config(simulator.base_url, *limits, team=team)) as (gateway, _):
        assert ask(gateway, max_tokens=10).status == 200
        shown = told(gateway)
        assert (shown["name"], shown["expires_at"]) == ("tester", None)
        first, cost, concurrent, of_team = shown["limits"]
        assert {"exhausted_at"} <= first.keys() & cost.keys() & concurrent.keys()
        assert first.pop("exhausted_at") is None
        assert first.pop("resets_at") is not None
        assert first == {
            "scope": "key",
            "kind": "requests",
            "amount": 10,
            "window": "1m",
            "zone": "UTC",
            "mode": "enforce",
            "used": 1,
            "reserved": 0,
            "remaining": 9,
        }
        assert cost["amount"] == "12.5"
        assert float(cost["used"]) > 0
        assert shown["data"]["limit"] == 12.5
        assert shown["data"]["usage"] == pytest.approx(float(cost["used"]))
        assert (concurrent["used"], concurrent["reserved"], concurrent["remaining"]) == (0, 0, 3)
        assert (of_team["scope"], of_team["used"], of_team["models"]) == ("team", 1, ["chat/*"])
        assert told(gateway, OTHER_KEY)["limits"][0]["used"] == 1
        assert call(gateway.base_url, "GET", "/v1/key", key=None).status == 401


def test_a_teams_limit_holds_for_all_of_its_keys(simulator: RunningSimulator) -> None:
    made = config(simulator.base_url, limit("requests", 5), team=(limit("requests", 3),))
    with serving(made) as (gateway, _):
        assert [ask(gateway).status for _ in range(2)] == [200, 200]
        assert ask(gateway, key=OTHER_KEY).status == 200
        refused = ask(gateway)
        assert refused.headers["x-dragoman-limit"] == "team:requests:1m"
        assert "the team t" in error_of(refused)["message"]
        assert ask(gateway, key=OTHER_KEY).status == 429


def test_limits_of_some_models_hold_for_these(simulator: RunningSimulator) -> None:
    limits = (limit("requests", 1, models=("chat/*",)), limit("requests", 2))
    with serving(config(simulator.base_url, *limits)) as (gateway, _):
        assert ask(gateway).status == 200
        assert ask(gateway).status == 429
        assert ask(gateway, model="messages/sim-text").status == 200
        assert ask(gateway, model="messages/sim-text").status == 429


def test_no_other_name_of_a_model_leads_past_its_limit(simulator: RunningSimulator) -> None:
    made = config(simulator.base_url, limit("requests", 1, models=("sim-text",)))
    routes = (Route(match="fast", upstream="chat", model="sim-text"),)
    with serving(replace(made, routes=routes)) as (gateway, _):
        assert ask(gateway, model="fast").status == 200
        for model in ("fast", "chat/sim-text", "messages/sim-text"):
            assert ask(gateway, model=model).status == 429
        assert ask(gateway, model="chat/sim-reasoning").status == 200


def test_what_is_not_enforced_refuses_nothing_and_is_told(simulator: RunningSimulator) -> None:
    limits = (limit("requests", 1, "1h", mode="shadow"), limit("requests", 2, "day", mode="soft"))
    with serving(config(simulator.base_url, *limits)) as (gateway, lines):
        answers = [ask(gateway) for _ in range(3)]
        assert [answer.status for answer in answers] == [200, 200, 200]
        reached = [answer.headers.get("x-dragoman-limit") for answer in answers]
        assert reached == [
            "key:requests:day; used=50",
            "key:requests:day; used=100",
            "key:requests:day; used=100",
        ]
        assert [line.get("exceeded") for line in lines[:3]] == [
            None,
            ["key:requests:1h shadow"],
            ["key:requests:1h shadow", "key:requests:day soft"],
        ]
        metrics = call(gateway.base_url, "GET", "/metrics").body.decode()
        assert 'dragoman_limit_refusals_total{limit="key:requests:1h",mode="shadow"} 2' in metrics


def test_a_model_without_a_price_is_not_free_for_a_budget(simulator: RunningSimulator) -> None:
    for policy, status in (("refuse", 403), ("allow", 200)):
        budget = limit("cost", "10", "day", unpriced=policy)
        with serving(config(simulator.base_url, budget, prices=())) as (gateway, _):
            answer = ask(gateway)
            assert answer.status == status
            if status == 403:
                assert "has no price" in error_of(answer)["message"]


def test_what_is_said_to_be_free_counts_nothing_at_a_budget(simulator: RunningSimulator) -> None:
    prices = (OwnPrice(model="*", upstream="chat", input="0", output="0"), PRICE)
    made = config(simulator.base_url, limit("cost", "0", "month"), prices=prices)
    with serving(made) as (gateway, _):
        assert ask(gateway, model="chat/sim-text").status == 200
        assert ask(gateway, model="messages/sim-text").status == 429
        assert told(gateway)["limits"][0]["used"] == "0"


@pytest.mark.parametrize(("api", "upstream"), PAIRS)
def test_a_request_is_clamped_to_what_is_left(
    simulator: RunningSimulator, api: str, upstream: str
) -> None:
    made = config(simulator.base_url, limit("output_tokens", 1000, "day", clamp=True))
    names = {"chat": "max_completion_tokens", "responses": "max_output_tokens"}
    name = names.get(api, "max_tokens")
    with serving(made) as (gateway, _):

        def asked(most: int) -> Answer:
            more: dict[str, Any] = {name: most}
            return ask(gateway, api, f"{upstream}/sim-text", **more)

        answer = asked(50_000)
        assert answer.status == 200
        assert answer.headers["x-dragoman-clamped"] == "1000"
        sent = json.loads(simulator.last.body)
        given = [sent[one] for one in (*names.values(), "max_tokens") if one in sent]
        assert given == [1000]
        small = asked(100)
        assert "x-dragoman-clamped" not in small.headers


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    ("most", "thinking"),
    [(5000, {"type": "enabled", "budget_tokens": 3750}), (800, {"type": "disabled"})],
)
def test_who_is_clamped_thinks_no_longer_than_it_may_answer(
    simulator: RunningSimulator, most: int, thinking: dict[str, Any], large: bool
) -> None:
    """The service refuses a request whose thinking may be longer than the answer."""
    text = "word " * 200_000 if large else "Hello"
    wish = {"type": "enabled", "budget_tokens": 10_000}
    clamping = limit("output_tokens", most, "day", clamp=True)
    made = config(simulator.base_url, clamping)
    capped = config(simulator.base_url, max_output_tokens=most)
    for one in (made, capped):
        with serving(one) as (gateway, lines):
            answer = ask(
                gateway, "messages", "messages/sim-text", text, max_tokens=16_000, thinking=wish
            )
            assert answer.status == 200, answer.body
            assert answer.headers["x-dragoman-clamped"] == str(most)
            sent = json.loads(simulator.last.body)
            assert (sent["max_tokens"], sent["thinking"]) == (most, thinking)
            assert any("thinking" in loss for loss in lines[0]["losses"])


def test_a_budget_is_used_to_its_end_by_clamping(simulator: RunningSimulator) -> None:
    """Each kind of limit, where the client names no limit of its own."""
    for one in (
        limit("cost", "2", "day", clamp=True),
        limit("tokens", 2000, "day", clamp=True),
    ):
        with serving(config(simulator.base_url, one)) as (gateway, _):
            first = ask(gateway, max_tokens=10**6)
            assert first.status == 200
            assert int(first.headers["x-dragoman-clamped"]) > 1000
            statuses = {ask(gateway, max_tokens=10**6).status for _ in range(100)}
            assert statuses == {200, 429}
            (shown,) = told(gateway)["limits"]
            assert float(shown["used"]) <= 2000
            assert float(shown["remaining"]) < 0.3 * float(shown["amount"])


# What becomes of a request, and what is counted of it in the end: requests, and whether anything
# was spent.
ENDS = [
    ("sim-text", 1, True),
    ("sim-429", 1, False),
    ("sim-500", 1, False),
    ("sim-error_in_stream?after=1", 1, None),
    ("sim-truncated", 1, None),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("model", "requests", "spends"), ENDS)
def test_nothing_stays_reserved(
    simulator: RunningSimulator, model: str, requests: int, spends: bool | None, stream: bool
) -> None:
    limits = (
        limit("requests", 100),
        limit("tokens", 1_000_000),
        limit("cost", "10000", "day"),
        limit("concurrent", 1),
    )
    with serving(config(simulator.base_url, *limits)) as (gateway, lines):
        ask(gateway, model=f"chat/{model}", stream=stream)
        simulator.wait_for(lambda: len(lines) > 0)
        shown = told(gateway)["limits"]
        assert [one["reserved"] for one in shown] == [0, 0, "0", 0]
        assert shown[0]["used"] == requests
        if spends is not None:
            assert (shown[1]["used"] > 0) is spends
        spent = lines[0].get("cost_usd", "0")
        assert shown[2]["used"] == spent


def test_what_reached_no_upstream_counts_nothing(simulator: RunningSimulator) -> None:
    """A request that cannot be translated, one of another model, and one whose upstream is down."""
    limits = (limit("requests", 100), limit("concurrent", 5))
    made = config(simulator.base_url, *limits)
    dead = replace(made.upstreams[0], base_url="http://127.0.0.1:9")
    with serving(replace(made, upstreams=(dead, *made.upstreams[1:]))) as (gateway, _):
        assert ask(gateway, model="nothing").status == 404
        assert ask(gateway, messages="none").status == 400
        assert ask(gateway, model="messages/sim-text", messages=[{"role": "odd"}]).status == 400
        assert ask(gateway).status >= 500
        assert [one["used"] + one["reserved"] for one in told(gateway)["limits"]] == [0, 0]


def test_a_client_that_leaves_gives_back_what_it_reserved(simulator: RunningSimulator) -> None:
    """Once its answer was read to its usage."""
    limits = (limit("tokens", 1_000_000), limit("concurrent", 1))
    with serving(config(simulator.base_url, *limits)) as (gateway, _):
        for stream in (False, True):
            with Connection(gateway.base_url) as connection:
                asked = body("chat", "chat/sim-text", "[[sim: head_ms=500]]", stream=stream)
                connection.send("POST", PATHS["chat"], asked, {"authorization": f"Bearer {KEY}"})
                simulator.wait_for(lambda: told(gateway)["limits"][1]["reserved"] == 1)
            simulator.wait_for(lambda: told(gateway)["limits"][1]["reserved"] == 0)
            assert told(gateway)["limits"][0]["reserved"] == 0
        assert ask(gateway).status == 200


def test_requests_at_one_time(simulator: RunningSimulator) -> None:
    with serving(config(simulator.base_url, limit("concurrent", 2))) as (gateway, _):
        held = [_Held(gateway, simulator) for _ in range(2)]
        refused = ask(gateway)
        assert refused.status == 429
        assert error_of(refused)["code"] == "rate_limit_exceeded"
        assert refused.headers["x-dragoman-limit"] == "key:concurrent"
        assert refused.headers["retry-after"] == "1"
        assert ask(gateway, key=OTHER_KEY).status == 200
        held[0].leave()
        simulator.wait_for(lambda: told(gateway)["limits"][0]["reserved"] == 1)
        assert ask(gateway).status == 200
        held[1].leave()


class _Held:
    """A request that is under way until its client leaves."""

    def __init__(
        self, gateway: RunningGateway, simulator: RunningSimulator, key: str = KEY
    ) -> None:
        self.connection = Connection(gateway.base_url)
        before = len(simulator.requests)
        asked = body("chat", "chat/sim-text", "[[sim: head_ms=20000]]")
        self.connection.send("POST", PATHS["chat"], asked, {"authorization": f"Bearer {key}"})
        simulator.wait_for(lambda: len(simulator.requests) > before)

    def leave(self) -> None:
        self.connection.sock.close()


def test_who_waits_is_served_in_turn(simulator: RunningSimulator) -> None:
    """First come, first served, and of two keys each in turn; nobody who comes later overtakes."""
    team = (limit("concurrent", 1, queue_s=10.0),)
    with serving(config(simulator.base_url, team=team)) as (gateway, lines):
        held = _Held(gateway, simulator)
        statuses: list[int] = []

        def wait(name: str, key: str) -> None:
            statuses.append(ask(gateway, text=name, key=key).status)

        threads = []
        for name, key in (("a1", KEY), ("a2", KEY), ("a3", KEY), ("b1", OTHER_KEY)):
            threads.append(threading.Thread(target=wait, args=(name, key)))
            threads[-1].start()
            simulator.wait_for(lambda: waiting(gateway) == len(threads))
        held.leave()
        for thread in threads:
            thread.join(10)
        assert statuses == [200] * 4
        # As the upstream saw them: which thread goes on first with its answer is chance.
        asked = [json.loads(one.body)["messages"][-1]["content"] for one in simulator.requests]
        assert asked[1:] == ["a1", "b1", "a2", "a3"]
        assert {line["status"] for line in lines[1:]} == {200}


def test_no_key_takes_the_queue_of_its_team_from_others(simulator: RunningSimulator) -> None:
    team = (limit("concurrent", 1, queue_s=20.0, queue_size=4),)
    with serving(config(simulator.base_url, team=team)) as (gateway, _):
        held = _Held(gateway, simulator)
        with ThreadPoolExecutor(8) as clients:
            first = [clients.submit(ask, gateway) for _ in range(4)]
            simulator.wait_for(lambda: waiting(gateway) == 4)
            assert error_of(ask(gateway))["code"] == "slow_down"
            others = [clients.submit(ask, gateway, key=OTHER_KEY) for _ in range(2)]
            simulator.wait_for(lambda: waiting(gateway) == 6)
            # Both have their share now, or more.
            for key in (KEY, OTHER_KEY):
                assert error_of(ask(gateway, key=key))["code"] == "slow_down"
            held.leave()
            assert {one.result(20).status for one in (*first, *others)} == {200}


@pytest.mark.parametrize("change", [{"amount": 5}, {"mode": "shadow"}])
def test_who_waits_is_held_to_the_limit_as_it_is_now(
    simulator: RunningSimulator, tmp_path: Path, change: dict[str, Any]
) -> None:
    """Whoever comes after a limit was raised waits for nobody, nor do those before."""
    with running_gateway(settings(simulator.base_url, tmp_path)) as gateway:
        secret = made(gateway, "ci")
        one = {"kind": "concurrent", "amount": 1, "queue_s": 60}
        admin(gateway, "POST", "/keys/ci/limits", one)
        simulator.wait_for(lambda: told(gateway, secret)["limits"] != [])
        held = _Held(gateway, simulator, secret)
        with ThreadPoolExecutor(3) as clients:
            first = [clients.submit(ask, gateway, key=secret) for _ in range(2)]
            simulator.wait_for(lambda: waiting(gateway) == 2)
            admin(gateway, "PATCH", "/keys/ci/limits/1", change)
            name, value = next(iter(change.items()))
            simulator.wait_for(lambda: told(gateway, secret)["limits"][0][name] == value)
            assert ask(gateway, key=secret).status == 200
            assert [one.result(10).status for one in first] == [200, 200]
        held.leave()
        simulator.wait_for(lambda: told(gateway, secret)["limits"][0]["reserved"] == 0)
        assert not waiting(gateway)


def test_who_waits_for_a_team_goes_on_waiting_for_the_key(simulator: RunningSimulator) -> None:
    """Two wait while their team has no room; of those, one at a time is what their key may."""
    own, team = limit("concurrent", 1, queue_s=10.0), limit("concurrent", 2, queue_s=10.0)
    with serving(config(simulator.base_url, own, team=(team,))) as (gateway, _):
        # The other key has no limit of its own.
        held = [_Held(gateway, simulator, OTHER_KEY) for _ in range(2)]
        statuses: list[int] = []

        def wait() -> None:
            statuses.append(ask(gateway, text="[[sim: head_ms=300]]").status)

        threads = [threading.Thread(target=wait) for _ in range(2)]
        for count, thread in enumerate(threads, 1):
            thread.start()
            simulator.wait_for(lambda: waiting(gateway) == count)  # noqa: B023
        for one in held:
            one.leave()
        for thread in threads:
            thread.join(20)
        assert statuses == [200, 200]
        simulator.wait_for(lambda: not any(one["reserved"] for one in told(gateway)["limits"]))
        assert not waiting(gateway), "nobody has left a trace"


def test_waiting_ends(simulator: RunningSimulator) -> None:
    """In time, at once if the queue is full, and when the client leaves."""
    limits = (limit("concurrent", 1, queue_s=0.5, queue_size=2),)
    with serving(config(simulator.base_url, *limits)) as (gateway, _):
        held = _Held(gateway, simulator)
        with ThreadPoolExecutor(3) as clients:
            answers = list(clients.map(lambda _: ask(gateway), range(3)))
        for answer in answers:
            assert re.search(r" in (1s|1000ms)\.$", error_of(answer)["message"])
            assert answer.headers["retry-after-ms"] == "1000"
        codes = sorted(error_of(answer)["code"] for answer in answers)
        assert codes == ["rate_limit_exceeded", "rate_limit_exceeded", "slow_down"]
        leaving = Connection(gateway.base_url)
        asked = body("chat", "chat/sim-text", "Hello")
        leaving.send("POST", PATHS["chat"], asked, {"authorization": f"Bearer {KEY}"})
        time.sleep(0.1)
        leaving.sock.close()
        before = len(simulator.requests)
        held.leave()
        simulator.wait_for(lambda: told(gateway)["limits"][0]["reserved"] == 0)
        assert ask(gateway).status == 200
        assert len(simulator.requests) == before + 1, "who had left was not served"


def test_what_was_used_is_known_after_a_restart(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    limits = (
        limit("requests", 100, "day"),
        limit("tokens", 100_000, "total", count_cached=True),
        limit("cost", "1000", "month"),
        limit("requests", 100, "5h"),
        limit("tokens", 100_000, "week", weights=Weights(cached=1, cache_write=3, reasoning=7)),
    )
    made = config(simulator.base_url, *limits, store=str(tmp_path / "kept.db"))
    with serving(made) as (gateway, _):
        for api, upstream in PAIRS:
            assert ask(gateway, api, f"{upstream}/sim-text").status == 200
        for model in ("messages/sim-cached_usage", "responses/sim-reasoning"):
            assert ask(gateway, "messages", model).status == 200
        first = [one["used"] for one in told(gateway)["limits"]]
        assert first[0] == len(PAIRS) + 2
    with serving(made) as (gateway, _):
        assert [one["used"] for one in told(gateway)["limits"]] == first
    # A limit that is new knows what was used before it.
    raised = replace(made.clients[0], limits=(limit("requests", len(PAIRS) + 3, "month"),))
    with serving(replace(made, clients=(raised, made.clients[1]))) as (gateway, _):
        assert ask(gateway).status == 200
        assert ask(gateway).status == 429


def test_short_windows_are_known_after_a_restart(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    made = config(simulator.base_url, limit("requests", 2), store=str(tmp_path / "kept.db"))
    with serving(made) as (gateway, _):
        assert ask(gateway).status == 200
    with serving(made) as (gateway, _):
        assert told(gateway)["limits"][0]["used"] == 0, "nobody has asked for it yet"
        assert [ask(gateway).status for _ in range(2)] == [200, 429]


def test_no_limit_leaves_no_trace(simulator: RunningSimulator, tmp_path: Path) -> None:
    made = config(simulator.base_url, store=str(tmp_path / "kept.db"))
    with serving(made) as (gateway, _):
        assert ask(gateway).status == 200
        assert told(gateway)["limits"] == []
    assert not (tmp_path / "kept.db-limits").exists()


def test_what_is_made_in_the_background_is_settled(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    limits = (limit("requests", 5), limit("tokens", 10**9, "day"), limit("concurrent", 1))
    made = config(simulator.base_url, *limits, store=str(tmp_path / "kept.db"))
    with serving(made) as (gateway, _):
        asked = body("responses", "responses/sim-text", background=True)
        for number in range(1, 4):
            begun = call(gateway.base_url, "POST", "/v1/responses", asked)
            assert begun.json["status"] == "queued"
            simulator.wait_for(lambda: told(gateway)["limits"][0]["used"] == number)  # noqa: B023
            simulator.wait_for(lambda: told(gateway)["limits"][2]["reserved"] == 0)
        assert told(gateway)["limits"][1]["used"] > 0


def test_counting_tokens_counts_at_no_limit(simulator: RunningSimulator, tmp_path: Path) -> None:
    """Nor where what was used is found by the rows of usage."""
    limits = (limit("requests", 3, "day"), limit("tokens", 10**6, "day"))
    made = config(simulator.base_url, *limits, store=str(tmp_path / "kept.db"))
    with serving(made) as (gateway, _):
        for api, path in (("messages", "count_tokens"), ("responses", "input_tokens")):
            counted = body(api, f"{api}/sim-text")
            counted.pop("max_tokens", None)
            for _ in range(5):
                answer = call(gateway.base_url, "POST", f"{PATHS[api]}/{path}", counted)
                assert (answer.status, answer.headers.get("x-dragoman-estimate")) == (200, None)
        assert ask(gateway, "messages", "messages/sim-text").status == 200
        before = [one["used"] for one in told(gateway)["limits"]]
        assert before[0] == 1
    with serving(made) as (gateway, _):
        assert [one["used"] for one in told(gateway)["limits"]] == before


def test_large_bodies_are_held_to_limits(simulator: RunningSimulator) -> None:
    text = "word " * 200_000
    with serving(config(simulator.base_url, limit("tokens", 10**6), limit("concurrent", 1))) as (
        gateway,
        _,
    ):
        assert ask(gateway, "messages", "chat/sim-text", text).status == 200
        assert [one["reserved"] for one in told(gateway)["limits"]] == [0, 0]
        assert ask(gateway, "messages", "chat/sim-text", text * 4).status == 429


@pytest.mark.parametrize(
    "more", [{"max_tokens": 10**30}, {"max_tokens": 200, "n": 8}, {"n": 10**30}]
)
def test_all_that_may_be_answered_is_reserved(
    simulator: RunningSimulator, more: dict[str, Any]
) -> None:
    with serving(config(simulator.base_url, limit("output_tokens", 1500))) as (gateway, _):
        asked = body("chat", "chat/sim-text", **more)
        answer = call(gateway.base_url, "POST", PATHS["chat"], asked)
        assert answer.status == 429
        assert "Request too large" in error_of(answer)["message"]


def test_what_an_upstream_remembers_is_not_taken_for_what_bytes_come_to(
    simulator: RunningSimulator,
) -> None:
    """The tokens of a conversation that the upstream keeps are told for the few bytes that go on
    from it: other requests for that model would have been reserved for with several times what they
    use."""
    made = config(simulator.base_url, limit("tokens", 10**9, "day"))
    keeping = [replace(one, stored_responses="pass") for one in made.upstreams]
    with serving(replace(made, upstreams=tuple(keeping))) as (gateway, _):

        def asked(text: str, **more: Any) -> Any:
            asked = body("responses", "responses/sim-text", text + " word" * 1000, **more)
            answer = call(gateway.base_url, "POST", PATHS["responses"], asked)
            assert answer.status == 200, answer.body
            return answer.json

        last = asked("Hello")
        expected = gateway.app._services.admission.expected._estimates.input
        before = expected("tester", "responses", "sim-text", 10_000)
        for _ in range(5):
            last = asked("[[sim: input=90000]]", previous_response_id=last["id"])
            assert last["usage"]["input_tokens"] == 90_000
        assert expected("tester", "responses", "sim-text", 10_000) == before


def test_a_budget_holds_however_many_ask_at_once(simulator: RunningSimulator) -> None:
    """To the last request that fits, for what is reserved is no less than what is used."""
    with serving(config(simulator.base_url, limit("cost", "2", "day"))) as (gateway, lines):

        def spend(_: int) -> int:
            return ask(gateway, max_tokens=40).status

        with ThreadPoolExecutor(32) as clients:
            statuses = list(clients.map(spend, range(400)))
        assert set(statuses) == {200, 429}
        # Who came while others were under way may have been refused for what these had reserved and
        # did not use: what is left of that is for whoever comes now.
        while spend(0) == 200:
            pass
        (budget,) = told(gateway)["limits"]
        assert budget["reserved"] == "0"
        spent = sum(int(float(line.get("cost_usd", 0)) * 10**6 + 0.5) for line in lines)
        assert round(float(budget["used"]) * 10**6) == spent
        dearest = max(float(line.get("cost_usd", 0)) for line in lines)
        assert 2 - 4 * dearest < float(budget["used"]) <= 2


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize(
    ("known", "amount", "given"), [(None, 1500, 1500), (None, 5000, None), (8000, 5000, 5000)]
)
def test_who_sets_no_output_limit_is_given_what_is_left(
    simulator: RunningSimulator, known: int | None, amount: int, given: int | None, api: str
) -> None:
    """As long as the model might say more: what is reserved for an answer does not limit it."""
    made = config(simulator.base_url, limit("output_tokens", amount, "day", clamp=True))
    capabilities = Capabilities(max_output_tokens=known)
    upstreams = tuple([replace(one, capabilities=capabilities) for one in made.upstreams])
    with serving(replace(made, upstreams=upstreams)) as (gateway, _):
        answer = ask(gateway, api, f"{api}/sim-text?words=3000")
        assert answer.status == 200
        assert answer.headers.get("x-dragoman-clamped") == (given and str(given))
        (shown,) = told(gateway)["limits"]
        assert shown["reserved"] == 0
        assert shown["used"] <= amount
        second = ask(gateway, api, f"{api}/sim-text?words=3000")
        if shown["remaining"] >= 256:
            assert second.headers["x-dragoman-clamped"] == str(shown["remaining"])
        else:
            assert second.status == 429
        assert told(gateway)["limits"][0]["used"] <= amount


def test_what_a_dearer_fallback_may_cost_is_reserved(simulator: RunningSimulator) -> None:
    sure = Fallback(upstream="messages", model="sim-text")
    route = Route(match="m", upstream="chat", model="sim-429", fallbacks=(sure,))
    prices = (
        OwnPrice(model="sim-429", input="1", output="1"),
        OwnPrice(model="sim-text", input="10000", output="10000"),
    )
    for clamps in (False, True):
        budget = limit("cost", "10", "day", clamp=clamps)
        made = replace(config(simulator.base_url, budget, prices=prices), routes=(route,))
        with serving(made) as (gateway, _):
            answers = [ask(gateway, model="m", max_tokens=500) for _ in range(40)]
            assert {answer.status for answer in answers} == {200, 429}
            clamped = [one for one in answers if "x-dragoman-clamped" in one.headers]
            assert bool(clamped) is clamps
            (shown,) = told(gateway)["limits"]
            assert shown["reserved"] == "0"
            assert 4 < float(shown["used"]) <= 10


@pytest.mark.parametrize("falls_back", [False, True])
def test_what_an_hour_in_a_cache_costs_is_reserved(
    simulator: RunningSimulator, falls_back: bool
) -> None:
    """Wherever the mark stands."""
    dear = Fallback(upstream="messages", model="sim-text")
    route = Route(match="m", upstream=dear.upstream, model=dear.model)
    if falls_back:
        route = Route(match="m", upstream="chat", model="sim-demo", fallbacks=(dear,))
    price = OwnPrice(model="sim-text", input="10", output="1", cache_write_1h="1000")
    prices = price, OwnPrice(model="*", input="1", output="1")
    budget = limit("cost", "0.5", "day")
    made = replace(config(simulator.base_url, budget, prices=prices), routes=(route,))
    text = {"type": "text", "text": "some words " * 400}
    five, hour = ({"cache_control": {"type": "ephemeral", "ttl": ttl}} for ttl in ("5m", "1h"))
    with serving(made) as (gateway, _):
        for system, said, status in (
            ({}, {}, 200),
            ({}, five, 200),
            (hour, five, 402),
            (hour, {}, 402),
        ):
            asked = {
                **body("messages", "m"),
                "messages": [{"role": "user", "content": [{**text, **said}]}],
                "system": [{**text, **system}],
            }
            answer = call(gateway.base_url, "POST", PATHS["messages"], asked)
            assert answer.status == status, (system, said, answer.body)


@pytest.mark.parametrize("dear", ["chat", "messages"])
def test_what_is_to_be_written_to_a_cache_is_reserved_as_such(
    simulator: RunningSimulator, dear: str
) -> None:
    """Where that costs more, be it at a fallback alone."""
    route = Route(match="m", upstream="chat", model="sim-text",
                  fallbacks=(Fallback(upstream="messages", model="sim-text"),))  # fmt: skip
    prices = (
        OwnPrice(model="*", upstream=dear, input="1000", cache_write="5000", output="0"),
        OwnPrice(model="*", input="1000", output="0"),
    )
    made = replace(
        config(simulator.base_url, limit("cost", "1", "day"), prices=prices), routes=(route,)
    )
    with serving(made) as (gateway, _):
        text = {"type": "text", "text": "word " * 400}
        marked = {**text, "cache_control": {"type": "ephemeral"}}
        spelled = {**text, "Cache_Control": {"type": "ephemeral"}}
        for part, status in ((text, 200), (marked, 402), (spelled, 402)):
            asked = {**body("messages", "m"), "messages": [{"role": "user", "content": [part]}]}
            answer = call(gateway.base_url, "POST", PATHS["messages"], asked)
            assert answer.status == status, answer.body


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_what_the_gateway_has_written_to_a_cache_is_reserved_as_such(
    simulator: RunningSimulator, api: str
) -> None:
    """For clients of other protocols, unasked or since they mark a part in their own way."""
    price = OwnPrice(model="*", input="1000", cache_write="5000", output="0")
    for unasked in (False, True):
        made = config(simulator.base_url, limit("cost", "2", "day"), prices=(price,))
        chosen = make_capabilities(auto_cache=unasked)
        route = Route(match="m", upstream="messages", model="sim-text", capabilities=chosen)
        kind = "text" if api == "chat" else "input_text"
        text = {"type": kind, "text": "word " * 400}
        marked = {**text, "prompt_cache_breakpoint": {"mode": "explicit"}}
        with serving(replace(made, routes=(route,))) as (gateway, _):
            for part, status in ((marked, 429), (text, 429 if unasked else 200)):
                said = [{"role": "user", "content": [part]}]
                asked = body(api, "m") | {"input" if api == "responses" else "messages": said}
                answer = call(gateway.base_url, "POST", PATHS[api], asked)
                assert answer.status == status, answer.body


def test_each_of_several_answers_is_clamped(simulator: RunningSimulator) -> None:
    """What they may have together is what was reserved, and none may have more than was asked."""
    made = config(simulator.base_url, limit("output_tokens", 2000, "day", clamp=True))
    with serving(made) as (gateway, _):
        ask(gateway, n=4, max_completion_tokens=700)
        assert json.loads(simulator.last.body)["max_completion_tokens"] == 500
        # A share of what is left that is too small to be worth sending is refused.
        assert ask(gateway, n=8, max_completion_tokens=300).status == 429
        assert len(simulator.requests) == 1


def test_a_background_response_that_is_cancelled_is_settled(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    limits = (limit("tokens", 100_000, "day"), limit("concurrent", 2, None))
    made = config(simulator.base_url, *limits, store=str(tmp_path / "kept.db"))
    asked = body("responses", "responses/sim-text?words=300&delay_ms=30", background=True)
    with serving(made) as (gateway, _):
        for _ in range(3):
            begun = call(gateway.base_url, "POST", PATHS["responses"], asked)
            simulator.wait_for(lambda: told(gateway)["limits"][1]["reserved"] == 1)
            time.sleep(0.3)
            path = f"{PATHS['responses']}/{begun.json['id']}/cancel"
            assert call(gateway.base_url, "POST", path, {}).json["status"] == "cancelled"
            simulator.wait_for(lambda: told(gateway)["limits"][1]["reserved"] == 0)
        assert told(gateway)["limits"][0]["reserved"] == 0
        assert told(gateway)["limits"][0]["used"] > 0


def test_a_background_response_is_refused_when_it_is_asked_for(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    """What one has reserved is held from the answer of its POST on, and given back once."""
    limits = (limit("requests", 2, "total"), limit("concurrent", 1), limit("tokens", 10**6, "day"))
    made = config(simulator.base_url, *limits, store=str(tmp_path / "kept.db"))
    slow = body("responses", "responses/sim-text?words=20&delay_ms=50", background=True)
    with serving(made) as (gateway, lines):
        begun = call(gateway.base_url, "POST", PATHS["responses"], slow)
        assert begun.json["status"] == "queued"
        assert [one["reserved"] for one in told(gateway)["limits"][:2]] == [0, 1]
        refused = call(gateway.base_url, "POST", PATHS["responses"], slow)
        assert (refused.status, error_of(refused)["type"]) == (429, "requests")
        until(lambda: lines[-1].get("limit") == "key:concurrent")
        simulator.wait_for(lambda: told(gateway)["limits"][1]["reserved"] == 0)
        assert call(gateway.base_url, "POST", PATHS["responses"], slow).status == 200
        simulator.wait_for(lambda: told(gateway)["limits"][1]["reserved"] == 0)
        refused = call(gateway.base_url, "POST", PATHS["responses"], slow)
        assert (refused.status, error_of(refused)["code"]) == (429, "insufficient_quota")
        assert "retry-after" not in refused.headers
        shown = told(gateway)["limits"]
        assert (shown[0]["used"], shown[2]["reserved"]) == (2, 0)
        assert shown[2]["used"] > 0
    assert len(simulator.requests) == 2


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_no_answer_is_longer_than_a_key_may_have(
    simulator: RunningSimulator, api: str, stream: bool
) -> None:
    """Whatever is asked for, and whether there are limits besides; the team's counts, too."""
    name = {"messages": "max_tokens", "responses": "max_output_tokens"}.get(
        api, "max_completion_tokens"
    )
    made = config(simulator.base_url, team=(limit("tokens", 10**9, "day"),))
    made = replace(
        made,
        clients=(replace(made.clients[0], max_output_tokens=300), made.clients[1]),
        teams=(replace(made.teams[0], max_output_tokens=200),),
    )

    def sent(key: str = KEY, /, **more: Any) -> tuple[int, str | None]:
        answer = ask(gateway, api, f"{api}/sim-text", key=key, stream=stream, **more)
        assert answer.status == 200, answer.body
        return json.loads(simulator.last.body)[name], answer.headers.get("x-dragoman-clamped")

    with serving(made) as (gateway, _):
        assert sent(**{name: 100}) == (100, None)
        assert sent(**{name: 10_000}) == (200, "200")
        assert sent(OTHER_KEY, **{name: 201}) == (200, "200")
        if api != "messages":
            assert sent() == (200, "200")
        if api == "chat":
            ask(gateway, api, max_tokens=10**6, max_completion_tokens=5)
            asked = json.loads(simulator.last.body)
            assert (asked["max_tokens"], asked["max_completion_tokens"]) == (200, 5)


def test_no_answer_that_goes_on_from_another_is_longer_either(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    store = str(tmp_path / "kept.db")
    made = config(simulator.base_url, store=store, max_output_tokens=200)
    with serving(made) as (gateway, _):
        asked = body("responses", "chat/sim-text", max_output_tokens=1000)
        for previous in ({}, {"background": True}):
            begun = body("responses", "chat/sim-text")
            first = call(gateway.base_url, "POST", PATHS["responses"], begun)
            again = asked | {"previous_response_id": first.json["id"]} | previous
            before = len(simulator.requests)
            assert call(gateway.base_url, "POST", PATHS["responses"], again).status == 200
            simulator.wait_for(lambda: len(simulator.requests) > before)  # noqa: B023
            sent = json.loads(simulator.last.body)
            assert 200 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))


def test_who_is_clamped_twice_is_told_the_lower_limit(simulator: RunningSimulator) -> None:
    clamping = limit("output_tokens", 400, "total", clamp=True)
    with serving(config(simulator.base_url, clamping, max_output_tokens=500)) as (gateway, _):
        assert ask(gateway, max_completion_tokens=5000).headers["x-dragoman-clamped"] == "400"
