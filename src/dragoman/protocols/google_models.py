"""Lists of models, both ways (types.Model of google-genai)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dragoman import jsontext
from dragoman.canonical.errors import InvalidRequest
from dragoman.protocols import google_wire
from dragoman.protocols.base import ModelList
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.model_facts import facts_in

PATH: Final = "/models"
_NAMED: Final = "models/"
_MOST = 1000

_CARRIED: Final = (
    "version",
    "description",
    "temperature",
    "maxTemperature",
    "topP",
    "topK",
    "thinking",
)
"""Further members of an upstream's own entry."""


def read_list(body: bytes) -> list[JsonObject]:
    """The models in an upstream's list, each with the id by which it is asked for: Vertex AI calls
    them `publisherModels`.

    Raises:
        ValueError: it is not a list of models.
    """
    value = jsontext.decode(body)
    if not isinstance(value, dict):
        raise ValueError("not a list of models")
    entries = value.get("models", value.get("publisherModels"))
    if entries is None and not value:
        # Empty lists are left out.
        return []
    if not isinstance(entries, list):
        raise ValueError("not a list of models")
    return [
        {
            **entry,
            "id": name,
            "display_name": entry.get("displayName") or name,
            "max_input_tokens": entry.get("inputTokenLimit"),
            "max_tokens": entry.get("outputTokenLimit"),
        }
        for entry in entries
        if isinstance(entry, dict) and _answers(entry) and (name := _name_of(entry))
    ]


def _name_of(entry: JsonObject) -> str:
    name = entry.get("name")
    return name.rpartition(_NAMED)[2] if isinstance(name, str) else ""


def _answers(entry: JsonObject) -> bool:
    """Whether a model can be asked for an answer: others embed, or make films."""
    methods = entry.get("supportedGenerationMethods")
    return not isinstance(methods, list) or not methods or google_wire.GENERATE in methods


def write_model(name: str, owner: str, listed: JsonObject) -> JsonObject:
    """One model; `listed` is the upstream's own entry, of whatever vendor."""
    display = listed.get("display_name")
    model: JsonObject = {
        "name": _NAMED + name,
        "version": "001",
        "displayName": display if isinstance(display, str) else name,
        "description": f"Served by {owner}.",
        "supportedGenerationMethods": [google_wire.GENERATE, google_wire.COUNT],
    }
    facts = facts_in(listed)
    if facts.context_window is not None:
        model["inputTokenLimit"] = facts.context_window
    if facts.max_output is not None:
        model["outputTokenLimit"] = facts.max_output
    return model | {key: listed[key] for key in _CARRIED if listed.get(key) is not None}


def write_list(models: list[JsonObject], wanted: Mapping[str, str]) -> JsonObject:
    """The page of a list that a query asks for; all of it when it asks for none. The last page has
    no `nextPageToken`: an empty one makes SDKs ask for ever.

    Raises:
        InvalidRequest: for an invalid size or token.
    """
    size = wanted.get("pageSize", wanted.get("page_size"))
    start = _start(wanted.get("pageToken", wanted.get("page_token")), len(models))
    most = len(models) if size is None else min(_number(size, "pageSize"), _MOST)
    end = start + (most or len(models))
    page: dict[str, Any] = {"models": models[start:end]}
    if end < len(models):
        page["nextPageToken"] = str(end)
    return page


def _start(token: str | None, count: int) -> int:
    if not token:
        return 0
    start = _number(token, "pageToken")
    if start > count:
        raise InvalidRequest.at("pageToken", "is not one of this list")
    return start


def _number(text: str, name: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise InvalidRequest.at(name, "must be a number")
    return int(text)


MODELS = ModelList(
    path=PATH,
    query=f"pageSize={_MOST}",
    read=read_list,
    write_model=write_model,
    write_list=write_list,
)
