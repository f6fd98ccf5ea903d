"""Google's Interactions API: `POST /v1/interactions`."""

from __future__ import annotations

from dragoman.protocols.answer_names import names_in
from dragoman.protocols.base import Codec, Translate
from dragoman.protocols.google_interactions import wire
from dragoman.protocols.google_interactions.endpoint import ENDPOINT
from dragoman.protocols.google_interactions.errors import is_own_error, read_error, write_error
from dragoman.protocols.google_interactions.passthrough import PASSTHROUGH
from dragoman.protocols.google_interactions.request_reader import read_request
from dragoman.protocols.google_interactions.request_writer import write_request
from dragoman.protocols.google_interactions.stream_reader import InteractionsReader, read_response
from dragoman.protocols.google_interactions.stream_writer import InteractionsWriter
from dragoman.protocols.google_signatures import REASONING_REFUSALS
from dragoman.protocols.google_wire import NAME_LIMIT
from dragoman.protocols.raw import text_of
from dragoman.sse import COMMENT

CODEC = Codec(
    name=wire.NAME,
    endpoint=ENDPOINT,
    translate=Translate(
        read_request=read_request,
        write_request=write_request,
        read_response=read_response,
        stream_reader=InteractionsReader,
        answer_writer=InteractionsWriter,
        read_error=read_error,
        reasoning_refusals=REASONING_REFUSALS,
        write_error=write_error,
        is_own_error=is_own_error,
        answer_names=names_in("interaction"),
        keepalive=COMMENT,
        tool_name_limit=NAME_LIMIT,
        tool_names_lettered=True,
        taken_stops=tuple,
        repeated={"previous_interaction_id": text_of},
    ),
    passthrough=PASSTHROUGH,
)
"""The protocol, both ways."""
