"""What strict clients demand of a Responses stream."""

from __future__ import annotations

from tests.checkers.framing import JsonObject, Verdict, as_object, count, frames, is_object

_TERMINALS = {"response.completed", "response.incomplete", "response.failed"}
_LIFECYCLE = {"response.created", "response.in_progress", *_TERMINALS}
_BEFORE_SEARCH: dict[str, tuple[str | None, ...]] = {
    "in_progress": (None,),
    "searching": ("in_progress", "searching"),
    "completed": ("in_progress", "searching"),
}
"""What comes right before each event of a web search."""
_PART_TEXTS = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text"}


class _Items:
    """The output items of a Responses stream while it is read, at most one of them open."""

    def __init__(self) -> None:
        self.done: list[JsonObject] = []
        self.item: JsonObject | None = None
        self.parts: list[JsonObject] = []
        self.part: JsonObject | None = None
        self.kind = ""
        self.text = ""
        self.text_done = False
        self.annotations: list[JsonObject] = []
        self.searches: list[str] = []

    def take(self, event: JsonObject) -> None:
        """Check one event that belongs to an item."""
        name = event["type"].removeprefix("response.")
        if name == "output_item.added":
            self._added(event)
            return
        assert self.item is not None, f"{name} without an open item"
        assert event["output_index"] == len(self.done), "output indexes are dense"
        if name == "output_item.done":
            self._done(event["item"])
            return
        assert event["item_id"] == self.item["id"], "an item keeps its id"
        if name in ("content_part.added", "reasoning_summary_part.added"):
            self._part_added(event)
        elif name in ("content_part.done", "reasoning_summary_part.done"):
            self._part_done(event)
        elif name == "output_text.annotation.added":
            assert event["annotation_index"] == len(self.annotations)
            self.annotations.append(event["annotation"])
        elif name.startswith("web_search_call."):
            self._searched(name.rpartition(".")[2])
        elif name.endswith(".delta"):
            self._check_kind(event)
            assert not self.text_done, "a delta after the text was done"
            self.text += event["delta"]
        else:
            self._text_done(event)

    def _added(self, event: JsonObject) -> None:
        assert self.item is None, "one open item at a time"
        assert event["output_index"] == len(self.done), "output indexes are dense"
        item = event["item"]
        assert item["id"], "an item needs an id"
        assert item["id"] not in {done["id"] for done in self.done}, "two items share an id"
        match item["type"]:
            case "message":
                assert (item["role"], item["content"]) == ("assistant", [])
                assert item["status"] == "in_progress"
            case "reasoning":
                assert item["summary"] == []
            case "function_call":
                assert (item["arguments"], item["status"]) == ("", "in_progress")
            case "custom_tool_call":
                assert item["input"] == ""
            case "web_search_call":
                assert item["status"] == "in_progress"
        self.searches = []
        self.item, self.parts, self.part = item, [], None
        self.text, self.text_done, self.annotations = "", False, []

    def _searched(self, progress: str) -> None:
        """A search begins, looks for something any number of times, and is over."""
        assert self.item is not None
        assert self.item["type"] == "web_search_call"
        before = self.searches[-1] if self.searches else None
        assert before in _BEFORE_SEARCH[progress], f"{progress} after {before}"
        self.searches.append(progress)

    def _part_added(self, event: JsonObject) -> None:
        assert self.part is None, "one open part at a time"
        part = event["part"]
        self.kind = part["type"]
        index = event["summary_index" if self.kind == "summary_text" else "content_index"]
        same = [
            done
            for done in self.parts
            if (done["type"] == "summary_text") == (self.kind == "summary_text")
        ]
        assert index == len(same), "part indexes are dense"
        assert part[_PART_TEXTS.get(self.kind, "text")] == ""
        if self.kind == "output_text":
            assert (part["annotations"], part["logprobs"]) == ([], [])
        self.part, self.text, self.text_done, self.annotations = part, "", False, []

    def _check_kind(self, event: JsonObject) -> None:
        """A text event has to be of the open part's, or of the call's, own family."""
        assert self.item is not None
        family = event["type"].removeprefix("response.").rsplit(".", 1)[0]
        expected = {
            "output_text": "output_text",
            "refusal": "refusal",
            "reasoning_text": "reasoning_text",
            "summary_text": "reasoning_summary_text",
            "function_call": "function_call_arguments",
            "custom_tool_call": "custom_tool_call_input",
        }[self.part["type"] if self.part is not None else self.item["type"]]
        assert family == expected, f"{family} inside {expected}"
        if family == "output_text":
            assert isinstance(event["logprobs"], list)

    def _text_done(self, event: JsonObject) -> None:
        self._check_kind(event)
        assert not self.text_done
        self.text_done = True
        whole = next(
            event[name] for name in ("text", "refusal", "arguments", "input") if name in event
        )
        assert whole == self.text, "done repeats the deltas"

    def _part_done(self, event: JsonObject) -> None:
        assert self.part is not None, "a part is done once"
        assert self.text_done, "the text is done before its part"
        part = event["part"]
        assert part["type"] == self.part["type"]
        assert part[_PART_TEXTS.get(self.kind, "text")] == self.text
        if self.kind == "output_text":
            assert part["annotations"] == self.annotations
            assert isinstance(part["logprobs"], list)
        self.parts.append(part)
        self.part = None

    def _done(self, item: JsonObject) -> None:
        assert self.item is not None
        assert self.part is None, "an open part at the end of its item"
        for name in ("id", "type", "call_id", "name", "namespace", "role"):
            assert item.get(name) == self.item.get(name), f"{name} changes"
        summary = [part for part in self.parts if part["type"] == "summary_text"]
        content = [part for part in self.parts if part["type"] != "summary_text"]
        match item["type"]:
            case "message":
                assert item["content"] == content
                assert item["status"] in ("completed", "incomplete")
            case "reasoning":
                assert item["summary"] == summary
                assert (item.get("content") or []) == content
            case "function_call":
                assert self.text_done
                assert item["arguments"] == self.text
                assert item["status"] in ("completed", "incomplete")
            case "custom_tool_call":
                assert self.text_done
                assert item["input"] == self.text
            case "web_search_call":
                assert self.searches[-1:] == ["completed"]
                assert item["status"] == "completed"
                assert item["action"]["type"] == "search"
        self.done.append(item)
        self.item = None


def check_responses(stream: bytes) -> Verdict:
    """Responses: dense sequence numbers, every added has its done, exactly one terminal."""
    found = frames(stream)
    if found and found[-1].data == "[DONE]":
        assert found.pop().event is None
    assert found, "an empty stream"
    events = [as_object(frame.data) for frame in found]
    for number, (frame, event) in enumerate(zip(found, events, strict=True)):
        assert frame.event == event["type"], "every event is named by its type"
        assert event["sequence_number"] == number, "sequence numbers are dense"
    terminals = [event for event in events if event["type"] in _TERMINALS]
    assert len(terminals) == 1, "exactly one terminal event"
    assert events[-1] is terminals[0], "nothing follows the terminal event"
    response = terminals[0]["response"]
    failed = terminals[0]["type"] == "response.failed"
    verdict = Verdict("failure" if failed else "success", events=events)
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    lifecycle = [event["response"] for event in events if event["type"] in _LIFECYCLE]
    assert len({told["id"] for told in lifecycle}) == 1, "one response id"
    assert response["id"].startswith("resp_")
    for told in lifecycle[:2]:
        assert (told["status"], told["output"]) == ("in_progress", [])
        assert told["usage"] is None
    items = _Items()
    for event in events[2:-1]:
        if event["type"] != "error":
            items.take(event)
    assert ("error" in [event["type"] for event in events]) == failed
    _check_terminal(terminals[0], items, verdict)
    return verdict


def _check_terminal(event: JsonObject, items: _Items, verdict: Verdict) -> None:
    response = event["response"]
    assert event["type"] == "response." + response["status"]
    verdict.finish = response["status"]
    if not verdict.succeeded:
        assert response["error"]["code"]
        assert response["error"]["message"]
        return
    assert items.item is None, "an open item at the end"
    assert response["output"] == items.done, "the output repeats the finished items"
    assert response["error"] is None
    incomplete = response["incomplete_details"]
    assert (incomplete is None) == (response["status"] == "completed")
    assert (response["completed_at"] is None) == (response["status"] != "completed")
    if incomplete is not None:
        verdict.finish = incomplete["reason"]
    verdict.usage = response["usage"]
    _check_responses_usage(response["usage"])
    for item in items.done:
        _collect(item, verdict)
    ids = [call[0] for call in verdict.calls]
    assert len(ids) == len(set(ids)), "two calls share an id"


def _check_responses_usage(usage: JsonObject) -> None:
    count(usage["input_tokens_details"]["cached_tokens"])
    count(usage["output_tokens_details"]["reasoning_tokens"])
    total = count(usage["input_tokens"]) + count(usage["output_tokens"])
    assert count(usage["total_tokens"]) == total


def _collect(item: JsonObject, verdict: Verdict) -> None:
    match item["type"]:
        case "message":
            for part in item["content"]:
                verdict.text += part.get("text", "")
                verdict.refusal += part.get("refusal", "")
        case "reasoning":
            parts = [*item["summary"], *(item.get("content") or ())]
            verdict.reasoning += "\n\n".join(part["text"] for part in parts)
        case "function_call":
            assert item["status"] == "incomplete" or is_object(item["arguments"])
            verdict.calls.append((item["call_id"], item["name"], item["arguments"]))
        case "custom_tool_call":
            verdict.calls.append((item["call_id"], item["name"], item["input"]))
