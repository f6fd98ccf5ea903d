"""What Anthropic's Messages endpoint refuses.

Fields: ``types/message_create_params.py`` and its neighbours in the anthropic package. Rules that
the types do not state (placement of tool results and system messages, empty text, signatures)
are the service's own.
"""

from collections.abc import Iterator, Mapping

from dragoman.simulator.errors import ApiError
from dragoman.simulator.validation.messages_blocks import (
    Exchange,
    check_cache_control,
    check_system_blocks,
)
from dragoman.simulator.validation.messages_tools import check_tools
from dragoman.simulator.validation.nodes import ANTHROPIC, Node
from dragoman.simulator.validation.schemas import check_structured
from dragoman.simulator.view import JsonObject

NEW_VERSION = "2026-10-21"
VERSIONS = ("2023-06-01", NEW_VERSION)

_FIELDS = frozenset(
    {
        "cache_control",
        "container",
        "diagnostics",
        "inference_geo",
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "output_config",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "thinking",
        "tool_choice",
        "tools",
    }
)
_SAMPLING = ("temperature", "top_p", "top_k")
_NOT_COUNTED = frozenset(
    {
        "max_tokens",
        "stream",
        "stop_sequences",
        "metadata",
        "service_tier",
        "container",
        "inference_geo",
        "diagnostics",
    }
)
_BETA_FIELDS: dict[str, str] = {
    "context_management": "context-management-",
    "mcp_servers": "mcp-client-",
    "fallbacks": "",
    "fallback_credit_token": "",
    "compaction": "",
    "billing_policy": "",
    "output_format": "structured-outputs-",
    "safeguards": "",
}
"""Body fields that need a beta, and how the beta's name begins."""

_MAX_CACHE_MARKS = 4
_MAX_MESSAGES = 100_000
_THINKING = ("thinking", "redacted_thinking")


def check_messages(
    request: JsonObject, headers: Mapping[str, str], organization: str, *, counting: bool = False
) -> None:
    """Check a Messages request, or with ``counting`` one of ``count_tokens``.

    ``headers`` have lower-case names; ``organization`` owns the thinking signatures.

    Raises:
        ApiError: 400, naming the first field at fault.
    """
    version = headers.get("anthropic-version")
    if version is None:
        raise ApiError(400, "anthropic-version: header is required")
    if version not in VERSIONS:
        raise ApiError(400, f"anthropic-version: '{version[:50]}' is not a valid version")
    betas = [beta.strip() for beta in headers.get("anthropic-beta", "").split(",") if beta.strip()]
    root = Node(request, ANTHROPIC)
    root.object(required=("model", "messages") if counting else ("model", "max_tokens", "messages"))
    _check_known_fields(root, version, betas, counting)
    root.child("model").string(least=1)
    if node := root.get("max_tokens"):
        node.integer(0)
    _check_options(root, betas)
    _check_thinking(root)
    names = check_tools(root)
    if system := root.get("system"):
        check_system_blocks(system, betas)
    _check_turns(root.child("messages"), Exchange(version, organization, betas, names))
    _check_ends(root)
    _check_cache_marks(root)


def _check_known_fields(root: Node, version: str, betas: list[str], counting: bool) -> None:
    if root.get("thread"):
        raise ApiError(
            400,
            "thread: server-held conversations are not supported here",
            details_code="thread_unsupported_request",
            param="thread",
        )
    for name in root.value:
        if name in _SAMPLING and version != NEW_VERSION:
            known = True
        elif name in _SAMPLING:
            root.child(name).fail_plainly(
                f"{name}: this parameter was removed in API version {NEW_VERSION}"
            )
        elif name in _BETA_FIELDS:
            known = any(beta.startswith(_BETA_FIELDS[name]) for beta in betas)
        else:
            known = name in _FIELDS and not (counting and name in _NOT_COUNTED)
        if not known:
            root.child(name).fail_plainly(f"{name}: Extra inputs are not permitted")


def _check_options(root: Node, betas: list[str]) -> None:
    if node := root.get("stream"):
        node.boolean()
    if node := root.get("temperature"):
        node.number(0, 1)
    if node := root.get("top_p"):
        node.number(0, 1)
    if node := root.get("top_k"):
        node.integer(0)
    if node := root.get("stop_sequences"):
        for sequence in node.items():
            if not sequence.string().strip():
                sequence.fail("each stop sequence must contain non-whitespace")
    if node := root.get("metadata"):
        node.object(allowed=("user_id",))
        if user := node.get("user_id"):
            user.string(most=512)
    if node := root.get("service_tier"):
        node.one_of(("auto", "standard_only"))
    if node := root.get("speed"):
        node.one_of(("standard", "fast"))
    if node := root.get("inference_geo"):
        node.string()
    if node := root.get("cache_control"):
        check_cache_control(node)
    if node := root.get("container"):
        _check_container(node)
    if node := root.get("diagnostics"):
        node.object(allowed=("previous_message_id",))
    if node := root.get("output_config"):
        node.object(allowed=("effort", "format", "task_budget") if betas else ("effort", "format"))
        if effort := node.get("effort"):
            effort.one_of(("low", "medium", "high", "xhigh", "max"))
        if output_format := node.get("format"):
            _check_format(output_format)
    if node := root.get("output_format"):
        _check_format(node)
    if node := root.get("context_management"):
        node.object(allowed=("edits",))


def _check_container(node: Node) -> None:
    if isinstance(node.value, str):
        return
    node.object(allowed=("id", "skills"))
    if skills := node.get("skills"):
        for skill in skills.items():
            skill.object(allowed=("version",), required=("type", "skill_id"))


def _check_format(node: Node) -> None:
    node.tag(("json_schema",))
    node.object(allowed=(), required=("type", "schema"))
    check_structured(node.child("schema"))


def _check_thinking(root: Node) -> None:
    thinking = root.get("thinking")
    if thinking is None:
        return
    kind = thinking.tag(("adaptive", "enabled", "disabled", "between_tools"))
    thinking = thinking.tagged(kind)
    if kind == "enabled":
        thinking.object(allowed=("type", "display", "block_binding"), required=("budget_tokens",))
        budget = thinking.child("budget_tokens")
        budget.integer(1024)
        limit = root.value.get("max_tokens")
        if limit is not None and budget.value >= limit:
            root.child("max_tokens").fail_plainly(
                "`max_tokens` must be greater than `thinking.budget_tokens`."
            )
    elif kind == "adaptive":
        thinking.object(allowed=("type", "display", "block_binding"))
    else:
        thinking.object(allowed=("type",))
    if display := thinking.get("display"):
        display.one_of(("summarized", "omitted", "updates"))
    if kind in ("enabled", "adaptive"):
        choice = root.value.get("tool_choice")
        if isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
            thinking.fail_plainly("Thinking may not be enabled when tool_choice forces tool use.")
        if root.value.get("temperature") not in (None, 1):
            root.child("temperature").fail_plainly(
                "`temperature` may only be set to 1 when thinking is enabled."
            )
        if root.get("top_k"):
            root.child("top_k").fail_plainly("`top_k` must be unset when thinking is enabled.")
        if not 0.95 <= (root.value.get("top_p") or 1) <= 1:
            root.child("top_p").fail_plainly(
                "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled."
            )


def _check_turns(messages: Node, exchange: Exchange) -> None:
    """Roles, their order, and that calls and results meet.

    Neighbouring turns of one role are one turn for the service, so the pairing is checked on the
    merged turns.
    """
    turns = list(messages.items(most=_MAX_MESSAGES))
    if not turns:
        messages.fail("at least one message is required")
    betas = exchange.betas
    previous = ""
    for index, turn in enumerate(turns):
        turn.object(required=("role", "content"))
        role = turn.child("role").one_of(("user", "assistant", "system"))
        allowed = ("clear_at", "output_config") if role == "system" and betas else ()
        turn.object(allowed=allowed, required=("role", "content"))
        following = turns[index + 1].value if index + 1 < len(turns) else None
        next_role = following.get("role") if isinstance(following, dict) else None
        content = turn.child("content")
        if index == 0 and role != "user":
            turn.fail_plainly('messages: first message must use the "user" role')
        _check_text_content(content, role, is_last=following is None)
        if role == "system":
            _check_system_turn(turn, previous, next_role)
            check_system_blocks(content, betas)
            continue
        if role == "user":
            exchange.check_user(content)
            if exchange.open_calls and next_role != "user":
                _complain_of_open_calls(turn, exchange.open_calls)
        else:
            if exchange.open_calls and previous != "assistant":
                _complain_of_open_calls(turn, exchange.open_calls)
            exchange.check_assistant(content)
            if next_role != "assistant":
                _check_last_block(turn)
        previous = role
    if exchange.open_calls:
        _complain_of_open_calls(turns[-1], exchange.open_calls)


def _check_text_content(content: Node, role: str, *, is_last: bool) -> None:
    if isinstance(content.value, str):
        optional = role == "assistant" and is_last
        if not content.value and not optional:
            content.fail_plainly(
                f"{content.name}: all messages must have non-empty content except for the "
                "optional final assistant message"
            )
        if not content.value.strip() and not optional:
            content.fail("text content blocks must contain non-whitespace text")
    elif isinstance(content.value, list) and not content.value:
        content.fail(f"{role} messages must have non-empty content")


def _check_last_block(turn: Node) -> None:
    blocks = turn.value["content"]
    if isinstance(blocks, list) and blocks[-1]["type"] in _THINKING:
        turn.fail(f"The final block in an assistant message cannot be `{blocks[-1]['type']}`.")


def _check_system_turn(turn: Node, previous: str, next_role: object) -> None:
    if previous != "user" or next_role not in (None, "assistant"):
        turn.fail_plainly(
            f"{turn.name}: a message with role 'system' must directly follow a user turn and be "
            "last or precede an assistant turn"
        )


def _complain_of_open_calls(turn: Node, open_calls: set[str]) -> None:
    turn.fail_plainly(
        f"{turn.name}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(sorted(open_calls))}. Each `tool_use` block must have a corresponding "
        "`tool_result` block in the next message."
    )


def _check_ends(root: Node) -> None:
    """What a prefill excludes, and how the turns of a tool loop begin."""
    kind = (root.value.get("thinking") or {}).get("type")
    turns = list(root.child("messages").items())
    last = turns[-1]
    if last.value["role"] == "assistant":
        _check_prefill(root, last, thinks=kind in ("enabled", "adaptive"))
    if kind == "enabled":
        _check_manual_thinking(turns)


def _check_prefill(root: Node, last: Node, *, thinks: bool) -> None:
    """The rules of a final assistant message, which the answer continues."""
    if thinks:
        last.fail_plainly(
            "This model does not support assistant message prefill. The conversation must end "
            "with a user message."
        )
    output = root.value.get("output_config") or {}
    if output.get("format") or root.value.get("output_format"):
        last.fail_plainly("Prefilling assistant messages is not supported with structured outputs.")
    content = last.value["content"]
    text = content if isinstance(content, str) else content[-1].get("text", "")
    if text != text.rstrip():
        last.fail_plainly("messages: final assistant content cannot end with trailing whitespace")


def _check_manual_thinking(turns: list[Node]) -> None:
    """With manual thinking, the assistant turn of a tool loop starts with its thinking."""
    for turn in reversed(turns[:-1]):
        if turn.value["role"] != "assistant":
            continue
        blocks = turn.value["content"]
        if isinstance(blocks, str) or not any(b["type"] == "tool_use" for b in blocks):
            return
        if blocks[0]["type"] not in _THINKING:
            turn.child("content").fail_plainly(
                f"{turn.name}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
                f"found `{blocks[0]['type']}`. When `thinking` is enabled, a final `assistant` "
                "message must start with a thinking block."
            )
        return


def _check_cache_marks(root: Node) -> None:
    """How many blocks ask to be cached, and that longer lifetimes come first."""
    marks = [
        mark for name in ("tools", "system", "messages") for mark in _marks(root.value.get(name))
    ]
    found = len(marks) + (root.value.get("cache_control") is not None)
    if found > _MAX_CACHE_MARKS:
        root.fail_plainly(
            f"A maximum of {_MAX_CACHE_MARKS} blocks with cache_control may be provided. "
            f"Found {found}."
        )
    lifetimes = [mark.get("ttl") or "5m" for mark in marks]
    if lifetimes != sorted(lifetimes):
        root.fail_plainly(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
            "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        )


def _marks(value: object) -> Iterator[JsonObject]:
    """Markers on tools and blocks; only ``content`` nests blocks, schemas are not looked into."""
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, dict):
            yield from _marks(entry.get("content"))
            if entry.get("cache_control") is not None:
                yield entry["cache_control"]
