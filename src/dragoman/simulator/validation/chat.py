"""What OpenAI's Chat Completions endpoint refuses.

Fields: ``types/chat/completion_create_params.py`` and its neighbours in the openai package. The
pairing of calls and tool messages is the service's own rule.
"""

from dragoman.simulator.validation.chat_messages import check_messages
from dragoman.simulator.validation.nodes import OPENAI, Node
from dragoman.simulator.validation.openai_shared import (
    EFFORTS,
    MOST_TOOLS,
    TOOL_NAME,
    VERBOSITIES,
    check_custom_format,
    check_json_word,
    check_metadata,
    check_sampling,
)
from dragoman.simulator.validation.schemas import check_answer_schema, check_parameters
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
_AUDIO_FORMATS = ("wav", "aac", "mp3", "flac", "opus", "pcm16")
_MOST_CHOICES = 128
_MOST_STOPS = 4


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
    check_messages(root.child("messages"))


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
        node.integer(1, _MOST_CHOICES)
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
    if node := root.get("prompt_cache_options"):
        node.object(allowed=("mode", "ttl"))
        if mode := node.get("mode"):
            mode.one_of(("implicit", "explicit"))
        if ttl := node.get("ttl"):
            ttl.one_of(("30m",))
    _check_audio(root)
    _check_prediction(root)
    _check_web_search(root)
    if node := root.get("stop"):
        _check_stop(node)
    if node := root.get("stream_options"):
        if not root.value.get("stream"):
            node.fail("the parameter is only allowed when 'stream' is enabled.")
        node.object(allowed=("include_usage", "include_obfuscation"))
        for name in ("include_usage", "include_obfuscation"):
            if flag := node.get(name):
                flag.boolean()


def _check_audio(root: Node) -> None:
    if audio := root.get("audio"):
        audio.object(allowed=(), required=("format", "voice"))
        audio.child("format").one_of(_AUDIO_FORMATS)
    if node := root.get("modalities"):
        for modality in node.items(least=1):
            modality.one_of(("text", "audio"))
        if "audio" in node.value:
            node.fail("this model does not support audio output.", "unsupported_value")


def _check_prediction(root: Node) -> None:
    if node := root.get("prediction"):
        node.object(allowed=(), required=("type", "content"))
        node.child("type").one_of(("content",))
        content = node.child("content")
        if not isinstance(content.value, str):
            for part in content.items(least=1):
                part.tag(("text",))
                part.object(required=("text",)).child("text").string()


def _check_web_search(root: Node) -> None:
    if node := root.get("web_search_options"):
        node.object(allowed=("search_context_size", "user_location"))
        if size := node.get("search_context_size"):
            size.one_of(("low", "medium", "high"))
        if location := node.get("user_location"):
            location.object(allowed=(), required=("type", "approximate"))
            location.child("type").one_of(("approximate",))
            location.child("approximate").object(allowed=("city", "country", "region", "timezone"))


def _check_stop(stop: Node) -> None:
    if isinstance(stop.value, str):
        return
    for sequence in stop.items(most=_MOST_STOPS):
        sequence.string()


def _check_tools(root: Node) -> None:
    tools = root.get("tools")
    names: set[tuple[str, str]] = set()
    if tools is not None:
        for tool in tools.items(least=1, most=MOST_TOOLS):
            names.add(_check_tool(tool))
    if choice := root.get("tool_choice"):
        if not names:
            choice.fail_plainly("'tool_choice' is only allowed when 'tools' are specified.")
        _check_choice(choice, names)
    if (parallel := root.get("parallel_tool_calls")) and not names:
        parallel.fail_plainly("'parallel_tool_calls' is only allowed when 'tools' are specified.")
    _check_functions(root)


def _check_functions(root: Node) -> None:
    """The predecessors of tools."""
    names = set()
    if functions := root.get("functions"):
        for function in functions.items(least=1, most=MOST_TOOLS):
            function.object(allowed=("description", "parameters"), required=("name",))
            names.add(function.child("name").string(pattern=TOOL_NAME))
            if parameters := function.get("parameters"):
                check_parameters(parameters, function.value["name"], strict=False)
    if choice := root.get("function_call"):
        if not names:
            choice.fail_plainly("'function_call' is only allowed when 'functions' are specified.")
        if isinstance(choice.value, str):
            choice.one_of(("none", "auto"))
        else:
            choice.object(allowed=(), required=("name",))
            if choice.child("name").string() not in names:
                choice.fail_plainly("Function choice not found in 'functions' parameter.")


def _check_tool(tool: Node) -> tuple[str, str]:
    kind = tool.tag(("function", "custom"))
    tool.object(allowed=("type", kind), required=(kind,))
    body = tool.child(kind)
    if kind == "function":
        body.object(allowed=("description", "parameters", "strict"), required=("name",))
        strict = body.get("strict")
        is_strict = strict.boolean() if strict else False
        if parameters := body.get("parameters"):
            check_parameters(parameters, body.value["name"], strict=is_strict)
    else:
        body.object(allowed=("description", "format"), required=("name",))
        if text_format := body.get("format"):
            _check_custom_format(text_format)
    if description := body.get("description"):
        description.string()
    return kind, body.child("name").string(pattern=TOOL_NAME)


def _check_custom_format(text_format: Node) -> None:
    if text_format.tag(("text", "grammar")) == "grammar":
        text_format.object(allowed=("type",), required=("grammar",))
        grammar = text_format.child("grammar")
        check_custom_format(grammar.object(allowed=(), required=("definition", "syntax")))
    else:
        text_format.object(allowed=("type",))


def _check_choice(choice: Node, names: set[tuple[str, str]]) -> None:
    if isinstance(choice.value, str):
        choice.one_of(("none", "auto", "required"))
        return
    kind = choice.tag(("function", "custom", "allowed_tools"))
    choice.object(allowed=("type", kind), required=(kind,))
    body = choice.child(kind)
    if kind == "allowed_tools":
        body.object(allowed=(), required=("mode", "tools"))
        body.child("mode").one_of(("auto", "required"))
        for tool in body.child("tools").items(least=1):
            inner = tool.tag(("function", "custom"))
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
    kind = node.tag(("text", "json_object", "json_schema"))
    if kind != "json_schema":
        node.object(allowed=("type",))
        if kind == "json_object":
            check_json_word(root, "messages", "response_format", "'messages'")
        return
    node.object(allowed=("type",), required=("json_schema",))
    inner = node.child("json_schema")
    inner.object(allowed=("description", "schema", "strict"), required=("name",))
    name = inner.child("name").string(pattern=TOOL_NAME)
    if description := inner.get("description"):
        description.string()
    strict = inner.get("strict")
    is_strict = strict.boolean() if strict else False
    if schema := inner.get("schema"):
        check_answer_schema(schema, name, strict=is_strict)
