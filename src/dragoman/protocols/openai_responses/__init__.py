"""OpenAI Responses, both ways."""

from __future__ import annotations

from dragoman.protocols.answer_names import names_in
from dragoman.protocols.base import Codec, Translate
from dragoman.protocols.error_body import is_error_object
from dragoman.protocols.openai_errors import REASONING_REFUSALS, read_error
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.compaction import answer_writer
from dragoman.protocols.openai_responses.endpoint import ENDPOINT
from dragoman.protocols.openai_responses.errors import write_error
from dragoman.protocols.openai_responses.passthrough import PASSTHROUGH
from dragoman.protocols.openai_responses.request_reader import read_request
from dragoman.protocols.openai_responses.request_writer import write_request
from dragoman.protocols.openai_responses.response_object import REPEATED
from dragoman.protocols.openai_responses.settings import ResponsesOptions
from dragoman.protocols.openai_responses.stream_reader import answer_reader, read_response
from dragoman.sse import COMMENT

CODEC = Codec(
    name=wire.NAME,
    endpoint=ENDPOINT,
    translate=Translate(
        read_request=read_request,
        write_request=write_request,
        read_response=read_response,
        stream_reader=answer_reader,
        read_error=read_error,
        reasoning_refusals=REASONING_REFUSALS,
        write_error=write_error,
        is_own_error=is_error_object,
        answer_names=names_in("response"),
        keepalive=COMMENT,
        tool_name_limit=wire.TOOL_NAME_LIMIT,
        taken_stops=lambda _: (),
        answer_writer=answer_writer,
        namespaces=True,
        options=ResponsesOptions,
        repeated=REPEATED,
    ),
    passthrough=PASSTHROUGH,
)
"""The protocol, both ways."""
