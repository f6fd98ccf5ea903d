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
