"""Anthropic Messages: `POST /v1/messages`."""

from __future__ import annotations

from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.errors import read_error, write_error
from dragoman.protocols.anthropic_messages.fitting import fitted
from dragoman.protocols.anthropic_messages.history import (
    beginning,
    without_envelopes,
    without_reasoning,
)
from dragoman.protocols.anthropic_messages.relay import (
    MessagesRelay,
    forward_request,
    forward_response,
)
from dragoman.protocols.anthropic_messages.requests import read_request, taken_stops, write_request
from dragoman.protocols.anthropic_messages.responses import read_response, write_response
from dragoman.protocols.anthropic_messages.shape import SHAPE
from dragoman.protocols.anthropic_messages.stream_reader import MessagesReader
from dragoman.protocols.anthropic_messages.stream_writer import PING, MessagesWriter
from dragoman.protocols.base import Codec

CODEC = Codec(
    name=wire.NAME,
    path="/messages",
    id_prefix="msg_",
    tool_name_limit=wire.NAME_LIMIT,
    namespaces=False,
    taken_stops=taken_stops,
    read_request=read_request,
    write_request=write_request,
    read_response=read_response,
    write_response=write_response,
    stream_reader=MessagesReader,
    stream_writer=MessagesWriter,
    read_error=read_error,
    write_error=write_error,
    keepalive=PING,
    shape=SHAPE,
    without_envelopes=without_envelopes,
    without_reasoning=without_reasoning,
    fitted=fitted,
    beginning=beginning,
    forward_request=forward_request,
    forward_response=forward_response,
    relay=MessagesRelay,
)
