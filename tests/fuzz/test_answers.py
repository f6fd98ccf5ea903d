"""Damaged answers become an explicit failure or a whole answer, never a false success."""

from __future__ import annotations

import random

import msgspec
import pytest

from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.losses import Policy
from dragoman.protocols.settings import make_options
from dragoman.translation import Call
from tests.checkers import CHECKERS
from tests.fuzz import interactions
from tests.fuzz.counts import ANSWERS
from tests.fuzz.mutations import damage, encode, flip
from tests.fuzz.requests import CLIENTS
from tests.library import translate_request
from tests.losses.answers import AnswerCase, answer_cases, stream_cases
from tests.losses.clients import asking
from tests.losses.google_answers import google_answer_cases, google_stream_cases
from tests.losses.interactions import INTERACTIONS
from tests.losses.requests import CHAT, GOOGLE, MESSAGES, RESPONSES

BATCHES = 5
LENIENT = make_options(policy=Policy.LENIENT)
STREAMS = (*stream_cases(), *google_stream_cases())


def call(client: str, upstream: str, stream: bool) -> Call:
    """A client's call, on its way back."""
    body = msgspec.json.encode(asking(client, stream))
    return translate_request(client, upstream, body, options=LENIENT)


def corpus(cases: tuple[AnswerCase, ...], others: list[bytes]) -> dict[str, list[bytes]]:
    """The answers of every upstream; `others` are those of the Interactions API."""
    found = {
        upstream: [case.body() for case in cases if case.upstream == upstream]
        for upstream in CLIENTS
    }
    return {**found, INTERACTIONS: others}


@pytest.mark.parametrize("batch", range(BATCHES))
def test_damaged_answers_fail_openly(batch: int) -> None:
    rng = random.Random(batch)
    answers = corpus((*answer_cases(), *google_answer_cases()), interactions.ANSWERS)
    outcomes = {"answered": 0, "failed": 0}
    for number in range(ANSWERS // BATCHES):
        upstream = CLIENTS[number % len(CLIENTS)]
        good = msgspec.json.decode(rng.choice(answers[upstream]))
        body = encode(rng, damage(rng, good, most=2))
        for client in CLIENTS:
            outcomes[answered(client, upstream, body)] += 1

    assert min(outcomes.values()) > ANSWERS // BATCHES // 10, "the damage is too small or too great"


def answered(client: str, upstream: str, body: bytes) -> str:
    """What becomes of a whole answer."""
    try:
        shown = call(client, upstream, stream=False).translate_response(body)
    except UpstreamError:
        return "failed"
    except Exception as error:
        pytest.fail(f"{upstream} to {client}: {error!r} for {body.decode('utf-8', 'replace')}")
    if client != upstream:
        assert isinstance(msgspec.json.decode(shown), dict)
    return "answered"


def frames_of(stream: bytes) -> list[bytes]:
    """The frames of a stream, each with its blank line."""
    return [frame + b"\n\n" for frame in stream.split(b"\n\n")[:-1]]


def damaged_stream(rng: random.Random, stream: bytes) -> bytes:
    """The stream with frames dropped, doubled or exchanged, or with something wrong in one."""
    frames = frames_of(stream)
    for _ in range(rng.randint(1, 2)):
        if not frames:
            break
        at = rng.randrange(len(frames))
        match rng.randrange(6):
            case 0:
                del frames[at]
            case 1:
                frames.insert(at, frames[at])
            case 2:
                other = rng.randrange(len(frames))
                frames[at], frames[other] = frames[other], frames[at]
            case 3:
                frames[at] = flip(rng, frames[at])
            case _:
                frames[at] = damaged_frame(rng, frames[at])
    return b"".join(frames)


def damaged_frame(rng: random.Random, frame: bytes) -> bytes:
    """The frame with something wrong in its JSON."""
    head, mark, data = frame.partition(b"data: ")
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return b""
    return head + mark + encode(rng, damage(rng, document, most=2)).replace(b"\n", b"") + b"\n\n"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_damaged_streams_keep_their_form(batch: int) -> None:
    """Whatever the upstream sends, the client's stream obeys its grammar and ends openly."""
    rng = random.Random(batch)
    streams = corpus(STREAMS, interactions.STREAMS)
    outcomes = {"success": 0, "failure": 0}
    for number in range(ANSWERS // BATCHES):
        upstream = CLIENTS[number % len(CLIENTS)]
        stream = damaged_stream(rng, rng.choice(streams[upstream]))
        for client in CLIENTS:
            if client == upstream:
                passed_through(client, stream)
            else:
                outcomes[streamed(client, upstream, stream)] += 1

    assert min(outcomes.values()) > ANSWERS // BATCHES // 10, "the damage is too small or too great"


def streamed(client: str, upstream: str, stream: bytes) -> str:
    """How the client's stream ends for an upstream's stream."""
    translator = call(client, upstream, stream=True).open_stream()
    try:
        shown = translator.feed(stream) + translator.finish()
        verdict = CHECKERS[client](shown)
    except Exception as error:
        pytest.fail(f"{upstream} to {client}: {error!r} for {stream.decode('utf-8', 'replace')}")
    assert translator.over
    assert verdict.succeeded == (translator.outcome.fault is None)
    return verdict.ending


def passed_through(protocol: str, stream: bytes) -> None:
    """Within one protocol the stream is only watched; it ends, or an error is added."""
    translator = call(protocol, protocol, stream=True).open_stream()
    try:
        shown = translator.feed(stream) + translator.finish()
    except Exception as error:
        pytest.fail(f"{protocol}: {error!r} for {stream.decode('utf-8', 'replace')}")
    assert translator.over
    if translator.outcome.fault is None:
        assert any(terminal in stream for terminal in ENDS[protocol])
    else:
        assert b"error" in shown or b"response.failed" in shown


ENDS = {
    CHAT: (b"[DONE]", b'"finish_reason":'),
    MESSAGES: (b"message_stop",),
    RESPONSES: (b"response.completed", b"response.incomplete"),
    GOOGLE: (b'"finishReason":', b'"blockReason":'),
    INTERACTIONS: (b"interaction.completed",),
}
"""Without any of these no stream is whole."""

TERMINALS = (
    b'"finish_reason":"',
    b"message_stop",
    b"response.completed",
    b"response.incomplete",
    b"response.failed",
    b'"finishReason":"',
    b'"blockReason":"',
    b"interaction.completed",
)


@pytest.mark.parametrize("upstream", CLIENTS)
def test_truncation_is_never_a_success(upstream: str) -> None:
    """A stream cut anywhere before its end, or without one, is a failure on every cell. req: 156"""
    whole = corpus(STREAMS, interactions.STREAMS)[upstream]
    rng = random.Random(upstream)
    for stream in rng.sample(whole, min(len(whole), 60)):
        frames = frames_of(stream)
        ends = [n for n, frame in enumerate(frames) if any(t in frame for t in TERMINALS)]
        last = max(ends, default=len(frames) - 1)
        cut = rng.randrange(last + 1)
        for client in CLIENTS:
            translator = call(client, upstream, stream=True).open_stream()
            kept = b"".join(frames[:cut])
            shown = translator.feed(kept) + translator.finish()
            assert translator.outcome.fault is not None, f"to {client}: {kept!r}"
            if client != upstream:
                assert not CHECKERS[client](shown).succeeded
