"""What OpenAI's Chat Completions endpoint refuses.

Fields: ``types/chat/completion_create_params.py`` and its neighbours in the openai package. The
pairing of calls and tool messages is the service's own rule.
"""

from dragoman.simulator.validation.nodes import OPENAI, Node
from dragoman.simulator.validation.openai_shared import (
    EFFORTS,
    TOOL_NAME,
    VERBOSITIES,
    check_cache_breakpoint,
    check_metadata,
    check_parameters,
    check_sampling,
    check_strict,
)
from dragoman.simulator.view import JsonObject

_FIELDS = frozenset(
    [
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "modalities",
        "model",
        "moderation",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    ]
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


def check_chat(request: JsonObject, *, compatible: bool = False) -> None:
    """Check a Chat Completions request.

    ``compatible`` lets unknown top-level fields pass, as servers other than OpenAI do.

    Raises:
        ApiError: 400, naming the first field at fault.
    """
    root = Node(request, OPENAI)
    allowed = None if compatible else _FIELDS
    root.object(allowed=allowed, required=("model", "messages"))
    root.child("model").string(least=1)
    _check_options(root)
    _check_tools(root)
    _check_response_format(root)
    _check_messages(root.child("messages"))


def _check_options(root: Node) -> None:
    check_sampling(root)
    check_metadata(root)
    for name in ("max_tokens", "max_completion_tokens"):
        if node := root.get(name):
            node.integer(1)
    if root.get("max_tokens") and root.get("max_completion_tokens"):
        root.child("max_tokens").fail_plainly(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
            "invalid_parameter_combination",
        )
    for name in ("frequency_penalty", "presence_penalty"):
        if node := root.get(name):
            node.number(-2, 2)
    if node := root.get("n"):
        node.integer(1, 128)
    if node := root.get("seed"):
        node.integer()
    if node := root.get("reasoning_effort"):
        node.one_of(EFFORTS)
    if node := root.get("verbosity"):
        node.one_of(VERBOSITIES)
    if node := root.get("logit_bias"):
        for key in node.object().value:
            node.child(key).number(-100, 100)
    if node := root.get("logprobs"):
        node.boolean()
    if root.get("top_logprobs") and not root.value.get("logprobs"):
        root.child("top_logprobs").fail("the parameter is only allowed when 'logprobs' is enabled.")
    if node := root.get("stop"):
        _check_stop(node)
    if node := root.get("stream_options"):
        if not root.value.get("stream"):
            node.fail("the parameter is only allowed when 'stream' is enabled.")
        node.object(allowed=("include_usage", "include_obfuscation"))
        for name in ("include_usage", "include_obfuscation"):
            if flag := node.get(name):
                flag.boolean()
    if node := root.get("modalities"):
        for modality in node.items():
            modality.one_of(("text", "audio"))
        if "audio" in node.value:
            node.fail("this model does not support audio output.", "unsupported_value")


def _check_stop(stop: Node) -> None:
    if isinstance(stop.value, str):
        return
    if len(stop.value) > 4:
        stop.fail("array too long. Expected at most 4 elements.", "array_above_max_length")
    for sequence in stop.items():
        sequence.string()


def _check_tools(root: Node) -> None:
    tools = root.get("tools")
    names: set[tuple[str, str]] = set()
    if tools is not None:
        for tool in tools.items():
            names.add(_check_tool(tool))
        if not names:
            tools.fail("empty array. Expected at least 1 element.", "empty_array")
    if choice := root.get("tool_choice"):
        if not names:
            choice.fail_plainly("'tool_choice' is only allowed when 'tools' are specified.")
        _check_choice(choice, names)
    if (parallel := root.get("parallel_tool_calls")) and not names:
        parallel.fail_plainly("'parallel_tool_calls' is only allowed when 'tools' are specified.")


def _check_tool(tool: Node) -> tuple[str, str]:
    tool.object(required=("type",))
    kind = tool.child("type").one_of(("function", "custom"))
    tool.object(allowed=("type", kind), required=(kind,))
    body = tool.child(kind)
    if kind == "function":
        body.object(allowed=("description", "parameters", "strict"), required=("name",))
        strict = body.get("strict")
        is_strict = strict.boolean() if strict else False
        if parameters := body.get("parameters"):
            check_parameters(parameters, is_strict)
    else:
        body.object(allowed=("description", "format"), required=("name",))
        if text_format := body.get("format"):
            _check_custom_format(text_format)
    if description := body.get("description"):
        description.string()
    return kind, body.child("name").string(pattern=TOOL_NAME)


def _check_custom_format(text_format: Node) -> None:
    text_format.object(required=("type",))
    if text_format.child("type").one_of(("text", "grammar")) == "grammar":
        text_format.object(allowed=("type",), required=("grammar",))
        grammar = text_format.child("grammar").object(required=("definition", "syntax"))
        grammar.child("definition").string(least=1)
        grammar.child("syntax").one_of(("lark", "regex"))


def _check_choice(choice: Node, names: set[tuple[str, str]]) -> None:
    if isinstance(choice.value, str):
        choice.one_of(("none", "auto", "required"))
        return
    choice.object(required=("type",))
    kind = choice.child("type").one_of(("function", "custom", "allowed_tools"))
    choice.object(allowed=("type", kind), required=(kind,))
    body = choice.child(kind)
    if kind == "allowed_tools":
        body.object(allowed=(), required=("mode", "tools"))
        body.child("mode").one_of(("auto", "required"))
        for tool in body.child("tools").items():
            inner = tool.object(required=("type",)).child("type").one_of(("function", "custom"))
            tool.object(allowed=("type",), required=(inner,))
            _check_known(tool.child(inner), inner, names)
    else:
        _check_known(body, kind, names)


def _check_known(body: Node, kind: str, names: set[tuple[str, str]]) -> None:
    name = body.object(allowed=(), required=("name",)).child("name")
    if (kind, name.string()) not in names:
        name.fail_plainly(f"Tool choice '{kind}' not found in 'tools' parameter.")


def _check_response_format(root: Node) -> None:
    node = root.get("response_format")
    if node is None:
        return
    node.object(required=("type",))
    kind = node.child("type").one_of(("text", "json_object", "json_schema"))
    if kind == "json_schema":
        node.object(allowed=("type",), required=("json_schema",))
        inner = node.child("json_schema")
        inner.object(allowed=("description", "schema", "strict"), required=("name",))
        inner.child("name").string(pattern=TOOL_NAME)
        if schema := inner.get("schema"):
            schema.object()
            if inner.value.get("strict"):
                check_strict(schema)
    else:
        node.object(allowed=("type",))
        if kind == "json_object" and "json" not in str(root.value["messages"]).lower():
            root.child("messages").fail_plainly(
                "'messages' must contain the word 'json' in some form, to use "
                "'response_format' of type 'json_object'."
            )


def _check_messages(messages: Node) -> None:
    open_calls: dict[str, str] = {}
    count = 0
    for message in messages.items():
        count += 1
        message.object(required=("role",))
        role = message.child("role").one_of(tuple(_MESSAGE_FIELDS))
        message.object(allowed=_MESSAGE_FIELDS[role] | {"role"})
        if role == "tool":
            _check_tool_message(message, open_calls)
        elif open_calls:
            _complain_of_open_calls(messages, open_calls)
        if role == "assistant":
            open_calls = _check_assistant(message)
        elif role == "function":
            message.object(required=("name", "content"))
        else:
            message.object(required=("content",))
            _check_content(message.child("content"), role)
    if not count:
        messages.fail("empty array. Expected at least 1 element.", "empty_array")
    if open_calls:
        _complain_of_open_calls(messages, open_calls)


def _complain_of_open_calls(messages: Node, open_calls: dict[str, str]) -> None:
    messages.fail_plainly(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
        + ", ".join(open_calls)
    )


def _check_tool_message(message: Node, open_calls: dict[str, str]) -> None:
    message.object(required=("tool_call_id",))
    call_id = message.child("tool_call_id").string()
    if open_calls.pop(call_id, None) is None:
        message.child("role").fail_plainly(
            "Invalid parameter: messages with role 'tool' must be a response to a preceding "
            "message with 'tool_calls'."
        )


def _check_content(content: Node, role: str) -> None:
    if isinstance(content.value, str):
        return
    parts = list(content.items())
    if not parts:
        content.fail("empty array. Expected at least 1 element.", "empty_array")
    for part in parts:
        part.object(required=("type",))
        _check_part(part, part.child("type").one_of(_PARTS[role]))


def _check_part(part: Node, kind: str) -> None:
    part.object(allowed=("type", "prompt_cache_breakpoint"), required=(kind,))
    check_cache_breakpoint(part)
    body = part.child(kind)
    match kind:
        case "text" | "refusal":
            body.string()
        case "image_url":
            body.object(allowed=("detail",), required=("url",))
            body.child("url").url()
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
    if data := body.get("file_data"):
        if data.string().startswith("data:"):
            data.data_url()
        else:
            data.base64()
        if not body.get("filename"):
            body.fail("'filename' is required with 'file_data'.", "missing_required_parameter")
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
    if calls is None:
        return {}
    ids = {}
    for call in calls.items():
        call.object(required=("type", "id"))
        kind = call.child("type").one_of(("function", "custom"))
        call.object(allowed=("type", "id"), required=(kind,))
        field = "arguments" if kind == "function" else "input"
        body = call.child(kind).object(allowed=(), required=("name", field))
        body.child("name").string(pattern=TOOL_NAME)
        body.child(field).string()
        ids[call.child("id").string(least=1)] = kind
    if not ids:
        calls.fail("empty array. Expected at least 1 element.", "empty_array")
    return ids
