"""The model list in each vendor's shape."""

from collections.abc import Iterable, Mapping

from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.rendering.answer import EPOCH
from dragoman.lab.simulator.view import JsonObject

_CREATED_AT = "2026-01-01T00:00:00Z"
_OWNER = "dragoman"


def openai_model(name: str) -> JsonObject:
    return {"id": name, "object": "model", "created": EPOCH, "owned_by": _OWNER}


def anthropic_model(name: str) -> JsonObject:
    return {
        "id": name,
        "type": "model",
        "display_name": f"Simulated {name}",
        "created_at": _CREATED_AT,
        "lifecycle": "active",
        "max_input_tokens": 1_000_000,
        "max_tokens": 128_000,
    }


def openai_list(names: Iterable[str]) -> JsonObject:
    """``GET /v1/models`` of OpenAI: all models at once."""
    return {"object": "list", "data": [openai_model(name) for name in names]}


def inference_profiles(names: Iterable[str]) -> JsonObject:
    """``ListInferenceProfiles`` of Amazon Bedrock, with one of another vendor."""
    summaries = [
        {
            "inferenceProfileId": name,
            "inferenceProfileName": f"Simulated {name}",
            "inferenceProfileArn": f"arn:aws:bedrock:us-east-1:1:inference-profile/{name}",
            "models": [],
            "status": "ACTIVE",
            "type": "SYSTEM_DEFINED",
        }
        for name in (*(f"us.anthropic.{name}" for name in names), "us.amazon.nova-pro-v1:0")
    ]
    return {"inferenceProfileSummaries": summaries}


def google_model(name: str) -> JsonObject:
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": f"Simulated {name}",
        "description": "A simulated model.",
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "temperature": 1,
        "maxTemperature": 2,
        "topP": 0.95,
        "topK": 64,
        "thinking": True,
    }


def google_list(names: Iterable[str], query: Mapping[str, str]) -> JsonObject:
    """``GET /v1beta/models`` of Google: a page, by ``pageSize`` and ``pageToken``.

    Raises:
        ApiError: 400 for a size that is no number, or a token that is of no page.
    """
    everything = list(names)
    size, token = query.get("pageSize", "50"), query.get("pageToken", "0")
    if not size.isdecimal() or not token.isdecimal() or int(token) > len(everything):
        raise ApiError(400, "The page size or the page token is invalid.")
    start = int(token)
    end = start + min(int(size) or 50, 1000)
    page: JsonObject = {"models": [google_model(name) for name in everything[start:end]]}
    return {**page, "nextPageToken": str(end)} if end < len(everything) else page


def anthropic_list(names: Iterable[str], query: Mapping[str, str]) -> JsonObject:
    """``GET /v1/models`` of Anthropic: a page, by ``limit``, ``after_id`` and ``before_id``.

    Raises:
        ApiError: 400 for a limit outside 1..1000 or an unknown id.
    """
    everything = list(names)
    limit = query.get("limit", "20")
    if not limit.isdecimal() or not 1 <= int(limit) <= 1000:
        raise ApiError(400, "limit: Input should be between 1 and 1000")
    page = everything
    for name in ("after_id", "before_id"):
        if (wanted := query.get(name)) is None:
            continue
        if wanted not in page:
            raise ApiError(400, f"{name}: no such model")
        at = page.index(wanted)
        page = page[at + 1 :] if name == "after_id" else page[:at]
    size = int(limit)
    shown = page[-size:] if "before_id" in query else page[:size]
    return {
        "data": [anthropic_model(name) for name in shown],
        "has_more": len(page) > len(shown),
        "first_id": shown[0] if shown else None,
        "last_id": shown[-1] if shown else None,
    }
