"""Sources of an answer as `groundingMetadata`, in which places count bytes of a part."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dragoman.canonical.blocks import Annotation, UrlCitation
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.protocols.fields import JsonObject


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
