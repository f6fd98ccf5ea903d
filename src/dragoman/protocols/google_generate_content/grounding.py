"""The sources of an answer, both ways: `groundingMetadata` and `citationMetadata`.

Offsets count bytes of UTF-8 from the beginning of a part; the parts of a stream are joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from dragoman.canonical.blocks import Annotation, UrlCitation
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_media import characters
from dragoman.protocols.numbers import whole_number

_KINDS = ("web", "retrievedContext", "maps", "image")


def read_citations(text: str, grounding: Mapping[str, Any]) -> Iterator[UrlCitation]:
    """The citations of a text."""
    chunks = [*map(_source, _objects(grounding.get("groundingChunks")))]
    supports = _objects(grounding.get("groundingSupports"))
    encoded = text.encode("utf-8", "replace")
    for support in supports:
        span = _span(support.get("segment"), text, encoded)
        places = support.get("groundingChunkIndices")
        for place in places if type(places) is list else ():
            at = whole_number(place) if place is not None else 0
            if at is None or at >= len(chunks) or (source := chunks[at]) is None:
                continue
            start, end = span or (None, None)
            yield UrlCitation(url=source[0], title=source[1], start=start, end=end)
    if not supports:
        for source in chunks:
            if source is not None:
                yield UrlCitation(url=source[0], title=source[1])


def read_recited(text: str, citations: Mapping[str, Any]) -> Iterator[UrlCitation]:
    """The sources of what the model recites. Their offsets count from the beginning of the answer's
    text."""
    encoded = text.encode("utf-8", "replace")
    given = citations.get("citationSources") or citations.get("citations")
    for source in _objects(given):
        url = source.get("uri")
        if type(url) is not str or not url:
            continue
        start, end = whole_number(source.get("startIndex", 0)), whole_number(source.get("endIndex"))
        span = None
        if start is not None and end is not None and start <= end <= len(encoded):
            span = characters(encoded, start, end)
        begin, stop = span or (None, None)
        yield UrlCitation(url=url, title=_text(source.get("title")), start=begin, end=stop)


def queries_of(grounding: Mapping[str, Any]) -> list[str]:
    """What the service searched for."""
    queries = grounding.get("webSearchQueries")
    return [one for one in queries if type(one) is str] if type(queries) is list else []


def sources_of(grounding: Mapping[str, Any]) -> list[UrlCitation]:
    """The pages that the service found."""
    chunks = map(_source, _objects(grounding.get("groundingChunks")))
    return [UrlCitation(url=one[0], title=one[1]) for one in chunks if one is not None]


def is_licensed(citations: Mapping[str, Any]) -> bool:
    """Whether the sources of what is recited have licenses or dates."""
    given = citations.get("citationSources") or citations.get("citations")
    return any("license" in one or "publicationDate" in one for one in _objects(given))


def unread(grounding: Mapping[str, Any]) -> Iterator[str]:
    """Members with more in them than pages, citations and queries have."""
    for name in _OWN:
        if grounding.get(name):
            yield name
    for chunk in _objects(grounding.get("groundingChunks")):
        if any(type(inner) is dict and inner.keys() - _OF_PAGES for inner in chunk.values()):
            yield "groundingChunks"
            break
    for support in _objects(grounding.get("groundingSupports")):
        if support.keys() - {"segment", "groundingChunkIndices"}:
            yield "groundingSupports"
            break


_OF_PAGES = frozenset({"uri", "sourceUri", "title", "domain"})
_OWN = (
    "searchEntryPoint",
    "imageSearchQueries",
    "retrievalQueries",
    "retrievalMetadata",
    "sourceFlaggingUris",
    "googleMapsWidgetContextToken",
)


def _source(chunk: JsonObject) -> tuple[str, str] | None:
    """Address and title of a source; None if it has no address."""
    for kind in _KINDS:
        inner = chunk.get(kind)
        if type(inner) is dict:
            url = inner.get("uri") or inner.get("sourceUri")
            if type(url) is str and url:
                return url, _text(inner.get("title"))
    return None


def _span(segment: Any, text: str, encoded: bytes) -> tuple[int, int] | None:
    """The characters of a segment; None if it is not one of this text."""
    if type(segment) is not dict:
        return None
    said = _text(segment.get("text"))
    start = whole_number(segment.get("startIndex", 0))
    end = whole_number(segment.get("endIndex"))
    if start is not None and end is not None and start <= end <= len(encoded):
        span = characters(encoded, start, end)
        if not said or said in text[span[0] : span[1]] or said not in text:
            return span
    at = text.find(said) if said else -1
    return None if at < 0 else (at, at + len(said))


def _objects(value: Any) -> list[JsonObject]:
    return [one for one in value if type(one) is dict] if type(value) is list else []


def _text(value: Any) -> str:
    return value if type(value) is str else ""


class Grounding(Struct, eq=False):
    """What is known of the sources of one answer."""

    _ledger: Ledger
    _queries: list[str] = []
    _chunks: dict[str, JsonObject] = {}
    """The sources by their addresses, in order."""
    _supports: list[JsonObject] = []

    def searched(self, query: str) -> None:
        """The vendor searched for this."""
        if query and query not in self._queries:
            self._queries.append(query)

    def found(self, url: str, title: str = "") -> int:
        """A source. Returns its place among all."""
        if url not in self._chunks:
            web = {"uri": url, "title": title} if title else {"uri": url}
            self._chunks[url] = {"web": web}
        return list(self._chunks).index(url)

    def cite(self, annotations: Iterable[Annotation], text: str, part: int, before: int) -> None:
        """The citations of a block with this text, which begins `before` bytes into the part number
        `part` of the answer."""
        for annotation in annotations:
            if not isinstance(annotation, UrlCitation):
                detail = "only citations of URLs can be shown"
                self._ledger.add("annotations", LossKind.KNOB, detail)
                continue
            place = self.found(annotation.url, annotation.title)
            start, end = annotation.start, annotation.end
            if start is None or end is None or not 0 <= start <= end <= len(text):
                start, end = 0, len(text)
            cited = text[start:end]
            first = before + len(text[:start].encode())
            segment: JsonObject = {"partIndex": part} if part else {}
            segment |= {
                "startIndex": first,
                "endIndex": first + len(cited.encode()),
                "text": cited,
            }
            self._supports.append({"segment": segment, "groundingChunkIndices": [place]})

    def written(self) -> JsonObject | None:
        """The member `groundingMetadata`; None if there is nothing in it."""
        found: JsonObject = {}
        if self._queries:
            found["webSearchQueries"] = self._queries
        if self._chunks:
            found["groundingChunks"] = list(self._chunks.values())
        if self._supports:
            found["groundingSupports"] = self._supports
        return found or None
