"""Google's files, cached contents and batches, each for the key that made it."""

import base64
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.holdings import TOKENS, Given, Held, Holdings
from dragoman.lab.simulator.view import JsonObject

GRANULARITY = 256 * 1024
"""Bytes of which a piece of an upload is a multiple, unless it is the last."""
_PATH = re.compile(
    r"/(?:(?:upload|download)/)?v1(?:alpha|beta)?/(?P<path>[^:]+(?:/[^:]+)?)(?::(?P<verb>\w+))?"
)
_LISTS = {"files": "files", "cachedContents": "cachedContents", "batches": "operations"}
_LIFE = timedelta(hours=48)
_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"
_ENDINGS = {"completed": "SUCCEEDED", "cancelled": "CANCELLED", "expired": "EXPIRED"}


@dataclass(frozen=True, slots=True)
class GoogleAsked:
    """A request for something that is held; ``key`` is empty for a piece of an upload."""

    key: str
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    base_url: str


@dataclass(slots=True)
class _Upload:
    key: str
    file: JsonObject
    media: str
    size: int
    content: bytearray = field(default_factory=bytearray)
    made: JsonObject | None = None


class GoogleHoldings:
    """What one simulator holds in Google's forms. Batches end as those in ``holdings``."""

    def __init__(self, holdings: Holdings) -> None:
        self._all = holdings
        self.uploads: dict[str, _Upload] = {}

    def is_piece(self, path: str, query: Mapping[str, str]) -> bool:
        """Whether a request goes on with an upload: it needs no key."""
        return path.startswith("/upload/") and query.get("upload_id") in self.uploads

    def broken(self, asked: GoogleAsked) -> None:
        """A piece of an upload broke off: what came in whole steps is kept."""
        upload = self.uploads[asked.query["upload_id"]]
        if int(asked.headers.get("x-goog-upload-offset", "0")) == len(upload.content):
            upload.content += asked.body[: len(asked.body) // GRANULARITY * GRANULARITY]

    def answer(self, asked: GoogleAsked) -> Given | None:
        """The answer to a request; None for a path that is of nothing held.

        Raises:
            ApiError: it cannot be answered.
        """
        found = _PATH.fullmatch(asked.path)
        if found is None:
            return None
        parts, verb = found["path"].split("/"), found["verb"]
        kind, name = parts[0], "/".join(parts)
        match asked.method, parts, verb:
            case "POST", ["files"], None if asked.path.startswith("/upload/"):
                if "upload_id" in asked.query:
                    return self._go_on(asked)
                return self._begin(asked)
            case "POST", ["models", model], "batchGenerateContent":
                return Given(self._batch(asked, model).shown)
            case "POST", ["cachedContents"], None:
                return Given(self._cache(asked).shown)
            case "POST", ["batches", _], "cancel":
                self._finish(self._get(asked, name), "cancelled")
                return Given({})
            case "GET", [_], None if kind in _LISTS:
                return Given(self._list(asked, kind))
            case "GET", ["files", _], "download":
                if (held := self._get(asked, name)).shown.get("source") != "GENERATED":
                    raise ApiError(400, "Only generated files can be downloaded.")
                return Given(None, held.content, str(held.shown["mimeType"]))
            case "GET", ["batches", _], None:
                held = self._get(asked, name)
                held.polls += 1
                if held.polls >= self._all.polls:
                    self._finish(held, self._all.ending)
                return Given(held.shown)
            case "PATCH", ["cachedContents", _], None:
                held = self._get(asked, name)
                held.shown |= _expiring(json.loads(asked.body))
                return Given(held.shown)
            case "GET", [_, _], None if kind in _LISTS:
                return Given(self._get(asked, name).shown)
            case "DELETE", [_, _], None if kind in _LISTS:
                self._get(asked, name)
                del self._all.held[name]
                return Given({})
        return None

    def _get(self, asked: GoogleAsked, name: str) -> Held:
        held = self._all.held.get(name)
        if held is None or held.key != asked.key:
            kind, _, id = name.partition("/")
            if kind == "batches":
                raise ApiError(404, "Requested entity was not found.")
            if kind == "cachedContents":
                raise ApiError(403, "CachedContent not found (or permission denied)")
            message = f"You do not have permission to access the File {id} or it may not exist."
            raise ApiError(403, message)
        return held

    def _put(self, key: str, kind: str, shown: JsonObject, content: bytes = b"") -> Held:
        held = self._all.held[shown["name"]] = Held(key, f"google_{kind}", shown, content)
        return held

    def _list(self, asked: GoogleAsked, kind: str) -> JsonObject:
        """A page of what an account has, the newest first."""
        every = [
            one.shown
            for one in self._all.held.values()
            if one.kind == f"google_{kind}" and one.key == asked.key
        ][::-1]
        start = int(asked.query.get("pageToken") or 0)
        end = start + min(int(asked.query.get("pageSize") or 10), 100)
        more = {"nextPageToken": str(end)} if end < len(every) else {}
        return {_LISTS[kind]: every[start:end], **more}

    # Files

    def _begin(self, asked: GoogleAsked) -> Given:
        """Begin an upload, or take one that is sent at once."""
        protocol = asked.headers.get("x-goog-upload-protocol")
        media = asked.headers.get("content-type", "application/octet-stream")
        if protocol == "raw":
            made = self._file(asked, {}, media, asked.body)
            return Given({"file": made.shown})
        if protocol == "multipart":
            described, media, content = _related(media, asked.body)
            return Given({"file": self._file(asked, described, media, content).shown})
        if protocol != "resumable" or asked.headers.get("x-goog-upload-command") != "start":
            raise ApiError(400, "Upload protocol and command are required.")
        declared = asked.headers
        size = int(declared.get("x-goog-upload-header-content-length") or -1)
        media = declared.get("x-goog-upload-header-content-type") or "application/octet-stream"
        described = json.loads(asked.body or b"{}").get("file") or {}
        token = secrets.token_urlsafe(96)
        self.uploads[token] = _Upload(asked.key, described, media, size)
        url = f"{asked.base_url}{asked.path}?upload_id={token}&upload_protocol=resumable"
        headers = (("x-goog-upload-url", url), ("x-goog-upload-control-url", url))
        return Given(None, b"", "text/plain", (*headers, *_standing("active")))

    def _go_on(self, asked: GoogleAsked) -> Given:
        """A command to an upload that has begun."""
        upload = self.uploads.get(asked.query["upload_id"])
        if upload is None:
            raise ApiError(404, "Upload not found.")
        commands = {
            one.strip() for one in asked.headers.get("x-goog-upload-command", "").split(",")
        }
        if upload.made is None and "upload" in commands:
            offset = int(asked.headers.get("x-goog-upload-offset") or 0)
            if offset != len(upload.content):
                raise ApiError(400, f"The upload is at {len(upload.content)}, not at {offset}.")
            if "finalize" not in commands and len(asked.body) % GRANULARITY:
                raise ApiError(400, f"Pieces must be multiples of {GRANULARITY} bytes.")
            upload.content += asked.body
        if upload.made is None and "finalize" in commands:
            if len(upload.content) != upload.size >= 0:
                raise ApiError(400, f"{len(upload.content)} bytes came of {upload.size}.")
            made = self._file(asked, upload.file, upload.media, bytes(upload.content), upload.key)
            upload.made = made.shown
        if "cancel" in commands:
            del self.uploads[asked.query["upload_id"]]
            return Given(None, b"", "text/plain", _standing("cancelled"))
        if upload.made is not None:
            return Given({"file": upload.made}, headers=_standing("final"))
        received = ("x-goog-upload-size-received", str(len(upload.content)))
        return Given(None, b"", "text/plain", (received, *_standing("active")))

    def _file(
        self, asked: GoogleAsked, described: JsonObject, media: str, content: bytes, key: str = ""
    ) -> Held:
        name = described.get("name") or f"files/{self._all.new_name('')}"
        if name in self._all.held:
            raise ApiError(409, f"Resource {name} already exists.")
        title = described.get("displayName") or described.get("display_name")
        digest = base64.b64encode(sha256(content).hexdigest().encode()).decode()
        shown = {
            "name": name, **({"displayName": title} if title else {}), "mimeType": media,
            "sizeBytes": str(len(content)), "createTime": _at(), "updateTime": _at(),
            "expirationTime": _at(_LIFE), "sha256Hash": digest, "state": "ACTIVE",
            "uri": f"{asked.base_url}/v1beta/{name}", "source": "UPLOADED",
        }  # fmt: skip
        return self._put(key or asked.key, "files", shown, content)

    # Cached contents

    def _cache(self, asked: GoogleAsked) -> Held:
        given = json.loads(asked.body)
        if not given.get("model", "").startswith("models/"):
            raise ApiError(400, "CachedContent.model must be models/{model}.", param="model")
        shown = {
            "name": f"cachedContents/{self._all.new_name('')}", "model": given["model"],
            "createTime": _at(), "updateTime": _at(), **_expiring(given),
            "usageMetadata": {"totalTokenCount": len(asked.body) // 4},
        }  # fmt: skip
        return self._put(asked.key, "cachedContents", shown)

    # Batches

    def _batch(self, asked: GoogleAsked, model: str) -> Held:
        batch = json.loads(asked.body)["batch"]
        source = batch["inputConfig"]
        if name := source.get("fileName") or source.get("file_name"):
            lines = [json.loads(line) for line in self._get(asked, name).content.splitlines()]
        else:
            lines = source["requests"]["requests"]
        id = f"batches/{self._all.new_name('')}"
        metadata = {
            "@type": _TYPE, "model": f"models/{model}", "displayName": batch.get("displayName"),
            "createTime": _at(), "updateTime": _at(), "state": "BATCH_STATE_PENDING", "name": id,
            "batchStats": {"requestCount": str(len(lines))},
        }  # fmt: skip
        kept = json.dumps({"file": name, "lines": lines, "url": asked.base_url}).encode()
        return self._put(asked.key, "batches", {"name": id, "metadata": metadata}, kept)

    def _finish(self, held: Held, ending: str) -> None:
        """End a batch; of one that is not completed, the first request was answered."""
        if held.shown.get("done"):
            return
        kept = json.loads(held.content)
        lines = kept["lines"] if ending == "completed" else kept["lines"][:1]
        metadata = held.shown["metadata"]
        answers = [_answered(line, metadata["model"]) for line in lines]
        output: JsonObject = {"inlinedResponses": {"inlinedResponses": answers}}
        if kept["file"]:
            content = b"".join(json.dumps(one).encode() + b"\n" for one in answers)
            asked = GoogleAsked(held.key, "", "", {}, {}, b"", kept["url"])
            name = f"files/batch-{self._all.new_name('')}"
            made = self._file(asked, {"name": name}, "application/jsonl", content)
            made.shown["source"] = "GENERATED"
            made.shown["downloadUri"] = f"{made.shown['uri']}:download?alt=media"
            output = {"responsesFile": name}
        metadata |= {
            "state": f"BATCH_STATE_{_ENDINGS[ending]}", "endTime": _at(), "updateTime": _at(),
            "output": output,
        }  # fmt: skip
        held.shown |= {"done": True, "response": {"@type": f"{_TYPE}Output", **output}}
        self._all.used[held.key] += sum(TOKENS) * len(lines)


def _at(later: timedelta = timedelta()) -> str:
    return (datetime.now(UTC) + later).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _expiring(given: JsonObject) -> JsonObject:
    """When a cached content is gone."""
    if "expireTime" in given:
        return {"expireTime": given["expireTime"]}
    seconds = float(str(given.get("ttl", "3600s")).removesuffix("s"))
    return {"expireTime": _at(timedelta(seconds=seconds))}


def _standing(status: str) -> tuple[tuple[str, str], ...]:
    """Headers that say how an upload stands."""
    return (
        ("x-goog-upload-status", status),
        ("x-goog-upload-chunk-granularity", str(GRANULARITY)),
    )


def _related(media: str, body: bytes) -> tuple[JsonObject, str, bytes]:
    """What a body of two parts says of a file, its type and its content."""
    found = re.search(r'boundary="?([^";]+)', media)
    if found is None:
        raise ApiError(400, "The body has no parts.")
    about, file = body.split(b"--" + found[1].encode())[1:3]
    head, _, content = file.removeprefix(b"\r\n").partition(b"\r\n\r\n")
    kind = re.search(rb"content-type:\s*(\S+)", head, re.IGNORECASE)
    described = json.loads(about.partition(b"\r\n\r\n")[2]).get("file") or {}
    return described, kind[1].decode() if kind else "application/octet-stream", content[:-2]


def _answered(line: JsonObject, model: str) -> JsonObject:
    """The answer to a request of a batch, with the key or the metadata that it has."""
    given, output = TOKENS
    response = {
        "candidates": [{"index": 0, "finishReason": "STOP",
                        "content": {"role": "model", "parts": [{"text": "Done."}]}}],
        "usageMetadata": {"promptTokenCount": given, "candidatesTokenCount": output,
                          "totalTokenCount": given + output},
        "modelVersion": model.removeprefix("models/"), "responseId": "sim",
    }  # fmt: skip
    own: JsonObject = {name: line[name] for name in ("key", "metadata") if name in line}
    return {**own, "response": response}
