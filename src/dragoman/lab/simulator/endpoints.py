"""The endpoints beside those for answers of models: embeddings, rerank, images, speech and so on.

What is answered follows from the request alone: the same text has the same vector everywhere. The
name of a model steers it: one with ``floats`` in it ignores ``encoding_format``, one with
``no-base64`` refuses it, and one with ``no-usage`` reports none.
"""

import array
import base64
import hashlib
import math
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from dragoman.lab.simulator.delivery import stream_actions
from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.handlers import RequestContext
from dragoman.lab.simulator.script import Fault, Pace
from dragoman.lab.simulator.state import State
from dragoman.lab.simulator.usage import tokens
from dragoman.lab.simulator.view import JsonObject

Handler = Callable[[RequestContext], Awaitable[None]]

_JSON = "application/json"
_EVENTS = "text/event-stream; charset=utf-8"
_DIMENSIONS = 16
_MOST_DIMENSIONS = 4096
_MOST_INPUTS = 2048
_MOST_TEXTS = 96
"""Texts of one request to Cohere."""
_PAUSE_MS = 20
_PIECES = 4
PIXEL = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx"
    b"\x9cc\xf8\xcf\xc0\xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82"
)
"""A picture of one pixel."""


def vector(text: str, dimensions: int = _DIMENSIONS) -> list[float]:
    """The vector of a text: of length 1, in numbers that a float32 holds."""
    count = min(dimensions, _MOST_DIMENSIONS)
    size = -(-count // 8)
    digest = b"".join(
        hashlib.blake2b(text.encode(), salt=at.to_bytes(8, "big"), digest_size=32).digest()
        for at in range(size)
    )
    values = [
        int.from_bytes(digest[at : at + 4], "big") / 2**31 - 1 for at in range(0, 4 * count, 4)
    ]
    length = math.sqrt(sum(value * value for value in values)) or 1.0
    return list(array.array("f", [value / length for value in values]))


def packed(values: list[float]) -> str:
    """A vector as base64 of little-endian float32."""
    numbers = array.array("f", values)
    if sys.byteorder != "little":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()


def score(query: str, document: str) -> float:
    """How much of the query's words a document has, from 0 to 1."""
    words = set(query.lower().split())
    return round(len(words & set(document.lower().split())) / max(1, len(words)), 4)


class EndpointHandlers:
    """The handlers of one simulator."""

    def __init__(self, simulator: State) -> None:
        self._simulator = simulator
        self.posts: Mapping[str, Handler] = {
            "/v1/embeddings": self._whole(_embeddings),
            "/v1/moderations": self._whole(_moderations),
            "/v1/rerank": self._whole(_rerank),
            "/v2/rerank": self._whole(_rerank_cohere),
            "/rerank": self._whole(_rerank_tei),
            "/v2/embed": self._whole(_embed_cohere),
            "/v1/completions": self._streamed(_completion, _completion_events),
            "/v1/fim/completions": self._streamed(_fim, _fim_events),
            "/beta/completions": self._streamed(_completion, _completion_events),
            "/infill": self._streamed(_infill, _infill_events),
            "/v1/images/generations": self._streamed(_image, _image_events),
            "/v1/audio/speech": self._speech,
        }
        self.methods = {
            "embedContent": self._whole(_embed_content),
            "batchEmbedContents": self._whole(_batch_embed),
            "predict": self._whole(_predict),
        }

    async def _body(self, context: RequestContext) -> tuple[JsonObject, Fault | None] | None:
        """The request, and what goes wrong in its answer; None if it was answered by a fault of its
        key."""
        key = context.authenticate()
        keys = self._simulator.keys
        fault = keys.behaviour(key).fault_of(keys.count(key))
        if fault is not None and fault.kind == "error":
            await context.fail(fault.failure)
            return None
        try:
            body = msgspec.json.decode(context.record.body)
        except msgspec.DecodeError:
            raise ApiError(400, "The body is not valid JSON.") from None
        if not isinstance(body, dict):
            raise ApiError(400, "The body must be an object.")
        if context.call is not None:
            body["model"] = context.call.model
        if fault is not None and fault.kind == "close" and not fault.after:
            await context.connection.close()
            return None
        return body, fault

    def _whole(self, answer: Callable[[JsonObject], object]) -> Handler:
        async def handle(context: RequestContext) -> None:
            if (asked := await self._body(context)) is not None:
                await _reply(context, answer(asked[0]))

        return handle

    def _streamed(
        self,
        answer: Callable[[JsonObject], object],
        events: Callable[[JsonObject], Iterator[bytes]],
    ) -> Handler:
        async def handle(context: RequestContext) -> None:
            if (asked := await self._body(context)) is None:
                return
            body, fault = asked
            if body.get("stream") is True:
                await _stream(context, _EVENTS, events(body), fault)
            else:
                await _reply(context, answer(body))

        return handle

    async def _speech(self, context: RequestContext) -> None:
        if (asked := await self._body(context)) is None:
            return
        body, fault = asked
        text = _text(body, "input")
        if not body.get("voice"):
            raise ApiError(400, "voice is required.", param="voice")
        sound = [text.encode()[at::_PIECES] or b"\0" for at in range(_PIECES)]
        if body.get("stream_format") != "sse":
            media = f"audio/{body.get('response_format') or 'mpeg'}"
            await _stream(context, media, iter(sound), fault)
            return
        events: list[JsonObject] = [
            {"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()}
            for piece in sound
        ]
        usage = {"input_tokens": tokens(len(text)), "output_tokens": 5 * len(text)}
        usage["total_tokens"] = sum(usage.values())
        done = {"type": "speech.audio.done", "usage": usage}
        await _stream(context, _EVENTS, (_event(one) for one in (*events, done)), fault)


async def _reply(context: RequestContext, answer: object) -> None:
    headers = [("content-type", _JSON), *context.common_headers()]
    await context.reply.whole(200, headers, msgspec.json.encode(answer))


async def _stream(
    context: RequestContext, media: str, pieces: Iterator[bytes], fault: Fault | None
) -> None:
    await context.reply.head(200, [("content-type", media), *context.common_headers()])
    pace = Pace(delay_ms=_PAUSE_MS)
    await context.reply.body(stream_actions(pieces, pace, fault, frozenset(), lambda sent: ()))


def _event(value: object, name: bool = True) -> bytes:
    kind = value.get("type") if name and isinstance(value, dict) else None
    line = b"event: %b\n" % kind.encode() if isinstance(kind, str) else b""
    return b"%bdata: %b\n\n" % (line, msgspec.json.encode(value))


def _text(body: JsonObject, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise ApiError(400, f"{name} must be a text.", param=name)
    return value


def _model(body: JsonObject) -> str:
    return _text(body, "model")


def _texts(value: Any, name: str, most: int = _MOST_INPUTS) -> list[str]:
    """The inputs of a request, each as a text: token ids are joined."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not value:
        raise ApiError(400, f"{name} must not be empty.", param=name)
    if all(isinstance(one, int) for one in value):
        value = [value]
    if len(value) > most:
        raise ApiError(400, f"{name} has more than {most} entries.", param=name)
    texts = []
    for one in value:
        if isinstance(one, list) and all(isinstance(number, int) for number in one):
            one = " ".join(map(str, one))
        if not isinstance(one, str):
            raise ApiError(400, f"{name} has an entry that is neither text nor tokens.", param=name)
        texts.append(one)
    return texts


def _counted(texts: list[str]) -> int:
    return sum(tokens(len(text)) for text in texts)


def _with_usage(body: JsonObject, answer: JsonObject, usage: JsonObject) -> JsonObject:
    return answer if "no-usage" in _model(body) else {**answer, "usage": usage}


def _embeddings(body: JsonObject) -> object:
    model, texts = _model(body), _texts(body.get("input"), "input")
    wanted = body.get("encoding_format")
    if wanted == "base64" and "no-base64" in model:
        raise ApiError(400, "encoding_format base64 is not supported.", param="encoding_format")
    is_packed = (wanted == "base64" and "floats" not in model) or "always-base64" in model
    dimensions = body.get("dimensions") or _DIMENSIONS
    vectors = [vector(text, dimensions) for text in texts]
    data = [
        {"object": "embedding", "index": index, "embedding": packed(one) if is_packed else one}
        for index, one in enumerate(vectors)
    ]
    count = _counted(texts)
    usage = {"prompt_tokens": count, "total_tokens": count}
    return _with_usage(body, {"object": "list", "data": data, "model": model}, usage)


def _embed_cohere(body: JsonObject) -> object:
    _model(body)
    if not body.get("input_type"):
        raise ApiError(400, "input_type is required.", param="input_type")
    texts = _texts(body.get("texts"), "texts", _MOST_TEXTS)
    dimensions = body.get("output_dimension") or _DIMENSIONS
    vectors = [vector(text, dimensions) for text in texts]
    kinds = body.get("embedding_types") or ["float"]
    embeddings: JsonObject = {"float": vectors} if "float" in kinds else {}
    if "base64" in kinds:
        embeddings["base64"] = [packed(one) for one in vectors]
    billed = {"billed_units": {"input_tokens": _counted(texts)}}
    return {"id": "sim", "texts": texts, "embeddings": embeddings, "meta": billed}


def _content_text(content: Any) -> str:
    parts = content.get("parts") if isinstance(content, dict) else None
    if not isinstance(parts, list):
        raise ApiError(400, "content must have parts.")
    return "".join(str(part.get("text", "")) for part in parts)


def _values(body: JsonObject, text: str) -> JsonObject:
    dimensions = body.get("outputDimensionality") or body.get("output_dimensionality")
    return {"values": vector(text, dimensions or _DIMENSIONS)}


def _embed_content(body: JsonObject) -> object:
    text = _content_text(body.get("content"))
    body = {**body, **body.get("embedContentConfig", {})}
    usage = {"promptTokenCount": tokens(len(text))}
    answer: JsonObject = {"embedding": _values(body, text)}
    return answer if "no-usage" in _model(body) else {**answer, "usageMetadata": usage}


def _predict(body: JsonObject) -> object:
    parameters = body.get("parameters") or {}
    texts = [_text(one, "content") for one in body.get("instances") or ()]
    if body["model"].startswith("gemini") and len(texts) > 1:
        raise ApiError(400, "The model takes one instance.")
    found = [
        {
            **_values(parameters, text),
            "statistics": {"token_count": tokens(len(text)), "truncated": False},
        }
        for text in texts
    ]
    return {"predictions": [{"embeddings": one} for one in found]}


def _batch_embed(body: JsonObject) -> object:
    requests = body.get("requests")
    if not isinstance(requests, list) or not requests:
        raise ApiError(400, "requests must not be empty.")
    for one in requests:
        if one.get("model") != f"models/{body['model']}":
            raise ApiError(400, "Each request must name the model of the path.")
    texts = [_content_text(one.get("content")) for one in requests]
    found = [_values(one, text) for one, text in zip(requests, texts, strict=True)]
    if "joins" in body["model"]:
        found = found[:1]
    answer: JsonObject = {"embeddings": found}
    usage = {"promptTokenCount": _counted(texts)}
    return answer if "no-usage" in body["model"] else {**answer, "usageMetadata": usage}


def _moderations(body: JsonObject) -> object:
    given = body.get("input")
    if isinstance(given, list) and given and isinstance(given[0], dict):
        given = " ".join(str(part.get("text", "")) for part in given)
    results = [
        {
            "flagged": "violence" in text.lower(),
            "categories": {"violence": "violence" in text.lower()},
            "category_scores": {"violence": score("violence", text)},
        }
        for text in _texts(given, "input")
    ]
    return {"id": "modr-sim", "model": _model(body), "results": results}


def _ranked(body: JsonObject, documents: Any) -> list[JsonObject]:
    query = _text(body, "query")
    if not isinstance(documents, list) or not documents:
        raise ApiError(400, "documents must not be empty.", param="documents")
    texts = [one["text"] if isinstance(one, dict) else one for one in documents]
    found: list[JsonObject] = [
        {"index": index, "relevance_score": score(query, text), "text": text}
        for index, text in enumerate(texts)
    ]
    return sorted(found, key=lambda one: -float(one["relevance_score"]))


def _rerank_cohere(body: JsonObject) -> object:
    if "return_documents" in body or any(isinstance(one, dict) for one in body["documents"]):
        raise ApiError(400, "documents must be texts; return_documents is unknown.")
    found = _ranked(body, body.get("documents"))[: body.get("top_n")]
    _model(body)
    return {
        "id": "sim",
        "results": [{name: one[name] for name in ("index", "relevance_score")} for one in found],
        "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}},
    }


def _rerank(body: JsonObject) -> object:
    found = _ranked(body, body.get("documents"))[: body.get("top_n")]
    for one in found:
        text = one.pop("text")
        if body.get("return_documents"):
            one["document"] = {"text": text}
    count = tokens(len(msgspec.json.encode(body)))
    answer: JsonObject = {"id": "sim", "model": _model(body), "results": found}
    return _with_usage(body, answer, {"total_tokens": count})


def _rerank_tei(body: JsonObject) -> object:
    found = _ranked(body, body.get("texts"))
    return [{"index": one["index"], "score": one["relevance_score"]} for one in found]


def _prompts(body: JsonObject) -> list[str]:
    return _texts(body.get("prompt"), "prompt")


def _usage(body: JsonObject, answer: str) -> JsonObject:
    given, made = _counted(_prompts(body)), tokens(len(answer))
    return {
        "prompt_tokens": given,
        "completion_tokens": made,
        "total_tokens": given + made,
    }


def _filling(body: JsonObject) -> str:
    prompt = _prompts(body)[0]
    suffix = body.get("suffix") or ""
    return f" [between {prompt[-20:]!r} and {suffix[:20]!r}]" if suffix else f" after {prompt!r}"


def _chunk(body: JsonObject, text: str, finish: str | None) -> JsonObject:
    choice = {"index": 0, "text": text, "finish_reason": finish, "logprobs": None}
    return {
        "id": "cmpl-sim",
        "object": "text_completion",
        "created": 1_767_225_600,
        "model": _model(body),
        "choices": [choice],
    }


def _completion(body: JsonObject) -> object:
    if body.get("suffix") and "no-suffix" in _model(body):
        raise ApiError(400, "suffix is not supported.", param="suffix")
    text = _filling(body)
    return _with_usage(body, _chunk(body, text, "stop"), _usage(body, text))


def _completion_events(body: JsonObject) -> Iterator[bytes]:
    text = _filling(body)
    half = len(text) // 2
    for piece, finish in ((text[:half], None), (text[half:], "stop")):
        yield _event(_chunk(body, piece, finish), name=False)
    options = body.get("stream_options") or {}
    if options.get("include_usage") and "no-usage" not in _model(body):
        last = {**_chunk(body, "", None), "choices": [], "usage": _usage(body, text)}
        yield _event(last, name=False)
    yield b"data: [DONE]\n\n"


def _fim(body: JsonObject) -> object:
    text = _filling(body)
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    chunk = {**_chunk(body, "", None), "object": "chat.completion", "choices": choices}
    return {**chunk, "usage": _usage(body, text)}


def _fim_events(body: JsonObject) -> Iterator[bytes]:
    text = _filling(body)
    chunk = {**_chunk(body, "", None), "object": "chat.completion.chunk"}
    for piece, finish in ((text, None), ("", "stop")):
        choices = [{"index": 0, "delta": {"content": piece}, "finish_reason": finish}]
        usage = {"usage": _usage(body, text)} if finish else {}
        yield _event({**chunk, "choices": choices, **usage}, name=False)
    yield b"data: [DONE]\n\n"


def _infilled(body: JsonObject) -> tuple[str, JsonObject]:
    before, after = str(body.get("input_prefix", "")), str(body.get("input_suffix", ""))
    text = f" [between {before[-20:]!r} and {after[:20]!r}]"
    counts = {
        "tokens_evaluated": tokens(len(before + after)),
        "tokens_predicted": tokens(len(text)),
    }
    return text, counts


def _infill(body: JsonObject) -> object:
    text, counts = _infilled(body)
    return {"content": text, "stop": True, "model": "sim", **counts}


def _infill_events(body: JsonObject) -> Iterator[bytes]:
    text, counts = _infilled(body)
    yield _event({"content": text, "stop": False}, name=False)
    yield _event({"content": "", "stop": True, **counts}, name=False)


def _image_usage(body: JsonObject, images: int) -> JsonObject:
    given = tokens(len(_text(body, "prompt")))
    return {
        "input_tokens": given,
        "output_tokens": 272 * images,
        "total_tokens": given + 272 * images,
        "input_tokens_details": {"text_tokens": given, "image_tokens": 0},
        "output_tokens_details": {"text_tokens": 0, "image_tokens": 272 * images},
    }


def _image(body: JsonObject) -> object:
    count = body.get("n") or 1
    data = [{"b64_json": base64.b64encode(PIXEL).decode()}] * count
    usage = _image_usage(body, count)
    return _with_usage({"model": "sim", **body}, {"created": 1_767_225_600, "data": data}, usage)


def _image_events(body: JsonObject) -> Iterator[bytes]:
    picture = base64.b64encode(PIXEL).decode()
    partials: Iterator[JsonObject] = (
        {"type": "image_generation.partial_image", "partial_image_index": at, "b64_json": picture}
        for at in range(body.get("partial_images") or 0)
    )
    usage = {"usage": _image_usage(body, 1)}
    done = {"type": "image_generation.completed", "b64_json": picture, **usage}
    return map(_event, chain(partials, (done,)))
