"""Files, uploads, batches, conversations, vector stores and containers: what a service holds, each
for the key that made it."""

import json
import re
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.view import JsonObject

_PLAIN = ("conversations", "vector_stores", "containers")
_PREFIXES = {"conversations": "conv_", "vector_stores": "vs_", "containers": "cntr_"}
_NAMED = re.compile(
    rb'"(?:file_id|container|container_id|conversation|cachedContent)"\s*:\s*"([^"]+)"'
    rb'|"(?:fileUri|file_uri|uri)"\s*:\s*"[^"]*/(files/[^"/]+)"'
)
TOKENS = (20, 5)
"""Input and output tokens of each line of a batch."""
_ENDED = ("completed", "cancelled", "expired", "failed")


@dataclass(slots=True)
class Held:
    """One thing, as it is shown, and its bytes."""

    key: str
    kind: str
    shown: JsonObject
    content: bytes = b""
    polls: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for something that is held: who asks, by which form of the paths, and for what.
    ``parts`` are the steps of the path below the version."""

    key: str
    anthropic: bool
    method: str
    parts: tuple[str, ...]
    media: str
    body: bytes
    base_url: str


@dataclass(frozen=True, slots=True)
class Given:
    """The answer: an object, or bytes of a type, with headers."""

    shown: JsonObject | None = None
    content: bytes = b""
    media: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Holdings:
    """What one simulator holds. A batch ends when it was looked at ``polls`` times, with ``ending``
    as its status; ``used`` has the tokens of all lines that were answered, by key."""

    def __init__(self) -> None:
        self.held: dict[str, Held] = {}
        self.polls = 1
        self.ending = "completed"
        self.used: Counter[str] = Counter()
        self._made = 0

    def check(self, key: str, body: bytes) -> None:
        """A request for an answer may not name what another key holds.

        Raises:
            ApiError: 404.
        """
        for plain, in_uri in _NAMED.findall(body):
            name = (plain or in_uri).decode()
            found = self.held.get(name)
            if name.startswith("cachedContents/") and (found is None or found.key != key):
                raise ApiError(403, "CachedContent not found (or permission denied)")
            if found is None or found.key == key:
                continue
            if found.kind.startswith("google_"):
                raise ApiError(403, f"You have no permission for {name}, or it may not exist.")
            raise ApiError(404, f"No such File object: {name}", code="not_found")

    def without_conversation(self, key: str, body: JsonObject) -> JsonObject:
        """A request without the conversation that it names, if its key holds that."""
        named = body.get("conversation")
        name = named.get("id") if isinstance(named, dict) else named
        found = self.held.get(name) if isinstance(name, str) else None
        if found is None or found.key != key:
            return body
        return {member: value for member, value in body.items() if member != "conversation"}

    def answer(self, asked: Asked) -> Given | None:
        """The answer to a request; None for a path that is of nothing held.

        Raises:
            ApiError: it cannot be answered.
        """
        match asked.method, asked.parts:
            case "POST", ("files",):
                return Given(self._upload(asked).shown)
            case "GET", ("files",):
                listed = [one.shown for one in self.held.values() if one.kind == "files"]
                return Given({"object": "list", "data": listed, "has_more": False})
            case "GET", ("files", name, "content"):
                content = self._get(asked, name).content
                return Given(None, content, "application/octet-stream")
            case "POST", ("uploads",):
                return Given(self._begin_upload(asked).shown)
            case "POST", ("uploads", name, verb):
                return Given(self._go_on(asked, name, verb))
            case "POST", ("batches",):
                return Given(self._batch(asked).shown)
            case "POST", ("messages", "batches"):
                return Given(self._message_batch(asked).shown)
            case "GET", ("messages", "batches", name, "results"):
                return Given(None, self._get(asked, name).content, "application/x-jsonl")
            case "POST", ("batches" | "messages", *_, name, "cancel"):
                return Given(self._cancel(self._get(asked, name)))
            case "GET", ("batches", name) | ("messages", "batches", name):
                return Given(self._look(self._get(asked, name)))
            case "POST", (kind,) if kind in _PLAIN:
                return Given(self._plain(asked, kind).shown)
            case _, ("files" | "uploads" | "batches" as kind, name):
                return Given(self._one(asked, name, kind))
            case _, ("messages", "batches", name):
                return Given(self._one(asked, name, "messages/batches"))
            case _, (kind, name, *below) if kind in _PLAIN:
                if below:
                    self._get(asked, name)
                    return Given({"object": "list", "data": [], "has_more": False, "id": name})
                return Given(self._one(asked, name, kind))
        return None

    def _get(self, asked: Asked, name: str) -> Held:
        found = self.held.get(name)
        if found is None or found.key != asked.key:
            raise ApiError(404, f"No such object: {name}", code="not_found")
        return found

    def _put(self, asked: Asked, kind: str, shown: JsonObject, content: bytes = b"") -> Held:
        held = self.held[shown["id"]] = Held(asked.key, kind, shown, content)
        return held

    def new_name(self, prefix: str) -> str:
        """An id that nothing has."""
        self._made += 1
        return f"{prefix}sim{self._made:06d}"

    def _one(self, asked: Asked, name: str, kind: str) -> JsonObject:
        found = self._get(asked, name)
        if asked.method == "DELETE":
            del self.held[name]
            if asked.anthropic:
                noun = "file_deleted" if kind == "files" else "message_batch_deleted"
                return {"id": name, "type": noun}
            return {"id": name, "object": str(found.shown["object"]), "deleted": True}
        return found.shown

    def _file(self, asked: Asked, name: str, purpose: str, content: bytes) -> Held:
        now = int(time.time())
        shown: JsonObject
        if asked.anthropic:
            shown = {
                "id": self.new_name("file_"), "type": "file", "filename": name,
                "mime_type": "text/plain", "size_bytes": len(content),
                "created_at": "2026-11-29T12:00:00Z", "downloadable": True,
            }  # fmt: skip
        else:
            shown = {
                "id": self.new_name("file-"), "object": "file", "bytes": len(content),
                "created_at": now, "filename": name, "purpose": purpose, "status": "processed",
            }  # fmt: skip
        return self._put(asked, "files", shown, content)

    def _upload(self, asked: Asked) -> Held:
        fields = _fields(asked)
        if "file" not in fields:
            raise ApiError(400, "'file' is a required property", code="missing")
        name, content = fields["file"]
        purpose = fields.get("purpose", ("", b"user_data"))[1].decode()
        return self._file(asked, name, purpose, content)

    def _begin_upload(self, asked: Asked) -> Held:
        given = json.loads(asked.body)
        now = int(time.time())
        shown = {
            "id": self.new_name("upload_"), "object": "upload", "bytes": given["bytes"],
            "created_at": now, "expires_at": now + 3600, "filename": given["filename"],
            "purpose": given["purpose"], "status": "pending",
        }  # fmt: skip
        return self._put(asked, "uploads", shown)

    def _go_on(self, asked: Asked, name: str, verb: str) -> JsonObject:
        upload = self._get(asked, name)
        if verb == "parts":
            data = _fields(asked)["data"][1]
            shown = {
                "id": self.new_name("part_"), "object": "upload.part", "upload_id": name,
                "created_at": int(time.time()),
            }  # fmt: skip
            return self._put(asked, "parts", shown, data).shown
        if verb == "complete":
            parts = json.loads(asked.body)["part_ids"]
            content = b"".join(self._get(asked, part).content for part in parts)
            shown = upload.shown
            made = self._file(asked, str(shown["filename"]), str(shown["purpose"]), content)
            upload.shown |= {"status": "completed", "file": made.shown}
        else:
            upload.shown |= {"status": "cancelled"}
        return upload.shown

    def _batch(self, asked: Asked) -> Held:
        given = json.loads(asked.body)
        lines = self._get(asked, given["input_file_id"]).content.splitlines()
        shown = {
            "id": self.new_name("batch_"), "object": "batch", "endpoint": given["endpoint"],
            "completion_window": given["completion_window"], "status": "validating",
            "created_at": int(time.time()), "input_file_id": given["input_file_id"],
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
        }  # fmt: skip
        return self._put(asked, "batches", shown)

    def _message_batch(self, asked: Asked) -> Held:
        requests = json.loads(asked.body)["requests"]
        shown = {
            "id": self.new_name("msgbatch_"), "type": "message_batch",
            "processing_status": "in_progress", "created_at": "2026-11-29T12:00:00Z",
            "expires_at": "2026-11-30T12:00:00Z", "results_url": None,
            "request_counts": _message_counts(len(requests), 0, 0),
        }  # fmt: skip
        held = self._put(asked, "messages/batches", shown, asked.body)
        held.shown["base"] = asked.base_url
        return held

    def _look(self, held: Held) -> JsonObject:
        held.polls += 1
        if held.polls >= self.polls:
            self._finish(held, self.ending)
        return {name: value for name, value in held.shown.items() if name != "base"}

    def _cancel(self, held: Held) -> JsonObject:
        self._finish(held, "cancelled")
        return {name: value for name, value in held.shown.items() if name != "base"}

    def _finish(self, held: Held, ending: str) -> None:
        """End a batch; of one that is not completed, the first line was answered."""
        status = held.shown.get("status") or held.shown.get("processing_status")
        if status in _ENDED or status == "ended":
            return
        if held.kind == "batches":
            self._finish_batch(held, ending)
        else:
            self._finish_messages(held, ending)

    def _finish_batch(self, held: Held, ending: str) -> None:
        source = self.held[held.shown["input_file_id"]]
        lines = [json.loads(line) for line in source.content.splitlines()]
        done = lines if ending == "completed" else lines[:1]
        asked = Asked(held.key, False, "POST", (), "", b"", "")
        made = self._file(asked, "output.jsonl", "batch_output", b"".join(map(_answered, done)))
        total, left = len(lines), lines[len(done) :]
        if left:
            errors = b"".join(_refused(line, ending) for line in left)
            failed = self._file(asked, "errors.jsonl", "batch_output", errors)
            held.shown["error_file_id"] = failed.shown["id"]
        held.shown |= {
            "status": ending,
            "output_file_id": made.shown["id"],
            "request_counts": {"total": total, "completed": len(done), "failed": total - len(done)},
            "usage": {
                "input_tokens": TOKENS[0] * len(done), "output_tokens": TOKENS[1] * len(done),
                "total_tokens": sum(TOKENS) * len(done),
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
        }  # fmt: skip
        self.used[held.key] += sum(TOKENS) * len(done)

    def _finish_messages(self, held: Held, ending: str) -> None:
        requests = json.loads(held.content)["requests"]
        done = requests if ending == "completed" else requests[:1]
        held.content = b"".join(_message(one) for one in done)
        held.content += b"".join(_unanswered(one, ending) for one in requests[len(done) :])
        url = f"{held.shown['base']}/v1/messages/batches/{held.shown['id']}/results"
        counts = _message_counts(0, len(done), len(requests) - len(done))
        held.shown |= {"processing_status": "ended", "results_url": url, "request_counts": counts}
        self.used[held.key] += sum(TOKENS) * len(done)

    def _plain(self, asked: Asked, kind: str) -> Held:
        given = json.loads(asked.body) if asked.body else {}
        shown = {
            "id": self.new_name(_PREFIXES[kind]), "object": kind[:-1],
            "created_at": int(time.time()), "name": given.get("name"),
            "metadata": given.get("metadata") or {}, "status": "completed",
        }  # fmt: skip
        return self._put(asked, kind, shown)


def _fields(asked: Asked) -> dict[str, tuple[str, bytes]]:
    """The file name and the content of each field of a form."""
    found = re.search(r'boundary="?([^";]+)', asked.media)
    if found is None:
        raise ApiError(400, "The body is not a form.", code="form")
    fields = {}
    for piece in asked.body.split(b"--" + found[1].encode())[1:-1]:
        head, _, content = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        name = re.search(rb'name="([^"]*)"', head)
        file = re.search(rb'filename="([^"]*)"', head)
        if name is not None:
            fields[name[1].decode()] = (file[1].decode() if file else "", content[:-2])
    return fields


def _line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _answered(line: JsonObject) -> bytes:
    """The line of a batch's output."""
    given, output = TOKENS
    body = {
        "id": "chatcmpl-sim", "object": "chat.completion", "created": 0,
        "model": line["body"]["model"],
        "choices": [{"index": 0, "finish_reason": "stop",
                     "message": {"role": "assistant", "content": "Done."}}],
        "usage": {"prompt_tokens": given, "completion_tokens": output,
                  "total_tokens": given + output},
    }  # fmt: skip
    response = {"status_code": 200, "request_id": "req_sim", "body": body}
    return _line(
        {"id": "batch_req", "custom_id": line["custom_id"], "response": response, "error": None}
    )


def _refused(line: JsonObject, ending: str) -> bytes:
    """The line of a batch's file of errors."""
    error = {"code": f"batch_{ending}", "message": "This request was not answered in time."}
    return _line(
        {"id": "batch_req", "custom_id": line["custom_id"], "response": None, "error": error}
    )


def _message(one: JsonObject) -> bytes:
    """The line of a message batch's results."""
    message = {
        "id": "msg_sim", "type": "message", "role": "assistant", "model": one["params"]["model"],
        "content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": TOKENS[0], "output_tokens": TOKENS[1]},
    }  # fmt: skip
    return _line(
        {"custom_id": one["custom_id"], "result": {"type": "succeeded", "message": message}}
    )


def _unanswered(one: JsonObject, ending: str) -> bytes:
    kind = "expired" if ending == "expired" else "canceled"
    return _line({"custom_id": one["custom_id"], "result": {"type": kind}})


def _message_counts(running: int, done: int, left: int) -> JsonObject:
    return {"processing": running, "succeeded": done, "errored": 0, "canceled": left, "expired": 0}
