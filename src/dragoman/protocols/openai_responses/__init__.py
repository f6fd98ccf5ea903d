"""OpenAI Responses, both ways."""

from __future__ import annotations

from dragoman.protocols.base import Codec
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.errors import read_error, write_error
from dragoman.protocols.openai_responses.history import (
    beginning,
    without_envelopes,
    without_reasoning,
)
from dragoman.protocols.openai_responses.relay import (
    ResponsesRelay,
    fitted,
    forward_request,
    forward_response,
)
from dragoman.protocols.openai_responses.requests import read_request, write_request
from dragoman.protocols.openai_responses.responses import read_response, write_response
from dragoman.protocols.openai_responses.shape import SHAPE
from dragoman.protocols.openai_responses.streams import ResponsesReader, ResponsesWriter
from dragoman.sse import COMMENT

CODEC = Codec(
    name=wire.NAME,
    path="/responses",
    id_prefix="resp_",
    tool_name_limit=wire.TOOL_NAME_LIMIT,
    namespaces=True,
    taken_stops=lambda _: (),
    read_request=read_request,
    write_request=write_request,
    read_response=read_response,
    write_response=write_response,
    stream_reader=ResponsesReader,
    stream_writer=ResponsesWriter,
    read_error=read_error,
    write_error=write_error,
    # A `ping` event makes openai-node throw; comments are safe everywhere.
    keepalive=COMMENT,
    shape=SHAPE,
    without_envelopes=without_envelopes,
    without_reasoning=without_reasoning,
    fitted=fitted,
    beginning=beginning,
    forward_request=forward_request,
    forward_response=forward_response,
    relay=ResponsesRelay,
)
"""The protocol's entry in the registry."""
