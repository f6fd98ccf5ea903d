"""What a Google client's path and query ask for: model and method are there, not in the body."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl

Method = Literal["generateContent", "streamGenerateContent", "countTokens"]

_PATH = re.compile(
    r"/v1(?:beta1?|alpha)?"
    r"(/projects/[^/]+/locations/[^/]+/publishers/(?!anthropic/)[^/]+)?"
    r"/(?:models|tunedModels)/(.+):(\w+)",
    re.DOTALL,
)
_INTERACTIONS = re.compile(
    r"/v1(?:beta|beta1)?(?:/projects/[^/]+/locations/[^/]+)?/interactions(?:/(.+))?", re.DOTALL
)
_OWN_PATH = re.compile(r"(?:/(?:upload|download))?/v1(?:beta|alpha)/|/upload/")
_OWN_HEADERS = ("x-goog-api-key", "x-goog-api-client")
_OLD_MODEL = re.compile(r"(?:^|[^0-9])[12]\.[0-9]")


@dataclass(frozen=True, slots=True)
class GoogleCall:
    """A method of one model. ``array`` is true if a stream is an array of JSON, as it is without
    ``alt=sse``; ``in_cloud``, if it is Vertex AI's.
    """

    model: str
    method: str
    array: bool
    in_cloud: bool = False

    @property
    def stream(self) -> bool:
        return self.method == "streamGenerateContent"


def google_call(path: str, query: str) -> GoogleCall | None:
    """The call of a decoded path, or None if it is of no method of a model."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    array = dict(parse_qsl(query)).get("alt") != "sse"
    return GoogleCall(found[2], found[3], array, found[1] is not None)


def interaction_path(path: str) -> str | None:
    """What follows ``interactions`` in a decoded path, empty if nothing does; None elsewhere."""
    found = _INTERACTIONS.fullmatch(path)
    return None if found is None else found[1] or ""


def is_google(path: str, query: str, headers: Mapping[str, str]) -> bool:
    """Whether a request, on whatever path, is of a Google client."""
    return (
        _OWN_PATH.match(path) is not None
        or google_call(path, query) is not None
        or any(name in headers for name in _OWN_HEADERS)
    )


def google_key(headers: Mapping[str, str], query: str) -> str:
    """The key of a request in a header of its own or in the query; empty if it has none there."""
    return headers.get("x-goog-api-key") or dict(parse_qsl(query)).get("key", "")


def is_before_3(model: str) -> bool:
    """Whether a model is of a generation before Gemini 3, by its name: it needs no signatures,
    and is given a budget of thoughts, not a level.
    """
    return _OLD_MODEL.search(model.partition("?")[0]) is not None
