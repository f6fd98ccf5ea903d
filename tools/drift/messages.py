"""What is known of a Messages upstream's answers."""

from __future__ import annotations

from msgspec import Struct

from dragoman.protocols.anthropic_messages import errors, finish, shapes, usage, wire
from dragoman.protocols.reading import members_of
from tools.drift.found import Kind
from tools.drift.known import WHOLE, Known, Object, Tagged, Vocabulary, named

_REPORTED = frozenset({"container", "context_management", "diagnostics", "input_transformations"})
"""Fields of beta answers about server-side features, which no other protocol has: reported."""

_CITATIONS = Tagged(
    {
        "web_search_result_location": Object(
            # The index is for the vendor; the others cannot be told of a page (reported).
            wire.CITATION_FIELDS | {"encrypted_index"}
        ),
        "search_result_location": Object(
            wire.CITATION_FIELDS | {"search_result_index", "start_block_index", "end_block_index"}
        ),
        # Places in documents are carried whole, for clients of this protocol.
        "char_location": WHOLE,
        "page_location": WHOLE,
        "content_block_location": WHOLE,
    }
)
_STOP_DETAILS = Tagged(
    {
        "refusal": Object(
            members_of(shapes.StopDetails)
            # What to do about it, for the vendor's own clients: reported.
            | {"fallback_credit_token", "fallback_has_prefill_claim", "recommended_model"},
            {"category": Vocabulary(wire.REFUSAL_CATEGORIES)},
        )
    }
)
_STOP_REASONS = Vocabulary(
    # A compaction is an answer of its own, and an error for clients that asked for none.
    frozenset(finish._REASONS) | {"compaction"}
)
_USAGE = Object(
    wire.USAGE_FIELDS,
    {
        "output_tokens_details": named({"thinking_tokens"}),
        "service_tier": Vocabulary(frozenset(usage.TIERS) | {"batch"}),
        "speed": Vocabulary(frozenset({"standard", "fast"})),
    },
)


def _tag(shape: type[Struct]) -> str:
    return str(shape.__struct_config__.tag)


_BLOCKS = Tagged(
    {
        **dict.fromkeys(wire.FOREIGN_BLOCKS, WHOLE),
        "text": Object(members_of(shapes.AnswerText), {"citations": _CITATIONS}),
        "thinking": Object(members_of(shapes.AnswerThinking)),
        "redacted_thinking": Object(members_of(shapes.AnswerRedacted)),
        # A direct caller is the model itself; others, and toolsets, are reported.
        "tool_use": Object(members_of(shapes.AnswerCall) | {"toolset_name"}),
    }
)

ANSWER = Object(
    members_of(shapes.Answer) | _REPORTED,
    {
        "content": _BLOCKS,
        "stop_reason": _STOP_REASONS,
        "stop_details": _STOP_DETAILS,
        "usage": _USAGE,
    },
)

_DELTAS = Tagged(
    {
        **{
            _tag(piece): Object(members_of(piece))
            for piece in (
                shapes.TextDelta,
                shapes.ThinkingDelta,
                shapes.InputDelta,
                shapes.SignatureDelta,
            )
        },
        "citations_delta": named({"type"}, citation=_CITATIONS),
        # Belongs to a block that is skipped as a whole.
        "compaction_delta": WHOLE,
    }
)
_EVENTS: dict[str, Known] = {
    "message_start": named({"type"}, message=ANSWER),
    "content_block_start": named({"type", "index"}, content_block=_BLOCKS),
    "content_block_delta": Object(members_of(shapes.BlockDelta), {"delta": _DELTAS}),
    "content_block_stop": named({"type", "index"}),
    "message_delta": Object(
        members_of(shapes.MessageDelta) | _REPORTED,
        {
            "delta": Object(
                members_of(shapes.Stop) | _REPORTED,
                {"stop_reason": _STOP_REASONS, "stop_details": _STOP_DETAILS},
            ),
            "usage": _USAGE,
        },
    ),
    "message_stop": named({"type"}),
}

STREAM = Tagged(_EVENTS | {"ping": WHOLE, "error": WHOLE}, kind=Kind.EVENT)

_ERROR_TYPES = frozenset(word for _, word in errors._SHOWN.values())
ERROR_TYPES = Vocabulary(
    # Those of the memory store are answers of another service.
    _ERROR_TYPES | {"memory_path_conflict_error", "memory_precondition_failed_error"}
)
ERROR = Tagged(dict.fromkeys(_ERROR_TYPES, named({"type", "message", "details"})))
