"""Citations on the wire (types: response_output_text_param.py)."""

from __future__ import annotations

from dragoman.canonical.blocks import Annotation, UrlCitation
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import wire


def write_annotation(annotation: Annotation, offset: int, length: int) -> JsonObject | None:
    """A citation inside a part's text; None if this protocol has no form for it.

    `offset` is where the cited block begins in the part, `length` how long the block is (both
    in characters): a citation of the whole block spans it.
    """
    if not isinstance(annotation, UrlCitation):
        return annotation.raw if annotation.origin == wire.NAME else None
    start, end = annotation.start, annotation.end
    if start is None or end is None:
        start, end = 0, length
    return {
        "type": "url_citation",
        "start_index": offset + start,
        "end_index": offset + end,
        "title": annotation.title,
        "url": annotation.url,
    }
