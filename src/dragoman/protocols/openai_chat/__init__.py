"""OpenAI Chat Completions: `POST /v1/chat/completions`."""

from __future__ import annotations

from dragoman.protocols.answer_names import names_in
from dragoman.protocols.base import Codec, Translate
from dragoman.protocols.error_body import is_error_object
from dragoman.protocols.openai_chat.endpoint import ENDPOINT
from dragoman.protocols.openai_chat.errors import write_error
from dragoman.protocols.openai_chat.passthrough import PASSTHROUGH
from dragoman.protocols.openai_chat.request_reader import read_request
from dragoman.protocols.openai_chat.request_writer import taken_stops, write_request
from dragoman.protocols.openai_chat.response_reader import read_response
from dragoman.protocols.openai_chat.settings import ChatOptions
from dragoman.protocols.openai_chat.stream_reader import ChatReader
from dragoman.protocols.openai_chat.stream_writer import ChatWriter
from dragoman.protocols.openai_chat.wire import NAME
from dragoman.protocols.openai_errors import REASONING_REFUSALS, read_error
from dragoman.sse import COMMENT

CODEC = Codec(
    name=NAME,
    endpoint=ENDPOINT,
    translate=Translate(
        read_request=read_request,
        write_request=write_request,
        read_response=read_response,
        stream_reader=ChatReader,
        read_error=read_error,
        reasoning_refusals=REASONING_REFUSALS,
        write_error=write_error,
        is_own_error=is_error_object,
        answer_names=names_in(),
        keepalive=COMMENT,
        tool_name_limit=64,
        taken_stops=taken_stops,
        answer_writer=ChatWriter.of,
        options=ChatOptions,
    ),
    passthrough=PASSTHROUGH,
)
"""The protocol, both ways."""
