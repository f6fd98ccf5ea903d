"""Rerank: passed on between equals, translated between the forms of Cohere's version 2, of Jina
(vLLM, llama.cpp) and of text-embeddings-inference by one neutral form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from dragoman import jsontext
from dragoman.canonical.errors import InvalidRequest, UpstreamError
from dragoman.canonical.usage import Usage
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.members import Members
from dragoman.endpoints.usage import Measured
from dragoman.endpoints.vendors import rerank_of
from dragoman.endpoints.wire import Wire, members_of, passed, path_at
from dragoman.jsontext import JsonError
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject

Form = Literal["cohere", "jina", "tei"]

_PATHS: Mapping[Form, str] = {"cohere": "/v2/rerank", "jina": "/v1/rerank", "tei": "/rerank"}


class _Asked(Struct, frozen=True):
    """A request in the neutral form. `most` is how many documents are wanted, None for all."""

    query: str
    documents: Sequence[str]
    most: int | None
    returns_documents: bool
    most_tokens: int | None
    raw_scores: bool


class _Ranked(Struct, frozen=True):
    index: int
    score: float


def rerank_wire(call: EndpointCall, body: bytes) -> Wire:
    """How a request to rank documents is sent to the upstream of its plan.

    Raises:
        InvalidRequest: it is none.
    """
    upstream = call.plan.upstream
    client, form = _client_form(call), rerank_of(upstream)
    wire = passed(call, body)
    path, is_root = path_at(upstream, _PATHS[form], call.plan.target.model)
    if client == form and form != "tei":
        return Wire(path, wire.bodies, wire.read, is_root)
    asked = _read(call.members)

    def read(answers: Sequence[bytes]) -> bytes:
        ranked = _ranking(call, form, answers[0], len(asked.documents))
        if client == "tei":
            return to_json([{"index": one.index, "score": one.score} for one in ranked])
        return to_json(_written(call, client, asked, ranked[: asked.most]))

    return Wire(path, [to_json(_WRITERS[form](asked, call.plan.target.model))], read, is_root)


def _client_form(call: EndpointCall) -> Form:
    if call.row.face == "cohere":
        return "cohere"
    return "tei" if "texts" in call.members else "jina"


def _read(members: Members) -> _Asked:
    """
    Raises:
        InvalidRequest: naming the member.
    """
    query, given = members.get("query"), members.get("documents") or members.get("texts")
    if not isinstance(query, str):
        raise InvalidRequest.at("query", "must be a text")
    if not isinstance(given, list) or not given:
        raise InvalidRequest.at("documents", "must be a list of texts")
    most, most_tokens = members.get("top_n"), members.get("max_tokens_per_doc")
    return _Asked(
        query,
        [_text(one, at) for at, one in enumerate(given)],
        most if type(most) is int and most > 0 else None,
        members.get("return_documents") is True or members.get("return_text") is True,
        most_tokens if type(most_tokens) is int else None,
        members.get("raw_scores") is True,
    )


def _text(document: Any, at: int) -> str:
    text = document.get("text") if isinstance(document, dict) else document
    if not isinstance(text, str):
        raise InvalidRequest.at(f"documents[{at}]", "must be a text, or an object with one")
    return text


def _for_cohere(asked: _Asked, model: str) -> JsonObject:
    written = {"model": model, "query": asked.query, "documents": asked.documents}
    limits = {"top_n": asked.most, "max_tokens_per_doc": asked.most_tokens}
    return written | {name: one for name, one in limits.items() if one is not None}


def _for_jina(asked: _Asked, model: str) -> JsonObject:
    return {**_for_cohere(asked, model), "return_documents": False}


def _for_tei(asked: _Asked, model: str) -> JsonObject:
    return {"query": asked.query, "texts": asked.documents, "raw_scores": asked.raw_scores}


_WRITERS: Mapping[Form, Callable[[_Asked, str], JsonObject]] = {
    "cohere": _for_cohere,
    "jina": _for_jina,
    "tei": _for_tei,
}


def _ranking(call: EndpointCall, form: Form, answer: bytes, documents: int) -> list[_Ranked]:
    """The documents in an upstream's answer, the best first.

    Raises:
        UpstreamError: it is none.
    """
    results: Any
    if form == "tei":
        try:
            results = jsontext.decode(answer)
        except JsonError:
            results = None
        call.measured = Measured(Usage(searches=1), estimated=True)
    else:
        members = members_of(answer)
        call.measure(members)
        results = members.get("results")
    ranked = [_result(one, documents) for one in results] if isinstance(results, list) else None
    if not ranked:
        raise UpstreamError.unreadable("it has no results")
    return sorted(ranked, key=lambda one: -one.score)


def _result(result: Any, documents: int) -> _Ranked:
    if isinstance(result, dict):
        index, score = result.get("index"), result.get("relevance_score", result.get("score"))
        if type(index) is int and 0 <= index < documents and isinstance(score, float | int):
            return _Ranked(index, score)
    raise UpstreamError.unreadable("a result names no document of the request")


def _written(
    call: EndpointCall, client: Form, asked: _Asked, ranked: Sequence[_Ranked]
) -> JsonObject:
    results: list[JsonObject] = [
        {"index": one.index, "relevance_score": one.score} for one in ranked
    ]
    if asked.returns_documents and client == "jina":
        for one in results:
            one["document"] = {"text": asked.documents[one["index"]]}
    used = Usage() if call.measured is None else call.measured.usage
    answer: JsonObject = {"id": call.incoming.request_id, "results": results}
    answer["meta"] = {"billed_units": {"search_units": used.searches or 1}}
    if client == "jina":
        answer |= {"model": call.model, "usage": {"total_tokens": used.input}}
    return answer
