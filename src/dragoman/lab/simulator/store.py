"""Responses that are stored for retrieval and for ``previous_response_id``."""

from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.view import JsonObject

_MOST = 256


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A finished response with the items that led to it, stored ones included."""

    response: JsonObject
    input_items: list[JsonObject]


class ResponseStore:
    """The last stored responses. The official service stores them for thirty days."""

    def __init__(self) -> None:
        self._responses: OrderedDict[str, StoredResponse] = OrderedDict()

    def put(self, request: JsonObject, response: JsonObject) -> None:
        """Store a finished response, with the request's input already resolved."""
        self._responses[response["id"]] = StoredResponse(response, _as_items(request))
        while len(self._responses) > _MOST:
            self._responses.popitem(last=False)

    def get(self, response_id: str) -> StoredResponse:
        """Raises ApiError 404 if there is no such response."""
        found = self._responses.get(response_id)
        if found is None:
            raise ApiError(404, f"Response with id '{response_id}' not found.", code="not_found")
        return found

    def delete(self, response_id: str) -> None:
        """Raises ApiError 404 if there is no such response."""
        self.get(response_id)
        del self._responses[response_id]

    def links(self) -> dict[str, str]:
        """By the id of a stored item, the id of the reasoning that led to it."""
        return {
            item["id"]: before["id"]
            for stored in self._responses.values()
            for before, item in pairwise(stored.response["output"])
            if before["type"] == "reasoning"
        }

    def resolve(self, request: JsonObject) -> tuple[JsonObject, frozenset[str]]:
        """The request with its previous turns before its input, and the ids of known items.

        Raises:
            ApiError: 400 if ``previous_response_id`` is not stored.
        """
        previous = request.get("previous_response_id")
        if previous is not None:
            found = self._responses.get(str(previous))
            if found is None:
                raise ApiError(
                    400,
                    f"Previous response with id '{previous}' not found.",
                    code="previous_response_not_found",
                    param="previous_response_id",
                )
            history = [*found.input_items, *found.response["output"]]
            request = {**request, "input": history + _as_items(request)}
        items = {
            item["id"]: item
            for stored in self._responses.values()
            for item in stored.response["output"]
        }
        source = request.get("input")
        if isinstance(source, list):
            resolved = [_dereferenced(item, items) for item in source]
            request = {**request, "input": resolved}
        return request, frozenset(items)


def _dereferenced(item: Any, items: dict[str, JsonObject]) -> Any:
    is_reference = isinstance(item, dict) and (
        item.get("type") == "item_reference" or ("type" not in item and "role" not in item)
    )
    return items.get(str(item.get("id")), item) if is_reference else item


def _as_items(request: JsonObject) -> list[JsonObject]:
    source = request.get("input") or []
    if isinstance(source, str):
        return [{"type": "message", "role": "user", "content": source}]
    return list(source)
