"""Ids of requests, which clients get with every answer and in the bodies of errors."""

from __future__ import annotations

import re
import time

from dragoman.translation.call import mint_request_id

AGAIN = re.compile("429|500|502|503|504|524")
"""What opencode 1.x looks for anywhere in the body of an error, to ask again."""


def test_no_id_holds_what_agents_take_for_a_status() -> None:
    assert not [one for one in (mint_request_id() for _ in range(20_000)) if AGAIN.search(one)]


def test_ids_are_unique_and_in_the_order_of_time() -> None:
    first = mint_request_id()
    time.sleep(0.002)
    second = mint_request_id()
    assert first < second
    assert re.fullmatch("req_[a-p]{24}", first)
