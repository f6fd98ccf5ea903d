"""What one protocol can say, read and written again in the same: the readers and the writers know
the same forms. Pass-through translates nothing; between other protocols some of them have no
counterpart, so no other table shows them."""

from __future__ import annotations

import json

import msgspec
import pytest

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.losses import Ledger, Policy
from dragoman.canonical.options import Capabilities, Options
from dragoman.protocols import CODECS
from dragoman.protocols.base import Outbound
from dragoman.protocols.settings import make_capabilities
from dragoman.translation import tool_names
from tests.properties.cells import read_stream, read_whole, write_stream, write_whole
from tests.tables.answers import LEAST_ANSWER
from tests.tables.clients import answer_of
from tests.tables.requests import CLOSED, LEAST, PDF, PNG, SCHEMA, A, C, JsonObject, R
from tests.tables.upstreams import STREAMS

PNG_SOURCE = {"type": "base64", "media_type": "image/png", "data": PNG}
LATER = {"type": "ephemeral", "ttl": "1h"}
MESSAGES: JsonObject = {
    "model": "m",
    "max_tokens": 9000,
    "system": [{"type": "text", "text": "s", "cache_control": LATER}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "url", "url": "https://a.example/i.png"}},
                {"type": "image", "source": PNG_SOURCE},
                {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                    "title": "a.pdf",
                },
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "t"},
                    "context": "c",
                    "citations": {"enabled": True},
                },
                {"type": "document", "source": {"type": "url", "url": "https://a.example/x.pdf"}},
                {"type": "document", "source": {"type": "file", "file_id": "file_2"}},
                {
                    "type": "document",
                    "source": {
                        "type": "content",
                        "content": [
                            {"type": "text", "text": "t"},
                            {"type": "image", "source": PNG_SOURCE},
                        ],
                    },
                },
                {
                    "type": "search_result",
                    "source": "https://a.example",
                    "title": "t",
                    "content": [{"type": "text", "text": "c"}],
                    "citations": {"enabled": True},
                    "cache_control": {"type": "ephemeral"},
                },
                {"type": "container_upload", "file_id": "file_3"},
                {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral", "ttl": "5m"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "t", "signature": "SIG"},
                {"type": "redacted_thinking", "data": "D"},
                {
                    "type": "text",
                    "text": "x",
                    "citations": [{"type": "page_location", "cited_text": "t"}],
                },
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "f", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": [
                        {"type": "text", "text": "t"},
                        {"type": "image", "source": PNG_SOURCE},
                        {"type": "tool_reference", "tool_name": "f"},
                    ],
                },
                {"type": "tool_result", "tool_use_id": "c2", "content": "r", "is_error": True},
            ],
        },
    ],
    "tools": [
        {
            "name": "f",
            "description": "d",
            "input_schema": SCHEMA,
            "cache_control": LATER,
        },
        {"type": "web_search_20260318", "name": "web_search", "max_uses": 2},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "adaptive", "display": "summarized"},
    "output_config": {"effort": "low"},
    "metadata": {"user_id": "u"},
    "service_tier": "standard_only",
    "speed": "fast",
    "stop_sequences": ["x"],
    "stream": True,
}

CHAT: JsonObject = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "s"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "hi"},
                {
                    "type": "image_url",
                    "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"},
                },
                {"type": "image_url", "image_url": {"url": "https://a.example/i.png"}},
                {
                    "type": "file",
                    "file": {
                        "filename": "a.pdf",
                        "file_data": f"data:application/pdf;base64,{PDF}",
                    },
                },
                {"type": "file", "file": {"file_id": "file-1"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            ],
            "name": "bob",
        },
        {"role": "assistant", "content": "a", "refusal": "b"},
        {"role": "system", "content": "late"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "reasoning_details": [
                {"type": "reasoning.text", "text": "hm", "signature": "SIG", "format": "x"}
            ],
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
                {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "free"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
        {"role": "tool", "tool_call_id": "c2", "content": "r"},
        {"role": "user", "content": "and?"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "f", "description": "d", "parameters": CLOSED, "strict": True},
        },
        {
            "type": "custom",
            "custom": {
                "name": "g",
                "format": {
                    "type": "grammar",
                    "grammar": {"syntax": "lark", "definition": "start: /x/"},
                },
            },
        },
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [{"type": "function", "function": {"name": "f"}}],
        },
    },
    "parallel_tool_calls": False,
    "max_completion_tokens": 50,
    "stop": ["x"],
    "temperature": 0.5,
    "top_p": 0.5,
    "logprobs": True,
    "top_logprobs": 2,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "n", "description": "d", "schema": CLOSED, "strict": True},
    },
    "reasoning_effort": "low",
    "verbosity": "low",
    "web_search_options": {"search_context_size": "low"},
    "metadata": {"a": "b"},
    "service_tier": "flex",
    "safety_identifier": "u",
    "prompt_cache_key": "k",
    "stream": True,
    "stream_options": {"include_usage": True},
}

RESPONSES: JsonObject = {
    "model": "m",
    "instructions": "s",
    "input": [
        {
            "type": "message",
            "role": "user",
            "content": [
                {
                    "type": "input_text",
                    "text": "hi",
                    "prompt_cache_breakpoint": {"mode": "explicit"},
                },
                {
                    "type": "input_image",
                    "detail": "low",
                    "image_url": f"data:image/png;base64,{PNG}",
                },
                {"type": "input_image", "detail": "auto", "file_id": "file-1"},
                {
                    "type": "input_file",
                    "filename": "a.pdf",
                    "file_data": f"data:application/pdf;base64,{PDF}",
                },
                {"type": "input_file", "file_url": "https://a.example/x.pdf"},
                {"type": "input_file", "file_id": "file-2"},
            ],
        },
        {"type": "message", "role": "developer", "content": "late"},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "E",
        },
        {
            "type": "reasoning",
            "id": "rs_2",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "raw"}],
            "encrypted_content": "F",
        },
        {
            "type": "message",
            "id": "msg_4",
            "status": "completed",
            "role": "assistant",
            "phase": "commentary",
            "content": [
                {
                    "type": "output_text",
                    "text": "x",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url": "https://a.example",
                            "title": "t",
                            "start_index": 0,
                            "end_index": 1,
                        }
                    ],
                },
                {"type": "refusal", "refusal": "No."},
            ],
        },
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "f",
            "namespace": "one",
            "arguments": '{"a":1}',
        },
        {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "free"},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [
                {"type": "input_text", "text": "r"},
                {"type": "input_image", "detail": "auto", "image_url": "https://a.example/i.png"},
            ],
        },
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "r"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "x"}},
        {"type": "message", "role": "user", "content": "and?"},
    ],
    "tools": [
        {
            "type": "namespace",
            "name": "one",
            "description": "one",
            "tools": [
                {
                    "type": "function",
                    "name": "f",
                    "description": "d",
                    "parameters": SCHEMA,
                    "strict": False,
                }
            ],
        },
        {
            "type": "custom",
            "name": "g",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /x/"},
        },
        {"type": "function", "name": "h", "parameters": CLOSED, "strict": True},
        {"type": "web_search", "search_context_size": "low"},
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "h"}],
    },
    "parallel_tool_calls": False,
    "max_output_tokens": 50,
    "temperature": 0.5,
    "top_p": 0.5,
    "top_logprobs": 2,
    "include": ["message.output_text.logprobs"],
    "text": {
        "format": {
            "type": "json_schema",
            "name": "n",
            "description": "d",
            "schema": CLOSED,
            "strict": True,
        },
        "verbosity": "low",
    },
    "reasoning": {"effort": "low", "summary": "auto"},
    "metadata": {"a": "b"},
    "store": True,
    "service_tier": "flex",
    "safety_identifier": "u",
    "prompt_cache_key": "k",
    "stream": True,
    "stream_options": {"include_obfuscation": False},
}

CAPABILITIES = make_capabilities(
    custom_tools_native=True, replay_reasoning="always", prompt_cache_breakpoints=True
)


def again(
    protocol: str, body: JsonObject, capabilities: Capabilities = CAPABILITIES
) -> tuple[JsonObject, dict[str, str]]:
    """The request as it is written after it was read, and what was lost."""
    codec = CODECS[protocol]
    request = codec.translate.read_request(body, Sealer())
    ledger = Ledger()
    outbound = Outbound(
        model=request.model,
        names=tool_names(request, codec),
        ledger=ledger,
        sealer=Sealer(),
        options=Options(policy=Policy.LENIENT),
        capabilities=capabilities,
    )
    written = json.loads(msgspec.json.encode(codec.translate.write_request(request, outbound)))
    return written, {loss.path: loss.kind.value for loss in ledger}


@pytest.mark.parametrize(("protocol", "body"), [(C, CHAT), (A, MESSAGES), (R, RESPONSES)])
def test_request(protocol: str, body: JsonObject) -> None:
    assert again(protocol, body) == (body, {})


ADAPTIVE: JsonObject = {"type": "adaptive"}
DISABLED: JsonObject = {"type": "disabled"}


def budget(tokens: int) -> JsonObject:
    return {"type": "enabled", "budget_tokens": tokens}


@pytest.mark.parametrize(
    ("thinking", "effort", "capabilities", "sent", "sent_effort", "lost"),
    [
        (ADAPTIVE, None, {}, ADAPTIVE, None, {}),
        (
            {**ADAPTIVE, "display": "omitted"},
            "max",
            {},
            {**ADAPTIVE, "display": "omitted"},
            "max",
            {},
        ),
        (DISABLED, None, {}, DISABLED, None, {}),
        (DISABLED, "low", {}, DISABLED, "low", {}),
        ({"type": "between_tools"}, None, {}, {"type": "between_tools"}, None, {}),
        (budget(5000), None, {}, budget(5000), None, {}),
        # qwen-code sends a budget as large as the limit.
        (budget(9000), None, {}, budget(6750), None, {"thinking": "repaired"}),
        (DISABLED, None, {"disable_thinking": False}, None, "low", {"thinking": "converted"}),
        (
            ADAPTIVE,
            "low",
            {"adaptive_thinking": False},
            budget(2048),
            None,
            {"thinking": "converted"},
        ),
        (
            ADAPTIVE,
            "low",
            {"efforts": ("medium",)},
            ADAPTIVE,
            "medium",
            {"thinking": "converted"},
        ),
        (ADAPTIVE, "low", {"efforts": ()}, ADAPTIVE, None, {"thinking": "knob"}),
    ],
)
def test_thinking(
    thinking: JsonObject,
    effort: str | None,
    capabilities: JsonObject,
    sent: JsonObject | None,
    sent_effort: str | None,
    lost: dict[str, str],
) -> None:
    """The words of Messages for it, and what becomes of them where a model lacks some."""
    body = {**LEAST[A], "max_tokens": 9000, "thinking": thinking}
    if effort is not None:
        body["output_config"] = {"effort": effort}
    written, losses = again(A, body, make_capabilities(**capabilities))
    assert written.get("thinking") == sent
    assert written.get("output_config", {}).get("effort") == sent_effort
    assert losses == lost


MESSAGES_ANSWER: JsonObject = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "filler",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "SIG"},
        {"type": "redacted_thinking", "data": "D"},
        {
            "type": "text",
            "text": "x",
            "citations": [{"type": "page_location", "cited_text": "t", "document_index": 0}],
        },
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 13,
        "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 4,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 2},
    },
}
CHAT_ANSWER: JsonObject = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 5,
    "model": "filler",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "reasoning_content": "hm",
                "content": "x",
                "refusal": None,
                "annotations": [
                    {
                        "type": "url_citation",
                        "url_citation": {
                            "url": "https://a.example",
                            "title": "t",
                            "start_index": 0,
                            "end_index": 1,
                        },
                    },
                ],
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "free"}},
                ],
            },
            "logprobs": {
                "content": [{"token": "x", "logprob": -0.1, "bytes": None, "top_logprobs": []}],
                "refusal": None,
            },
            "finish_reason": "tool_calls",
        }
    ],
    "service_tier": "flex",
    "usage": {
        "prompt_tokens": 20,
        "completion_tokens": 7,
        "total_tokens": 27,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
    },
}
OUTPUT: list[JsonObject] = [
    {
        "type": "reasoning",
        "id": "rs_0",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "E",
    },
    {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "phase": "commentary",
        "content": [
            {
                "type": "output_text",
                "text": "x",
                "annotations": [
                    {
                        "type": "url_citation",
                        "url": "https://a.example",
                        "title": "t",
                        "start_index": 0,
                        "end_index": 1,
                    },
                    {"type": "file_path", "file_id": "f", "index": 0},
                ],
                "logprobs": [],
            },
        ],
    },
    {
        "type": "message",
        "id": "msg_2",
        "status": "completed",
        "role": "assistant",
        "phase": "final_answer",
        "content": [
            {"type": "output_text", "text": "y", "annotations": [], "logprobs": []},
            {"type": "refusal", "refusal": "No."},
        ],
    },
    {
        "type": "function_call",
        "id": "fc_3",
        "call_id": "c1",
        "name": "f",
        "arguments": "{}",
        "status": "completed",
    },
    {
        "type": "custom_tool_call",
        "id": "ctc_4",
        "call_id": "c2",
        "name": "g",
        "input": "free",
        "status": "completed",
    },
]
RESPONSES_ANSWER = {**LEAST_ANSWER[R], "id": "resp_1", "model": "filler", "output": OUTPUT}


@pytest.mark.parametrize(
    ("protocol", "answer"), [(C, CHAT_ANSWER), (A, MESSAGES_ANSWER), (R, RESPONSES_ANSWER)]
)
def test_answer(protocol: str, answer: JsonObject) -> None:
    """Whole, and as a stream."""
    written = write_whole(protocol, read_whole(protocol, answer))
    assert {name: written[name] for name in answer} == answer
    stream = write_stream(protocol, read_stream(protocol, STREAMS[protocol](answer)))
    told = answer_of(protocol, stream)
    assert {name: told[name] for name in answer} == answer
