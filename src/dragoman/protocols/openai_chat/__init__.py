"""OpenAI Chat Completions."""

from __future__ import annotations

from dragoman.protocols.base import (
    Codec,
    Endpoint,
    Passthrough,
    Translate,
)
from dragoman.protocols.model_lists import MODELS
from dragoman.protocols.openai_chat.errors import write_error
from dragoman.protocols.openai_chat.history import beginning, without_envelopes, without_reasoning
from dragoman.protocols.openai_chat.relay import (
    ChatRelay,
    fitted,
    forward_request,
    forward_response,
)
from dragoman.protocols.openai_chat.request_reader import read_request
from dragoman.protocols.openai_chat.request_writer import taken_stops, write_request
from dragoman.protocols.openai_chat.response_reader import read_response
from dragoman.protocols.openai_chat.settings import ChatCapabilities, ChatOptions
from dragoman.protocols.openai_chat.shape import SHAPE
from dragoman.protocols.openai_chat.stream_reader import ChatStreamReader
from dragoman.protocols.openai_chat.stream_writer import ChatWriter
from dragoman.protocols.openai_chat.wire import NAME
from dragoman.protocols.openai_errors import read_error
from dragoman.sse import COMMENT

CODEC = Codec(
    name=NAME,
    endpoint=Endpoint(
        path="/chat/completions",
        unserved="This gateway does not store chat completions.",
        id_prefix="chatcmpl-",
        models=MODELS,
        forwarded=("openai-beta",),
        capabilities=ChatCapabilities,
    ),
    translate=Translate(
        read_request=read_request,
        write_request=write_request,
        read_response=read_response,
        stream_reader=ChatStreamReader,
        read_error=read_error,
        write_error=write_error,
        keepalive=COMMENT,
        tool_name_limit=64,
        taken_stops=taken_stops,
        answer_writer=ChatWriter,
        options=ChatOptions,
    ),
    passthrough=Passthrough(
        shape=SHAPE,
        without_envelopes=without_envelopes,
        without_reasoning=without_reasoning,
        fitted=fitted,
        conversation="prompt_cache_key",
        beginning=beginning,
        forward_request=forward_request,
        forward_response=forward_response,
        relay=ChatRelay,
    ),
)
"""The protocol, both ways."""
