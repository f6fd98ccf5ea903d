"""Reads a request (google/genai/types.py of google-genai)."""

from __future__ import annotations

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra, Request
from dragoman.protocols import google_wire
from dragoman.protocols.google_generate_content import shapes
from dragoman.protocols.google_generate_content.content_reader import DETAILS, ContentReader
from dragoman.protocols.google_generate_content.generation import PATHS, read_generation
from dragoman.protocols.google_generate_content.tools import read_choice, read_tools
from dragoman.protocols.reading import Reader, report_lost
from dragoman.protocols.request_settings import NO_COUNTERPART

_REQUEST = Reader(shapes.Request)


def read_request(body: bytes, sealer: Sealer) -> Request:
    """A request in canonical form. Its model and whether it is streamed are in the path.

    Raises:
        InvalidRequest: naming the field.
    """
    extras: list[Extra] = []
    given = _REQUEST.read(body, extras)
    if not given.contents:
        problem = "is required" if given.contents is None else "must not be empty"
        raise InvalidRequest.at("contents", problem, code="missing_required_parameter")
    config = given.generation_config or shapes.GenerationConfig()
    reader = ContentReader(sealer, extras, DETAILS.get(config.media_resolution or ""))
    turns = reader.turns(given.contents)
    system = given.system_instruction
    tools = read_tools(given.tools or [], extras)
    choice = read_choice(given.tool_config, extras)
    generation = read_generation(config, extras)
    report_lost(given, "", extras)
    return Request(
        model=given.model or "",
        turns=turns,
        instructions=() if system is None else reader.system(system),
        tools=tools,
        tool_choice=choice,
        include_usage=True,
        metadata=given.labels or None,
        service_tier=_tier(given.service_tier, extras),
        store=given.store,
        paths=PATHS.copy(),
        extras=tuple(extras),
        **generation,
    )


def _tier(given: str | None, extras: list[Extra]) -> str | None:
    """The service tier in the words of the OpenAI protocols."""
    word = (given or "").lower()
    if word in ("", "unspecified", "service_tier_unspecified"):
        return None
    tier = google_wire.SERVICE_TIERS.get(word)
    if tier is None:
        extras.append(Extra("serviceTier", given, LossKind.KNOB, NO_COUNTERPART))
    return tier
