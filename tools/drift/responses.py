"""What is known of a Responses upstream's answers."""

from __future__ import annotations

from dragoman.protocols.openai_responses import errors, shapes, stream_reader, wire
from dragoman.protocols.openai_responses.client_tools import MACHINE_TOOLS
from dragoman.protocols.openai_responses.usage import FINER_COUNTS
from dragoman.protocols.reading import members_of
from tools.drift.found import Kind
from tools.drift.known import WHOLE, Known, Object, Tagged, Vocabulary, named

_ANNOTATIONS = Tagged(
    {
        "url_citation": named({"type", "url", "title", "start_index", "end_index"}),
        # Places in files are carried whole, for clients of this protocol.
        "file_citation": WHOLE,
        "container_file_citation": WHOLE,
        "file_path": WHOLE,
    }
)
_PARTS = Tagged(
    {
        "output_text": named({"type", "text", "logprobs"}, annotations=_ANNOTATIONS),
        "refusal": named({"type", "refusal"}),
        "reasoning_text": named({"type", "text"}),
        "summary_text": named({"type", "text"}),
    }
)
_STATUSES = Vocabulary(
    frozenset({"completed", "failed", "in_progress", "cancelled", "queued", "incomplete"})
)
_PHASES = Vocabulary(frozenset({"commentary", "final_answer"}))


def _item(kind: str, names: frozenset[str]) -> Known:
    if kind == "message":
        return Object(names, {"content": _PARTS, "status": _STATUSES, "phase": _PHASES})
    if kind == "reasoning":
        return Object(names, {"summary": _PARTS, "content": _PARTS, "status": _STATUSES})
    # Asynchronous calls and callers other than the model are reported.
    return Object(names | {"async", "caller"}, {"status": _STATUSES})


_ITEMS = Tagged(
    {
        **dict.fromkeys(wire.FOREIGN_ASSISTANT_ITEMS | wire.FOREIGN_USER_ITEMS, WHOLE),
        # What only a client of this protocol can do fails the answer; it is never asked for.
        **dict.fromkeys((f"{form}_call" for form in MACHINE_TOOLS), WHOLE),
        **dict.fromkeys((f"{form}_call_output" for form in MACHINE_TOOLS), WHOLE),
        # Items of a conversation's other side, repeated by the service: reported.
        "function_call_output": WHOLE,
        "custom_tool_call_output": WHOLE,
        "additional_tools": WHOLE,
        **{kind: _item(kind, names) for kind, names in shapes.OUTPUT_MEMBERS.items()},
    }
)
_ERROR = named(
    {"message", "param", "type", "misalignment"},
    code=Vocabulary(errors._FAILED_CODES),
)

ANSWER = Object(
    # Of the vendor's own store, programs and caches: reported where they say something.
    members_of(shapes.Response)
    | {
        "access_programs",
        "conversation",
        "input_transformations",
        "prompt_cache_diagnostics",
    },
    {
        "output": _ITEMS,
        "status": _STATUSES,
        "error": _ERROR,
        "incomplete_details": named(
            {},
            # Whatever is no filter is read as a limit; steering needs a websocket.
            reason=Vocabulary(
                frozenset({"max_output_tokens", "max_messages", "content_filter", "steered"})
            ),
        ),
        "usage": Object(
            frozenset({"input_tokens", "output_tokens", "total_tokens", *FINER_COUNTS}),
            # Finer counts of the cache are reported.
            {
                name: Object(fields | {"cache_write_tokens_details"})
                for name, fields in FINER_COUNTS.items()
            },
        ),
    },
)

# The response inside an event is of the same type as a whole answer, which is compared once.
_EVENT = Object(
    members_of(shapes.Event), {"item": _ITEMS, "part": _PARTS, "annotation": _ANNOTATIONS}
)
STREAM = Tagged(
    {
        **dict.fromkeys({*stream_reader._EVENTS, *wire.IGNORED_EVENTS}, _EVENT),
        "error": named({"type", "message", "code", "param", "sequence_number"}),
        # Audio is never asked for; these are reported as unknown.
        "response.audio.delta": WHOLE,
        "response.audio.done": WHOLE,
        "response.audio.transcript.delta": WHOLE,
        "response.audio.transcript.done": WHOLE,
    },
    prefixes=wire.HOSTED_PROGRESS,
    kind=Kind.EVENT,
)
