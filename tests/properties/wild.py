"""Conversations as careless clients send them: well typed, but in any order and with gaps."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dragoman.canonical.losses import Policy
from dragoman.protocols.settings import make_capabilities, make_options
from tests.losses.requests import CHAT, GOOGLE, MESSAGES, RESPONSES
from tests.properties.strategies import PDF, PNG

_ids = st.sampled_from(("a", "b", "c.d", "x" * 70))
_texts = st.sampled_from(("hello", "", " ", "\n", "world"))
_arguments = st.sampled_from(("{}", "", '{"a":1}', "[1]", "not json", '{"a":'))
_names = st.sampled_from(("f", "g", "n" * 100, "with space"))
_png = f"data:image/png;base64,{PNG}"


def _chat_call(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    text = "arguments" if kind == "function" else "input"
    called = st.fixed_dictionaries({"name": _names, text: _arguments})
    return st.fixed_dictionaries({"id": _ids, "type": st.just(kind), kind: called})


_chat_texts = st.lists(st.builds(lambda text: {"type": "text", "text": text}, _texts), max_size=2)
_chat_user = st.one_of(
    _texts,
    st.lists(
        st.one_of(
            st.builds(lambda text: {"type": "text", "text": text}, _texts),
            st.just({"type": "image_url", "image_url": {"url": _png}}),
            st.just(
                {
                    "type": "file",
                    "file": {
                        "filename": "a.pdf",
                        "file_data": f"data:application/pdf;base64,{PDF}",
                    },
                }
            ),
        ),
        min_size=1,
        max_size=2,
    ),
)
_chat_calls = st.lists(
    st.one_of(_chat_call("function"), _chat_call("custom")),
    min_size=1,
    max_size=3,
    unique_by=lambda call: str(call["id"]),
)
_chat_turns = st.one_of(
    st.builds(lambda content: {"role": "user", "content": content}, _chat_user),
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(("system", "developer", "assistant")),
        st.one_of(_texts, _chat_texts),
    ),
    st.builds(
        lambda content, calls: {"role": "assistant", "content": content, "tool_calls": calls},
        st.one_of(st.none(), _texts),
        _chat_calls,
    ),
    st.builds(
        lambda id, content: {"role": "tool", "tool_call_id": id, "content": content},
        _ids,
        st.one_of(_texts, _chat_texts),
    ),
)

_blocks = st.builds(lambda text: {"type": "text", "text": text}, _texts)
_image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
_document = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
}
_result_contents = st.one_of(
    _texts, st.lists(st.one_of(_blocks, st.sampled_from((_image, _document))), max_size=2)
)
_results = st.builds(
    lambda id, content, error: {
        "type": "tool_result",
        "tool_use_id": id,
        "content": content,
        "is_error": error,
    },
    _ids,
    _result_contents,
    st.booleans(),
)
_uses = st.builds(
    lambda id, name: {"type": "tool_use", "id": id, "name": name, "input": {"a": 1}}, _ids, _names
)
_thoughts = st.sampled_from(
    (
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "thinking", "thinking": "", "signature": "dgm1.AAAA"},
        {"type": "redacted_thinking", "data": "c2ln"},
    )
)
_message_turns = st.one_of(
    st.builds(
        lambda content: {"role": "user", "content": content},
        st.one_of(
            _texts,
            st.lists(
                st.one_of(_blocks, _results, st.sampled_from((_image, _document))),
                min_size=1,
                max_size=4,
            ),
        ),
    ),
    st.builds(
        lambda content: {"role": "assistant", "content": content},
        st.one_of(_texts, st.lists(st.one_of(_blocks, _uses, _thoughts), min_size=1, max_size=4)),
    ),
    st.builds(lambda text: {"role": "system", "content": text}, _texts),
)

_parts = st.one_of(
    st.builds(lambda text: {"type": "input_text", "text": text}, _texts),
    st.just({"type": "input_image", "image_url": _png, "detail": "auto"}),
    st.just(
        {
            "type": "input_file",
            "filename": "a.pdf",
            "file_data": f"data:application/pdf;base64,{PDF}",
        }
    ),
)
_items = st.one_of(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(("user", "system", "developer", "assistant")),
        _texts,
    ),
    st.builds(
        lambda content: {"type": "message", "role": "user", "content": content},
        st.lists(_parts, min_size=1, max_size=3),
    ),
    st.builds(
        lambda id, name, arguments: {
            "type": "function_call",
            "call_id": id,
            "name": name,
            "arguments": arguments,
        },
        _ids,
        _names,
        _arguments,
    ),
    st.builds(
        lambda id, name, text: {
            "type": "custom_tool_call",
            "call_id": id,
            "name": name,
            "input": text,
        },
        _ids,
        _names,
        _texts,
    ),
    st.builds(
        lambda kind, id, output: {"type": kind, "call_id": id, "output": output},
        st.sampled_from(("function_call_output", "custom_tool_call_output")),
        _ids,
        st.one_of(_texts, st.lists(_parts, min_size=1, max_size=2)),
    ),
    st.just({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}),
)

_google_parts = st.one_of(
    st.builds(lambda text: {"text": text}, _texts),
    st.just({"inlineData": {"mimeType": "image/png", "data": PNG}}),
    st.just({"inline_data": {"mime_type": "application/pdf", "data": PDF}}),
)
_google_results = st.builds(
    lambda name, text: {"functionResponse": {"name": name, "response": {"output": text}}},
    _names,
    _texts,
)
_google_calls = st.builds(
    lambda name, more: {"functionCall": {"name": name, "args": {"a": 1}}, **more},
    _names,
    st.sampled_from(({}, {"thoughtSignature": "skip_thought_signature_validator"})),
)
_google_turns = st.one_of(
    st.builds(
        lambda parts: {"role": "user", "parts": parts},
        st.lists(st.one_of(_google_parts, _google_results), min_size=1, max_size=4),
    ),
    st.builds(
        lambda parts: {"role": "model", "parts": parts},
        st.lists(
            st.one_of(st.builds(lambda text: {"text": text}, _texts), _google_calls),
            min_size=1,
            max_size=4,
        ),
    ),
)

_tools = st.lists(_names, max_size=3, unique=True)
_EXTRA: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    CHAT: st.fixed_dictionaries(
        {},
        optional={
            "reasoning_effort": st.sampled_from(("none", "low", "max")),
            "max_completion_tokens": st.sampled_from((1, 500, 5000)),
            "temperature": st.just(0.5),
            "tool_choice": st.sampled_from(("none", "auto", "required")),
            "stop": st.sampled_from(("END", ["a", "b"], [" "])),
        },
    ),
    MESSAGES: st.fixed_dictionaries(
        {"max_tokens": st.sampled_from((1, 500, 5000))},
        optional={
            "thinking": st.sampled_from(
                (
                    {"type": "adaptive"},
                    {"type": "disabled"},
                    {"type": "enabled", "budget_tokens": 1024},
                )
            ),
            "system": _texts,
            "tool_choice": st.sampled_from(({"type": "any"}, {"type": "auto"}, {"type": "none"})),
            "stop_sequences": st.just(["a", "b", "c", "d", "e"]),
        },
    ),
    RESPONSES: st.fixed_dictionaries(
        {},
        optional={
            "instructions": _texts,
            "reasoning": st.sampled_from(
                ({"effort": "none"}, {"effort": "max", "summary": "auto"})
            ),
            "max_output_tokens": st.sampled_from((16, 500, 5000)),
            "tool_choice": st.sampled_from(("none", "auto", "required")),
            "top_p": st.just(0.5),
        },
    ),
    GOOGLE: st.fixed_dictionaries(
        {},
        optional={
            "system_instruction": st.builds(lambda text: {"parts": [{"text": text}]}, _texts),
            "generationConfig": st.sampled_from(
                (
                    {"maxOutputTokens": 500, "stopSequences": ["a", "b", "c", "d", "e"]},
                    {"thinkingConfig": {"thinkingBudget": 0}},
                    {"thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": True}},
                )
            ),
        },
    ),
}
_TURNS = {
    CHAT: ("messages", _chat_turns),
    MESSAGES: ("messages", _message_turns),
    GOOGLE: ("contents", _google_turns),
}


def _tool(client: str, name: str) -> dict[str, Any]:
    schema = {"type": "object"}
    if client == CHAT:
        return {"type": "function", "function": {"name": name, "parameters": schema}}
    if client == MESSAGES:
        return {"name": name, "input_schema": schema}
    if client == GOOGLE:
        return {"functionDeclarations": [{"name": name}]}
    return {"type": "function", "name": name, "parameters": schema, "strict": False}


any_options = st.builds(
    make_options,
    policy=st.just(Policy.LENIENT),
    custom_tools=st.sampled_from(("wrap", "reject")),
    hosted_tools=st.sampled_from(("drop", "reject", "map")),
    invalid_tool_arguments=st.sampled_from(("wrap", "empty", "error")),
    orphan_calls=st.sampled_from(("repair", "reject")),
    orphan_results=st.sampled_from(("reject", "drop", "text")),
    tool_error_prefix=st.sampled_from(("", "Error: ")),
    stop_on_responses=st.sampled_from(("reject", "drop", "emulate")),
    default_max_tokens=st.sampled_from((100, 2000, 16384)),
    map_fast=st.booleans(),
)
any_capabilities = st.builds(
    make_capabilities,
    system_role=st.sampled_from(("system", "developer")),
    late_system=st.sampled_from(("message", "hoist", "user")),
    max_tokens_field=st.sampled_from(("max_completion_tokens", "max_tokens")),
    max_output_tokens=st.sampled_from((None, 1000, 100_000)),
    stream_usage=st.booleans(),
    chat_files=st.booleans(),
    images=st.booleans(),
    custom_tools_native=st.booleans(),
    structured_output=st.booleans(),
    sampling=st.booleans(),
    efforts=st.sampled_from((("low", "high"), ("none", "minimal", "low", "medium", "high", "max"))),
    adaptive_thinking=st.booleans(),
    disable_thinking=st.booleans(),
    prompt_cache_breakpoints=st.booleans(),
    auto_cache=st.booleans(),
    encrypted_reasoning=st.booleans(),
)
"""Upstreams as they are, apart from those that take what the vendors' own services do not."""


@st.composite
def wild_requests(draw: st.DrawFn, client: str) -> dict[str, Any]:
    """A request of the client's protocol; its types are right, its order is not."""
    field, turns = _TURNS.get(client, ("input", _items))
    body = {"model": "filler", field: draw(st.lists(turns, min_size=1, max_size=7))}
    body |= draw(_EXTRA[client])
    names = draw(_tools)
    if names:
        body["tools"] = [_tool(client, name) for name in names]
    else:
        body.pop("tool_choice", None)
    return body
