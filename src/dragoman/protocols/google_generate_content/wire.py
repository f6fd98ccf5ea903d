"""Names and words of Google's generateContent."""

from __future__ import annotations

from typing import Final

NAME: Final = "google_generate_content"

STREAM: Final = "streamGenerateContent"

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
