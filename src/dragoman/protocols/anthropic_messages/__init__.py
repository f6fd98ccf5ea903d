"""Anthropic Messages: `POST /v1/messages`."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.counting import COUNTING
from dragoman.protocols.anthropic_messages.errors import read_error, write_error
from dragoman.protocols.anthropic_messages.fitting import fitted
from dragoman.protocols.anthropic_messages.history import (
    beginning,
    without_envelopes,
    without_reasoning,
)
from dragoman.protocols.anthropic_messages.output import PING
from dragoman.protocols.anthropic_messages.relay import (
    MessagesRelay,
    forward_request,
    forward_response,
)
from dragoman.protocols.anthropic_messages.request_reader import read_request
from dragoman.protocols.anthropic_messages.request_writer import taken_stops, write_request
from dragoman.protocols.anthropic_messages.response_reader import read_response
from dragoman.protocols.anthropic_messages.settings import (
    MessagesCapabilities,
    MessagesOptions,
    completed,
    output_limit,
    version_headers,
)
from dragoman.protocols.anthropic_messages.shape import SHAPE
from dragoman.protocols.anthropic_messages.stream_reader import MessagesReader
from dragoman.protocols.anthropic_messages.stream_writer import MessagesWriter
from dragoman.protocols.anthropic_messages.threads import check_thread
from dragoman.protocols.base import Codec, Endpoint, Passthrough, Translate
from dragoman.protocols.model_lists import MODELS

CODEC = Codec(
    name=wire.NAME,
    endpoint=Endpoint(
        path="/messages",
        id_prefix="msg_",
        key_headers=(b"x-api-key",),
        sign=b"anthropic-version",
        counting=COUNTING,
        models=replace(MODELS, query="limit=1000"),
        capabilities=MessagesCapabilities,
        completed=completed,
        auth="x-api-key",
        headers=version_headers,
        forwarded=("anthropic-version", "anthropic-beta"),
    ),
    translate=Translate(
        read_request=read_request,
        write_request=write_request,
        read_response=read_response,
        stream_reader=MessagesReader,
        read_error=read_error,
        write_error=write_error,
        keepalive=PING,
        tool_name_limit=wire.NAME_LIMIT,
        taken_stops=taken_stops,
        answer_writer=MessagesWriter,
        output_limit=output_limit,
        options=MessagesOptions,
    ),
    passthrough=Passthrough(
        shape=SHAPE,
        without_envelopes=without_envelopes,
        without_reasoning=without_reasoning,
        fitted=fitted,
        check_conversation=check_thread,
        beginning=beginning,
        forward_request=forward_request,
        forward_response=forward_response,
        relay=MessagesRelay,
    ),
)
"""The protocol, both ways."""
