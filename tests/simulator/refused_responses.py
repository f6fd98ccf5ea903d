"""Responses requests that the service refuses."""

from __future__ import annotations

from dragoman.lab.simulator.seals import encrypt
from tests.simulator.refused import (
    BITMAP,
    CALL,
    LOOSE,
    MISSING,
    NOT_STRICT,
    ORGANIZATION,
    OUTPUT,
    PARAMETERS,
    PIXEL,
    USER,
    Row,
    closed,
)
from tests.simulator.requests import CITY, JsonObject

MESSAGE = {"type": "message", "role": "assistant", "content": "x"}
CUSTOM = {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"}
SHELL = {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}
FUNCTION = {"type": "function", "name": "f"}
THOUGHT = {"type": "reasoning_text", "text": "hm"}


def reasoning(organization: str = ORGANIZATION) -> JsonObject:
    """A reasoning item as the simulator gives it to the keys of an organisation."""
    state = encrypt("rs_1", "hm", organization)
    return {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": state}


RESPONSES_ROWS: list[Row] = [
    ({"model": MISSING}, "model", "missing required field"),
    ({"input": MISSING}, "input", "missing required field"),
    ({"input": 3}, "input", "Expected `str | array | null`, got `int`"),
    ({"input": [{"type": "thought"}]}, "input[0].type", "'thought'"),
    ({"input": [{"type": {"a": 1}}]}, "input[0].type", "Expected `str`, got `dict`"),
    ({"input": ["hi"]}, "input[0]", "Expected `object`, got `str`"),
    (
        {"input": [{"type": "compaction_trigger", "id": {}}]},
        "input[0].id",
        "Expected `str | null`, got `object`",
    ),
    ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role", "'tool'"),
    (
        {"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
        "input[0].content[0].type",
        "'text'",
    ),
    (
        {"input": [{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}]},
        "input[0].content[0].type",
        "'input_text'",
    ),
    (
        {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
        "input[0].content[0]",
        "image_url",
    ),
    ({"input": [{**USER, "tool_calls": []}]}, "input[0].tool_calls", "unknown field"),
    ({"input": [CALL]}, "input", "No tool output found for function call c"),
    ({"input": [OUTPUT]}, "input[0]", "No tool call found"),
    ({"input": [{**CALL, "id": "call_1"}, OUTPUT]}, "input[0].id", "begins with 'fc'"),
    ({"input": [{**CALL, "call_id": "c" * 65}]}, "input[0].call_id", "64"),
    ({"input": [{"type": "item_reference", "id": "rs_1"}]}, "input[0].id", "not found"),
    (
        {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}, USER]},
        "input[0]",
        "not found",
    ),
    ({"previous_response_id": "resp_none"}, "previous_response_id", "not found"),
    ({"messages": [USER]}, "messages", "unknown field"),
    ({"stop": ["x"]}, "stop", "unknown field"),
    ({"seed": 1}, "seed", "unknown field"),
    ({"n": 2}, "n", "unknown field"),
    ({"max_tokens": 99}, "max_tokens", "unknown field"),
    ({"response_format": {"type": "text"}}, "response_format", "unknown field"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "stream"),
    ({"max_output_tokens": 15}, "max_output_tokens", "Expected `int` >= 16"),
    ({"include": ["everything"]}, "include[0]", "'everything'"),
    ({"background": True}, "background", "background"),
    ({"conversation": "conv_1"}, "conversation", "no such"),
    ({"reasoning": {"summary": "long"}}, "reasoning.summary", "'long'"),
    (
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        "tools[0].function",
        "unknown field",
    ),
    ({"tools": [{"name": "f", "input_schema": CITY}]}, "tools[0].type", "missing required field"),
    (
        {"tools": [{"type": "function", "name": "f", "strict": True, "parameters": LOOSE}]},
        "tools[0].parameters",
        "additionalProperties",
    ),
    ({"tool_choice": "required"}, "tool_choice", "must be specified"),
    ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice.name", "not found"),
    ({"text": {"format": {"type": "json_object"}}}, "input", "json"),
    (
        {"text": {"format": {"type": "json_schema", "json_schema": {}}}},
        "text.format.json_schema",
        "unknown field",
    ),
    (
        {"input": [{**CALL, "id": "fc_a.b"}, OUTPUT]},
        "input[0].id",
        "contains letters, numbers, underscores, or dashes",
    ),
    (
        {"input": [{**CALL, "id": "fc_" + "x" * 62}, OUTPUT]},
        "input[0].id",
        "Expected `str` of length <= 64",
    ),
    ({"input": [{**CALL, "name": "a.b"}, OUTPUT]}, "input[0].name", "Expected `str`"),
    ({"input": [{**CALL, "call_id": ""}]}, "input[0].call_id", "Expected `str` of length >= 1"),
    ({"input": [{**MESSAGE, "id": "m"}]}, "input[0].id", "begins with 'msg'"),
    (
        {"input": [{**MESSAGE, "id": "msg_1"}, {**MESSAGE, "id": "msg_1"}]},
        "input[1]",
        "Duplicate item found with id msg_1",
    ),
    ({"input": [{**MESSAGE, "phase": "end"}]}, "input[0].phase", "Invalid enum value 'end'"),
    ({"input": [OUTPUT, CALL]}, "input[0]", "No tool call found"),
    ({"input": [{**CUSTOM}, OUTPUT]}, "input[1]", "No tool call found for function call output"),
    ({"input": [CUSTOM]}, "input", "No tool output found for custom tool call c"),
    ({"input": [SHELL]}, "input", "No tool output found for shell call c"),
    ({"input": [{"type": "web_search_call"}]}, "input[0].status", "missing required field"),
    ({"input": [{"type": "compaction", "text": "x"}]}, "input[0].text", "unknown field"),
    (
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": BITMAP}]}]},
        "input[0].content[0].image_url",
        "unsupported MIME type",
    ),
    (
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "a"}]}]},
        "input[0].content[0].file_url",
        "valid URL",
    ),
    (
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_data": PIXEL}]}]},
        "input[0].content[0].file_data",
        "data URL",
    ),
    (
        {"input": [{"type": "reasoning", "summary": [], "encrypted_content": "abc"}, MESSAGE]},
        "input[0].encrypted_content",
        "could not be decrypted or parsed",
    ),
    (
        {"input": [{"type": "reasoning", "summary": [], "content": [THOUGHT]}, MESSAGE]},
        "input[0].content",
        "Expected `array` of length <= 0",
    ),
    (
        {"input": [reasoning("organization-b"), MESSAGE]},
        "input[0].encrypted_content",
        "organization_id did not match",
    ),
    ({"input": [reasoning(), USER]}, "input[0]", "without its required following item"),
    ({"input": [MESSAGE, reasoning()]}, "input[1]", "without its required following item"),
    ({"tools": [{"type": "mcp"}]}, "tools[0].server_label", "missing required field"),
    ({"tools": [{"type": "web_search", "max_uses": 3}]}, "tools[0].max_uses", "unknown field"),
    ({"tools": [{**FUNCTION}] * 129}, "tools", "Expected `array` of length <= 128"),
    ({"tools": [{**FUNCTION, "name": "f" * 65}]}, "tools[0].name", "Expected `str`"),
    (
        {"tools": [{"type": "custom", "name": "f", "format": {"type": "grammar"}}]},
        "tools[0].format.definition",
        "missing required field",
    ),
    (
        {"tools": [{"type": "namespace", "name": "n", "description": "d", "tools": []}]},
        "tools[0].tools",
        "Expected `array` of length >= 1",
    ),
    (
        {"tool_choice": {"type": "web_search"}, "tools": [FUNCTION]},
        "tool_choice.type",
        "'web_search' not found",
    ),
    (
        {
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "g"}],
            },
            "tools": [FUNCTION],
        },
        "tool_choice.tools[0].name",
        "not found",
    ),
    ({"service_tier": "turbo"}, "service_tier", "Invalid enum value 'turbo'"),
    (
        {"context_management": [{"type": "x"}]},
        "context_management[0].type",
        "Invalid enum value 'x'",
    ),
    (
        {"prompt_cache_options": {"ttl": "1h"}},
        "prompt_cache_options.ttl",
        "Invalid enum value '1h'",
    ),
    ({"text": {"verbosity": "huge"}}, "text.verbosity", "'huge'"),
    *(
        ({"tools": [{**FUNCTION, "parameters": schema}]}, "tools[0].parameters", words)
        for schema, words in PARAMETERS
    ),
    *(
        (
            {"tools": [{**FUNCTION, "strict": True, "parameters": closed(schema)}]},
            "tools[0].parameters",
            words,
        )
        for schema, words in NOT_STRICT
    ),
    *(
        (
            {
                "text": {
                    "format": {
                        "type": "json_schema",
                        "name": "x",
                        "strict": True,
                        "schema": closed(schema),
                    }
                }
            },
            "text.format.schema",
            words,
        )
        for schema, words in NOT_STRICT
    ),
]
