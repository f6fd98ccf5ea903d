"""Counting a prompt's tokens: `POST /v1/messages/count_tokens`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.protocols.base import Counting
from dragoman.protocols.counting import read_count


def _completed(members: Mapping[str, msgspec.Raw]) -> Mapping[str, msgspec.Raw]:
    """The protocol requires an output limit of a request for an answer."""
    return {"max_tokens": msgspec.Raw(b"1"), **members}


COUNTING = Counting(
    path="/messages/count_tokens",
    uncounted=("max_tokens", "stream", "stop_sequences", "metadata", "service_tier"),
    completed=_completed,
    read=read_count,
    write=lambda counted: {"input_tokens": counted},
)
"""Members that are not counted: message_count_tokens_params.py of anthropic."""
