"""What is known of a model: its limits, what it takes and gives, its parameters. It is read from
the entry in an upstream's list, of any vendor, and written with the members that clients look for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.options import Capabilities
from dragoman.protocols.fields import JsonObject

T = TypeVar("T")

_WINDOWS: Final = ("context_length", "max_model_len", "max_context_length", "max_input_tokens")
"""Names of the context window in lists of OpenRouter, vLLM, LM Studio and Anthropic; llama.cpp has
it as `meta.n_ctx`."""
_OUTPUTS: Final = ("max_output_tokens", "max_completion_tokens", "max_tokens")
_OF_SAMPLING: Final = ("temperature", "top_p")
_OF_SCHEMAS: Final = ("structured_outputs",)
_MODES: Final[Mapping[str, str]] = {
    "image": "image_generation",
    "speech": "audio_speech",
    "transcribe": "audio_transcription",
}
"""LiteLLM's words for types of models, where they are others than Together's."""
_RATES: Final[Mapping[str, str]] = {
    "prompt": "input_cost_per_token",
    "completion": "output_cost_per_token",
    "input_cache_read": "cache_read_input_token_cost",
}
"""LiteLLM's words for OpenRouter's prices."""


class ModelFacts(Struct, frozen=True):
    """What is known of a model, each None where it is not: tokens of its context window and of an
    answer, modalities that it takes and gives, the parameters of Chat that it takes, and of what
    type it is (`chat`, `embedding`, ...)."""

    context_window: int | None = None
    max_output: int | None = None
    inputs: tuple[str, ...] | None = None
    outputs: tuple[str, ...] | None = None
    parameters: tuple[str, ...] | None = None
    kind: str | None = None

    def least(self, other: ModelFacts) -> ModelFacts:
        """What is known of a model that either of two upstreams may serve."""
        same = self.kind == other.kind or other.kind is None
        return ModelFacts(
            _lower(self.context_window, other.context_window),
            _lower(self.max_output, other.max_output),
            _common(self.inputs, other.inputs),
            _common(self.outputs, other.outputs),
            _common(self.parameters, other.parameters),
            self.kind if same else other.kind if self.kind is None else None,
        )

    def within(self, capabilities: Capabilities) -> ModelFacts:
        """The same where an upstream can do no more than its configuration says."""
        facts = replace(
            self,
            context_window=_lower(self.context_window, capabilities.context_window),
            max_output=_lower(self.max_output, capabilities.max_output_tokens),
        )
        if not capabilities.images:
            inputs = tuple(one for one in self.inputs or ("text",) if one != "image")
            facts = replace(facts, inputs=inputs, outputs=self.outputs or ("text",))
        if facts.parameters is not None:
            refused = {
                *capabilities.omit_fields,
                *(() if capabilities.sampling else _OF_SAMPLING),
                *(() if capabilities.structured_output else _OF_SCHEMAS),
            }
            parameters = tuple(one for one in facts.parameters if one not in refused)
            facts = replace(facts, parameters=parameters)
        return facts

    def members(self) -> JsonObject:
        """The members of a list's entry by which clients of OpenRouter, vLLM, llama.cpp, LiteLLM
        and Anthropic learn of it."""
        window, output = self.context_window, self.max_output
        modalities = {"input_modalities": self.inputs, "output_modalities": self.outputs}
        return _known(
            context_length=window,
            max_model_len=window,
            max_input_tokens=window,
            max_output_tokens=output,
            max_tokens=output,
            meta=_known(n_ctx=window),
            top_provider=_known(context_length=window, max_completion_tokens=output),
            architecture=_known(**modalities),
            supported_parameters=self.parameters,
        )


def facts_in(listed: JsonObject) -> ModelFacts:
    """What an entry says, of whichever vendor."""
    architecture = _object(listed, "architecture")
    provider = _object(listed, "top_provider")
    kind = listed.get("type")
    return ModelFacts(
        window_of(listed),
        _first(listed, _OUTPUTS) or _first(provider, _OUTPUTS),
        _texts(architecture.get("input_modalities")),
        _texts(architecture.get("output_modalities")),
        _texts(listed.get("supported_parameters")),
        kind if isinstance(kind, str) and kind not in ("", "model") else None,
    )


def window_of(listed: JsonObject) -> int | None:
    """The context window of a model in a list, None if it has none."""
    return _first(listed, _WINDOWS) or _first(_object(listed, "meta"), ("n_ctx",))


def model_info(name: str, listed: JsonObject) -> JsonObject:
    """One model as LiteLLM's `/model/info` describes it."""
    facts = facts_in(listed)
    pricing = _object(listed, "pricing")
    info = _known(
        mode=None if facts.kind is None else _MODES.get(facts.kind, facts.kind),
        max_input_tokens=facts.context_window,
        max_output_tokens=facts.max_output,
        max_tokens=facts.max_output,
        supports_vision=None if facts.inputs is None else "image" in facts.inputs,
        supports_function_calling=None if facts.parameters is None else "tools" in facts.parameters,
        supported_openai_params=facts.parameters,
        **{to: _rate(pricing.get(own)) for own, to in _RATES.items()},
    )
    return {"model_name": name, "litellm_params": {"model": name}, "model_info": info}


def _lower(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _common(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if one is None or other is None:
        return one or other
    return tuple(value for value in one if value in other)


def _known(**members: T | None) -> dict[str, T]:
    """The members that are known: neither None nor an object without any."""
    return {name: value for name, value in members.items() if value is not None and value != {}}


def _first(listed: JsonObject, names: tuple[str, ...]) -> int | None:
    given = (listed.get(name) for name in names)
    return next((value for value in given if type(value) is int and value > 0), None)


def _object(listed: JsonObject, name: str) -> JsonObject:
    value: Any = listed.get(name)
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return tuple(value)
    return None


def _rate(text: Any) -> float | None:
    try:
        return float(text) if isinstance(text, str) else None
    except ValueError:
        return None
