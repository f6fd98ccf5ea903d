"""What Google's SDKs demand of a stream of generateContent."""

from __future__ import annotations

import base64
import itertools
import json

from tests.checkers.framing import Frame, JsonObject, Verdict, as_object, count

_DATA = (
    *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
    *("executableCode", "codeExecutionResult", "toolCall", "toolResponse", "audioTranscription"),
)
_COUNTS = (
    *("promptTokenCount", "toolUsePromptTokenCount"),
    *("candidatesTokenCount", "thoughtsTokenCount"),
)
_CLEAN = ("STOP", "MAX_TOKENS")


def check_google(stream: bytes) -> Verdict:
    """generateContent: data lines only, one id and model, a part in each chunk, one last chunk."""
    chunks = [as_object(frame.data) for frame in _frames(stream)]
    assert chunks, "an empty stream"
    failed = "error" in chunks[-1]
    if failed:
        _check_error(chunks.pop())
    verdict = Verdict("failure" if failed else "success", events=chunks)
    assert all("error" not in chunk for chunk in chunks), "an error is the last frame"
    for name in ("responseId", "modelVersion"):
        assert len({chunk[name] for chunk in chunks}) <= 1, f"{name} changes"
    for chunk in chunks:
        _check_chunk(chunk, verdict)
    if verdict.succeeded:
        assert verdict.finish is not None, "a success has a reason of its end"
    else:
        assert verdict.finish is None, "no error follows the end"
    return verdict


def _frames(stream: bytes) -> list[Frame]:
    """The events; lines may end as Google ends them, and empty lines may stand between events."""
    text = stream.decode().replace("\r\n", "\n")
    for separator in "\r\u2028\u2029\u0085":
        assert separator not in text, f"raw {separator!r} splits lines in some readers"
    assert not text or text.endswith("\n\n"), "the last event needs its blank line"
    lines = text.split("\n")
    for line, following in itertools.pairwise(lines):
        assert not line or line.startswith("data: {"), f"not a data line: {line!r}"
        assert not (line and following), "more than one line in an event"
    return [Frame(None, line[len("data: ") :]) for line in lines if line]


def _check_error(frame: JsonObject) -> None:
    assert list(frame) == ["error"], "an error stands alone"
    error = frame["error"]
    assert type(error["code"]) is int
    assert 400 <= error["code"] <= 599
    assert isinstance(error["message"], str)
    assert error["message"]
    assert error["status"].isupper()


def _check_chunk(chunk: JsonObject, verdict: Verdict) -> None:
    assert verdict.finish is None, "nothing follows the end"
    usage = chunk.get("usageMetadata")
    if usage is not None:
        _check_usage(usage)
        verdict.usage = usage
    if "promptFeedback" in chunk:
        assert "candidates" not in chunk, "a blocked prompt has no candidates"
        verdict.finish = "blocked"
        assert chunk["promptFeedback"]["blockReason"].isupper()
        return
    (candidate,) = chunk["candidates"]
    assert candidate.get("index", 0) == 0
    content = candidate["content"]
    assert content["role"] == "model", "without it the SDK for Node forgets the turn"
    assert content["parts"], "without parts both SDKs forget the turn"
    for part in content["parts"]:
        _check_part(part, verdict)
    reason = candidate.get("finishReason")
    if reason is not None:
        assert reason.isupper()
        verdict.finish = reason
        if reason not in _CLEAN:
            verdict.refusal = candidate.get("finishMessage", "")
    elif all(part.get("text") == "" for part in content["parts"]):
        assert any("thoughtSignature" in part for part in content["parts"]), "says nothing"


def _check_part(part: JsonObject, verdict: Verdict) -> None:
    assert sum(name in part for name in _DATA) == 1, f"a part has one kind of content: {part}"
    if "thoughtSignature" in part:
        assert base64.b64decode(part["thoughtSignature"], validate=True)
    if part.get("thought"):
        verdict.reasoning += part["text"]
    elif "text" in part:
        verdict.text += part["text"]
    elif "functionCall" in part:
        call = part["functionCall"]
        assert call["name"]
        assert isinstance(call.get("args", {}), dict)
        args = call.get("args", {})
        arguments = json.dumps(args, separators=(",", ":"), ensure_ascii=False)
        verdict.calls.append((call.get("id", ""), call["name"], arguments))


def _check_usage(usage: JsonObject) -> None:
    parts = sum(count(usage.get(name, 0)) for name in _COUNTS)
    assert count(usage["totalTokenCount"]) == parts, f"counts that add up: {usage}"
