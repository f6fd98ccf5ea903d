"""What services demand of a request beyond its types, one function per protocol.

The rules are those the vendors' servers enforce with a 400; like the stream checkers they are
written down here a second time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.checkers.framing import JsonObject

_NAME = {limit: re.compile(rf"[A-Za-z0-9_-]{{1,{limit}}}") for limit in (64, 128)}
_ID = re.compile(r"[A-Za-z0-9_-]+")
_STATE = ("none", "auto")


def check_chat_request(body: JsonObject) -> None:
    """Calls are answered at once and in order, nothing else is; parts where they may stand."""
    open_calls: list[str] = []
    for message in body["messages"]:
        role = message["role"]
        if role == "tool":
            assert message["tool_call_id"] in open_calls, "a result follows its call"
            open_calls.remove(message["tool_call_id"])
            _check_texts(message["content"])
            continue
        assert not open_calls, "calls are answered before anything else is said"
        if role == "assistant":
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
            assert len(set(open_calls)) == len(open_calls), "two calls share an id"
            spoken = message.get("content") or message.get("refusal") or open_calls
            assert spoken or message.get("content") == "", "an assistant message says something"
        if role != "user":
            _check_texts(message.get("content"))
        assert message.get("content") != [], "a list of parts is not empty"
    assert not open_calls, "every call is answered"
    names = [tool[tool["type"]]["name"] for tool in body.get("tools", ())]
    _check_tools(names, body, 64)
    assert len(body.get("stop") or ()) <= 4
    assert "stream_options" not in body or body["stream"] is True


def _check_texts(content: Any) -> None:
    if isinstance(content, list):
        assert {part["type"] for part in content} <= {"text", "refusal"}, "text only"


def _check_tools(names: list[str], body: JsonObject, limit: int) -> None:
    assert len(set(names)) == len(names), "two tools share a name"
    assert all(_NAME[limit].fullmatch(name) for name in names)
    choice = body.get("tool_choice")
    if choice is not None and choice not in _STATE and choice != {"type": "none"}:
        assert names, "a choice of tools needs tools"


def check_messages_request(body: JsonObject) -> None:
    """Results come first in the turn after their calls; no empty text; placement of system;
    ids are unique.
    """
    messages = body["messages"]
    assert messages, "there is at least one message"
    for number, message in enumerate(messages):
        blocks = _blocks(message)
        before = _blocks(messages[number - 1]) if number else []
        calls = [block["id"] for block in before if block["type"] == "tool_use"]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert results == calls, "the turn after calls holds their results, in order"
        kinds = [block["type"] for block in blocks[: len(results)]]
        assert kinds == ["tool_result"] * len(results), "results come first"
        for block in blocks:
            _check_block(block, message["role"])
        if message["role"] == "system":
            assert number, "system text at the beginning stands apart"
            assert messages[number - 1]["role"] == "user"
            later = messages[number + 1 : number + 2]
            assert all(after["role"] == "assistant" for after in later)
    uses = [b["id"] for m in messages for b in _blocks(m) if b["type"] == "tool_use"]
    assert len(set(uses)) == len(uses), "two calls share an id"
    last = _blocks(messages[-1])
    assert all(block["type"] != "tool_use" for block in last), "every call is answered"
    system = body.get("system")
    assert not isinstance(system, list) or all(text["text"] for text in system), "no empty text"
    names = [tool["name"] for tool in body.get("tools", ()) if "name" in tool]
    _check_tools(names, body, 128)
    _check_thinking(body)
    assert str(body).count("'cache_control': {") <= 4
    assert not {"temperature", "top_p", "top_k"} & set(body)


def _blocks(message: JsonObject) -> list[JsonObject]:
    content = message["content"]
    assert content, "a message says something"
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _check_block(block: JsonObject, role: str) -> None:
    kind = block["type"]
    if kind == "text":
        assert block["text"].strip(), "no blank text"
    if kind == "tool_use":
        assert role == "assistant"
        assert _ID.fullmatch(block["id"])
        assert _NAME[128].fullmatch(block["name"])
    if kind == "tool_result":
        assert role == "user"
        content = block.get("content")
        for inner in content if isinstance(content, list) else ():
            assert inner["type"] != "text" or inner["text"], "no empty text"
    if kind in ("image", "document"):
        assert role == "user", "models are not quoted with images"
    if kind == "thinking":
        assert role == "assistant"
        assert block["signature"], "a signature is never empty"


def _check_thinking(body: JsonObject) -> None:
    thinking = body.get("thinking")
    if thinking is None or thinking["type"] not in ("enabled", "adaptive"):
        return
    choice = body.get("tool_choice")
    assert choice is None or choice["type"] in _STATE, "no forced tool while thinking"
    if thinking["type"] == "enabled":
        assert 1024 <= thinking["budget_tokens"] < body["max_tokens"]


def check_responses_request(body: JsonObject) -> None:
    """Every call has its output and every output its call; nothing refers to a store."""
    items = body["input"] if isinstance(body["input"], list) else []
    open_calls: list[str] = []
    for item in items:
        kind = item.get("type", "message")
        if kind in ("function_call", "custom_tool_call"):
            assert item["call_id"] not in open_calls, "two open calls share an id"
            assert len(item["call_id"]) <= 64
            assert _NAME[64].fullmatch(item["name"])
            assert "id" not in item, "nothing is stored"
            open_calls.append(item["call_id"])
        elif kind in ("function_call_output", "custom_tool_call_output"):
            assert item["call_id"] in open_calls, "an output follows its call"
            open_calls.remove(item["call_id"])
            assert item["output"] != []
        elif kind == "message":
            assert item["content"] != []
            if item["role"] != "assistant":
                assert not open_calls, "calls are answered before anything else is said"
        elif kind == "reasoning":
            assert item["encrypted_content"], "without a store its state comes along"
    assert not open_calls, "every call is answered"
    assert body["store"] is False or "store" in body
    assert body.get("max_output_tokens", 16) >= 16
    # The service's own tools are known by their types.
    tools = [tool for tool in body.get("tools", ()) if tool["type"] != "namespace"]
    names = [tool.get("name", tool["type"]) for tool in tools]
    _check_tools(names, body, 64)
    for tool in tools:
        assert tool["type"] != "function" or "strict" in tool, "the default differs"


_PART = frozenset(
    {
        *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
        *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
    }
)


def check_google_request(body: JsonObject) -> None:
    """Sides take turns, the user first and last; results are in the content after their calls, in
    order; a part is one thing, and none is empty but for a signature."""
    contents = body["contents"]
    sides = [content["role"] for content in contents]
    assert sides == [("user", "model")[number % 2] for number in range(len(sides))]
    assert sides[-1] == "user"
    calls: list[JsonObject] = []
    for content in contents:
        parts = content["parts"]
        assert parts, "a content says something"
        for part in parts:
            assert len(_PART & part.keys()) == 1, "a part is one thing"
            assert part.get("text") != "" or "thoughtSignature" in part, "no text is empty"
            assert content["role"] == "model" or "thoughtSignature" not in part
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        assert [_paired(result) for result in results] == [_paired(call) for call in calls]
        assert all("functionResponse" in part for part in parts[: len(results)])
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        assert all(_NAME[64].fullmatch(call["name"]) for call in calls)
        signed = [part for part in parts if "functionCall" in part]
        assert not signed or "thoughtSignature" in signed[0], "the first call is signed"
    assert not calls, "every call is answered"
    system = body.get("systemInstruction")
    assert system is None or all(part["text"] for part in system["parts"])
    declared = [
        function
        for tool in body.get("tools", ())
        for function in tool.get("functionDeclarations", ())
    ]
    names = [function["name"] for function in declared]
    assert len(set(names)) == len(names), "two tools share a name"
    assert all(_NAME[64].fullmatch(name) for name in names)
    assert not any({"parameters", "parametersJsonSchema"} <= one.keys() for one in declared)
    calling = body.get("toolConfig", {}).get("functionCallingConfig")
    assert calling is None or names, "a choice of tools needs tools"
    if calling is not None and "allowedFunctionNames" in calling:
        assert calling["mode"] in ("ANY", "VALIDATED")
        assert set(calling["allowedFunctionNames"]) <= set(names)
    config = body.get("generationConfig", {})
    assert not {"thinkingBudget", "thinkingLevel"} <= config.get("thinkingConfig", {}).keys()
    assert len(config.get("stopSequences", ())) <= 5


def _paired(side: JsonObject) -> tuple[str, Any]:
    """What pairs a call and its result."""
    return side["name"], side.get("id")


_CONTENT = frozenset({"text", "image", "audio", "document", "video"})


def check_interactions_request(body: JsonObject) -> None:
    """The results of a turn's calls follow it, in any order and named; a signed thought stands
    before the first of the calls; nothing said is empty; nothing is stored."""
    steps = body["input"]
    assert body["store"] is False
    assert steps[-1]["type"] in ("user_input", "function_result"), "the model is to answer"
    called: dict[str, str] = {}
    waiting: set[str] = set()
    signed = False
    for step in steps:
        kind = step["type"]
        if kind == "function_call":
            assert "call_id" not in step
            assert isinstance(step["arguments"], dict)
            assert step["id"] not in called, "two calls share an id"
            assert signed, "a call has a signature"
            assert _NAME[128].fullmatch(step["name"])
            called[step["id"]] = step["name"]
            waiting.add(step["id"])
        elif kind == "function_result":
            assert "id" not in step
            assert step["call_id"] in waiting, "a result follows its call"
            waiting.remove(step["call_id"])
            assert step["name"] == called[step["call_id"]]
            assert step["result"] != []
        elif kind == "user_input":
            assert not waiting, "calls are answered before the user speaks"
        elif kind == "thought":
            assert step["signature"], "a signature is never empty"
        signed = kind == "thought" or (signed and kind not in ("user_input", "function_result"))
        if kind in ("user_input", "model_output"):
            assert step["content"], "a step says something"
            assert {part["type"] for part in step["content"]} <= _CONTENT
            assert all(part.get("text", "x") for part in step["content"]), "no text is empty"
    assert not waiting, "every call is answered"
    assert body.get("system_instruction") != ""
    names = [tool["name"] for tool in body.get("tools", ()) if tool["type"] == "function"]
    assert len(set(names)) == len(names), "two tools share a name"
    assert all(_NAME[128].fullmatch(name) for name in names)
    choice = body.get("generation_config", {}).get("tool_choice")
    if isinstance(choice, dict):
        assert set(choice["allowed_tools"]["tools"]) <= set(names)
    assert choice in (None, "none") or names, "a choice of tools needs tools"


REQUEST_CHECKERS: dict[str, Callable[[JsonObject], None]] = {
    "openai_chat": check_chat_request,
    "anthropic_messages": check_messages_request,
    "openai_responses": check_responses_request,
    "google_generate_content": check_google_request,
    "google_interactions": check_interactions_request,
}
"""The checker of every protocol, by the protocol's name."""
