"""Requests of the Responses protocol, read and written."""

from __future__ import annotations

from dragoman.protocols.openai_responses.request_reader import read_request
from dragoman.protocols.openai_responses.request_writer import write_request

__all__ = ["read_request", "write_request"]
