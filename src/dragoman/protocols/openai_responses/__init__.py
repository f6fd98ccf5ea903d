"""OpenAI Responses, both ways."""

from __future__ import annotations

from dragoman.protocols.base import Codec, Endpoint, Passthrough, Translate
from dragoman.protocols.model_lists import MODELS
from dragoman.protocols.openai_errors import read_error
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.counting import COUNTING
from dragoman.protocols.openai_responses.errors import write_error
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
from dragoman.protocols.openai_responses.request_reader import read_request
from dragoman.protocols.openai_responses.request_writer import write_request
from dragoman.protocols.openai_responses.settings import (
    ResponsesCapabilities,
    ResponsesOptions,
    suits,
)
from dragoman.protocols.openai_responses.shape import SHAPE
from dragoman.protocols.openai_responses.stream_reader import ResponsesReader, read_response
from dragoman.protocols.openai_responses.stream_writer import ResponsesWriter
from dragoman.sse import COMMENT

CODEC = Codec(
    name=wire.NAME,
    endpoint=Endpoint(
        path="/responses",
        id_prefix="resp_",
        counting=COUNTING,
        models=MODELS,
        forwarded=("openai-beta",),
        binds_reasoning=True,
        stores_responses=True,
        capabilities=ResponsesCapabilities,
    ),
    translate=Translate(
        read_request=read_request,
        write_request=write_request,
        read_response=read_response,
        stream_reader=ResponsesReader,
        read_error=read_error,
        write_error=write_error,
        keepalive=COMMENT,
        tool_name_limit=wire.TOOL_NAME_LIMIT,
        taken_stops=lambda _: (),
        answer_writer=ResponsesWriter,
        namespaces=True,
        options=ResponsesOptions,
    ),
    passthrough=Passthrough(
        suits=suits,
        shape=SHAPE,
        without_envelopes=without_envelopes,
        without_reasoning=without_reasoning,
        fitted=fitted,
        continues="previous_response_id",
        conversation="prompt_cache_key",
        beginning=beginning,
        forward_request=forward_request,
        forward_response=forward_response,
        relay=ResponsesRelay,
    ),
)
"""The protocol, both ways."""
