"""What is known of the Interactions API: of a client's requests, and of an upstream's answers."""

from __future__ import annotations

from dragoman.protocols.google_interactions import (
    answer_shapes,
    shapes,
    stream_reader,
    usage,
    wire,
)
from dragoman.protocols.reading import members_of
from tools.drift.known import WHOLE, Known, Object, Tagged, Vocabulary, named

_OF_SDK = frozenset(
    {"continuation_ids", *(f"output_{kind}" for kind in ("text", "image", "audio", "video"))}
)
"""What the SDK itself adds to an answer."""

_OF_MODEL = ("model_output", "thought", "function_call")
_CONTENT = Object(members_of(answer_shapes.Content))
_STEP = Object(
    # What was retrieved and how is shown to clients of the protocol alone.
    members_of(answer_shapes.Step) | {"retrieval_type"},
    {"content": _CONTENT, "summary": _CONTENT},
)
_STEPS = Tagged(dict.fromkeys((*_OF_MODEL, *wire.USERS_STEPS, *wire.HOSTED_STEPS), _STEP))
_DELTA = Object(members_of(answer_shapes.Delta) | {"retrieval_type"}, {"content": _CONTENT})
_DELTAS = Tagged(
    dict.fromkeys((*stream_reader._OF_DELTA, *wire.HOSTED_STEPS, "function_result"), _DELTA)
)
_STATUS = Vocabulary(
    frozenset(
        {
            *("completed", "requires_action", "incomplete", "failed", "budget_exceeded"),
            *("cancelled", "queued", "in_progress", "requires_continuation"),
            # Of agents, which are for clients of the protocol alone.
            "idle",
        }
    )
)
_USAGE = named(
    {
        *usage._COUNTS,
        *usage.COUNTED_BY_KIND,
        *("total_cached_tokens", "grounding_tool_count"),
        # A part of the input, which is counted as a whole.
        "initial_input_tokens",
    }
)

ANSWER = Object(
    members_of(answer_shapes.Interaction) | _OF_SDK,
    {"steps": _STEPS, "status": _STATUS, "usage": _USAGE},
)
_EVENT = Object(
    members_of(answer_shapes.Event),
    {
        "interaction": Object(members_of(answer_shapes.Interaction) | _OF_SDK, {"steps": _STEPS}),
        "step": _STEPS,
        "delta": _DELTAS,
        "usage": _USAGE,
        "status": _STATUS,
        "error": WHOLE,
    },
)
_EVENTS = (
    *("InteractionCreatedEvent", "InteractionCompletedEvent", "InteractionStatusUpdate"),
    *("StepStart", "StepDelta", "StepStop", "ErrorEvent"),
)
STREAM = Tagged(dict.fromkeys(_EVENTS, _EVENT))

_ASKED: dict[str, Known] = {
    str(shape.__struct_config__.tag): Object(members_of(shape))
    for shape in (
        *(shapes.TextContent, shapes.ImageContent, shapes.AudioContent, shapes.DocumentContent),
        *(shapes.VideoContent, shapes.UserInput, shapes.ModelOutput, shapes.Thought),
        *(shapes.FunctionCall, shapes.FunctionResult),
    )
}
_TOOLS: dict[str, Known] = {
    "function": Object(members_of(shapes.Function)),
    **dict.fromkeys((*wire.HOSTED, "mcp_server", "computer_use"), WHOLE),
}
REQUEST = Object(
    members_of(shapes.Request),
    {
        "input": Tagged({**dict.fromkeys(wire.HOSTED_STEPS, WHOLE), **_ASKED}),
        "tools": Tagged(_TOOLS),
        "generation_config": Object(members_of(shapes.GenerationConfig)),
    },
)
