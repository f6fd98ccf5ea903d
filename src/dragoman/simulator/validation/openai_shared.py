"""Rules that Chat Completions and Responses have in common."""

import re

from dragoman.simulator.validation.nodes import Node

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
VERBOSITIES = ("low", "medium", "high")
IMAGE_TYPES = ("image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp")
TIERS = ("auto", "default", "flex", "scale", "priority", "fast")
MOST_TOOLS = 128
_CACHE_TTLS = ("30m", "12h")


def check_sampling(root: Node, tiers: tuple[str, ...] = TIERS) -> None:
    """Fields of the same name and range in both protocols."""
    for name, least, most in (("temperature", 0, 2), ("top_p", 0, 1)):
        if node := root.get(name):
            node.number(least, most)
    if node := root.get("top_logprobs"):
        node.integer(0, 20)
    for name in ("stream", "store", "parallel_tool_calls"):
        if node := root.get(name):
            node.boolean()
    if node := root.get("service_tier"):
        node.one_of(tiers)
    if node := root.get("safety_identifier"):
        node.string(most=128)
    for name in ("user", "prompt_cache_key"):
        if node := root.get(name):
            node.string()
    if node := root.get("prompt_cache_retention"):
        node.one_of(("in_memory", "in-memory", "24h"))
    check_moderation(root)


def check_metadata(root: Node) -> None:
    """At most 16 pairs of strings, keys to 64 and values to 512 characters."""
    metadata = root.get("metadata")
    if metadata is None:
        return
    metadata.object()
    if len(metadata.value) > 16:
        metadata.fail("too many properties. Expected at most 16.", "object_above_max_properties")
    for key in metadata.value:
        if len(key) > 64:
            metadata.fail("a key is longer than 64 characters.")
        metadata.child(key).string(most=512)


def check_cache_breakpoint(part: Node) -> None:
    """``prompt_cache_breakpoint`` on a content part."""
    if node := part.get("prompt_cache_breakpoint"):
        node.object(allowed=("ttl",), required=("mode",))
        node.child("mode").one_of(("explicit",))
        if ttl := node.get("ttl"):
            ttl.one_of(_CACHE_TTLS)


def check_custom_format(grammar: Node) -> None:
    """The grammar of a free-text tool."""
    grammar.child("definition").string(least=1)
    grammar.child("syntax").one_of(("lark", "regex"))


def check_user_file(body: Node) -> None:
    """``file_data`` with its name; anything else is looked at by the caller."""
    body.child("file_data").data_url()
    if not body.get("filename"):
        body.fail("'filename' is required with 'file_data'.", "missing_required_parameter")


def check_moderation(root: Node) -> None:
    """``moderation``: a model, and what is done with input and output."""
    node = root.get("moderation")
    if node is None:
        return
    node.object(allowed=("policy",), required=("model",))
    node.child("model").string(least=1)
    if policy := node.get("policy"):
        policy.object(allowed=("input", "output"))
        for side in ("input", "output"):
            if rule := policy.get(side):
                rule.object(allowed=(), required=("mode",))
                rule.child("mode").one_of(("score", "block"))


def check_json_word(root: Node, where: str, setting: str, subject: str) -> None:
    """JSON without a schema has to be asked for in words as well."""
    if "json" not in str(root.value.get(where)).lower():
        target = root.get(where) or root
        target.fail_plainly(
            f"{subject} must contain the word 'json' in some form, to use '{setting}' of type "
            "'json_object'."
        )
