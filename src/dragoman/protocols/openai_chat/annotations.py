"""Citations of an answer, both ways. In Chat their offsets count from the start of the message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.canonical.blocks import Annotation, ForeignCitation, UrlCitation
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat import wire

NO_COUNTERPART = "has no counterpart downstream"


def read_annotation(raw: JsonObject, offset: int) -> Annotation:
    """An annotation of the text block that begins `offset` characters into the message.

    Offsets that are missing or before the block become the whole block.
    """
    citation = raw.get("url_citation")
    if raw.get("type") != "url_citation" or type(citation) is not dict:
        return ForeignCitation(wire.NAME, raw)
    start, end = citation.get("start_index"), citation.get("end_index")
    if type(start) is not int or type(end) is not int or not offset <= start <= end:
        start = end = None
    else:
        start, end = start - offset, end - offset
    cited = citation.get("content")
    return UrlCitation(
        url=_text(citation.get("url")),
        title=_text(citation.get("title")),
        start=start,
        end=end,
        cited_text=cited if type(cited) is str else None,
    )


def _text(value: Any) -> str:
    return value if type(value) is str else ""


def write_annotations(
    annotations: Iterable[Annotation], start: int, end: int, ledger: Ledger
) -> list[JsonObject]:
    """Citations of a text block from `start` to `end` in the whole message."""
    written: list[JsonObject] = []
    for annotation in annotations:
        if not isinstance(annotation, UrlCitation):
            ledger.add("annotations", LossKind.KNOB, "only citations of URLs can be shown")
            continue
        if annotation.cited_text is not None:
            ledger.add("annotations.cited_text", LossKind.KNOB, NO_COUNTERPART)
        citation = {
            "start_index": start if annotation.start is None else start + annotation.start,
            "end_index": end if annotation.end is None else start + annotation.end,
            "title": annotation.title,
            "url": annotation.url,
        }
        written.append({"type": "url_citation", "url_citation": citation})
    return written
