"""Google's generateContent: `POST /v1/models/{model}:generateContent`."""

from __future__ import annotations

from dragoman.protocols import google_wire
from dragoman.protocols.base import Codec, Translate
from dragoman.protocols.google_generate_content import wire
from dragoman.protocols.google_generate_content.endpoint import ENDPOINT
from dragoman.protocols.google_generate_content.errors import (
    answer_names,
    is_own_error,
    read_error,
    write_error,
)
from dragoman.protocols.google_generate_content.passthrough import PASSTHROUGH
from dragoman.protocols.google_generate_content.request_reader import read_request
from dragoman.protocols.google_generate_content.request_writer import taken_stops, write_request
from dragoman.protocols.google_generate_content.stream_reader import GoogleReader, read_response
from dragoman.protocols.google_generate_content.stream_writer import KEEPALIVE, GoogleWriter
from dragoman.protocols.google_signatures import REASONING_REFUSALS

CODEC = Codec(
    name=wire.NAME,
    endpoint=ENDPOINT,
    translate=Translate(
        read_request=read_request,
        write_request=write_request,
        read_response=read_response,
        stream_reader=GoogleReader,
        answer_writer=GoogleWriter,
        read_error=read_error,
        reasoning_refusals=REASONING_REFUSALS,
        write_error=write_error,
        is_own_error=is_own_error,
        answer_names=answer_names,
        keepalive=KEEPALIVE,
        tool_name_limit=google_wire.NAME_LIMIT,
        tool_names_lettered=True,
        taken_stops=taken_stops,
    ),
    passthrough=PASSTHROUGH,
)
"""The protocol, both ways."""
