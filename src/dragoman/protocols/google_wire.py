"""Names and words that both of Google's protocols have."""

from __future__ import annotations

from typing import Final

VENDOR: Final = "google"
GENERATE: Final = "generateContent"
COUNT: Final = "countTokens"
NAME_LIMIT: Final = 64
"""Longest tool name; the newest servers take 128 characters."""

MAX_STOPS: Final = 5
DUMMY: Final = "skip_thought_signature_validator"
DUMMIES: Final = frozenset(
    {"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}
)
"""What the service takes in place of a signature, where there is none."""

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
