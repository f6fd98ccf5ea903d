"""The shapes of Messages requests: all that agents send is in them."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.protocols.anthropic_messages.shapes import Request
from tests.clients.recordings import Recording, recordings

RECORDED = [recording for recording in recordings() if recording.api == "messages"]


@pytest.mark.parametrize("recording", RECORDED, ids=lambda recording: recording.name)
def test_what_agents_send_is_decoded_at_once(recording: Recording) -> None:
    """A request with anything else is decoded again without it, which takes five times as long."""
    for turn in recording.turns:
        msgspec.json.decode(turn.encoded, type=Request)
