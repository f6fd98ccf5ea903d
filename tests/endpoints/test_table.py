"""The table of endpoints: what each row must say, and what follows from rows for every endpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.accounts.decide.states import AccountState
from dragoman.config import Route
from dragoman.config.limits import Limit
from dragoman.endpoints.members import replaced
from dragoman.endpoints.table import PATHS, ROWS, place_of
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.observability.metrics.outcomes import TELEMETRY
from dragoman.protocols import CODECS
from dragoman.server.routes import Routes
from tests.endpoints.serving import REQUESTS, config, post, serving, upstream
from tests.gateway.http import KEY, call


def test_every_route_has_a_gate_a_usage_reader_and_a_repeat_class(
    simulator: RunningSimulator,
) -> None:
    with serving(config(upstream("sim", simulator.base_url))) as (gateway, _):
        routes = Routes(gateway.app._current.generation, {})
    answered = {
        codec.endpoint.version + path
        for codec in CODECS.values()
        for path in (
            codec.endpoint.path,
            f"{codec.endpoint.path}/compact",
            codec.endpoint.models.path,
            "" if codec.endpoint.counting is None else codec.endpoint.counting.path,
        )
    }
    for path, route in routes.fixed.items():
        # What is only read, such as lists of models and usage, asks no upstream for anything.
        is_read = route.methods.keys() <= {"GET", "HEAD"}
        assert path in PATHS or is_read or path in {*answered, *TELEMETRY}, f"{path} is no row"
        if path in PATHS:
            assert not route.open, f"{path} has no gate"
            assert route.methods.keys() - {"HEAD"} == PATHS[path].rows.keys()
    for row in ROWS:
        assert row.unit is None or row.usage is not None, f"{row.path} has no usage reader"
        assert row.repeat, f"{row.path} has no repeat class"


def test_every_row_with_a_held_body_is_tried_by_these_tests() -> None:
    held = {row.path for row in ROWS if row.way == "held" and "{" not in row.path}
    assert held == REQUESTS.keys()


@pytest.mark.parametrize(
    "path",
    [
        "/v1beta/models/m:embedContent",
        "/v1/models/a/b:embedContent",
        "/v1beta1/projects/p/locations/l/publishers/google/models/m:embedContent",
    ],
)
def test_a_path_with_a_model_has_its_row(path: str) -> None:
    place = place_of(path)
    assert place is not None
    assert place.parameters["model"] in ("m", "a/b")


@pytest.mark.parametrize("header", ["authorization", "x-api-key", "x-goog-api-key", "api-key"])
@pytest.mark.parametrize("path", REQUESTS)
def test_a_key_is_taken_in_every_header_and_a_wrong_one_refused(
    simulator: RunningSimulator, path: str, header: str
) -> None:
    with serving(config(upstream("sim", simulator.base_url))) as (gateway, _):
        for key, status in (("sk-test-client", 200), ("sk-other", 401)):
            value = f"Bearer {key}" if header == "authorization" else key
            answer = post(gateway, path, REQUESTS[path], key=None, headers={header: value})
            assert answer.status == status
    assert len(simulator.requests) == 1


@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ({"models": ("other",)}, 404),
        ({"paths": ("/v1/chat/*",)}, 403),
        ({"addresses": ("10.0.0.1",)}, 403),
        ({"limits": (Limit(kind="requests", amount=0, window="1m"),)}, 429),
    ],
)
def test_a_key_that_may_not_is_refused_before_an_upstream_is_asked(
    simulator: RunningSimulator, path: str, rule: dict[str, Any], status: int
) -> None:
    with serving(config(upstream("sim", simulator.base_url), **rule)) as (gateway, _):
        answer = post(gateway, path, REQUESTS[path])
    assert answer.status == status
    assert not simulator.requests


@pytest.mark.parametrize(
    ("key", "rule", "status"),
    [
        ("sk-of-nobody", {}, 401),
        (KEY, {"paths": ("/v1/chat/*",)}, 403),
        (KEY, {"addresses": ("10.0.0.1",)}, 403),
    ],
)
def test_every_row_has_its_gate(
    simulator: RunningSimulator, key: str, rule: dict[str, Any], status: int
) -> None:
    """Also those that take forms, things of accounts, and sessions."""
    with serving(config(upstream("sim", simulator.base_url), **rule)) as (gateway, _):
        for row in ROWS:
            path = row.path.format(id="thing-1", below="files", model="my-model")
            body = None if row.body == "none" else b"{}"
            answer = call(gateway.base_url, row.method, path, body, key=key)
            assert answer.status == status, f"{row.method} {path}"
    assert not simulator.requests


@pytest.mark.parametrize("path", REQUESTS)
def test_an_upstream_without_the_endpoint_is_told_as_unsupported(
    simulator: RunningSimulator, path: str
) -> None:
    with serving(config(upstream("sim", simulator.base_url, endpoints=()))) as (gateway, lines):
        answer = post(gateway, path, REQUESTS[path])
    assert answer.status == 404
    assert "my-model" in answer.body.decode()
    assert not simulator.requests
    assert lines[-1]["error"] == "not_found"


@pytest.mark.parametrize("path", REQUESTS)
def test_a_route_narrows_the_endpoints(simulator: RunningSimulator, path: str) -> None:
    made = config(upstream("sim", simulator.base_url))
    made = replace(made, routes=(replace(made.routes[0], endpoints=()),))
    with serving(made) as (gateway, _):
        assert post(gateway, path, REQUESTS[path]).status == 404
    assert not simulator.requests


@pytest.mark.parametrize("status", [404, 405])
@pytest.mark.parametrize("path", REQUESTS)
def test_a_missing_endpoint_never_changes_the_state_of_an_account(
    simulator: RunningSimulator, path: str, status: int
) -> None:
    keys = (f"sk-sim-{status}", "sk-sim-account")
    with serving(config(upstream("sim", simulator.base_url), keys=keys)) as (gateway, lines):
        answers = [post(gateway, path, REQUESTS[path]) for _ in range(4)]
        states = [gateway.app.pool.state(one.name) for one in gateway.app.pool.accounts()]
    assert states == [AccountState(name=one.name) for one in states]
    assert {answer.status for answer in answers} <= {404, 200}
    assert all(line["attempts"] == 1 for line in lines), "no other account was asked"


@pytest.mark.parametrize("path", REQUESTS)
def test_the_path_is_served_without_its_version_and_recorded_by_one_name(
    simulator: RunningSimulator, path: str
) -> None:
    with serving(config(upstream("sim", simulator.base_url))) as (gateway, lines):
        assert post(gateway, path.removeprefix("/v1"), REQUESTS[path]).status == 200
        metrics = call(gateway.base_url, "GET", "/metrics").body.decode()
    assert lines[-1]["status"] == 200
    assert f'route="{path}"' in metrics


ODD = (
    b'{ "z":1e2, "model" : "my-model","input":["\\u00e9 \xc3\xa9", "\\"model\\":"],'
    b'"x":{"model":"inner"},"z":2,\n"model":"my-model" }'
)


def test_every_byte_but_the_name_of_the_model_is_passed(simulator: RunningSimulator) -> None:
    with serving(config(upstream("sim", simulator.base_url))) as (gateway, _):
        answer = post(gateway, "/v1/embeddings", ODD)
    sent = ODD.replace(b'"my-model"', b'"sim-model"')
    assert simulator.last.body == sent
    assert dict(simulator.last.headers)["content-length"] == str(len(sent))
    assert answer.json["model"] == "my-model"


@pytest.mark.parametrize("first", [b"model", b"mod\\u0065l"])
def test_no_other_model_is_named_before_the_one_that_is_allowed(
    simulator: RunningSimulator, first: bytes
) -> None:
    made = config(upstream("sim", simulator.base_url), models=("same",))
    made = replace(made, routes=(Route(match="same", upstream="sim"),))
    with serving(made) as (gateway, _):
        body = b'{"%b":"other","model":"same","input":"one"}' % first
        assert post(gateway, "/v1/embeddings", body).status == 200
    assert b"other" not in simulator.last.body


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"a"}', b'{"model":"b"}'),
        (b'{"mod\\u0065l":"a","x":{"model":"a"}}', b'{"mod\\u0065l":"b","x":{"model":"a"}}'),
        (
            b'{"x":"\\\\","model":[1,{"a":2}] ,"y":"model"}',
            b'{"x":"\\\\","model":"b" ,"y":"model"}',
        ),
        (b'{"x":"\\"model\\":1"}', b'{"x":"\\"model\\":1"}'),
    ],
)
def test_a_member_is_replaced_where_it_stands(body: bytes, expected: bytes) -> None:
    assert replaced(body, "model", b'"b"') == expected
    json.loads(expected)
