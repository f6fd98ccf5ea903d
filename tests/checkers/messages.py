"""What strict clients demand of a Messages stream."""

from __future__ import annotations

from tests.checkers.framing import JsonObject, Verdict, as_object, count, frames, is_object

_MESSAGES_DELTAS = {
    "text": {"text_delta", "citations_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
    "tool_use": {"input_json_delta"},
    "redacted_thinking": set(),
}


def check_messages(stream: bytes) -> Verdict:
    """Messages: named events, dense blocks one at a time, message_stop on success only."""
    found = frames(stream)
    assert found, "an empty stream"
    events = [as_object(frame.data) for frame in found]
    for frame, event in zip(found, events, strict=True):
        assert frame.event == event["type"], "every event is named by its type"
    last = events[-1]["type"]
    assert last in ("message_stop", "error"), "a stream ends in message_stop or error"
    verdict = Verdict("success" if last == "message_stop" else "failure", events=events)
    body = [event for event in events[:-1] if event["type"] != "ping"]
    assert not {"message_stop", "error"} & {event["type"] for event in body}
    if last == "error":
        error = events[-1]["error"]
        assert isinstance(error["type"], str)
        assert isinstance(error["message"], str)
        assert error["message"]
    if body:
        assert events[0] == body[0], "nothing comes before message_start"
        assert events[1]["type"] == "ping", "a ping follows message_start"
        _check_message_start(body[0], verdict)
    else:
        assert last == "error", "a success has a message"
    rest = _check_blocks(body[1:], verdict)
    _check_message_delta(rest, verdict)
    return verdict


def _check_message_start(event: JsonObject, verdict: Verdict) -> None:
    assert event["type"] == "message_start"
    message = event["message"]
    assert message["id"].startswith("msg_")
    assert (message["type"], message["role"], message["content"]) == ("message", "assistant", [])
    assert message["model"]
    assert message["stop_reason"] is None
    assert message["stop_sequence"] is None
    verdict.usage = dict(message["usage"])
    for name in (
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
    ):
        count(message["usage"][name])


def _check_blocks(events: list[JsonObject], verdict: Verdict) -> list[JsonObject]:
    """Check the block events; return what follows the last of them."""
    current: JsonObject | None = None
    count = 0
    pieces: list[str] = []
    signatures = 0
    for number, event in enumerate(events):
        match event["type"]:
            case "content_block_start":
                assert current is None, "one block at a time"
                assert event["index"] == count, "indexes are dense"
                current, pieces, signatures = event["content_block"], [], 0
                _check_block_head(current)
            case "content_block_delta":
                assert current is not None, "a delta needs its block"
                assert event["index"] == count
                delta = event["delta"]
                assert delta["type"] in _MESSAGES_DELTAS[current["type"]], "delta of another block"
                assert signatures == 0, "the signature comes last"
                signatures += delta["type"] == "signature_delta"
                pieces.append(_piece(delta))
            case "content_block_stop":
                assert current is not None, "a stop needs its block"
                assert event["index"] == count
                if current["type"] == "thinking":
                    assert signatures == 1, "a thinking block has exactly one signature"
                _finish_block(current, "".join(pieces), verdict)
                current = None
                count += 1
            case _:
                assert current is None or not verdict.succeeded, "an open block at the end"
                return events[number:]
    assert current is None or not verdict.succeeded, "an open block at the end"
    return []


def _check_block_head(block: JsonObject) -> None:
    match block["type"]:
        case "text":
            assert block["text"] == ""
        case "thinking":
            assert (block["thinking"], block["signature"]) == ("", "")
        case "tool_use":
            assert block["id"]
            assert block["name"]
            assert block["input"] == {}
        case "redacted_thinking":
            assert block["data"]


def _piece(delta: JsonObject) -> str:
    match delta["type"]:
        case "text_delta":
            return str(delta["text"])
        case "thinking_delta":
            return str(delta["thinking"])
        case "input_json_delta":
            return str(delta["partial_json"])
        case "signature_delta":
            assert delta["signature"], "a signature is never empty"
    return ""


def _finish_block(block: JsonObject, text: str, verdict: Verdict) -> None:
    match block["type"]:
        case "text":
            verdict.text += text
        case "thinking":
            verdict.reasoning += text
        case "tool_use":
            verdict.calls.append((block["id"], block["name"], text))


def _check_message_delta(events: list[JsonObject], verdict: Verdict) -> None:
    kinds = [event["type"] for event in events]
    assert kinds in ([], ["message_delta"]), f"after the blocks: {kinds}"
    assert events or not verdict.succeeded, "a success needs a message_delta"
    for event in events:
        delta = event["delta"]
        assert "stop_sequence" in delta
        assert delta["stop_reason"] is not None
        verdict.finish = delta["stop_reason"]
        count(event["usage"]["output_tokens"])
        told = {name: value for name, value in event["usage"].items() if value is not None}
        verdict.usage = {**(verdict.usage or {}), **told}
        if verdict.finish == "refusal":
            verdict.refusal = (delta.get("stop_details") or {}).get("explanation") or ""
    if verdict.succeeded and verdict.finish != "max_tokens":
        ids = [call[0] for call in verdict.calls]
        assert len(ids) == len(set(ids)), "two calls share an id"
        assert all(is_object(text) for _, _, text in verdict.calls), "input is a JSON object"
