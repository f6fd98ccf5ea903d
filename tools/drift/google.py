"""What is known of a generateContent upstream's answers."""

from __future__ import annotations

from dragoman.protocols.finish_words import FAILURE_WORDS
from dragoman.protocols.google_generate_content import (
    answer_shapes,
    finish,
    usage,
    wire,
)
from dragoman.protocols.reading import members_of
from tools.drift.known import Object, Vocabulary, named

_OF_SDK = frozenset({"sdkHttpResponse", "automaticFunctionCallingHistory", "parsed"})
"""What the SDK itself adds to an answer."""

_PART = Object(
    members_of(answer_shapes.Part)
    # About media of a request: reported as unknown.
    | {"mediaProcessing", "documentMetadata", "spreadsheetMetadata", "audioMetadata"}
    # A result of the client's, which is no part of an answer: reported as unknown.
    | {"functionResponse"},
    {
        "functionCall": Object(members_of(answer_shapes.Call)),
        "inlineData": Object(members_of(answer_shapes.Blob)),
    },
)
_FINISH = Vocabulary(
    wire.FILTERS
    | finish.OF_REQUEST
    | {finish.STOPPED, finish.CONTINUED, "MAX_TOKENS"}
    # Failures of the model, which are errors.
    | {word.upper() for word in FAILURE_WORDS}
    | {"NO_IMAGE", "IMAGE_OTHER"}
)
_TRAFFIC = Vocabulary(
    # Those without a tier of their own have the usual one.
    frozenset(usage._TIERS) | {"ON_DEMAND", "ON_DEMAND_OFFPEAK", "PROVISIONED_THROUGHPUT"}
)
_GROUNDING = named(
    # What the vendor wants shown on pages, and how sure it is.
    {"searchEntryPoint", "googleMapsWidgetContextToken", "sourceFlaggingUris", "retrievalMetadata"}
    # Of its other searches, as of the web's, the sources are told.
    | {"webSearchQueries", "imageSearchQueries", "retrievalQueries"},
    groundingChunks=named({"web", "retrievedContext", "maps", "image"}),
    groundingSupports=named(
        {"groundingChunkIndices", "confidenceScores", "renderedParts"},
        segment=named({"startIndex", "endIndex", "partIndex", "text"}),
    ),
)
_CANDIDATE = Object(
    members_of(answer_shapes.Candidate),
    {
        "content": Object(members_of(answer_shapes.Content), {"parts": _PART}),
        "finishReason": _FINISH,
        "groundingMetadata": _GROUNDING,
    },
)

ANSWER = Object(
    members_of(answer_shapes.Answer) | _OF_SDK,
    {
        "candidates": _CANDIDATE,
        "promptFeedback": Object(
            members_of(answer_shapes.Feedback), {"blockReason": Vocabulary(wire.BLOCKS)}
        ),
        "usageMetadata": named(
            usage.COUNTS | {"cachedContentTokenCount", *usage.COUNTED_BY_KIND},
            trafficType=_TRAFFIC,
        ),
    },
)
