"""What OpenAI's Responses endpoint refuses.

Fields: ``types/responses/response_create_params.py`` and its neighbours in the openai package.
The pairing of calls and outputs, the prefixes of ids and the binding of reasoning items are the
service's own rules.
"""

from dragoman.simulator.validation.nodes import OPENAI, Node
from dragoman.simulator.validation.openai_shared import (
    EFFORTS,
    TOOL_NAME,
    VERBOSITIES,
    check_metadata,
    check_sampling,
    check_strict,
)
from dragoman.simulator.validation.responses_items import check_items
from dragoman.simulator.validation.responses_tools import check_choice, check_tools
from dragoman.simulator.view import JsonObject

_FIELDS = frozenset(
    {
        "access_programs",
        "background",
        "context_management",
        "conversation",
        "image",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "moderation",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
        "client_metadata",
    }
)
_INCLUDES = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)
_LEAST_OUTPUT_TOKENS = 16


def check_responses(
    request: JsonObject,
    organization: str,
    stored_items: frozenset[str],
    *,
    compatible: bool = False,
) -> None:
    """Check a Responses request whose stored history has been put before its input.

    ``stored_items`` are the ids of items that the service still holds; ``organization`` owns the
    encrypted reasoning. ``compatible`` lets unknown top-level fields pass.

    Raises:
        ApiError: 400, naming the first field at fault.
    """
    root = Node(request, OPENAI)
    root.object(allowed=None if compatible else _FIELDS, required=("model",))
    root.child("model").string(least=1)
    _check_options(root)
    _check_text(root)
    names = check_tools(root)
    if choice := root.get("tool_choice"):
        check_choice(choice, names)
    source = root.get("input")
    if source is None:
        root.fail_plainly("Missing required parameter: 'input'.", "missing_required_parameter")
    if not isinstance(source.value, str):
        check_items(source, organization, stored_items)


def _check_options(root: Node) -> None:
    check_sampling(root)
    check_metadata(root)
    if node := root.get("max_output_tokens"):
        node.integer(_LEAST_OUTPUT_TOKENS)
    if node := root.get("max_tool_calls"):
        node.integer(1)
    if node := root.get("instructions"):
        node.string()
    if node := root.get("truncation"):
        node.one_of(("auto", "disabled"))
    if node := root.get("include"):
        for entry in node.items():
            entry.one_of(_INCLUDES)
    if node := root.get("stream_options"):
        if not root.value.get("stream"):
            node.fail("the parameter is only allowed when 'stream' is enabled.")
        node.object(allowed=("include_obfuscation",))
    if root.value.get("background"):
        root.child("background").fail("background responses are not simulated.")
    for name in ("conversation", "prompt"):
        if node := root.get(name):
            node.fail("no such object.", "not_found")
    if node := root.get("reasoning"):
        node.object(allowed=("context", "effort", "generate_summary", "mode", "summary"))
        if effort := node.get("effort"):
            effort.one_of(EFFORTS)
        for name in ("summary", "generate_summary"):
            if summary := node.get(name):
                summary.one_of(("auto", "concise", "detailed"))
        if context := node.get("context"):
            context.one_of(("auto", "current_turn", "all_turns"))
        if mode := node.get("mode"):
            mode.one_of(("standard", "pro"))


def _check_text(root: Node) -> None:
    text = root.get("text")
    if text is None:
        return
    text.object(allowed=("format", "verbosity"))
    if verbosity := text.get("verbosity"):
        verbosity.one_of(VERBOSITIES)
    text_format = text.get("format")
    if text_format is None:
        return
    text_format.object(required=("type",))
    kind = text_format.child("type").one_of(("text", "json_object", "json_schema"))
    if kind == "json_schema":
        text_format.object(allowed=("type", "description", "strict"), required=("name", "schema"))
        text_format.child("name").string(pattern=TOOL_NAME)
        schema = text_format.child("schema").object()
        if text_format.value.get("strict"):
            check_strict(schema)
    else:
        text_format.object(allowed=("type",))
        if kind == "json_object" and "json" not in str(root.value.get("input")).lower():
            text_format.fail_plainly(
                "Response input messages must contain the word 'json' in some form to use "
                "'text.format' of type 'json_object'."
            )
