"""What holds for every request and answer of this protocol, whatever it says."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Block,
    CacheMark,
    Document,
    FileId,
    Image,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.canonical.losses import Ledger
from dragoman.canonical.requests import (
    CustomTool,
    FunctionTool,
    Grammar,
    JsonObject,
    JsonSchema,
    Request,
    Role,
    Thinking,
    ToolChoice,
    ToolRef,
    Turn,
)
from dragoman.protocols.openai_chat import CODEC
from dragoman.protocols.settings import make_capabilities
from dragoman.sse import Decoder
from tests.folded import fold
from tests.protocols.openai_chat.helpers import (
    PDF,
    PNG,
    SCHEMA,
    SEALER,
    STRICT,
    chunk,
    inbound,
    outbound,
    sse,
)

quick = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
names = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_-]{0,20}", fullmatch=True)
marks = st.sampled_from((None, None, CacheMark(), CacheMark("30m")))

ABLE = make_capabilities(
    system_role="developer",
    replay_reasoning="always",
    custom_tools_native=True,
    tool_message_images=True,
    prompt_cache_breakpoints=True,
    top_k=True,
)
"""An upstream that takes everything, so that nothing has to be converted."""

# --- requests -----------------------------------------------------------------------------------

texts = st.builds(lambda text, cache: Text(text=text, cache=cache), words, marks)
media: st.SearchStrategy[Block] = st.sampled_from(
    (
        Image(source=Base64("image/png", PNG), detail="low"),
        Image(source=Url("https://x.org/a.png")),
        Document(source=Base64("application/pdf", PDF), title="a.pdf"),
        Document(source=FileId("file-1", "openai"), title="b.pdf"),
        Audio(data="aGk=", format="mp3"),
    )
)


@st.composite
def calls(draw: st.DrawFn) -> ToolCall:
    custom = draw(st.booleans())
    text = draw(words) if custom else json.dumps(draw(st.dictionaries(names, words, max_size=2)))
    call_id = "call_" + draw(st.uuids()).hex
    return ToolCall(id=call_id, name=draw(names), arguments=text, custom=custom)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Turn, ...]:
    """Turns as Chat messages have them: results in turns of their own, right after the calls."""
    turns: list[Turn] = []
    speakers = st.one_of(st.none(), names)
    roles: st.SearchStrategy[Role] = st.sampled_from(("system", "developer"))
    for role in draw(st.lists(roles, max_size=2)):
        blocks = tuple(draw(st.lists(texts, min_size=1, max_size=2)))
        turns.append(Turn(role=role, blocks=blocks, name=draw(speakers)))
    for _ in range(draw(st.integers(1, 3))):
        said = draw(st.lists(st.one_of(texts, media), min_size=1, max_size=3))
        turns.append(Turn(role="user", blocks=tuple(said), name=draw(speakers)))
        made = draw(st.lists(calls(), max_size=2))
        blocks_: list[Block] = []
        if draw(st.booleans()):
            blocks_.append(Reasoning(parts=(draw(words),), style="raw"))
        blocks_ += draw(st.lists(texts, min_size=0 if made else 1, max_size=2))
        if draw(st.booleans()):
            blocks_.append(Refusal(text=draw(words)))
        turns.append(Turn(role="assistant", blocks=(*blocks_, *made), name=draw(speakers)))
        for call in made:
            content = draw(st.one_of(st.just(()), st.tuples(texts), st.tuples(media)))
            result = ToolResult(call_id=call.id, content=content, custom=call.custom)
            turns.append(Turn(role="user", blocks=(result,)))
    return tuple(turns)


tools = st.one_of(
    st.builds(
        FunctionTool,
        name=names,
        description=st.one_of(st.none(), words),
        schema=st.just(STRICT),
        strict=st.sampled_from((None, True, False)),
    ),
    st.builds(
        CustomTool,
        name=names,
        description=st.one_of(st.none(), words),
        grammar=st.one_of(st.none(), st.builds(Grammar, st.just("lark"), words)),
    ),
)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    declared = tuple(draw(st.lists(tools, max_size=3, unique_by=lambda tool: tool.name)))
    refs = [ToolRef(tool.name, isinstance(tool, CustomTool)) for tool in declared]
    choices: list[ToolChoice | None] = [None]
    if refs:
        choices += [ToolChoice(mode=mode) for mode in ("auto", "none", "required")]
        choices.append(ToolChoice(mode="tool", tool=refs[0]))
        choices.append(ToolChoice(mode="required", allowed=tuple(refs)))
    formats = (
        None,
        JsonObject(),
        JsonSchema(schema=SCHEMA, name="n"),
        JsonSchema(schema=SCHEMA, name="n", description="d", strict=True),
    )
    logprobs, stream = draw(st.booleans()), draw(st.booleans())
    maybe = st.one_of(st.none(), names)
    return Request(
        model="upstream-model",
        turns=draw(conversations()),
        tools=declared,
        tool_choice=draw(st.sampled_from(choices)),
        parallel_tool_calls=draw(st.sampled_from((None, True, False))) if declared else None,
        max_output_tokens=draw(st.one_of(st.none(), st.integers(1, 99999))),
        temperature=draw(st.sampled_from((None, 0.0, 0.7, 2.0))),
        top_p=draw(st.sampled_from((None, 0.0, 1.0))),
        top_k=draw(st.sampled_from((None, 40))),
        stop=tuple(draw(st.lists(words, max_size=4))),
        logprobs=logprobs,
        top_logprobs=draw(st.sampled_from((None, 3))) if logprobs else None,
        output_format=draw(st.sampled_from(formats)),
        verbosity=draw(st.sampled_from((None, "low"))),
        thinking=draw(st.sampled_from((None, Thinking(effort="none"), Thinking(effort="max")))),
        stream=stream,
        include_usage=stream,
        metadata=draw(st.sampled_from((None, {"a": "b"}))),
        user=draw(maybe),
        safety_identifier=draw(maybe),
        prompt_cache_key=draw(maybe),
        prompt_cache_retention=draw(st.sampled_from((None, "24h"))),
        prompt_cache_options=draw(st.sampled_from((None, {"mode": "explicit", "ttl": "30m"}))),
        service_tier=draw(st.sampled_from((None, "flex"))),
        moderation=draw(st.sampled_from((None, {"model": "x"}))),
    )


def bare(value: Any) -> Any:
    """A canonical value without where it stood in the client's body."""
    if isinstance(value, msgspec.Struct):
        fields = {name: bare(getattr(value, name)) for name in value.__struct_fields__}
        blank = {"path": "", "paths": {}, "source": {}}
        return type(value)(**{name: blank.get(name, item) for name, item in fields.items()})
    return tuple(map(bare, value)) if isinstance(value, tuple) else value


@quick
@given(request=requests())
def test_what_is_written_is_read_back(request: Request) -> None:
    ledger = Ledger()
    body = CODEC.translate.write_request(request, outbound(request, ledger, capabilities=ABLE))
    body = msgspec.json.decode(msgspec.json.encode(body))
    kept = {loss for loss in ledger if "cache mark" not in loss.detail}
    assert kept == set()
    again = CODEC.translate.read_request(body, SEALER)
    if len(ledger):  # more cache marks than an upstream takes
        request, again = (_unmarked(bare(value)) for value in (request, again))
    assert bare(again) == bare(request)


def _unmarked(value: Any) -> Any:
    """A canonical value without cache marks."""
    if isinstance(value, msgspec.Struct):
        fields = {name: _unmarked(getattr(value, name)) for name in value.__struct_fields__}
        return type(value)(**{**fields, **({"cache": None} if "cache" in fields else {})})
    return tuple(map(_unmarked, value)) if isinstance(value, tuple) else value


# --- answers ------------------------------------------------------------------------------------


@st.composite
def completions(draw: st.DrawFn) -> dict[str, Any]:
    """A whole answer with anything in it that a message can hold."""
    message: dict[str, Any] = {"role": "assistant", "content": draw(st.one_of(st.none(), words))}
    if draw(st.booleans()):
        message["reasoning_content"] = draw(words)
    if draw(st.booleans()):
        message["refusal"] = draw(words)
    if message["content"] and draw(st.booleans()):
        place = {"start_index": 0, "end_index": 1, "url": draw(words), "title": draw(words)}
        message["annotations"] = [{"type": "url_citation", "url_citation": place}]
    made = []
    for number in range(draw(st.integers(0, 3))):
        arguments = json.dumps(draw(st.dictionaries(names, words, max_size=2)))
        if draw(st.booleans()):
            function = {"name": draw(names), "arguments": arguments}
            made.append({"id": f"c{number}", "type": "function", "function": function})
        else:
            custom = {"name": draw(names), "input": draw(words)}
            made.append({"id": f"c{number}", "type": "custom", "custom": custom})
    if made:
        message["tool_calls"] = made
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    finish = draw(st.sampled_from(("stop", "length", "tool_calls", "content_filter")))
    return {
        "id": "up_1",
        "object": "chat.completion",
        "created": 5,
        "model": "up",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": draw(st.sampled_from((None, usage))),
    }


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    """A text cut anywhere, empty pieces included."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]


@st.composite
def streams_of(draw: st.DrawFn, answer: dict[str, Any]) -> bytes:
    """The stream in which a server would send a whole answer."""
    message, finish = answer["choices"][0]["message"], answer["choices"][0]["finish_reason"]
    chunks = [chunk({"role": "assistant", "content": ""})]
    for name in ("reasoning_content", "content"):
        chunks += [chunk({name: piece}) for piece in draw(pieces(message.get(name) or ""))]
    if "annotations" in message:
        chunks.append(chunk({"annotations": message["annotations"]}))
    chunks += [chunk({"refusal": piece}) for piece in draw(pieces(message.get("refusal") or ""))]
    made = message.get("tool_calls") or []
    rest: list[dict[str, Any]] = []
    for index, call in enumerate(made):
        kind = call["type"]
        field = "arguments" if kind == "function" else "input"
        head = {**call, "index": index, kind: {**call[kind], field: ""}}
        chunks.append(chunk({"tool_calls": [head]}))
        texts = draw(pieces(call[kind][field]))
        rest += [chunk({"tool_calls": [{"index": index, kind: {field: text}}]}) for text in texts]
        if not draw(st.booleans()):  # otherwise the fragments come after the next head
            chunks += rest
            rest = []
    chunks += [*rest, chunk({}, finish)]
    usage = answer["usage"]
    place = draw(st.sampled_from(("own", "finish")))
    if usage and place == "own":
        chunks.append({**chunks[0], "choices": [], "usage": usage})
    elif usage:
        chunks[-1]["usage"] = usage
    return sse(*chunks, done=draw(st.booleans()))


def read_in_chunks(data: bytes, cuts: list[int]) -> list[Any]:
    """The events of a stream whose bytes are cut at the given places."""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    decoder, reader = Decoder(), CODEC.translate.stream_reader(inbound())
    frames = [f for start, end in pairwise(edges) for f in decoder.feed(data[start:end])]
    frames += decoder.finish()
    return [*(event for frame in frames for event in reader.read(frame)), *reader.finish()]


@quick
@given(data=st.data())
def test_a_whole_answer_is_the_fold_of_its_stream(data: st.DataObject) -> None:
    answer = data.draw(completions())
    whole = fold(CODEC.translate.read_response(answer, inbound()))
    assert fold(read_in_chunks(data.draw(streams_of(answer)), [])) == whole


@quick
@given(data=st.data())
def test_bytes_cut_anywhere_give_the_same_events(data: st.DataObject) -> None:
    """Within characters, lines and events. req: 126"""
    stream = data.draw(streams_of(data.draw(completions())))
    cuts = data.draw(st.lists(st.integers(0, 1 << 20), max_size=20))
    assert read_in_chunks(stream, cuts) == read_in_chunks(stream, [])


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "choices",
                    "delta",
                    "index",
                    "content",
                    "tool_calls",
                    "function",
                    "custom",
                    "name",
                    "arguments",
                    "input",
                    "id",
                    "type",
                    "finish_reason",
                    "usage",
                    "prompt_tokens",
                    "prompt_tokens_details",
                    "logprobs",
                    "annotations",
                    "url_citation",
                    "reasoning_details",
                    "reasoning",
                    "text",
                    "signature",
                    "error",
                    "role",
                    "message",
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None)
@given(values=st.lists(junk, max_size=4))
def test_no_stream_breaks_the_reader(values: list[Any]) -> None:
    """Whatever a frame holds, the stream ends in `Ended` or `Failed`, once."""
    body = b"".join(b"data: " + msgspec.json.encode(value) + b"\n\n" for value in values)
    wrapped = [chunk(value) for value in values if isinstance(value, dict)]
    for stream in (body, sse(*wrapped), sse(*[{"choices": [value]} for value in values])):
        events = read_in_chunks(stream, [])
        kinds = [type(event).__name__ for event in events]
        assert kinds[-1] in ("Ended", "Failed")
        assert sum(kind in ("Ended", "Failed") for kind in kinds) == 1
