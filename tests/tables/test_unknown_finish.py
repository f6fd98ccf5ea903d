"""A finish word that nobody knows: between protocols an ordinary end that is reported, or refused
by a strict route; within one protocol the client's own to judge."""

from __future__ import annotations

import json

import pytest

from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.finish import UNKNOWN_FINISH
from dragoman.canonical.losses import LossKind
from dragoman.translation import Call
from tests.tables.cells import CHAT, MESSAGES, RESPONSES, calling, chat_answer, messages_answer
from tests.tables.upstreams import STREAMS

WORD = "next_years_word"
ANSWERS = {
    CHAT: chat_answer({"content": "x"}, WORD),
    MESSAGES: messages_answer({"type": "text", "text": "x"}, stop=WORD),
}
PAIRS = [(client, upstream) for client in (CHAT, MESSAGES, RESPONSES) for upstream in ANSWERS]
ACROSS = [pair for pair in PAIRS if pair[0] != pair[1]]
WAYS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def answered(call: Call, upstream: str, *, stream: bool) -> bytes:
    """What the client is sent.

    Raises:
        UpstreamError: the answer is unusable.
    """
    if not stream:
        return call.translate_response(json.dumps(ANSWERS[upstream]).encode())
    opened = call.open_stream()
    sent = opened.feed(STREAMS[upstream](ANSWERS[upstream])) + opened.finish()
    if opened.outcome.fault is not None:
        raise UpstreamError(opened.outcome.fault)
    return sent


@WAYS
@pytest.mark.parametrize(("client", "upstream"), ACROSS)
def test_it_is_an_ordinary_end(client: str, upstream: str, stream: bool) -> None:
    call = calling(client, upstream)
    assert WORD.encode() not in answered(call, upstream, stream=stream)
    assert {loss.kind for loss in call.losses if "reason" in loss.path} == {LossKind.CONVERTED}


@WAYS
@pytest.mark.parametrize(("client", "upstream"), ACROSS)
def test_a_strict_route_refuses_it(client: str, upstream: str, stream: bool) -> None:
    call = calling(client, upstream, policy="strict")
    with pytest.raises(UpstreamError) as caught:
        answered(call, upstream, stream=stream)
    assert caught.value.fault.code == UNKNOWN_FINISH
    assert WORD in caught.value.fault.message


@WAYS
@pytest.mark.parametrize("upstream", ANSWERS)
def test_within_one_protocol_it_passes(upstream: str, stream: bool) -> None:
    call = calling(upstream, upstream, policy="strict")
    assert WORD.encode() in answered(call, upstream, stream=stream)
    assert not call.losses
