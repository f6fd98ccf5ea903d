"""What OpenAI's Responses endpoint refuses.

Fields: ``types/responses/response_create_params.py`` and its neighbours in the openai package.
The pairing of calls and outputs, the prefixes of ids and the binding of reasoning items are the
service's own rules.
"""

from collections.abc import Mapping

from dragoman.simulator.validation.nodes import OPENAI, Node
from dragoman.simulator.validation.openai_shared import (
    EFFORTS,
    TIERS,
    TOOL_NAME,
    VERBOSITIES,
    check_json_word,
    check_metadata,
    check_sampling,
)
from dragoman.simulator.validation.responses_items import check_items
from dragoman.simulator.validation.responses_tools import check_choice, check_tools
from dragoman.simulator.validation.schemas import check_answer_schema
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
_NO_LINKS: Mapping[str, str] = {}


def check_responses(
    request: JsonObject,
    organization: str,
    stored_items: frozenset[str],
    links: Mapping[str, str] = _NO_LINKS,
    *,
    compatible: bool = False,
) -> None:
    """Check a Responses request whose stored history has been put before its input.

    ``stored_items`` are the ids of items that the service still holds, ``links`` those of the
    reasoning that led to them; ``organization`` owns the encrypted reasoning. ``compatible`` lets
    unknown top-level fields pass.

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
        check_items(source, organization, stored_items, links)


def _check_options(root: Node) -> None:
    check_sampling(root, (*TIERS, "ultrafast"))
    check_metadata(root)
    _check_services(root)
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
    kind = text_format.tag(("text", "json_object", "json_schema"))
    if kind != "json_schema":
        text_format.object(allowed=("type",))
        if kind == "json_object":
            check_json_word(root, "input", "text.format", "Response input messages")
        return
    text_format.object(allowed=("type", "description", "strict"), required=("name", "schema"))
    name = text_format.child("name").string(pattern=TOOL_NAME)
    if description := text_format.get("description"):
        description.string()
    strict = text_format.get("strict")
    is_strict = strict.boolean() if strict else False
    check_answer_schema(text_format.child("schema"), name, strict=is_strict)


def _check_services(root: Node) -> None:
    """Caching, compaction and other services around the answer."""
    if node := root.get("prompt_cache_options"):
        node.object(allowed=("comparison_response_id", "mode", "prewarm", "ttl"))
        if mode := node.get("mode"):
            mode.one_of(("implicit", "explicit"))
        if ttl := node.get("ttl"):
            ttl.one_of(("30m", "12h"))
        if prewarm := node.get("prewarm"):
            prewarm.boolean()
    if node := root.get("context_management"):
        for entry in node.items():
            entry.object(allowed=("compact_threshold",), required=("type",))
            entry.child("type").one_of(("compaction",))
            if threshold := entry.get("compact_threshold"):
                threshold.integer(1)
    if node := root.get("image"):
        node.object(allowed=("context_compression",))
        if compression := node.get("context_compression"):
            compression.one_of(("auto", "enabled", "disabled"))
    if node := root.get("access_programs"):
        node.object(allowed=("cyber",))
    if node := root.get("client_metadata"):
        node.object()
