"""The messages of a Chat Completions request.

Fields: ``types/chat/chat_completion_*_message_param.py`` of the openai package. That every call
is answered before anything else is said, and the limits of names and ids, are the service's own
rules.
"""

import re

from dragoman.simulator.validation.nodes import Node
from dragoman.simulator.validation.openai_shared import (
    IMAGE_TYPES,
    MOST_TOOLS,
    TOOL_NAME,
    check_cache_breakpoint,
    check_user_file,
)

_MESSAGE_FIELDS: dict[str, frozenset[str]] = {
    "system": frozenset({"content", "name"}),
    "developer": frozenset({"content", "name"}),
    "user": frozenset({"content", "name"}),
    "tool": frozenset({"content", "tool_call_id"}),
    "function": frozenset({"content", "name"}),
    # The reasoning fields are not OpenAI's: servers that send reasoning text take it back.
    "assistant": frozenset(
        [
            "content",
            "name",
            "refusal",
            "audio",
            "tool_calls",
            "function_call",
            "annotations",
            "reasoning_content",
            "reasoning",
            "reasoning_details",
        ]
    ),
}
_USER_PARTS = ("text", "image_url", "input_audio", "file")
_PARTS: dict[str, tuple[str, ...]] = {
    "system": ("text",),
    "developer": ("text",),
    "user": _USER_PARTS,
    "tool": ("text",),
    "assistant": ("text", "refusal"),
}
_SPEAKER = re.compile(r"[^\s<|\\/>]{1,64}")
_MOST_ID = 40


def check_messages(messages: Node) -> None:
    """Check the messages one by one, then that calls and tool messages meet."""
    open_calls: dict[str, str] = {}
    for message in messages.items(least=1):
        message.object(required=("role",))
        role = message.child("role").one_of(tuple(_MESSAGE_FIELDS))
        message.object(allowed=_MESSAGE_FIELDS[role] | {"role"})
        if speaker := message.get("name"):
            speaker.string(pattern=_SPEAKER)
        if role == "tool":
            _check_tool_message(message, open_calls)
        elif open_calls:
            _complain_of_open_calls(messages, open_calls)
        if role == "assistant":
            open_calls = _check_assistant(message)
        elif role == "function":
            message.object(required=("name", "content"))
            if content := message.get("content"):
                content.string()
        elif role != "tool":
            message.object(required=("content",))
            _check_content(message.child("content"), role)
    if open_calls:
        _complain_of_open_calls(messages, open_calls)


def _complain_of_open_calls(messages: Node, open_calls: dict[str, str]) -> None:
    messages.fail_plainly(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
        + ", ".join(open_calls)
    )


def _check_tool_message(message: Node, open_calls: dict[str, str]) -> None:
    message.object(required=("tool_call_id", "content"))
    call_id = message.child("tool_call_id").string(most=_MOST_ID)
    if open_calls.pop(call_id, None) is None:
        message.child("role").fail_plainly(
            "Invalid parameter: messages with role 'tool' must be a response to a preceding "
            "message with 'tool_calls'."
        )
    _check_content(message.child("content"), "tool")


def _check_content(content: Node, role: str) -> None:
    if isinstance(content.value, str):
        return
    for part in content.items(least=1):
        _check_part(part, part.tag(_PARTS[role]))


def _check_part(part: Node, kind: str) -> None:
    part.object(allowed=("type", "prompt_cache_breakpoint"), required=(kind,))
    check_cache_breakpoint(part)
    body = part.child(kind)
    match kind:
        case "text" | "refusal":
            body.string()
        case "image_url":
            body.object(allowed=("detail",), required=("url",))
            body.child("url").url(media_types=IMAGE_TYPES)
            if detail := body.get("detail"):
                detail.one_of(("auto", "low", "high", "original"))
        case "input_audio":
            body.object(allowed=(), required=("data", "format"))
            body.child("data").base64()
            body.child("format").one_of(("wav", "mp3"))
        case "file":
            body.object(allowed=("file_data", "file_id", "filename"))
            _check_file(body)


def _check_file(body: Node) -> None:
    if body.get("file_data"):
        check_user_file(body)
    elif not body.get("file_id"):
        body.fail("expected 'file_data' or 'file_id'.", "missing_required_parameter")


def _check_assistant(message: Node) -> dict[str, str]:
    """Returns the ids of its calls, which tool messages now have to answer."""
    calls = message.get("tool_calls")
    content = message.get("content")
    if content is not None:
        _check_content(content, "assistant")
    elif calls is None and not any(
        message.get(name) for name in ("refusal", "function_call", "audio")
    ):
        message.fail_plainly(
            f"Invalid value for 'content': expected a string, got null ('{message.name}').",
            "invalid_value",
        )
    for name in ("refusal", "reasoning_content", "reasoning"):
        if node := message.get(name):
            node.string()
    if audio := message.get("audio"):
        audio.object(allowed=(), required=("id",)).child("id").string(least=1)
    if call := message.get("function_call"):
        call.object(allowed=(), required=("name", "arguments"))
        call.child("name").string(pattern=TOOL_NAME)
        call.child("arguments").string()
    if calls is None:
        return {}
    ids = {}
    for call in calls.items(least=1, most=MOST_TOOLS):
        kind = call.tag(("function", "custom"))
        call.object(allowed=("type",), required=("id", kind))
        field = "arguments" if kind == "function" else "input"
        body = call.child(kind).object(allowed=(), required=("name", field))
        body.child("name").string(pattern=TOOL_NAME)
        body.child(field).string()
        call_id = call.child("id").string(least=1, most=_MOST_ID)
        if call_id in ids:
            message.fail_plainly(f"Duplicate value for 'tool_call_id' of '{call_id}'.")
        ids[call_id] = kind
    return ids
