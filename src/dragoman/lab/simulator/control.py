"""The simulator's own endpoints, for tests in another process: ``/_sim/...``."""

import msgspec

from dragoman.lab.simulator.accounts import KeyBehaviour, masked
from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.recording import RecordedRequest
from dragoman.lab.simulator.registry import describe
from dragoman.lab.simulator.state import State
from dragoman.lab.simulator.steering import OPTIONS


def control(simulator: State, record: RecordedRequest) -> tuple[int, bytes]:
    """Carry out a request to ``/_sim/...``; returns the status and the JSON body.

    ``GET requests`` lists the recorded requests and ``DELETE requests`` forgets them with all
    counts; ``GET keys`` counts the requests by key and ``PUT keys/KEY`` sets a ``KeyBehaviour``;
    ``GET scenarios`` and ``GET options`` list the scenarios and options.
    """
    _, _, *parts = record.path.split("/")
    answer: object
    match record.method, parts:
        case "GET", ["requests"]:
            answer = [request.shown() for request in simulator.requests]
        case "DELETE", ["requests"]:
            simulator.clear()
            answer = {"cleared": True}
        case "GET", ["keys"]:
            counts = simulator.keys.requests
            answer = {masked(key): count for key, count in counts.items()}
        case "PUT", ["keys", key]:
            try:
                behaviour = msgspec.json.decode(record.body, type=KeyBehaviour)
            except msgspec.DecodeError as error:
                raise ApiError(400, f"This is no key behaviour: {error}") from error
            simulator.keys.behaviours[key] = behaviour
            answer = {"key": masked(key)}
        case "GET", ["scenarios"]:
            answer = {name: describe(source) for name, source in simulator.scenarios.items()}
        case "GET", ["options"]:
            answer = OPTIONS
        case _:
            raise ApiError(404, "The simulator has no such endpoint.", code="unknown_url")
    return 200, msgspec.json.encode(answer)
