"""Streams of the Responses protocol, read and written."""

from __future__ import annotations

from dragoman.protocols.openai_responses.stream_reader import ResponsesReader
from dragoman.protocols.openai_responses.stream_writer import ResponsesWriter

__all__ = ["ResponsesReader", "ResponsesWriter"]
