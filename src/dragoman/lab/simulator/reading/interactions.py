"""Reading a request of the Interactions API, whose conversation has been made steps before."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from dragoman.lab.simulator.reading.conversation import (
    Conversation,
    Kind,
    Where,
    json_schema,
    media_from_bytes,
)
from dragoman.lab.simulator.reading.google import DUMMIES
from dragoman.lab.simulator.seals import open_signature
from dragoman.lab.simulator.view import JsonObject, Media, OfferedTool, View

_MODES: dict[str, Literal["auto", "none", "required"]] = {"none": "none", "any": "required"}
_HOSTED = {"google_search": "web_search", "url_context": "web_fetch", "code_execution": "code"}
_KINDS: dict[str, Kind] = {"image": "image", "audio": "audio"}


def read(request: JsonObject, organization: str) -> View:
    """The view of a validated request; its input is a list of steps."""
    seen = Conversation()
    if system := request.get("system_instruction"):
        seen.add_system_text(system)
    after_result = is_model = False
    for step in request["input"]:
        kind = step["type"]
        if kind == "user_input":
            seen.messages += 1
            _read_media(seen, step["content"], "user")
            seen.add_user_text(_text_of(step["content"]))
        elif kind == "function_result":
            _read_result(seen, step, new_round=not after_result)
        else:
            if not is_model:
                seen.add_assistant_turn()
            _read_model(seen, step, organization)
        after_result = kind == "function_result"
        is_model = kind not in ("user_input", "function_result")
    settings = request.get("generation_config") or {}
    tools = request.get("tools") or []
    mode, allowed = _choice(settings.get("tool_choice"))
    offered = tuple(
        OfferedTool(tool["name"], "function", json_schema(tool.get("parameters")))
        for tool in tools
        if tool["type"] == "function" and (not allowed or tool["name"] in allowed)
    )
    return View(
        protocol="interactions",
        model=request["model"],
        stream=bool(request.get("stream")),
        user_text=seen.user_text,
        system_text="\n\n".join(seen.system),
        tools=offered,
        hosted=tuple(
            _HOSTED.get(tool["type"], tool["type"]) for tool in tools if tool["type"] != "function"
        ),
        tool_choice=_MODES.get(mode or "", "auto") if offered else "none",
        forced=allowed[0] if len(allowed) == 1 and mode == "any" else None,
        parallel=True,
        results=tuple(seen.results),
        rounds=seen.rounds,
        turns=seen.turns,
        media=tuple(seen.media),
        schema=_schema(request.get("response_format")),
        stop_sequences=tuple(settings.get("stop_sequences") or ()),
        max_tokens=settings.get("max_output_tokens"),
        reasoning_asked=settings.get("thinking_level") not in (None, "minimal"),
        thinking=settings.get("thinking_summaries") == "auto",
        thinking_hidden=False,
        returned=tuple(seen.returned),
        logprobs=None,
        choices=1,
        include_usage=True,
        prompt_tokens=seen.prompt_tokens(tools),
        request=request,
    )


def shown_of(thought: JsonObject) -> str:
    """What of a thought step its signature is bound to."""
    return msgspec.json.encode([part.get("text") for part in thought.get("summary") or ()]).decode()


def _read_model(seen: Conversation, step: JsonObject, organization: str) -> None:
    kind = step["type"]
    if kind == "thought":
        if step["signature"] not in DUMMIES:
            opened = open_signature(shown_of(step), step["signature"], organization)
            seen.returned.append(opened or "")
    elif kind == "model_output":
        seen.add_other(_text_of(step.get("content") or ()))
    elif kind == "function_call":
        seen.add_other(step["name"] + msgspec.json.encode(step["arguments"]).decode())


def _read_result(seen: Conversation, step: JsonObject, *, new_round: bool) -> None:
    result = step["result"]
    if isinstance(result, list):
        _read_media(seen, result, "tool_result")
        text = _text_of(result)
    else:
        text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    seen.add_result(step["call_id"], text, new_round=new_round)


def _text_of(contents: Sequence[JsonObject]) -> str:
    return "".join(one["text"] for one in contents if one["type"] == "text")


def _read_media(seen: Conversation, contents: Sequence[JsonObject], where: Where) -> None:
    for one in contents:
        if one["type"] == "text":
            continue
        kind, mime_type = _KINDS.get(one["type"], "document"), one.get("mime_type")
        if (data := one.get("data")) is not None:
            standard = data.replace("-", "+").replace("_", "/")
            standard += "=" * (-len(standard) % 4)
            seen.media.append(media_from_bytes(kind, mime_type, standard, where))
        else:
            seen.media.append(Media(kind, "url", mime_type, None, None, where))


def _choice(given: Any) -> tuple[str | None, list[str]]:
    """The mode, and the functions that are allowed, none: all."""
    if isinstance(given, dict):
        allowed = given.get("allowed_tools") or {}
        return allowed.get("mode"), allowed.get("tools") or []
    return given, []


def _schema(given: Any) -> JsonObject | None:
    for one in given if isinstance(given, list) else [given] if given is not None else ():
        if one.get("type") == "text":
            if one.get("mime_type") == "application/json":
                return dict(one.get("schema") or {})
        elif one.get("type") not in ("image", "audio", "video"):
            return dict(one)
    return None
