"""Damaged requests give a client's error that says where, and never anything else."""

from __future__ import annotations

import random

import msgspec
import pytest

from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import Policy
from dragoman.protocols import CODECS
from dragoman.protocols.settings import make_options
from dragoman.translation import CallSettings, ClientRequest
from dragoman.translation.call import Call
from tests.fuzz.counts import REQUESTS
from tests.fuzz.mutations import damage, encode
from tests.fuzz.requests import CLIENTS, corpus, merged
from tests.losses.interactions import INTERACTIONS
from tests.losses.requests import GOOGLE, PROTOCOLS, RESPONSES

BATCHES = 10
LENIENT = CallSettings(options=make_options(policy=Policy.LENIENT))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_damaged_requests_are_refused_or_translated(batch: int) -> None:
    rng = random.Random(batch)
    bodies = {client: corpus(client) for client in CLIENTS}
    outcomes = {"translated": 0, "refused": 0}
    for number in range(REQUESTS // BATCHES):
        client = CLIENTS[number % len(CLIENTS)]
        body = encode(rng, damage(rng, merged(rng, bodies[client])))
        for upstream in CLIENTS:
            if upstream != client:
                outcomes[outcome(client, upstream, body)] += 1

    assert min(outcomes.values()) > REQUESTS // BATCHES // 10, (
        "the damage is too small or too great"
    )


def outcome(client: str, upstream: str, body: bytes) -> str:
    """What becomes of a request body; anything but a translation or a refusal is a failure."""
    try:
        source = client_request(client, body)
        call = Call(source, upstream, LENIENT)
    except InvalidRequest as error:
        check_refusal(client, error)
        return "refused"
    except Exception as error:
        pytest.fail(f"{client} to {upstream}: {error!r} for {body.decode('utf-8', 'replace')}")
    written = msgspec.json.decode(call.body)
    assert isinstance(written, dict)
    assert upstream == GOOGLE or written["model"] == source.model
    return "translated"


def client_request(client: str, body: bytes) -> ClientRequest:
    """The request of a client, whose path may name the model."""
    read_path = CODECS[client].endpoint.read_path
    operation = read_path("/models/m:generateContent", "") if read_path else None
    return ClientRequest(client, body, operation=operation)


def check_refusal(client: str, error: InvalidRequest) -> None:
    """A refusal has words, and a shape in the client's protocol."""
    rendered = CODECS[client].translate.write_error(error.fault, "req_1")
    assert 400 <= rendered.status < 500
    assert rendered.body["error"]["message"]
    msgspec.json.encode(rendered.body)


BROKEN = {
    "text that is not UTF-8": b'"a\x80"',
    "half a value": b'"a',
    "no value": b"undefined",
}


@pytest.mark.parametrize("upstream", CLIENTS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("value", BROKEN.values(), ids=BROKEN)
def test_broken_text_is_refused_in_every_cell(client: str, upstream: str, value: bytes) -> None:
    """Also where the body would only be passed through."""
    turns = {
        RESPONSES: b'"input":%b',
        GOOGLE: b'"contents":[{"parts":[{"text":%b}]}]',
        INTERACTIONS: b'"input":%b',
    }
    usual = b'"max_tokens":5,"messages":[{"role":"user","content":%b}]'
    body = b'{"model":"m",' + turns.get(client, usual) % value + b"}"

    with pytest.raises(InvalidRequest) as refused:
        Call(client_request(client, body), upstream, LENIENT)

    check_refusal(client, refused.value)


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_model_that_is_not_text_is_refused(client: str) -> None:
    for model in (b'"m\x80"', b"5", b"null", b'""'):
        with pytest.raises(InvalidRequest):
            ClientRequest(client, b'{"model":%b,"messages":[],"input":"x"}' % model)
