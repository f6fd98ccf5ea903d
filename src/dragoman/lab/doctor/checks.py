"""The checks: what is examined, which clients break without it, and the remedy.

Which client breaks was measured by taking one thing at a time out of the streams of whole tool
loops (Claude Code 2.1, Codex 0.169, opencode 1.18, pi 0.73, qwen-code 0.24, cline 3.0, AI SDK 7,
google-genai 3 for Python and JavaScript, Gemini CLI 0.61).
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Weight(StrEnum):
    """What a check that fails means."""

    BROKEN = "broken"
    """A client shows nothing, less than there is, or an error."""
    WARNING = "warning"
    """The clients at hand cope; others, or what stands in between, may not."""


class Check(Struct, frozen=True):
    """One thing to look at. `id` is `protocol.name`; `breaks` names clients and what they do."""

    id: str
    what: str
    breaks: str
    remedy: str
    weight: Weight = Weight.BROKEN


_WARNING = Weight.WARNING
_AI_SDK = "opencode, cline and the AI SDK (Cherry Studio)"

GENERAL = (
    Check(
        "server.models",
        "the list of models, as OpenAI's clients read it",
        "model pickers stay empty (Cherry Studio, opencode)",
        'serve GET /v1/models as {"object": "list", "data": [{"id", "object": "model", ...}]}',
        _WARNING,
    ),
    Check(
        "server.models_anthropic",
        "the list of models, as Anthropic's SDKs read it",
        "Claude Code's model discovery and the SDK's models.list() find nothing",
        "with anthropic-version sent, add type, display_name, created_at and has_more",
        _WARNING,
    ),
    Check(
        "server.auth",
        "a wrong key is refused with 401",
        "a mistyped key passes for another fault; with 400 or 500 clients try again",
        "check the key before anything else and answer 401",
    ),
    Check(
        "server.auth_shape",
        "the 401 is an error in the client's own shape",
        "clients show an empty error",
        'answer {"error": {"message", "type", ...}}, for Messages with "type": "error" beside it',
    ),
    Check(
        "server.bearer",
        "the key is taken from Authorization: Bearer",
        "OpenAI's clients, Claude Code with ANTHROPIC_AUTH_TOKEN, Anthropic's SDKs of 2026: 401",
        "take the key from Authorization: Bearer on every route",
    ),
    Check(
        "server.x_api_key",
        "the key is taken from x-api-key",
        "Claude Code with ANTHROPIC_API_KEY, older Anthropic SDKs, AI SDK, pi: 401",
        "take the key from x-api-key on every route",
    ),
    Check(
        "server.cors",
        "browsers may call (OPTIONS, CORS)",
        "web pages and some desktop apps send nothing at all",
        "answer OPTIONS with 204 and access-control-allow-origin, -methods and -headers",
        _WARNING,
    ),
)


def _everywhere(protocol: str) -> tuple[Check, ...]:
    """What every protocol needs."""
    return (
        Check(
            f"{protocol}.full",
            "a full answer (stream: false) comes as JSON",
            "clients that do not stream: agents' titles and summaries, curl",
            "answer 200 with application/json when stream is false or absent",
        ),
        Check(
            f"{protocol}.full_shape",
            "a full answer has what clients read in it",
            "typed SDKs raise, or show an empty text",
            "send the whole object that the vendor documents",
        ),
        Check(
            f"{protocol}.model",
            "answers name the model that was asked for",
            "agents that look up prices and limits by the name find none",
            "put the client's own model name into every answer",
            _WARNING,
        ),
        Check(
            f"{protocol}.usage",
            "the answer reports its tokens",
            "no context meter; agents do not know when to compact, opencode hangs without it",
            "report the upstream's counts, or zeros",
        ),
        Check(
            f"{protocol}.stop",
            "the reason of the end is one of the protocol's own",
            "agents stop in the middle of a tool loop, or wait for ever",
            "translate the upstream's reason; calls end as calls",
        ),
        Check(
            f"{protocol}.error",
            "a bad request gets a 400 in the protocol's shape",
            "clients show an empty error, or try again and again",
            "refuse before the stream begins, with the shape of the vendor's errors",
        ),
        Check(
            f"{protocol}.stream",
            "a streamed answer comes to its end",
            "the client waits, or takes half an answer for a whole one",
            "end with the protocol's own last event, errors too",
        ),
        Check(
            f"{protocol}.content_type",
            "the stream has the type text/event-stream",
            "the AI SDK and browsers do not read it as a stream",
            "send content-type: text/event-stream; charset=utf-8",
        ),
        Check(
            f"{protocol}.buffering",
            "proxies are asked not to buffer (x-accel-buffering: no)",
            "behind nginx nothing is seen until the answer is whole",
            "send x-accel-buffering: no and cache-control: no-cache, or proxy_buffering off",
            _WARNING,
        ),
        Check(
            f"{protocol}.flush",
            "events arrive one by one",
            "nothing is seen until the end; long answers run into time limits",
            "flush after each event; turn off buffering and compression on the way",
        ),
        Check(
            f"{protocol}.compression",
            "the stream is not compressed",
            "compressors buffer events",
            "leave text/event-stream out of gzip and brotli",
            _WARNING,
        ),
        Check(
            f"{protocol}.lines",
            "lines are `data: ` with one space, ended by LF",
            "hand-written readers and litellm find no event",
            "write `data: {json}` LF LF, after `event: ...` LF where the protocol has names",
        ),
        Check(
            f"{protocol}.blank_lines",
            "a blank line ends every event",
            "events run together and none is read; the last one is lost",
            "end each event with two line feeds",
        ),
        Check(
            f"{protocol}.json",
            "every event is JSON on one line",
            "the stream ends in a parse error",
            "encode without line breaks",
        ),
        Check(
            f"{protocol}.separators",
            "no raw U+2028, U+2029 or U+0085 in the JSON",
            "litellm and other readers that split at them lose the rest",
            "escape these three in JSON",
            _WARNING,
        ),
        Check(
            f"{protocol}.tools",
            "a tool call comes whole, with its name and its arguments",
            "agents run nothing, or with the wrong arguments",
            "send one call at a time, its head once, its arguments as the protocol has them",
        ),
    )


CHAT = (
    *_everywhere("chat"),
    Check(
        "chat.done",
        "[DONE] ends the stream",
        "older clients and hand-written readers wait for it",
        "send data: [DONE] last, once",
    ),
    Check(
        "chat.finish",
        "a choice has its finish_reason before [DONE]",
        "opencode hangs, cline and qwen-code fail, the AI SDK reports an interruption",
        "send a chunk with finish_reason; an answer without one is an error, not an end",
    ),
    Check(
        "chat.one_id",
        "all chunks have one id, one created and one model",
        "readers that gather chunks by id show pieces",
        "choose id, created and model once for each answer",
        _WARNING,
    ),
    Check(
        "chat.role",
        "the first delta has role: assistant, no other does",
        "the SDKs' stream helpers build no message",
        "put the role into the first chunk only",
        _WARNING,
    ),
    Check(
        "chat.usage_chunk",
        "usage comes when stream_options.include_usage asks for it, and only then",
        "token meters stay empty; readers trip over a chunk with empty choices",
        "one chunk with choices: [] and usage, before [DONE], only when asked",
    ),
)

MESSAGES = (
    *_everywhere("messages"),
    Check(
        "messages.event_names",
        "every event has a line `event:` with its type",
        "Anthropic's SDKs and pi read nothing",
        "write event: NAME before data:",
    ),
    Check(
        "messages.order",
        "events come in order: start, blocks, message_delta, message_stop",
        "pi and qwen-code fail, opencode hangs",
        "message_start first, each block started and stopped, then message_delta and message_stop",
    ),
    Check(
        "messages.index",
        "blocks are numbered 0, 1, 2, ... and one is open at a time",
        "SDK helpers put text into the wrong block",
        "count blocks; close one before the next begins",
    ),
    Check(
        "messages.start_usage",
        "message_start carries usage with input_tokens and output_tokens",
        "pi and the AI SDK fail, opencode hangs",
        "put usage into message_start, with zeros if nothing is known yet",
    ),
    Check(
        "messages.cache_counters",
        "usage has the cache counters",
        "Claude Code shows wrong costs",
        "send cache_creation_input_tokens and cache_read_input_tokens, 0 if unknown; input_tokens "
        "does not include them",
        _WARNING,
    ),
    Check(
        "messages.ping",
        "a ping follows message_start or bridges silence",
        "proxies with short time limits cut long thinking",
        "send event: ping after message_start and in silence",
        _WARNING,
    ),
    Check(
        "messages.signature",
        "a thinking block ends with one signature_delta, not empty",
        "thinking comes back unsigned and the next tool turn is refused",
        "send a signature for foreign reasoning too, and recognise it when it returns",
    ),
    Check(
        "messages.tool_blocks",
        "tool input comes as input_json_delta, not in content_block_start",
        "Claude Code, opencode, pi, qwen-code and the AI SDK lose the input",
        "start tool_use with input {} and send the JSON in deltas",
    ),
    Check(
        "messages.unknown_events",
        "no event that the protocol does not know, no [DONE]",
        "opencode hangs, the AI SDK shows an error",
        "send nothing but the protocol's own events, ping and comments",
    ),
)

RESPONSES = (
    *_everywhere("responses"),
    Check(
        "responses.event_names",
        "every event has a line `event:` with its type",
        "readers that go by the name see nothing",
        "write event: TYPE before data:",
        _WARNING,
    ),
    Check(
        "responses.sequence_number",
        "sequence_number counts up from the first event to the last",
        "strictly typed clients (older AI SDK and Cherry Studio) drop every event: empty output",
        "number all events of a stream from 0, without gaps",
    ),
    Check(
        "responses.item_id",
        "every event about an item names it (item_id)",
        f"{_AI_SDK} show nothing",
        "put the item's id into item_id, the same in all of its events",
    ),
    Check(
        "responses.item_ids",
        "every output item has an id",
        f"{_AI_SDK}, pi show nothing",
        "give every item an id (msg_, fc_, rs_) that does not change",
    ),
    Check(
        "responses.indexes",
        "output_index and content_index are there and agree",
        f"{_AI_SDK} show nothing",
        "count items and parts from 0",
    ),
    Check(
        "responses.in_progress",
        "response.created and response.in_progress open the stream",
        "strictly typed clients wait for them: empty output",
        "send both before the first item, with the whole response object",
    ),
    Check(
        "responses.items",
        "every item is added and done",
        "Codex, qwen-code and the AI SDK read output_item.done, others output_item.added",
        "send response.output_item.added and .done for each item",
    ),
    Check(
        "responses.text_delta",
        "text comes in deltas that add up to the part",
        "the text is not seen, or twice",
        "send response.output_text.delta pieces, then output_text.done with the whole",
    ),
    Check(
        "responses.annotations",
        "text parts have annotations",
        "strictly typed clients drop the part: empty output",
        "send annotations: [] on every output_text part",
    ),
    Check(
        "responses.completed",
        "response.completed carries the whole response",
        "Codex reports a disconnected stream; opencode hangs; SDK helpers return nothing",
        "end with response.completed, .incomplete or .failed, holding output and usage",
    ),
    Check(
        "responses.metadata",
        "response objects are complete",
        "typed SDKs raise for missing fields",
        "repeat the request's settings: tools, tool_choice, parallel_tool_calls, text, ...",
    ),
    Check(
        "responses.call_items",
        "a call is an item of its own: one id, one call_id, its arguments the same throughout",
        "agents run a call twice or never",
        "send function_call items; the done event and the item repeat the deltas",
    ),
    Check(
        "responses.no_done",
        "no [DONE] at the end",
        "JSON readers that do not expect it raise",
        "leave it out, as the official service does",
        _WARNING,
    ),
    Check(
        "responses.websocket",
        "a turn over WebSocket, where it is offered, ends as one by POST",
        "Codex waits, tries again and goes back to POST, which takes seconds of each session",
        "send each event in a text message of its own, or answer the upgrade with 426",
    ),
    Check(
        "responses.websocket_memory",
        "a connection remembers its last response, also with store: false",
        "every turn of Codex and openai-agents is asked twice",
        "store the last response of a connection in memory, and accept its previous_response_id",
    ),
)

GOOGLE = (
    *_everywhere("google"),
    Check(
        "google.key",
        "the key is taken from x-goog-api-key",
        "Google's SDKs and Gemini CLI: 401",
        "take the key from x-goog-api-key on every route",
    ),
    Check(
        "google.query_key",
        "the key is taken from ?key=",
        "curl as the vendor shows it, older clients: 401",
        "take the key from the query, and keep it out of logs",
        _WARNING,
    ),
    Check(
        "google.models",
        "the list of models, as Google's SDKs read it",
        "models.list() finds nothing; an empty nextPageToken makes the SDK for Node ask for ever",
        'with x-goog-api-key sent, add "models": [{"name": "models/...", ...}]; no nextPageToken '
        "on the last page",
        _WARNING,
    ),
    Check(
        "google.count",
        "countTokens answers with totalTokens",
        "count_tokens() of the SDKs raises",
        "serve POST .../models/MODEL:countTokens",
        _WARNING,
    ),
    Check(
        "google.frames",
        "nothing but data: no event names, no comments, no [DONE]",
        "Google's SDK for Python raises UnknownApiResponseError, the one for Go too",
        "send data: frames alone; an empty line keeps a silent stream alive",
    ),
    Check(
        "google.turn",
        "every candidate has the role model and a part, the last one too",
        "both SDKs drop question and answer from the history of the chat",
        'end with "content": {"role": "model", "parts": [{"text": ""}]}',
    ),
    Check(
        "google.finish",
        "the last chunk has a finishReason, no other has",
        "Gemini CLI asks again and again; readers stop at the first",
        "put finishReason into the last chunk only; an answer without one is an error",
    ),
    Check(
        "google.one_id",
        "all chunks have one responseId and one modelVersion",
        "readers that gather chunks by id show pieces",
        "choose both once for each answer",
        _WARNING,
    ),
    Check(
        "google.signature",
        "thoughtSignature is base64",
        "the SDK for Python raises ValidationError",
        "encode whatever stands in its place in standard base64",
    ),
    Check(
        "google.array",
        "without alt=sse a stream is one JSON array",
        "clients that read bare HTTP (llm-gemini, curl) fail at the first byte",
        "send [{...},{...}] as application/json unless the query has alt=sse",
        _WARNING,
    ),
)

INTERACTIONS = (
    *_everywhere("interactions"),
    Check(
        "interactions.key",
        "the key is taken from x-goog-api-key",
        "Google's SDKs: 401",
        "take the key from x-goog-api-key on every route",
    ),
    Check(
        "interactions.event_names",
        "the event: line has the event_type",
        "readers of bare events that look at the line pass over them",
        "send event: EVENT_TYPE before the data of each event",
        _WARNING,
    ),
    Check(
        "interactions.created",
        "interaction.created comes first, once",
        "clients that keep the id have none to go on from, or to ask again with",
        "begin each stream with interaction.created",
    ),
    Check(
        "interactions.steps",
        "steps start, go on and stop one after the other, counted from 0",
        "clients that put deltas together by index join two steps, or lose one",
        "send step.start, deltas and step.stop of each step with an index of its own",
    ),
    Check(
        "interactions.completed",
        "one interaction.completed ends the answer, with its status and usage",
        "no SDK tells a stream that was cut from one that is over",
        "end with interaction.completed; an answer without one is an error event",
    ),
    Check(
        "interactions.done",
        "the last data is [DONE]",
        "clients wait for the connection to close",
        "send data: [DONE] after the last event",
        _WARNING,
    ),
    Check(
        "interactions.signature",
        "signatures of thoughts are base64, and none is empty",
        "the next turn is refused",
        "encode whatever stands in its place in standard base64, or leave it out",
    ),
)

PROTOCOL_CHECKS = {
    "openai_chat": ("chat", CHAT),
    "anthropic_messages": ("messages", MESSAGES),
    "openai_responses": ("responses", RESPONSES),
    "google_generate_content": ("google", GOOGLE),
    "google_interactions": ("interactions", INTERACTIONS),
}
"""The short name and the checks of each protocol."""
