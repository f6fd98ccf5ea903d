"""The Responses ``response`` object: what it echoes of the request, and how it ends."""

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.lab.simulator.errors import openai_error
from dragoman.lab.simulator.rendering.answer import Answer
from dragoman.lab.simulator.script import Citation, Failure, HostedSearch
from dragoman.lab.simulator.view import JsonObject

_ECHOED: JsonObject = {
    "background": False,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "store": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""Request fields that the object repeats, with the value of those that were not sent."""


def in_progress(answer: Answer) -> JsonObject:
    """The object of ``response.created`` and ``response.in_progress``."""
    request = answer.request
    echoed = {
        name: default if request.get(name) is None else request[name]
        for name, default in _ECHOED.items()
    }
    reasoning = request.get("reasoning") or {}
    text = request.get("text") or {}
    tier = request.get("service_tier") or "default"
    return {
        "id": answer.id("resp_"),
        "object": "response",
        "created_at": answer.created,
        "completed_at": None,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": answer.view.model,
        "output": [],
        "usage": None,
        **echoed,
        "reasoning": {"effort": None, "summary": None, **reasoning},
        "service_tier": "default" if tier == "auto" else tier,
        "text": {"format": {"type": "text"}, **text},
        "tools": [_echoed_tool(tool) for tool in request.get("tools") or ()],
    }


def finished(answer: Answer, output: list[JsonObject]) -> JsonObject:
    """The object of a finished answer, ``completed`` or ``incomplete``."""
    reason = {
        "length": "max_output_tokens",
        "context_window": "max_output_tokens",
        "content_filter": "content_filter",
    }.get(answer.scenario.reason())
    return {
        **in_progress(answer),
        "status": "incomplete" if reason else "completed",
        "completed_at": None if reason else answer.created + 1,
        "incomplete_details": {"reason": reason} if reason else None,
        "output": output,
        "usage": _usage(answer),
        **_tool_usage(answer),
    }


def failed(answer: Answer, failure: Failure) -> JsonObject:
    """The object of an answer that failed after it was accepted."""
    error = openai_error(failure)
    code = error["code"] or ("rate_limit_exceeded" if failure.status == 429 else "server_error")
    return {
        **in_progress(answer),
        "status": "failed",
        "error": {"code": code, "message": error["message"]},
    }


def annotation(text: str, citation: Citation) -> JsonObject:
    """A ``url_citation`` over the whole text; flat here, unlike Chat's."""
    return {
        "type": "url_citation",
        "start_index": 0,
        "end_index": len(text),
        "title": citation.title,
        "url": citation.url,
    }


def logprob(token: str, wanted: int, *, with_bytes: bool) -> JsonObject:
    """One token's probability; only the finished part carries the bytes."""

    def entry(text: str, probability: float) -> JsonObject:
        found: JsonObject = {"token": text, "logprob": probability}
        return {**found, "bytes": list(text.encode())} if with_bytes else found

    top = [entry(token, -0.125)] + [entry(f"alt{n}", -2.0 - n) for n in range(1, wanted)]
    return {**entry(token, -0.125), "top_logprobs": top[:wanted]}


def _usage(answer: Answer) -> JsonObject:
    counts = answer.counts
    return {
        "input_tokens": counts.input,
        "input_tokens_details": {
            "cached_tokens": counts.cached,
            "cache_write_tokens": counts.written,
        },
        "output_tokens": counts.output,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning},
        "total_tokens": counts.input + counts.output,
    }


def _tool_usage(answer: Answer) -> JsonObject:
    """``tool_usage`` of an answer that searched; the service may leave it out."""
    searches = sum(isinstance(step, HostedSearch) for step in answer.scenario.steps)
    if not searches:
        return {}
    images = {
        "input_tokens": 0,
        "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
        "output_tokens": 0,
        "total_tokens": 0,
    }
    return {"tool_usage": {"image_gen": images, "web_search": {"num_requests": searches}}}


def _echoed_tool(tool: JsonObject) -> JsonObject:
    """A tool as the object repeats it: a function has all its keys.

    Where the client left ``strict`` open the service makes the schema strict if it can.
    """
    if tool["type"] != "function":
        return tool
    strict = tool.get("strict")
    parameters = tool.get("parameters")
    return {
        "description": None,
        **tool,
        "parameters": parameters,
        "strict": is_strict(parameters) if strict is None else strict,
    }


def is_strict(schema: Any) -> bool:
    """Whether every object of the schema is closed and requires all its properties."""
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        if schema.get("type") == "object" or properties is not None:
            required = schema.get("required") or ()
            if schema.get("additionalProperties") is not False:
                return False
            if set(properties or ()) != set(required):
                return False
        return all(is_strict(value) for value in schema.values())
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return all(is_strict(value) for value in schema)
    return True
