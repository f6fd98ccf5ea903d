"""Requests that hold as much as one request can."""

from __future__ import annotations

import random

from tests.losses.requests import Case


def merged(rng: random.Random, corpus: list[Case]) -> dict[str, object]:
    """A valid request with the fields and turns of several."""
    body: dict[str, object] = {}
    for case in rng.sample(corpus, 3):
        other = case.body()
        for turns in ("messages", "input"):
            own = body.get(turns)
            new = other.get(turns)
            if isinstance(own, list) and isinstance(new, list):
                other = {**other, turns: [*own, *new]}
        body = {**body, **other}
    return body
