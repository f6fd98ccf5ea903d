"""Reads `generationConfig`: how the answer is made."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from dragoman import jsontext
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra, JsonObject, JsonSchema, OutputFormat, Thinking
from dragoman.protocols.google_generate_content import shapes
from dragoman.protocols.google_generate_content.schema_reader import read_schema
from dragoman.protocols.reading import carried_object, report_lost

_CONFIG = "generationConfig"

PATHS = {
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


def read_generation(given: shapes.GenerationConfig, extras: list[Extra]) -> dict[str, Any]:
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
