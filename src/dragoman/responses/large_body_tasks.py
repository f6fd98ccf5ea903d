"""What is looked for in large bodies of requests that are stored, in another process."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.protocols.openai_responses.conversations import GivenItems, given_items
from dragoman.serving.large_body_tasks import MOST_VALUES, Source, request_of, too_large


def items_given(body: bytes, source: Source) -> tuple[GivenItems | None, bytes]:
    """The items of a request's `input`, as `given_items`, and their body.

    Raises:
        DragomanError: TOO_LARGE.
    """
    given = given_items(request_of(body, source).members.get("input"))
    if given is None:
        return None, b""
    if len(given.ids) + len(given.references) > MOST_VALUES:
        raise too_large(f"The input contains more than {MOST_VALUES} ids.")
    return replace(given, body=b""), given.body
