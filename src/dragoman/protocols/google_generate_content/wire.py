"""Names and words of Google's generateContent."""

from __future__ import annotations

from typing import Final

NAME: Final = "google_generate_content"
VENDOR: Final = "google"

NAME_LIMIT: Final = 64
"""Longest tool name; the newest servers take 128 characters."""
MAX_STOPS: Final = 5

GENERATE: Final = "generateContent"
STREAM: Final = "streamGenerateContent"
COUNT: Final = "countTokens"

DUMMIES: Final = frozenset(
    {"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}
)
"""What the service takes in place of a signature, where there is none."""
DUMMY: Final = "skip_thought_signature_validator"

SEARCH: Final = "googleSearch"
HOSTED_TOOLS: Final = (
    SEARCH,
    "googleSearchRetrieval",
    "urlContext",
    "codeExecution",
    "googleMaps",
    "fileSearch",
    "computerUse",
    "mcpServers",
    "retrieval",
    "enterpriseWebSearch",
    "parallelAiSearch",
    "exaAiSearch",
)
"""Members of a tool that the vendor runs."""

SEARCHES: Final = (
    SEARCH,
    "googleSearchRetrieval",
    "enterpriseWebSearch",
    "parallelAiSearch",
    "exaAiSearch",
)
"""Those that search the web."""

HOSTED_PARTS: Final = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")
"""Members of a part that shows the work of a tool of the vendor's."""

AUDIO_FORMATS: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
}
"""Media types of recordings that other vendors take as well, with the canonical formats."""

AUDIO_TYPES: Final = {"wav": "audio/wav", "mp3": "audio/mpeg"}
"""The media types of the canonical formats."""

SERVICE_TIERS: Final = {"flex": "flex", "standard": "default", "priority": "priority"}
"""Names of service tiers, with those of the OpenAI protocols."""

STANDARD: Final = str.maketrans("-_", "+/")
"""From the URL-safe alphabet of base64, which SDKs send, to the standard one."""

FILTERS: Final = frozenset(
    {
        "SAFETY",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "RECITATION",
        "LANGUAGE",
        "MODEL_ARMOR",
        "ESCALATION",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    }
)
"""Finish reasons of a filter."""

BLOCKS: Final = frozenset(
    {
        "SAFETY",
        "OTHER",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "IMAGE_SAFETY",
        "MODEL_ARMOR",
        "JAILBREAK",
    }
)
"""Reasons for which a prompt is blocked."""
