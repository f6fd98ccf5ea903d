"""The same events, written whole and written as a stream that is put together again, are the same
answer with the same losses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Block,
    Foreign,
    ForeignCitation,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    UrlCitation,
    WebSearch,
)
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Ended,
    Event,
    Finished,
    Metered,
    Opened,
    PartBreak,
    Sealed,
    Started,
)
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.losses import Ledger, Loss, LossKind
from dragoman.canonical.options import Options
from dragoman.canonical.requests import JsonObject, Request, Thinking
from dragoman.canonical.sequencer import Sequencer
from dragoman.canonical.usage import Usage
from dragoman.protocols import CODECS
from dragoman.protocols.partial_json import read_cut_object
from dragoman.protocols.settings import make_options
from dragoman.sse import DONE, Decoder
from tests.folded import unfold
from tests.losses.requests import CHAT, GOOGLE, MESSAGES, RESPONSES
from tests.properties import strategies as own
from tests.properties.cells import reply, restored
from tests.tables.clients import answer_of

LOGPROB = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
USAGE = Usage(input=5, output=3, cached=1, cache_write=1, reasoning=2)
STOPPED = Finished(Finish(FinishReason.STOP))
CUT = Finished(Finish(FinishReason.LENGTH))
MODERATION = {
    side: {
        "type": "moderation_result",
        "model": "m",
        "flagged": False,
        "categories": {},
        "category_scores": {},
        "category_applied_input_types": {},
    }
    for side in ("input", "output")
}


class Asked(msgspec.Struct, frozen=True):
    """What a client asked for, and how its route is set."""

    thinking: Thinking | None = Thinking(mode="adaptive")
    json: bool = False
    options: Options = Options()


PLAIN = Asked()


# --- written both ways --------------------------------------------------------------------------


def written(protocol: str, events: Iterable[Event], asked: Asked, streamed: bool) -> Written:
    """An answer and its losses, through the stages that are before the writer."""
    ledger, sequencer = Ledger(), Sequencer()
    given = reply(protocol, stream=True)
    fields = {"thinking": asked.thinking, "output_format": JsonObject() if asked.json else None}
    request: Request = replace(given.request, **fields)
    given = replace(given, request=request, ledger=ledger, options=asked.options)
    writer = CODECS[protocol].translate.answer_writer(given, streamed)
    ordered = [event for told in restored(events) for event in sequencer.push(told)]
    stream = b"".join([writer.write(event) for event in ordered])
    if streamed:
        return Written(ACCUMULATED[protocol](stream), list(ledger))
    assert stream == b""
    return Written(msgspec.json.decode(msgspec.json.encode(writer.answer())), list(ledger))


class Written(msgspec.Struct):
    """A client's answer, and what it was not given."""

    answer: Any
    losses: list[Loss]


def accumulated_chat(stream: bytes) -> Any:
    """The completion that chunks make."""
    body: dict[str, Any] = {}
    message: dict[str, Any] = {}
    logprobs: dict[str, list[Any]] = {"content": [], "refusal": []}
    choice: dict[str, Any] = {"index": 0, "message": message, "logprobs": None}
    for data in _frames(stream):
        if data == DONE:
            continue
        chunk = msgspec.json.decode(data)
        for told in chunk.pop("choices"):
            for name, value in told["delta"].items():
                _merge(message, name, value)
            choice["finish_reason"] = told["finish_reason"]
            for side, records in (told["logprobs"] or {}).items():
                logprobs[side] += records or []
        body.update(chunk)
    if any(logprobs.values()):
        choice["logprobs"] = {side: records or None for side, records in logprobs.items()}
    return {**body, "object": "chat.completion", "choices": [choice]}


def _merge(message: dict[str, Any], name: str, value: Any) -> None:
    if name == "tool_calls":
        calls = message.setdefault(name, [])
        for told in value:
            index = told.pop("index")
            if index == len(calls):
                calls.append(told)
                continue
            (kind,) = told
            for field, text in told[kind].items():
                calls[index][kind][field] += text
    elif name == "role" or message.get(name) is None:
        message[name] = value
    elif value is not None:
        message[name] += value


def accumulated_messages(stream: bytes) -> Any:
    """The message that events make."""
    message: dict[str, Any] = {}
    inputs: dict[int, str] = {}
    for data in _frames(stream):
        event = msgspec.json.decode(data)
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
            case "content_block_delta":
                delta, block = event["delta"], message["content"][event["index"]]
                match delta.pop("type"):
                    case "citations_delta":
                        block.setdefault("citations", []).append(delta["citation"])
                    case "signature_delta":
                        block["signature"] = delta["signature"]
                    case "input_json_delta":
                        text = inputs.get(event["index"], "") + delta["partial_json"]
                        inputs[event["index"]] = text
                    case _:
                        ((name, text),) = delta.items()
                        block[name] += text
            case "message_delta":
                message.update(event["delta"])
                message["usage"].update(event["usage"])
    for index, text in inputs.items():
        message["content"][index]["input"] = read_cut_object(text)
    return message


def accumulated_responses(stream: bytes) -> Any:
    """The response that the last event holds, which SDKs take for the answer."""
    return msgspec.json.decode(_frames(stream)[-1])["response"]


def _frames(stream: bytes) -> Sequence[bytes]:
    decoder = Decoder()
    return [frame.data for frame in [*decoder.feed(stream), *decoder.finish()]]


ACCUMULATED: dict[str, Callable[[bytes], Any]] = {
    CHAT: accumulated_chat,
    MESSAGES: accumulated_messages,
    RESPONSES: accumulated_responses,
    GOOGLE: lambda stream: answer_of(GOOGLE, stream),
}


def settled(protocol: str, answer: Any) -> Any:
    """The answer without differences that have no meaning: a Chat stream says that the content is
    an empty string before it is known whether there will be any."""
    if protocol == CHAT:
        message = answer["choices"][0]["message"]
        message["content"] = message["content"] or None
    if protocol == RESPONSES and answer.get("completed_at"):
        answer["completed_at"] = "some time"
    return answer


def check(protocol: str, events: Sequence[Event], asked: Asked = PLAIN) -> Written:
    """Both ways give the same; returns what."""
    whole = written(protocol, events, asked, streamed=False)
    streamed = written(protocol, events, asked, streamed=True)
    assert settled(protocol, streamed.answer) == settled(protocol, whole.answer)
    assert streamed.losses == whole.losses
    return whole


# --- any answer ---------------------------------------------------------------------------------


@st.composite
def rare_blocks(draw: st.DrawFn) -> Block:
    """Blocks with what few answers have."""
    return draw(
        st.sampled_from(
            (
                Text(text="a", logprobs=(LOGPROB,)),
                Text(text="", logprobs=(LOGPROB,)),
                Text(text="b", phase="commentary", annotations=(UrlCitation(url="u"),)),
                Text(text="c", annotations=(ForeignCitation(MESSAGES, {"type": "page_location"}),)),
                Text(text="", annotations=(ForeignCitation(MESSAGES, {"type": "page_location"}),)),
                Reasoning(parts=("", "x")),
                Reasoning(parts=("", "")),
                Reasoning(parts=("x", "")),
                Reasoning(redacted=True, opaque=Opaque(RESPONSES, "ENC", id="rs_8")),
                WebSearch(query="q", sources=("https://a.example", "https://b.example")),
                WebSearch(failed=True),
                Foreign(origin=MESSAGES, type="mcp_tool_use", raw={"type": "mcp_tool_use"}),
                Foreign(origin=RESPONSES, type="x_call", raw={}, loss=LossKind.KNOB),
            )
        )
    )


@st.composite
def any_events(draw: st.DrawFn) -> list[Event]:
    """The events of an answer with anything in it, its texts cut anywhere."""
    answer = draw(own.any_answers())
    blocks = [*answer.blocks, *draw(st.lists(rare_blocks(), max_size=3))]
    if answer.finish.reason is FinishReason.LENGTH and draw(st.booleans()):
        cut = ToolCall(id="call_cut", name="f", arguments='{"a":1,"b":"unfini')
        blocks.append(cut)
    tier = draw(st.sampled_from((None, "default", "priority", "flex", "batch")))
    answer = replace(
        answer,
        blocks=tuple(blocks),
        service_tier=tier,
        moderation=draw(st.sampled_from((None, MODERATION))),
    )
    events: list[Event] = []
    for event in unfold(answer):
        if type(event) is Delta and event.logprobs is None:
            events += [Delta(event.index, piece) for piece in draw(own.pieces(event.text))]
        else:
            events.append(event)
    return events


askings = st.builds(
    Asked,
    thinking=st.sampled_from((None, Thinking(mode="adaptive"), Thinking(display="omitted"))),
    json=st.booleans(),
    options=st.builds(
        make_options,
        show_reasoning=st.sampled_from(("auto", "always", "never")),
        reasoning_details=st.booleans(),
        reasoning_field=st.sampled_from(("reasoning_content", "reasoning", "both")),
        reasoning_as=st.sampled_from(("content", "summary")),
        refusal_as=st.sampled_from(("incomplete", "completed")),
        tool_turn=st.sampled_from(("completed", "required_action")),
        response_fields=st.sampled_from(("all", "classic")),
    ),
)


@pytest.mark.parametrize("protocol", [CHAT, MESSAGES, RESPONSES, GOOGLE])
@given(events=any_events(), asked=askings)
def test_any_answer(protocol: str, events: list[Event], asked: Asked) -> None:
    check(protocol, events, asked)


# --- one meaning, which is easily given twice -----------------------------------------------------


def answer(*events: Event, finish: Finished = STOPPED, tier: str | None = None) -> list[Event]:
    """The events of an answer."""
    return [Started("up", "x", 5, tier), *events, finish, Metered(USAGE), Ended()]


def block(head: Block, *events: Event) -> list[Event]:
    """The events of the first block."""
    return [Opened(0, head), *events, Closed(0)]


CUT_CALL = block(ToolCall(id="call_1", name="f"), Delta(0, '{"a":1,"b":"unfini'))
SOURCES = (UrlCitation(url="https://a.example"), UrlCitation(url="https://b.example"))
CITATION = UrlCitation(url="https://c.example", start=0, end=1)
SEARCH = block(WebSearch(), Delta(0, "q"), *(Annotated(0, source) for source in SOURCES))
REFUSED = block(Refusal(text=""), Delta(0, "no", (LOGPROB,)))
REMARK = block(Text(text="", phase="commentary"), Delta(0, "Well."), Annotated(0, SOURCES[0]))
EMPTY_PART = block(Reasoning(), PartBreak(0), Delta(0, "x"), Sealed(0, Opaque(MESSAGES, "SIG")))
NOTHING = block(Reasoning(), PartBreak(0))
CITED = block(
    Text(text=""), Delta(0, "a b"), *map(partial(Annotated, 0), (SOURCES[0], CITATION, SOURCES[1]))
)
CUT_PATCH = block(
    ToolCall(id="call_1", name="apply_patch", form="apply_patch"), Delta(0, '{"type":"upd')
)


SEARCHED_ONCE = answer(*SEARCH)
SEARCHED_ONCE[1:1] = [Metered(replace(USAGE, searches=1))]


@pytest.mark.parametrize(
    ("protocol", "events", "asked", "losses"),
    [
        (MESSAGES, answer(*CUT_CALL, finish=CUT), PLAIN, [("content", LossKind.REPAIRED)]),
        (CHAT, answer(*CUT_CALL, finish=CUT), PLAIN, []),
        (MESSAGES, answer(*SEARCH), PLAIN, []),
        (MESSAGES, answer(*REFUSED), PLAIN, [("logprobs", LossKind.KNOB)]),
        (CHAT, answer(*block(Refusal(text=""))), PLAIN, []),
        (MESSAGES, answer(*REMARK), Asked(json=True), [("content", LossKind.KNOB)]),
        (MESSAGES, answer(*EMPTY_PART), PLAIN, []),
        (MESSAGES, answer(*NOTHING), PLAIN, []),
        (RESPONSES, answer(*CUT_CALL, finish=CUT), PLAIN, []),
        (RESPONSES, answer(*CUT_PATCH, finish=CUT), PLAIN, [("content", LossKind.REPAIRED)]),
        (RESPONSES, answer(*CITED), PLAIN, []),
        (RESPONSES, answer(*REFUSED), PLAIN, [("logprobs", LossKind.KNOB)]),
        (RESPONSES, SEARCHED_ONCE, PLAIN, []),
        (RESPONSES, answer(*EMPTY_PART), PLAIN, []),
    ],
    ids=[
        "arguments cut: what can be read, and told",
        "arguments cut: as they came",
        "sources of a search are part of it",
        "log probabilities of a refusal are told",
        "a refusal without a word",
        "citations of a remark are part of it",
        "an empty part of reasoning",
        "reasoning without a word",
        "arguments cut: as they came, in an item that says so",
        "arguments cut that have to be an object: told",
        "citations of a whole text come when it is over",
        "log probabilities of a refusal are told of Responses",
        "the last usage holds, also of what was searched",
        "an empty part of reasoning of Responses",
    ],
)
def test_what_once_differed(
    protocol: str, events: list[Event], asked: Asked, losses: list[tuple[str, LossKind]]
) -> None:
    found = check(protocol, events, asked)
    assert [(loss.path, loss.kind) for loss in found.losses] == losses


@pytest.mark.parametrize("protocol", [CHAT, MESSAGES])
def test_a_tier_that_is_known_at_the_end(protocol: str) -> None:
    """The one difference: a stream has told another one, or none, and says so in its ledger."""
    events = answer(tier="auto")
    events[-2] = Metered(USAGE, "default")

    whole = written(protocol, events, PLAIN, streamed=False)
    streamed = written(protocol, events, PLAIN, streamed=True)

    told = whole.answer if protocol == CHAT else whole.answer["usage"]
    assert told["service_tier"] == {CHAT: "default", MESSAGES: "standard"}[protocol]
    assert whole.losses == []
    # A Chat client that asked for usage is told in the chunk that has it.
    late = [] if protocol == CHAT else [("service_tier", LossKind.KNOB)]
    assert [(loss.path, loss.kind) for loss in streamed.losses] == late


def test_usage_of_the_start_holds_until_there_is_another() -> None:
    events: list[Event] = [Started("up", "x", usage=Usage(input=50)), STOPPED, Ended()]
    assert check(MESSAGES, events).answer["usage"]["input_tokens"] == 50
