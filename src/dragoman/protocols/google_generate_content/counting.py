"""Counts of a prompt's tokens (`countTokens`)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from dragoman.jsontext import members, object_of
from dragoman.protocols.base import to_json
from dragoman.protocols.google_generate_content.spelling import member
from dragoman.protocols.numbers import token_count
from dragoman.protocols.raw import split_object

_REQUEST = "generateContentRequest"


def write_request(body: bytes) -> bytes:
    """The body of a count: the request for an answer as a member, which is the form that has system
    instructions and tools. It has to name the model."""
    return to_json({_REQUEST: members(body)})


def completed(given: Mapping[str, Raw]) -> Mapping[str, Raw]:
    """A request to be counted as one to be answered, in either of its forms."""
    within = split_object(member(given, _REQUEST))
    return given if within is None else within


def read_count(body: bytes) -> int | None:
    """The number of tokens in an answer; None if it has none."""
    return token_count((object_of(body) or {}).get("totalTokens"))
