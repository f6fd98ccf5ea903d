"""What strict clients demand of a Chat Completions stream."""

from __future__ import annotations

from tests.checkers.framing import JsonObject, Verdict, as_object, count, frames, is_object


def check_chat(stream: bytes) -> Verdict:
    """Chat Completions: one id, role once, tool heads once, usage last, `[DONE]` last."""
    found = frames(stream)
    assert found, "an empty stream"
    assert all(frame.event is None for frame in found), "Chat frames carry no event line"
    assert found[-1].data == "[DONE]", "[DONE] ends the stream"
    assert all(frame.data != "[DONE]" for frame in found[:-1]), "nothing follows [DONE]"
    chunks = [as_object(frame.data) for frame in found[:-1]]
    failed = bool(chunks) and "error" in chunks[-1]
    if failed:
        _check_chat_error(chunks.pop())
    verdict = Verdict("failure" if failed else "success", events=chunks)
    assert all("error" not in chunk for chunk in chunks), "an error is the last frame"
    _check_chat_heads(chunks)
    _check_chat_choices([chunk for chunk in chunks if chunk["choices"]], verdict)
    _check_chat_usage(chunks, verdict)
    if verdict.succeeded:
        assert chunks, "a success needs chunks"
        assert verdict.finish is not None, "a success needs a finish reason"
        if verdict.finish != "length":
            _check_chat_calls(verdict)
    return verdict


def _check_chat_error(frame: JsonObject) -> None:
    error = frame["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]


def _check_chat_heads(chunks: list[JsonObject]) -> None:
    for name in ("id", "created", "model", "object"):
        assert len({chunk[name] for chunk in chunks}) <= 1, f"{name} changes"
    for chunk in chunks:
        assert chunk["object"] == "chat.completion.chunk"
        assert type(chunk["created"]) is int
        assert chunk["id"].startswith("chatcmpl-")
        assert len(chunk["choices"]) <= 1
    fingerprints = {"system_fingerprint" in chunk for chunk in chunks}
    assert len(fingerprints) <= 1, "system_fingerprint on every chunk or none"


def _check_chat_choices(chunks: list[JsonObject], verdict: Verdict) -> None:
    calls: list[list[str]] = []
    annotated = False
    for number, chunk in enumerate(chunks):
        choice = chunk["choices"][0]
        delta = choice["delta"]
        assert choice["index"] == 0
        assert ("role" in delta) == (number == 0), "the role stands in the first chunk only"
        assert "finish_reason" in choice
        assert choice.get("logprobs") is None or isinstance(choice["logprobs"], dict)
        assert verdict.finish is None, "nothing follows the finish reason"
        verdict.text += delta.get("content") or ""
        verdict.refusal += delta.get("refusal") or ""
        verdict.reasoning += delta.get("reasoning_content") or ""
        if "annotations" in delta:
            assert not annotated, "annotations come in one delta"
            annotated = True
        for fragment in delta.get("tool_calls", ()):
            _check_chat_fragment(fragment, calls)
        if choice["finish_reason"] is not None:
            assert not any(delta.values()), "the finish chunk has an empty delta"
            verdict.finish = choice["finish_reason"]
    assert verdict.finish in (None, "stop", "length", "tool_calls", "content_filter")
    verdict.calls = [(id, name, text) for id, name, text, _ in calls]


def _check_chat_fragment(fragment: JsonObject, calls: list[list[str]]) -> None:
    kind = "custom" if "custom" in fragment else "function"
    text_name = "input" if kind == "custom" else "arguments"
    body = fragment[kind]
    if fragment["index"] == len(calls):
        assert fragment["type"] == kind
        assert fragment["id"], "a call needs an id"
        assert body["name"], "a call needs a name"
        calls.append([fragment["id"], body["name"], body[text_name], kind])
        return
    assert fragment["index"] == len(calls) - 1, "indexes are dense, one call at a time"
    assert not {"id", "type"} & set(fragment), "id and type stand in the first fragment only"
    assert "name" not in body, "the name stands in the first fragment only"
    assert kind == calls[-1][3]
    calls[-1][2] += body[text_name]


def _check_chat_usage(chunks: list[JsonObject], verdict: Verdict) -> None:
    for number, chunk in enumerate(chunks):
        usage = chunk.get("usage")
        if not chunk["choices"]:
            assert number == len(chunks) - 1, "a chunk without choices comes last"
            assert "usage" in chunk, "a chunk without choices carries usage, null if unknown"
        if usage is None:
            continue
        assert number == len(chunks) - 1, "usage stands on the last chunk only"
        assert count(usage["total_tokens"]) == count(usage["prompt_tokens"]) + count(
            usage["completion_tokens"]
        )
        verdict.usage = usage


def _check_chat_calls(verdict: Verdict) -> None:
    ids = [call[0] for call in verdict.calls]
    assert len(ids) == len(set(ids)), "two calls share an id"
    if verdict.calls:
        assert verdict.finish in ("tool_calls", "content_filter", "length")
    kinds = {
        fragment["index"]: "custom" in fragment
        for chunk in verdict.events
        for choice in chunk["choices"]
        for fragment in choice["delta"].get("tool_calls", ())
    }
    for index, (_, _, text) in enumerate(verdict.calls):
        assert kinds[index] or is_object(text), "arguments are a JSON object"
