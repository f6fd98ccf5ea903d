"""Embeddings: passed on between equals, translated between OpenAI's form and those of Google and
Cohere, and always sent in the encoding that the client asked for.

OpenAI's SDKs ask for base64 by themselves, and read whatever comes. A vector of numbers in place of
base64 becomes one of a quarter of its length in JavaScript, without an error.
"""

from __future__ import annotations

import array
import base64
import binascii
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from dragoman.canonical.errors import InvalidRequest, UpstreamError
from dragoman.canonical.losses import LossKind
from dragoman.canonical.usage import Usage
from dragoman.config import Upstream
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.exchange import unsupported
from dragoman.endpoints.members import replaced
from dragoman.endpoints.usage import Measured, of_google, of_tokens
from dragoman.endpoints.vendors import embeddings_of
from dragoman.endpoints.wire import Wire, members_of, passed, path_at, read_passed, renamed
from dragoman.jsontext import object_of
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.raw import split_list
from dragoman.translation.estimate import estimate_bytes

_BASE64 = "base64"
_COHERE_TEXTS = 96
_VERTEX_TEXTS = 100
_GOOGLE_TEXTS = 100
"""Texts of one request to an upstream."""
_FIRST = re.compile(rb'"embedding"\s*:\s*(["\[])')


def embeddings_wire(call: EndpointCall, body: bytes) -> Wire:
    """How a request for embeddings is sent to the upstream of its plan.

    Raises:
        InvalidRequest: it has what that does not take.
        DragomanError: NOT_FOUND: that has no such form.
    """
    upstream = call.plan.upstream
    form = embeddings_of(upstream)
    if call.row.face == "google":
        if form == "google":
            return _passed_by_google(call, body)
        if form == "openai":
            return _google_to_openai(call)
        raise unsupported(call, call.plan)
    if form == "openai":
        return _repaired(call, body, upstream)
    texts = _texts(call)
    if call.members.get("user") is not None:
        call.ledger.add("user", LossKind.KNOB, "the upstream takes no end user of embeddings")
    if form == "cohere":
        return _to_cohere(call, texts)
    return _to_google(call, texts)


# --- OpenAI's form on both sides ------------------------------------------------------------------


def _repaired(call: EndpointCall, body: bytes, upstream: Upstream) -> Wire:
    wanted = call.members.get("encoding_format")
    wire = passed(call, body)
    sent = wire.bodies[0]
    if wanted == _BASE64 and (not upstream.embeddings_base64 or call.takes_numbers):
        sent = replaced(sent, "encoding_format", b'"float"')

    def read(answers: Sequence[bytes]) -> bytes:
        answer = answers[0]
        first = _FIRST.search(answer)
        if first is None or (first[1] == b'"') == (wanted == _BASE64):
            return read_passed(call, answer)
        call.measure(members_of(answer))
        return renamed(call, _recoded(answer, to_base64=wanted == _BASE64))

    return Wire(wire.path, [sent], read, wire.is_root)


def refuses_base64(call: EndpointCall, status: int, body: bytes) -> bool:
    """Whether an upstream refused a request for its encoding, which the client wants."""
    if call.row.capability != "embeddings" or status not in (400, 422):
        return False
    names_it = b"encoding_format" in body or b"base64" in body
    return names_it and call.members.get("encoding_format") == _BASE64


def _recoded(answer: bytes, *, to_base64: bool) -> bytes:
    """An answer in the other encoding."""
    value = object_of(answer) or {}
    data = value.get("data")
    for one in data if isinstance(data, list) else ():
        if isinstance(one, dict):
            one["embedding"] = _coded(one.get("embedding"), to_base64=to_base64)
    return to_json(value)


def _coded(vector: Any, *, to_base64: bool) -> Any:
    """A vector in an encoding, whichever it has.

    Raises:
        UpstreamError: it is none.
    """
    if to_base64:
        return vector if isinstance(vector, str) else _packed(vector)
    return _unpacked(vector) if isinstance(vector, str) else vector


def _packed(vector: Any) -> str:
    try:
        numbers = array.array("f", vector)
    except (TypeError, OverflowError):
        raise UpstreamError.unreadable("an embedding is no list of numbers") from None
    if sys.byteorder != "little":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()


def _unpacked(vector: str) -> list[float]:
    numbers = array.array("f")
    try:
        numbers.frombytes(base64.b64decode(vector, validate=True))
    except (binascii.Error, ValueError):
        raise UpstreamError.unreadable("an embedding is no base64 of numbers") from None
    if sys.byteorder != "little":
        numbers.byteswap()
    return numbers.tolist()


# --- from OpenAI's form ---------------------------------------------------------------------------


def _texts(call: EndpointCall) -> list[str]:
    """The inputs of a client in OpenAI's form, for an upstream that takes texts alone.

    Raises:
        InvalidRequest: there is anything else in them.
    """
    given = call.members.get("input")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts:
        raise InvalidRequest.at("input", "must be a text or a list of texts")
    if not all(isinstance(one, str) for one in texts):
        problem = f"must be texts: {call.plan.upstream.name} takes no token ids"
        raise InvalidRequest.at("input", problem, code="unsupported_input")
    return texts


def _groups(texts: list[str], size: int) -> Iterable[list[str]]:
    return (texts[at : at + size] for at in range(0, len(texts), size))


def _without_none(**members: Any) -> JsonObject:
    return {name: value for name, value in members.items() if value is not None}


def _to_cohere(call: EndpointCall, texts: list[str]) -> Wire:
    asked = call.members
    common = _without_none(
        model=call.plan.target.model,
        input_type=asked.get("input_type") or "search_document",
        embedding_types=["float"],
        output_dimension=asked.get("dimensions"),
    )
    bodies = [to_json({**common, "texts": group}) for group in _groups(texts, _COHERE_TEXTS)]

    def read(answers: Sequence[bytes]) -> bytes:
        vectors: list[Any] = []
        counts = []
        for answer in map(members_of, answers):
            found = answer.get("embeddings")
            vectors += found.get("float", ()) if isinstance(found, dict) else found or ()
            meta = answer.get("meta")
            billed = meta.get("billed_units") if isinstance(meta, dict) else None
            counts.append(of_tokens({"usage": billed}) if isinstance(billed, dict) else None)
        return _in_openai_form(call, texts, vectors, counts)

    return Wire("/v2/embed", bodies, read, is_root=True)


def _to_google(call: EndpointCall, texts: list[str]) -> Wire:
    asked, model, upstream = call.members, call.plan.target.model, call.plan.upstream
    task, dimensions = asked.get("task_type"), asked.get("dimensions")
    if upstream.service == "vertex":
        return _to_vertex(call, texts, task, dimensions)
    requests = [
        _without_none(
            model=f"models/{model}",
            content={"parts": [{"text": text}]},
            taskType=task,
            outputDimensionality=dimensions,
        )
        for text in texts
    ]
    bodies = [
        to_json({"requests": requests[at : at + _GOOGLE_TEXTS]})
        for at in range(0, len(requests), _GOOGLE_TEXTS)
    ]

    def read(answers: Sequence[bytes]) -> bytes:
        vectors: list[Any] = []
        members = [members_of(answer) for answer in answers]
        for answer in members:
            vectors += [_values(one) for one in answer.get("embeddings") or ()]
        return _in_openai_form(call, texts, vectors, [of_google(one) for one in members])

    path, _ = path_at(upstream, "/models/{model}:batchEmbedContents", model)
    return Wire(path, bodies, read)


def _to_vertex(call: EndpointCall, texts: list[str], task: Any, dimensions: Any) -> Wire:
    model = call.plan.target.model
    newer = model.startswith("gemini-embedding") and not model.startswith("gemini-embedding-001")
    path, _ = path_at(
        call.plan.upstream, f"/models/{{model}}:{'embedContent' if newer else 'predict'}", model
    )
    if newer:
        config = _without_none(taskType=task, outputDimensionality=dimensions)
        settings = {"embedContentConfig": config} if config else {}
        bodies = [to_json({"content": {"parts": [{"text": one}]}, **settings}) for one in texts]
    else:
        size = 1 if model.startswith("gemini") else _VERTEX_TEXTS
        parameters = _without_none(outputDimensionality=dimensions)
        bodies = [
            to_json(
                {
                    "instances": [_without_none(content=one, task_type=task) for one in group],
                    "parameters": parameters,
                }
            )
            for group in _groups(texts, size)
        ]

    def read(answers: Sequence[bytes]) -> bytes:
        found: list[JsonObject] = []
        counts = []
        for answer in map(members_of, answers):
            if newer:
                found.append(answer.get("embedding") or {})
                counts.append(of_google(answer))
            else:
                predictions = answer.get("predictions") or ()
                ours = [one.get("embeddings") or {} for one in predictions]
                found += ours
                counts.append(of_google({"embeddings": ours}))
        for index, one in enumerate(found):
            statistics = one.get("statistics")
            if isinstance(statistics, dict) and statistics.get("truncated"):
                detail = "the upstream has cut the text"
                call.ledger.add(f"input[{index}]", LossKind.CONTENT, detail)
        return _in_openai_form(call, texts, [_values(one) for one in found], counts)

    return Wire(path, bodies, read)


def _values(embedding: Any) -> Any:
    return embedding.get("values") if isinstance(embedding, dict) else None


def _in_openai_form(
    call: EndpointCall, texts: list[str], vectors: list[Any], counts: list[Measured | None]
) -> bytes:
    """The client's answer, one vector for each text.

    Raises:
        UpstreamError: there are not as many.
    """
    if len(vectors) != len(texts) or not all(isinstance(one, list) for one in vectors):
        problem = f"it has {len(vectors)} vectors for {len(texts)} texts"
        raise UpstreamError.unreadable(problem)
    known = [one.usage.input for one in counts if one is not None]
    estimated = len(known) != len(counts)
    total = estimate_bytes(sum(map(len, texts))) if estimated else sum(known)
    call.measured = Measured(Usage(input=total), estimated=estimated)
    to_base64 = call.members.get("encoding_format") == _BASE64
    data = [
        {"object": "embedding", "index": index, "embedding": _coded(one, to_base64=to_base64)}
        for index, one in enumerate(vectors)
    ]
    usage = {"prompt_tokens": total, "total_tokens": total}
    return to_json({"object": "list", "data": data, "model": call.model, "usage": usage})


# --- from Google's form ---------------------------------------------------------------------------


def _passed_by_google(call: EndpointCall, body: bytes) -> Wire:
    wire = passed(call, body)
    if call.plan.target.model == call.model:
        return wire
    name = to_json(f"models/{call.plan.target.model}")
    body = replaced(body, "model", name)
    requests = split_list(call.members.raw.get("requests"))
    if requests is not None:
        renamed_requests = [replaced(bytes(one), "model", name) for one in requests]
        body = replaced(body, "requests", b"[" + b",".join(renamed_requests) + b"]")
    return Wire(wire.path, [body], wire.read, wire.is_root)


def _google_to_openai(call: EndpointCall) -> Wire:
    """
    Raises:
        InvalidRequest: it asks for anything but embeddings of texts.
    """
    batch = "requests" in call.members
    requests = call.members.get("requests") if batch else [dict(call.members)]
    if not isinstance(requests, list) or not all(isinstance(one, dict) for one in requests):
        raise InvalidRequest.at("requests", "must be a list of objects")
    texts = [_content_text(one.get("content"), at) for at, one in enumerate(requests)]
    dimensions = {_dimensions(one) for one in requests}
    if len(dimensions) > 1:
        raise InvalidRequest.at("requests", "must agree on outputDimensionality")
    if any(one.get("taskType") or one.get("title") for one in requests):
        call.ledger.add("taskType", LossKind.KNOB, "the upstream takes no task or title")
    body = _without_none(
        model=call.plan.target.model, input=texts, dimensions=next(iter(dimensions), None)
    )

    def read(answers: Sequence[bytes]) -> bytes:
        members = members_of(answers[0])
        call.measured = of_tokens(members)
        data = members.get("data") or ()
        found = [{"values": _coded(one.get("embedding"), to_base64=False)} for one in data]
        if len(found) != len(texts):
            problem = f"it has {len(found)} vectors for {len(texts)} texts"
            raise UpstreamError.unreadable(problem)
        answer: JsonObject = {"embeddings": found} if batch else {"embedding": found[0]}
        if call.measured is not None:
            answer["usageMetadata"] = {"promptTokenCount": call.measured.usage.input}
        return to_json(answer)

    path, is_root = path_at(call.plan.upstream, "/v1/embeddings", call.plan.target.model)
    return Wire(path, [to_json(body)], read, is_root)


def _dimensions(request: JsonObject) -> int | None:
    return request.get("outputDimensionality") or request.get("output_dimensionality")


def _content_text(content: Any, at: int) -> str:
    parts = content.get("parts") if isinstance(content, dict) else None
    texts = [one.get("text") for one in parts or () if isinstance(one, dict)]
    found = [one for one in texts if isinstance(one, str)]
    if not texts or len(found) != len(texts):
        raise InvalidRequest.at(f"requests[{at}].content", "must be texts")
    return "".join(found)
