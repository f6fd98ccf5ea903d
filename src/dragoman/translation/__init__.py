"""The public library call, which joins a reader and a writer; usable without the server.

    call = translate_request("anthropic_messages", "openai_chat", body, model="gpt-5.5")
    call.path, call.headers(key), call.body      # what to send
    call.losses                                  # what could not be carried
    call.translate_response(upstream_body)       # a whole answer for the client
    stream = call.open_stream()                  # or, for a streamed answer:
    stream.feed(chunk)                           # bytes for the client, as they come
    stream.finish()                              # the upstream's bytes are over

Nothing here performs I/O. Within one protocol nothing is translated: values pass byte for byte, and
only the model name and the request for usage change."""

from __future__ import annotations

from dragoman.translation.call import ALL_REASONING, Call, CallSettings, mint, tool_names
from dragoman.translation.client_request import ClientRequest
from dragoman.translation.library import translate_request
from dragoman.translation.streams import AnswerStream, Outcome

__all__ = [
    "ALL_REASONING",
    "AnswerStream",
    "Call",
    "CallSettings",
    "ClientRequest",
    "Outcome",
    "mint",
    "tool_names",
    "translate_request",
]
