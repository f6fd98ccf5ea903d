"""The paths, bodies and framings in which clouds offer the protocols: Bedrock's ``invoke``, Vertex
AI's ``rawPredict`` and Chat, and Azure's deployments.

A request is checked for what the cloud wants of it and turned into that of the vendor's own
service; its answer is framed as the cloud does. What they want is as anthropic's AnthropicBedrock
and AnthropicVertex and openai's AzureOpenAI send it.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from struct import pack
from typing import Literal
from urllib.parse import parse_qsl, quote
from zlib import crc32

import msgspec

from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.frames import data_frame
from dragoman.lab.simulator.script import Failure, Protocol
from dragoman.lab.simulator.view import JsonObject

Service = Literal["bedrock", "vertex", "azure"]

EVENT_STREAM = "application/vnd.amazon.eventstream"

_INVOKE = re.compile(r"/model/(.+)/(invoke|invoke-with-response-stream|count-tokens)", re.DOTALL)
_PROJECT = r"/v1(?:beta1)?/projects/[^/]+/locations/[^/]+"
_PREDICT = re.compile(rf"{_PROJECT}/publishers/anthropic/models/(.+):((?:streamR|r)awPredict)")
_CHAT = re.compile(rf"{_PROJECT}/endpoints/openapi/chat/completions")
_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)/chat/completions")
_COUNT = "count-tokens"

_VERSIONS: dict[Service, tuple[str, ...]] = {
    "bedrock": ("bedrock-2023-05-31", "2026-10-21"),
    "vertex": ("vertex-2023-10-16", "2026-10-21"),
}
_NOT_FOR_CLOUDS = ("x-api-key", "anthropic-version", "anthropic-workspace-id", "cookie")
"""Headers of Anthropic's own service, and of clients, that no cloud should see."""
_AWS_NAMES = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}
_AWS_EXCEPTIONS = {
    400: "validationException",
    429: "throttlingException",
    503: "serviceUnavailableException",
    504: "modelTimeoutException",
    529: "serviceUnavailableException",
}
_PROMPT_REPORT: JsonObject = {
    "id": "",
    "object": "",
    "created": 0,
    "model": "",
    "choices": [],
    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
}
"""The first chunk of every stream of Azure."""


@dataclass(frozen=True, slots=True)
class CloudCall:
    """A call of a model by the path of a cloud; the model is empty if it is in the body.
    ``wire_paths`` are the path as SDKs and as botocore send it, where a signature depends on it."""

    service: Service
    protocol: Protocol
    model: str
    stream: bool = False
    counts: bool = False
    wire_paths: tuple[str, ...] = ()

    def key(self, headers: Mapping[str, str]) -> str:
        """The key that a request without a token came with; empty if there is none.

        Raises:
            ApiError: 403, as AWS has it.
        """
        if self.service == "bedrock":
            raise ApiError(403, "Missing Authentication Token")
        return headers.get("api-key", "") if self.service == "azure" else ""

    def plain(
        self, body: JsonObject, headers: Mapping[str, str]
    ) -> tuple[JsonObject, Mapping[str, str]]:
        """The body and headers that the vendor's own service would have been sent.

        Raises:
            ApiError: 400, for what the cloud does not take.
        """
        if self.protocol == "chat":
            return ({**body, "model": self.model} if self.model else body), headers
        for name in _NOT_FOR_CLOUDS:
            if name in headers:
                raise ApiError(400, f"{name}: this header is not for a cloud")
        if self.service == "bedrock" and self.counts:
            body = _counted(body)
        body = dict(body)
        version = body.pop("anthropic_version", None)
        if version not in _VERSIONS[self.service]:
            known = " or ".join(repr(one) for one in _VERSIONS[self.service])
            raise ApiError(400, f"anthropic_version: Input should be {known}")
        betas = headers.get("anthropic-beta", "")
        if self.service == "bedrock":
            betas = ",".join(_betas(body.pop("anthropic_beta", [])))
            self._refuse(body, "model", "stream")
            if self.counts:
                for name in ("max_tokens", "metadata", "service_tier", "stop_sequences"):
                    body.pop(name, None)
        elif not self.counts:
            self._refuse(body, "model")
            if bool(body.get("stream")) is not self.stream:
                raise ApiError(400, "stream: it must say what the path says")
        if self.model:
            body["model"] = self.model
        if self.stream:
            body["stream"] = True
        date = "2023-06-01" if "-" in version and not version[0].isdigit() else version
        plain = {"anthropic-version": date, **({"anthropic-beta": betas} if betas else {})}
        return body, {**headers, **plain}

    def _refuse(self, body: JsonObject, *names: str) -> None:
        for name in names:
            if name in body:
                raise ApiError(400, f"{name}: Extra inputs are not permitted")

    def counted(self, count: int) -> JsonObject:
        """The answer to a count."""
        return {"inputTokens": count} if self.service == "bedrock" else {"input_tokens": count}

    def stream_of(self, frames: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
        """The content type of a stream, empty for the usual one, and its pieces."""
        if self.service == "bedrock":
            return EVENT_STREAM, _messages(frames)
        return "", _reported(frames) if self.service == "azure" else frames

    def failure(self, error: ApiError) -> Failure:
        """An error as the cloud has it: AWS names it."""
        failure = error.failure(self.protocol)
        if self.service != "bedrock" or not (error.code or "")[:1].isupper():
            return failure
        return replace(failure, type=error.code)

    def error(self, failure: Failure) -> tuple[list[tuple[str, str]], bytes] | None:
        """The headers and body of an error; None for those of the protocol."""
        if self.service != "bedrock":
            return None
        name = failure.type or _AWS_NAMES.get(failure.status, "InternalServerException")
        message = failure.message or "The request failed."
        headers = [("x-amzn-errortype", f"{name}:http://internal.amazon.com/coral/")]
        return headers, msgspec.json.encode({"message": message})

    def error_in_stream(self, failure: Failure) -> bytes | None:
        """The exception that ends a stream; None for an error in the protocol's own form."""
        if self.service != "bedrock":
            return None
        name = _AWS_EXCEPTIONS.get(failure.status, "internalServerException")
        message = {"message": failure.message or "The request failed."}
        headers = {
            ":exception-type": name,
            ":content-type": "application/json",
            ":message-type": "exception",
        }
        return event_message(headers, msgspec.json.encode(message))


def cloud_call(path: str, query: str) -> CloudCall | None:
    """The call of a decoded path, or None if it is of no cloud."""
    if found := _INVOKE.fullmatch(path):
        verb = found[2]
        stream = verb == "invoke-with-response-stream"
        sent = tuple(f"/model/{quote(found[1], safe=kept)}/{verb}" for kept in (":;", ""))
        return CloudCall("bedrock", "messages", found[1], stream, verb == _COUNT, sent)
    if found := _PREDICT.fullmatch(path):
        if found[1] == _COUNT:
            return CloudCall("vertex", "messages", "", counts=True)
        return CloudCall("vertex", "messages", found[1], found[2] == "streamRawPredict")
    if _CHAT.fullmatch(path):
        return CloudCall("vertex", "chat", "")
    found = _DEPLOYMENT.fullmatch(path)
    if found is not None and dict(parse_qsl(query)).get("api-version"):
        return CloudCall("azure", "chat", found[1])
    return None


def event_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One message of an event stream of AWS."""
    raw = b""
    for name, value in headers.items():
        raw += pack(">B", len(name)) + name.encode()
        raw += pack(">BH", 7, len(value.encode())) + value.encode()
    lengths = pack(">II", 16 + len(raw) + len(payload), len(raw))
    message = lengths + pack(">I", crc32(lengths)) + raw + payload
    return message + pack(">I", crc32(message))


_CHUNK = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}


def _messages(frames: Iterator[bytes]) -> Iterator[bytes]:
    """The messages with the events of frames; the last one has the service's own count. Each is
    padded, as the service does to hide the lengths of texts."""
    usage: JsonObject = {}
    for frame in frames:
        data = frame.partition(b"data: ")[2].strip()
        if not data:
            yield frame
            continue
        if b'"usage"' in data:
            event = msgspec.json.decode(data)
            usage |= event.get("usage") or event.get("message", {}).get("usage") or {}
        if b'"message_stop"' in data:
            counts = {
                "inputTokenCount": usage.get("input_tokens", 0),
                "outputTokenCount": usage.get("output_tokens", 0),
            }
            last = {"type": "message_stop", "amazon-bedrock-invocationMetrics": counts}
            data = msgspec.json.encode(last)
        padding = "abcdefghijklmnopqrstuvwxyz"[: len(data) % 26]
        payload = {"bytes": b64encode(data).decode(), "p": padding}
        yield event_message(_CHUNK, msgspec.json.encode(payload))


def _reported(frames: Iterator[bytes]) -> Iterator[bytes]:
    yield data_frame(msgspec.json.encode(_PROMPT_REPORT))
    yield from frames


def _counted(body: JsonObject) -> JsonObject:
    """The request in the body of a count."""
    try:
        return msgspec.json.decode(b64decode(body["input"]["invokeModel"]["body"]), type=JsonObject)
    except (KeyError, TypeError, ValueError, msgspec.DecodeError):
        raise ApiError(400, "input.invokeModel.body: must be a request in base64") from None


def _betas(given: object) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise ApiError(400, "anthropic_beta: Input should be a list of texts")
    return given
