"""Responses and interactions that are stored, to be asked for again and to go on from."""

from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.rendering.answer import Answer
from dragoman.lab.simulator.validation.interactions import steps_of
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


@dataclass(slots=True)
class StoredInteraction:
    """An interaction, the steps that led to it, and the answer from which its stream is made.

    ``input`` is what its request had; ``running`` is the number of times that it is still found
    running in the background.
    """

    interaction: JsonObject
    answer: Answer
    steps: list[JsonObject]
    input: Any
    running: int = 0


class InteractionStore:
    """The last stored interactions."""

    def __init__(self) -> None:
        self._interactions: OrderedDict[str, StoredInteraction] = OrderedDict()

    def put(self, stored: StoredInteraction) -> None:
        self._interactions[stored.interaction["id"]] = stored
        while len(self._interactions) > _MOST:
            self._interactions.popitem(last=False)

    def get(self, interaction_id: str) -> StoredInteraction:
        """Raises ApiError 404 if there is no such interaction."""
        found = self._interactions.get(interaction_id)
        if found is None:
            raise ApiError(404, f"Interaction '{interaction_id}' not found.", code="not_found")
        return found

    def delete(self, interaction_id: str) -> None:
        """Raises ApiError 404 if there is no such interaction."""
        self.get(interaction_id)
        del self._interactions[interaction_id]

    def conversation(self, request: JsonObject) -> list[JsonObject]:
        """The steps before an answer: those of its predecessor and its own.

        Raises:
            ApiError: 404 if ``previous_interaction_id`` is not stored, 400 if the input is none.
        """
        previous, steps = request.get("previous_interaction_id"), steps_of(request.get("input"))
        if previous is None:
            return steps
        found = self.get(str(previous))
        if request.get("continuation_token") is not None:  # the rest of that very answer
            return [*found.steps, *steps]
        return [*found.steps, *found.interaction["steps"], *steps]


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
