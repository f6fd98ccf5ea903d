"""Anthropic Messages: `POST /v1/messages`."""

from __future__ import annotations

from dragoman.protocols.answer_names import names_in
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.errors import REASONING_REFUSALS, read_error, write_error
from dragoman.protocols.anthropic_messages.output import PING
from dragoman.protocols.anthropic_messages.passthrough import PASSTHROUGH
from dragoman.protocols.anthropic_messages.request_reader import read_request
from dragoman.protocols.anthropic_messages.request_writer import taken_stops, write_request
from dragoman.protocols.anthropic_messages.services import ENDPOINT
from dragoman.protocols.anthropic_messages.settings import MessagesOptions, output_limit
from dragoman.protocols.anthropic_messages.stream_reader import MessagesReader, read_response
from dragoman.protocols.anthropic_messages.stream_writer import MessagesWriter
from dragoman.protocols.anthropic_messages.tools import renamed_properties
from dragoman.protocols.base import Codec, Translate
from dragoman.protocols.error_body import is_error_object

CODEC = Codec(
    name=wire.NAME,
    endpoint=ENDPOINT,
    translate=Translate(
        read_request=read_request,
        write_request=write_request,
        read_response=read_response,
        stream_reader=MessagesReader,
        read_error=read_error,
        reasoning_refusals=REASONING_REFUSALS,
        write_error=write_error,
        is_own_error=is_error_object,
        answer_names=names_in("message"),
        keepalive=PING,
        tool_name_limit=wire.NAME_LIMIT,
        renamed_properties=renamed_properties,
        taken_stops=taken_stops,
        answer_writer=MessagesWriter,
        output_limit=output_limit,
        options=MessagesOptions,
    ),
    passthrough=PASSTHROUGH,
)
"""The protocol, both ways."""
