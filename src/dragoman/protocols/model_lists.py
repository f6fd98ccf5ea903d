"""The list of models that both vendors' SDKs read (types/model.py of openai, types/model_info.py of
anthropic): one form for their three protocols."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec.structs import replace

from dragoman import jsontext
from dragoman.canonical.errors import Fault, FaultKind, InvalidRequest
from dragoman.protocols.base import ModelList
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.model_facts import facts_in

PATH = "/models"

_CARRIED = (
    "description",
    "pricing",
    "capabilities",
    "lifecycle",
    "line",
    "shutdown_date",
    "deprecated_at",
    "retires_at",
)
"""Further members of an upstream's entry for a model that SDKs read."""


def write_model(name: str, owner: str, listed: JsonObject) -> JsonObject:
    """One model in a form that satisfies both vendors' SDKs; `listed` is the upstream's own."""
    created, created_at = _created(listed)
    display = listed.get("display_name")
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "created": created,
        "created_at": created_at,
        "owned_by": owner,
        "display_name": display if isinstance(display, str) else name,
        "lifecycle": "active",
        **{key: listed[key] for key in _CARRIED if listed.get(key) is not None},
        **facts_in(listed).members(),
    }


def write_typed_model(name: str, owner: str, listed: JsonObject) -> JsonObject:
    """The same for clients of OpenAI's protocols, which may look for what type of model it is;
    Anthropic's expect the type `model` of each."""
    model, kind = write_model(name, owner, listed), facts_in(listed).kind
    return model if kind is None else {**model, "type": kind}


def _created(listed: JsonObject) -> tuple[int, str]:
    """The creation time of a model, in Unix seconds and as text; the epoch if it is not given."""
    try:
        if type(listed.get("created")) is int:
            moment = datetime.fromtimestamp(listed["created"], UTC)
        else:
            moment = datetime.fromisoformat(listed["created_at"]).astimezone(UTC)
        seconds = int(moment.timestamp())
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        seconds = 0
    if seconds <= 0:
        moment, seconds = datetime.fromtimestamp(0, UTC), 0
    return seconds, moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def read_list(body: bytes) -> list[JsonObject]:
    """The models in an upstream's answer, those with a usable id. Together's is the list itself.

    Raises:
        ValueError: it is not a list of models.
    """
    value = jsontext.decode(body)
    entries = value.get("data") if isinstance(value, dict) else value
    if not isinstance(entries, list):
        raise ValueError("not a list of models")
    return [
        entry
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]
    ]


def read_profiles(body: bytes) -> list[JsonObject]:
    """The inference profiles in an answer of Bedrock's ListInferenceProfiles that have models of
    Anthropic, each as an entry of a list of models.

    Raises:
        ValueError: it is not a list of profiles.
    """
    value = jsontext.decode(body)
    entries = value.get("inferenceProfileSummaries") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        raise ValueError("not a list of inference profiles")
    return [
        {"id": name, "display_name": entry.get("inferenceProfileName")}
        for entry in entries
        if isinstance(entry, dict)
        and isinstance(name := entry.get("inferenceProfileId"), str)
        and "anthropic." in name
    ]


def write_list(models: list[JsonObject], wanted: Mapping[str, str]) -> JsonObject:
    """The part of the list that a query asks for: `limit`, `after_id`, `before_id` as Anthropic
    pages; all of it when it asks for nothing, as OpenAI lists.

    Raises:
        InvalidRequest: for an invalid limit or an unknown id.
    """
    ids = [model["id"] for model in models]
    start, end, more = 0, len(models), False
    if "after_id" in wanted:
        start = _index(ids, "after_id", wanted["after_id"]) + 1
    if "before_id" in wanted:
        end = _index(ids, "before_id", wanted["before_id"])
    if "limit" in wanted:
        limit = _limit(wanted["limit"])
        more = end - start > limit
        if "before_id" in wanted and "after_id" not in wanted:
            start = max(start, end - limit)
        else:
            end = min(end, start + limit)
    data = models[start:end]
    return {
        "object": "list",
        "data": data,
        "has_more": more,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
    }


def _index(ids: list[str], param: str, value: str) -> int:
    try:
        return ids.index(value)
    except ValueError:
        raise _bad(param, "no such model in the list") from None


def _limit(value: str) -> int:
    if not (value.isdecimal() and 1 <= int(value) <= 1000):
        raise _bad("limit", "must be a number from 1 to 1000")
    return int(value)


def _bad(param: str, problem: str) -> InvalidRequest:
    return InvalidRequest(Fault(FaultKind.INVALID_REQUEST, f"{param}: {problem}", param=param))


MODELS = ModelList(path=PATH, read=read_list, write_model=write_model, write_list=write_list)
TYPED_MODELS = replace(MODELS, write_model=write_typed_model)
