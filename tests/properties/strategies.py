"""Conversations and answers in canonical form, for the writers to turn into any protocol."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Base64,
    Block,
    Document,
    Image,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Url,
    UrlCitation,
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
from dragoman.canonical.requests import (
    CustomTool,
    FunctionTool,
    JsonSchema,
    Request,
    Thinking,
    Tool,
    ToolChoice,
    ToolRef,
    Turn,
)
from dragoman.canonical.usage import Usage
from dragoman.protocols.base import to_json_text
from tests.folded import Response

PNG = "iVBORw0KGgo="
PDF = "JVBERi0xLjQK"

texts = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30
).filter(lambda text: bool(text.strip()))
"""Visible text with anything in it that UTF-8 can carry."""

names = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_-]{0,20}", fullmatch=True)
ids = st.from_regex(r"call_[a-zA-Z0-9]{4,12}", fullmatch=True)
wild_names = st.one_of(names, st.text(st.characters(codec="utf-8"), min_size=1, max_size=150))
"""Names and ids as careless clients make them: any characters, any length."""

arguments = st.dictionaries(names, st.one_of(texts, st.integers(-9, 9), st.booleans()), max_size=3)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    """Token counts in which the parts fit into the totals."""
    fresh, cached, written = (draw(st.integers(0, 5000)) for _ in range(3))
    spoken, reasoning = (draw(st.integers(0, 5000)) for _ in range(2))
    return Usage(
        input=fresh + cached + written,
        output=spoken + reasoning,
        cached=cached,
        cache_write=written,
        reasoning=reasoning,
    )


@st.composite
def tool_calls(draw: st.DrawFn, custom: bool = False) -> ToolCall:
    """A call of a function tool, or of a custom one."""
    text = draw(texts) if custom else to_json_text(draw(arguments))
    return ToolCall(id=draw(ids), name=draw(names), arguments=text, custom=custom)


@st.composite
def answers(draw: st.DrawFn, refusals: bool = False) -> Response:
    """An answer all protocols can carry, in the order they all can keep."""
    blocks: list[Block] = []
    if draw(st.booleans()):
        state = draw(st.sampled_from((None, Opaque("anthropic_messages", "c2ln"))))
        blocks.append(Reasoning(parts=(draw(texts),), style="summary", opaque=state))
    if draw(st.booleans()):
        blocks.append(Text(text=draw(texts)))
    if refusals and draw(st.booleans()):
        blocks.append(Refusal(text=draw(texts)))
    calls = draw(st.lists(tool_calls(), max_size=3, unique_by=lambda call: call.id))
    blocks += calls
    reason = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
    if draw(st.integers(0, 4)) == 0:
        reason = FinishReason.LENGTH
    return Response(
        id="upstream_1",
        model="filler",
        created=5,
        blocks=tuple(blocks),
        finish=Finish(reason),
        usage=draw(st.one_of(st.none(), usages())),
    )


any_texts = st.one_of(texts, st.just(""), st.sampled_from(("\u2028", "\x85", "\x00", "\n\n", "{}")))
citations = st.builds(
    UrlCitation,
    url=st.just("https://example.com/"),
    title=texts,
    cited_text=st.one_of(st.none(), texts),
)


@st.composite
def any_blocks(draw: st.DrawFn) -> Block:
    """A block of any kind an upstream can give, empty ones too."""
    kind = draw(
        st.sampled_from(("text", "text", "refusal", "reasoning", "redacted", "call", "custom"))
    )
    match kind:
        case "text":
            return Text(
                text=draw(any_texts), annotations=tuple(draw(st.lists(citations, max_size=2)))
            )
        case "refusal":
            return Refusal(text=draw(any_texts))
        case "reasoning":
            origin = draw(st.sampled_from(("anthropic_messages", "openai_responses", "marker")))
            state = draw(st.one_of(st.none(), st.just(Opaque(origin, "c2ln", id="rs_9"))))
            parts = tuple(draw(st.lists(texts, max_size=3)))
            head = draw(st.sampled_from((Reasoning(), Reasoning(style="raw"))))
            return replace(head, parts=parts, opaque=state)
        case "redacted":
            return Reasoning(redacted=True, opaque=Opaque("anthropic_messages", draw(texts)))
    return draw(tool_calls(custom=kind == "custom"))


@st.composite
def any_answers(draw: st.DrawFn) -> Response:
    """An answer of any blocks in any order, ended for any reason, calls with ids of their own."""
    blocks: list[Block] = []
    for number, block in enumerate(draw(st.lists(any_blocks(), max_size=6))):
        own = isinstance(block, ToolCall)
        blocks.append(replace(block, id=f"{block.id}_{number}") if own else block)  # type: ignore[attr-defined]
    return Response(
        id="upstream_1",
        model="filler",
        created=5,
        blocks=tuple(blocks),
        finish=Finish(draw(st.sampled_from(FinishReason))),
        usage=draw(st.one_of(st.none(), usages())),
    )


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    """A text, cut anywhere."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    edges = [0, *cuts, len(text)]
    return [text[start:end] for start, end in pairwise(edges) if end > start]


@st.composite
def event_streams(draw: st.DrawFn, answer: Response) -> list[Event]:
    """The events of an answer, its texts cut anywhere."""
    events: list[Event] = [Started(answer.id, answer.model, answer.created)]
    for index, block in enumerate(answer.blocks):
        match block:
            case Text() | Refusal():
                head: Block = type(block)(text="")
                parts = [block.text]
            case ToolCall():
                head = ToolCall(id=block.id, name=block.name, custom=block.custom)
                parts = [block.arguments]
            case Reasoning():
                head = Reasoning(
                    style=block.style,
                    redacted=block.redacted,
                    opaque=block.opaque if block.redacted else None,
                )
                parts = list(block.parts)
            case _:
                raise TypeError(f"no events for {block!r}")
        events.append(Opened(index, head))
        for number, part in enumerate(parts):
            if number:
                events.append(PartBreak(index))
            events += [Delta(index, piece) for piece in draw(pieces(part))]
        if isinstance(block, Text):
            events += [Annotated(index, annotation) for annotation in block.annotations]
        if isinstance(block, Reasoning) and block.opaque is not None and not block.redacted:
            events.append(Sealed(index, block.opaque))
        events.append(Closed(index))
    events.append(Finished(answer.finish))
    if answer.usage is not None:
        events.append(Metered(answer.usage))
    return [*events, Ended()]


images = st.sampled_from(
    (
        Image(source=Base64("image/png", PNG)),
        Image(source=Url("https://example.com/a.png")),
    )
)
documents = st.just(Document(source=Base64("application/pdf", PDF), title="a.pdf"))
user_blocks = st.one_of(texts.map(lambda text: Text(text=text)), images, documents)


@st.composite
def conversations(draw: st.DrawFn, call_ids: st.SearchStrategy[str] = ids) -> list[Turn]:
    """Turns in which every call has its result at its place."""
    turns: list[Turn] = []
    if draw(st.booleans()):
        turns.append(Turn(role="system", blocks=(Text(text=draw(texts)),)))
    pending: list[ToolCall] = []
    used: set[str] = set()
    for _ in range(draw(st.integers(1, 4))):
        results = [
            ToolResult(call_id=call.id, content=(Text(text=draw(texts)),), custom=call.custom)
            for call in pending
        ]
        said = draw(st.lists(user_blocks, min_size=0 if results else 1, max_size=2))
        turns.append(Turn(role="user", blocks=(*results, *said)))
        pending = []
        for number in range(draw(st.integers(0, 2))):
            call = draw(tool_calls())
            call_id = draw(call_ids)
            if call_id in used:
                call_id = f"{call_id}{number}{len(turns)}"
            used.add(call_id)
            pending.append(ToolCall(id=call_id, name=call.name, arguments=call.arguments))
        said = [Text(text=draw(texts))] if not pending or draw(st.booleans()) else []
        turns.append(Turn(role="assistant", blocks=(*said, *pending)))
    results = [ToolResult(call_id=call.id, content=(Text(text=draw(texts)),)) for call in pending]
    turns.append(Turn(role="user", blocks=(*results, Text(text=draw(texts)))))
    return turns


def _schema(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"}},
        "required": [name],
        "additionalProperties": False,
    }


@st.composite
def tools(draw: st.DrawFn, tool_names: st.SearchStrategy[str] = names) -> Tool:
    """A tool of the client's own."""
    name = draw(tool_names)
    description = draw(st.one_of(st.none(), texts))
    if draw(st.integers(0, 4)) == 0:
        return CustomTool(name=name, description=description)
    return FunctionTool(name=name, description=description, schema=_schema(draw(names)))


@st.composite
def requests(
    draw: st.DrawFn,
    tool_names: st.SearchStrategy[str] = names,
    call_ids: st.SearchStrategy[str] = ids,
) -> Request:
    """A whole request with any of the settings that are common to the protocols."""
    declared = draw(st.lists(tools(tool_names), max_size=3, unique_by=lambda tool: tool.name))  # type: ignore[union-attr]
    functions = [tool for tool in declared if isinstance(tool, FunctionTool)]
    choices: list[ToolChoice | None] = [None]
    if functions:
        choices += [ToolChoice(mode=mode) for mode in ("auto", "none", "required")]
        choices.append(ToolChoice(mode="tool", tool=ToolRef(functions[0].name)))
    formats = [None, JsonSchema(schema=_schema("answer"), name="output", strict=True)]
    efforts = [None, Thinking(effort="low"), Thinking(effort="high")]
    return Request(
        model="filler",
        turns=tuple(draw(conversations(call_ids))),
        tools=tuple(declared),
        tool_choice=draw(st.sampled_from(choices)),
        parallel_tool_calls=draw(st.sampled_from((None, False))) if declared else None,
        max_output_tokens=draw(st.sampled_from((None, 100, 50_000))),
        temperature=draw(st.sampled_from((None, 0.0, 0.5))),
        stop=draw(st.sampled_from(((), ("END",)))),
        output_format=draw(st.sampled_from(formats)),
        thinking=draw(st.sampled_from(efforts)),
        safety_identifier=draw(st.one_of(st.none(), names)),
        stream=draw(st.booleans()),
    )
