"""Reads a request (google/genai/types.py of google-genai)."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from dragoman import jsontext
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import (
    Extra,
    JsonObject,
    JsonSchema,
    OutputFormat,
    Request,
    Thinking,
)
from dragoman.protocols import google_wire
from dragoman.protocols.google_generate_content import shapes
from dragoman.protocols.google_generate_content.content_reader import DETAILS, ContentReader
from dragoman.protocols.google_generate_content.schema_reader import read_schema
from dragoman.protocols.google_generate_content.tools import read_choice, read_tools
from dragoman.protocols.reading import Reader, carried_object, report_lost
from dragoman.protocols.request_settings import NO_COUNTERPART

_CONFIG = "generationConfig"

_PATHS = {
    "instructions": "systemInstruction",
    "turns": "contents",
    "max_output_tokens": f"{_CONFIG}.maxOutputTokens",
    "temperature": f"{_CONFIG}.temperature",
    "top_p": f"{_CONFIG}.topP",
    "top_k": f"{_CONFIG}.topK",
    "seed": f"{_CONFIG}.seed",
    "presence_penalty": f"{_CONFIG}.presencePenalty",
    "frequency_penalty": f"{_CONFIG}.frequencyPenalty",
    "stop": f"{_CONFIG}.stopSequences",
    "logprobs": f"{_CONFIG}.responseLogprobs",
    "top_logprobs": f"{_CONFIG}.logprobs",
    "output_format": f"{_CONFIG}.responseMimeType",
    "thinking": f"{_CONFIG}.thinkingConfig",
    "service_tier": "serviceTier",
    "metadata": "labels",
}
"""The client's names of canonical fields."""

_EFFORTS = {
    "MINIMAL": "minimal",
    "LOW": "low",
    "MEDIUM": "medium",
    "HIGH": "high",
    "XHIGH": "xhigh",
}
_JSON, _ENUM = "application/json", "text/x.enum"

_REQUEST = Reader(shapes.Request)


def read_request(body: bytes, sealer: Sealer) -> Request:
    """A request in canonical form. Its model and whether it is streamed are in the path.

    Raises:
        InvalidRequest: naming the field.
    """
    extras: list[Extra] = []
    given = _REQUEST.read(body, extras)
    if not given.contents:
        problem = "is required" if given.contents is None else "must not be empty"
        raise InvalidRequest.at("contents", problem, code="missing_required_parameter")
    config = given.generation_config or shapes.GenerationConfig()
    reader = ContentReader(sealer, extras, DETAILS.get(config.media_resolution or ""))
    turns = reader.turns(given.contents)
    system = given.system_instruction
    tools = read_tools(given.tools or [], extras)
    choice = read_choice(given.tool_config, extras)
    generation = _read_generation(config, extras)
    report_lost(given, "", extras)
    return Request(
        model=given.model or "",
        turns=turns,
        instructions=() if system is None else reader.system(system),
        tools=tools,
        tool_choice=choice,
        include_usage=True,
        metadata=given.labels or None,
        service_tier=_tier(given.service_tier, extras),
        store=given.store,
        paths=_PATHS.copy(),
        extras=tuple(extras),
        **generation,
    )


def _tier(given: str | None, extras: list[Extra]) -> str | None:
    """The service tier in the words of the OpenAI protocols."""
    word = (given or "").lower()
    if word in ("", "unspecified", "service_tier_unspecified"):
        return None
    tier = google_wire.SERVICE_TIERS.get(word)
    if tier is None:
        extras.append(Extra("serviceTier", given, LossKind.KNOB, NO_COUNTERPART))
    return tier


def _read_generation(given: shapes.GenerationConfig, extras: list[Extra]) -> dict[str, Any]:
    """The fields of the canonical request that it has.

    Raises:
        InvalidRequest: naming the field.
    """
    report_lost(given, _CONFIG, extras)
    modalities = [one for one in given.response_modalities or () if one.upper() not in _TEXT]
    if modalities:
        path, detail = f"{_CONFIG}.responseModalities", "only text can be translated"
        extras.append(Extra(path, modalities, LossKind.CONTENT, detail))
    top_k = given.top_k
    return {
        "max_output_tokens": given.max_output_tokens or None,
        "temperature": given.temperature,
        "top_p": given.top_p,
        "top_k": int(top_k) if top_k else None,
        "seed": given.seed,
        "presence_penalty": given.presence_penalty,
        "frequency_penalty": given.frequency_penalty,
        "stop": given.stop_sequences or (),
        "logprobs": given.response_logprobs or False,
        "top_logprobs": given.logprobs,
        "output_format": _format(given, extras),
        "thinking": _thinking(given.thinking_config),
    }


_TEXT = ("TEXT", "MODALITY_UNSPECIFIED")


def _format(given: shapes.GenerationConfig, extras: list[Extra]) -> OutputFormat | None:
    kind = (given.response_mime_type or "").lower()
    subset = carried_object(given.response_schema, _CONFIG, "responseSchema")
    schema = carried_object(given.response_json_schema, _CONFIG, "responseJsonSchema")
    if subset is not None and schema is not None:
        problem = "cannot stand beside responseJsonSchema"
        raise InvalidRequest.at(f"{_CONFIG}.responseSchema", problem)
    asked = _decoded(schema) if subset is None else read_schema(_decoded(subset) or {})
    path = f"{_CONFIG}.responseMimeType"
    if kind in ("", "text/plain"):
        if asked is not None:
            raise InvalidRequest.at(path, f"must be {_JSON} where a schema is given")
        return None
    if kind not in (_JSON, _ENUM):
        raise InvalidRequest.at(path, f"must be text/plain, {_JSON} or {_ENUM}")
    if kind == _ENUM:
        detail = "a word of an enumeration is asked for as JSON"
        extras.append(Extra(path, kind, LossKind.CONVERTED, detail))
    return JsonObject() if asked is None else JsonSchema(schema=asked)


def _decoded(raw: Raw | None) -> dict[str, Any] | None:
    if raw is None:
        return None
    value: dict[str, Any] = jsontext.decode(raw)
    return value


def _thinking(given: shapes.ThinkingConfig | None) -> Thinking | None:
    if given is None:
        return None
    path = f"{_CONFIG}.thinkingConfig"
    level, budget = given.thinking_level, given.thinking_budget
    level = None if level is None else level.upper()
    if level == "THINKING_LEVEL_UNSPECIFIED":
        level = None
    if level is not None and level not in _EFFORTS:
        raise InvalidRequest.at(f"{path}.thinkingLevel", f"must be one of {', '.join(_EFFORTS)}")
    if level is not None and budget is not None:
        raise InvalidRequest.at(f"{path}.thinkingBudget", "cannot stand beside thinkingLevel")
    if budget is not None and budget < -1:
        raise InvalidRequest.at(f"{path}.thinkingBudget", "must be at least -1")
    shown = given.include_thoughts
    if level is None and budget is None and shown is None:
        return None
    thinking = Thinking(
        effort=None if level is None else _EFFORTS[level],
        display="summarized" if shown else "omitted",
        summary="auto" if shown else None,
    )
    if budget is None:
        return thinking
    if budget == 0:
        return Thinking(mode="disabled")
    mode = "adaptive" if budget < 0 else "enabled"
    return Thinking(
        mode=mode,  # type: ignore[arg-type]
        budget=budget if budget > 0 else None,
        display=thinking.display,
        summary=thinking.summary,
    )
