"""Counting a prompt's tokens: `POST /v1/responses/input_tokens`."""

from __future__ import annotations

from dragoman.protocols.base import Counting
from dragoman.protocols.counting import read_count

COUNTING = Counting(
    path="/responses/input_tokens",
    uncounted=(
        "include",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "top_logprobs",
        "top_p",
        "user",
    ),
    read=read_count,
    write=lambda counted: {"object": "response.input_tokens", "input_tokens": counted},
)
"""What is not counted: input_token_count_params.py of openai."""
