"""One whole answer of the Interactions API for every field of the steps of google-genai's types."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
from google.genai._gaos.types.interactions import StepParam, Usage

from tests.losses.answers import AnswerCase
from tests.losses.interactions import INTERACTIONS, MODEL
from tests.losses.shapes import Record, fields_of, shape_of
from tests.losses.values import FILLER, Owner
from tests.losses.walker import ABSENT, Path, Probe, walk

Json = dict[str, Any]

_OF_CLIENTS = ("user_input", "function_result")
"""Steps that no answer has."""

_USAGE = {
    "total_input_tokens": 50,
    "total_output_tokens": 5,
    "total_thought_tokens": 0,
    "total_tokens": 55,
}
_BASE: Json = {"id": "v1_filler", "object": "interaction", "model": FILLER}

EXCUSED: dict[str, str] = {
    "GroundingToolCount.*": "A counter for the vendor's invoice.",
    "ModalityTokens.*": "A split of counts that are carried.",
    "Usage.initial_input_tokens": "A part of a count that is carried.",
    "ModelOutputStepParam": "Without content it says nothing.",
    "ThoughtStepParam": "Without a summary and a signature it says nothing.",
}
"""What may vanish without a word, each with its reason."""


@cache
def interaction_answer_cases() -> tuple[AnswerCase, ...]:
    """All cases."""
    steps = (
        AnswerCase("interactions", INTERACTIONS, "", _path(probe), probe, _step)
        for probe in walk(shape_of(StepParam), Owner().field("Interaction", "steps"))
        if probe.document["type"] not in _OF_CLIENTS
    )
    counts = (
        AnswerCase(
            "interactions",
            INTERACTIONS,
            "",
            ("usage", field.name, *probe.path),
            probe,
            _usage(field.name),
        )
        for field in fields_of(Record(Usage))
        for probe in walk(field.shape, Owner().field("Usage", field.name))
    )
    return (*steps, *counts)


def _path(probe: Probe) -> Path:
    """The place of a value: losses are told by the type of the step."""
    return (probe.document["type"], *probe.path)


def _step(step: Any) -> bytes:
    steps = [] if step is ABSENT else [step]
    called = any(step["type"] == "function_call" for step in steps)
    status = "requires_action" if called else "completed"
    return msgspec.json.encode({**_BASE, "status": status, "steps": steps, "usage": _USAGE})


def _usage(name: str) -> Callable[[Any], bytes]:
    def build(value: Any) -> bytes:
        usage = {**_USAGE, **({} if value is ABSENT else {name: value})}
        return msgspec.json.encode(
            {**_BASE, "status": "completed", "steps": [MODEL], "usage": usage}
        )

    return build
