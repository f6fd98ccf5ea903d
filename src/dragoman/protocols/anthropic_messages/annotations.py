"""Citations of an answer, both ways."""

from __future__ import annotations

from dragoman.canonical.blocks import Annotation, ForeignCitation, UrlCitation
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.fields import JsonObject


def read_annotation(citation: JsonObject) -> Annotation:
    """A cited web page, for the whole block; other citations only this protocol can express."""
    kind = citation.get("type")
    url = None
    if kind == "web_search_result_location":
        url = citation.get("url")
    elif kind == "search_result_location":
        url = citation.get("source")
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        return ForeignCitation(wire.NAME, citation)
    title, cited = citation.get("title"), citation.get("cited_text")
    return UrlCitation(
        url=url,
        title=title if isinstance(title, str) else "",
        cited_text=cited if isinstance(cited, str) else None,
    )


def own_citation(annotation: Annotation) -> JsonObject | None:
    """A citation of this very protocol; None for one of another."""
    if isinstance(annotation, ForeignCitation) and annotation.origin == wire.NAME:
        return annotation.raw
    return None
