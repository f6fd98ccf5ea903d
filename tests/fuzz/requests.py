"""Requests that hold as much as one request can."""

from __future__ import annotations

import random

from tests.losses.google import google_cases
from tests.losses.interactions import INTERACTIONS, interaction_cases
from tests.losses.requests import GOOGLE, PROTOCOLS, Case, cases

CLIENTS = (*PROTOCOLS, GOOGLE, INTERACTIONS)


def corpus(client: str) -> list[Case]:
    """The requests of a client's protocol."""
    if client == GOOGLE:
        return list(google_cases())
    if client == INTERACTIONS:
        return list(interaction_cases())
    return [case for case in cases() if case.client == client]


def merged(rng: random.Random, corpus: list[Case]) -> dict[str, object]:
    """A valid request with the fields and turns of several."""
    body: dict[str, object] = {}
    for case in rng.sample(corpus, 3):
        other = case.body()
        for turns in ("messages", "input", "contents"):
            own = body.get(turns)
            new = other.get(turns)
            if isinstance(own, list) and isinstance(new, list):
                other = {**other, turns: [*own, *new]}
        body = {**body, **other}
    return body
