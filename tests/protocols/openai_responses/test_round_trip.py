"""What this protocol can carry is read back as it was written, and its service takes it."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman.canonical.blocks import (
    Base64,
    Block,
    CacheMark,
    Document,
    FileId,
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
from dragoman.canonical.requests import (
    CustomTool,
    FunctionTool,
    Grammar,
    HostedTool,
    JsonObject,
    JsonSchema,
    Request,
    Role,
    SearchTool,
    Thinking,
    Tool,
    ToolChoice,
    ToolRef,
    Turn,
)
from dragoman.protocols.efforts import EFFORTS
from dragoman.protocols.openai_responses import CODEC, wire
from dragoman.protocols.settings import make_capabilities, make_options
from dragoman.simulator.seals import encrypt
from dragoman.simulator.validation.responses import check_responses
from tests.protocols.openai_responses.helpers import SEALER, Written

ORGANIZATION = "org"
OPTIONS = make_options(show_reasoning="never")
CAPABILITIES = make_capabilities(prompt_cache_breakpoints=True)

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True)
marks = st.sampled_from((*[None] * 8, CacheMark(), CacheMark("30m"), CacheMark("12h")))
"""Rare, for the service takes four in one request."""
urls = st.sampled_from(("https://example.com/a", "http://example.com/b?c=d"))
base64s = st.sampled_from(("aGk=", "JVBERi0x", "iVBORw0KGgo="))
images = st.builds(
    Image,
    source=st.one_of(
        st.builds(Base64, st.sampled_from(("image/png", "image/jpeg")), base64s),
        st.builds(Url, urls),
        st.builds(FileId, names.map("file-".__add__), st.just("openai")),
    ),
    detail=st.sampled_from(wire.DETAILS),
    cache=marks,
)
documents = st.builds(
    Document,
    source=st.one_of(
        st.builds(Base64, st.sampled_from(("application/pdf", "text/plain")), base64s),
        st.builds(Url, urls),
        st.builds(FileId, names.map("file-".__add__), st.just("openai")),
    ),
    title=names,
    cache=marks,
)
plain = st.builds(Text, text=texts, cache=marks)
contents = st.lists(st.one_of(plain, images, documents), min_size=1, max_size=3)
citations = st.builds(
    UrlCitation, url=urls, title=texts, start=st.integers(0, 5), end=st.integers(5, 9)
)
spoken = st.one_of(
    st.builds(
        Text,
        text=texts,
        phase=st.sampled_from((None, "commentary", "final_answer")),
        annotations=st.lists(citations, max_size=2).map(tuple),
    ),
    st.builds(Refusal, text=texts),
)


@st.composite
def reasonings(draw: st.DrawFn, turn: int) -> Reasoning:
    """Reasoning of this protocol's own; ids differ between turns."""
    item_id = f"rs_{turn}_{draw(names)}"
    parts = draw(st.lists(texts, max_size=2))
    state = Opaque(wire.NAME, encrypt(item_id, "".join(parts), ORGANIZATION), item_id)
    return Reasoning(parts=tuple(parts), opaque=state)


def _identity(block: Block) -> object:
    """The service takes the same reasoning once; other blocks are all different."""
    opaque = block.opaque if isinstance(block, Reasoning) else None
    return id(block) if opaque is None else opaque.id


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Turn, ...]:
    """Turns as the reader groups them."""
    turns: list[Turn] = []
    for number in range(draw(st.integers(1, 3))):
        role: Role = draw(st.sampled_from(("user", "system", "developer")))
        turns.append(Turn(role=role, blocks=tuple(draw(contents))))
        calls = [
            ToolCall(
                id=f"call_{number}_{at}",
                name=draw(names),
                arguments=draw(texts) if custom else '{"a": 1}',
                custom=custom,
                namespace=draw(st.none() | names),
            )
            for at, custom in enumerate(draw(st.lists(st.booleans(), max_size=2)))
        ]
        before: list[Block] = draw(
            st.lists(reasonings(number) | spoken, max_size=3, unique_by=_identity)
        )
        blocks = (*before, *calls) if calls else (*before, Text(text=draw(texts)))
        turns.append(Turn(role="assistant", blocks=blocks))
        results = [
            ToolResult(
                call_id=call.id,
                content=tuple(draw(st.lists(st.one_of(plain, images), max_size=2))),
                custom=call.custom,
            )
            for call in calls
        ]
        if results:
            turns.append(Turn(role="user", blocks=tuple(results)))
    return (*turns, Turn(role="user", blocks=(Text(text="answer in JSON"),)))


@st.composite
def tools(draw: st.DrawFn) -> list[Tool]:
    """Tools in the order in which they are written: namespaces gathered."""
    found: dict[tuple[str | None, str], Tool] = {}
    for namespace in (None, "one", "two"):
        for name in draw(st.lists(names, max_size=2, unique=True)):
            key = (namespace, f"{name}_{len(found)}")
            described: dict[str, Any] = {
                "name": key[1],
                "namespace": namespace,
                "description": draw(st.none() | texts),
            }
            if draw(st.booleans()):
                schema = {"type": "object", "properties": {"a": {"type": "string"}}}
                found[key] = FunctionTool(**described, schema=schema, strict=False)
            else:
                grammar = draw(st.none() | st.just(Grammar("lark", "start: /x/")))
                found[key] = CustomTool(**described, grammar=grammar)
    raw = {"type": "web_search"}
    hosted = HostedTool(origin=wire.NAME, type="web_search", raw=raw, search=SearchTool())
    return [*found.values(), *([hosted] if draw(st.booleans()) else [])]


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Anything this protocol can say."""
    offered = draw(tools())
    refs = [
        ToolRef(tool.name, isinstance(tool, CustomTool), tool.namespace)
        for tool in offered
        if not isinstance(tool, HostedTool)
    ]
    choices: list[ToolChoice | None] = [None]
    if refs:
        choices += [
            ToolChoice(mode="required"),
            ToolChoice(mode="tool", tool=refs[0]),
            ToolChoice(mode="auto", allowed=tuple(refs)),
        ]
    formats = (
        None,
        JsonObject(),
        JsonSchema(schema={"type": "object"}, name="n", description="d", strict=False),
    )
    logprobs = draw(st.booleans())
    return Request(
        model="upstream-model",
        turns=draw(conversations()),
        instructions=draw(st.just(()) | st.builds(Text, text=texts).map(lambda text: (text,))),
        tools=tuple(offered),
        tool_choice=draw(st.sampled_from(choices)),
        parallel_tool_calls=draw(st.sampled_from((None, True, False))) if offered else None,
        max_output_tokens=draw(st.sampled_from((None, 0, 16, 5000))),
        temperature=draw(st.none() | st.floats(0, 2)),
        top_p=draw(st.none() | st.floats(0, 1)),
        logprobs=logprobs,
        top_logprobs=draw(st.none() | st.integers(0, 20)) if logprobs else None,
        output_format=draw(st.sampled_from(formats)),
        verbosity=draw(st.none() | st.sampled_from(wire.VERBOSITIES)),
        thinking=draw(
            st.none()
            | st.builds(
                Thinking,
                effort=st.sampled_from(EFFORTS),
                summary=st.none() | st.sampled_from(wire.SUMMARIES),
            )
        ),
        stream=draw(st.booleans()),
        metadata=draw(st.none() | st.dictionaries(names, names, min_size=1, max_size=2)),
        user=draw(st.none() | names),
        safety_identifier=draw(st.none() | names),
        prompt_cache_key=draw(st.none() | names),
        service_tier=draw(st.sampled_from((None, "flex"))),
        store=draw(st.booleans()),
    )


def bare(value: Any) -> Any:
    """A canonical value without where it stood in the client's body."""
    if isinstance(value, msgspec.Struct):
        fields = {name: bare(getattr(value, name)) for name in value.__struct_fields__}
        for name, empty in (("path", ""), ("paths", {}), ("source", {})):
            if name in fields:
                fields[name] = empty
        return type(value)(**fields)
    if isinstance(value, tuple):
        return tuple(bare(item) for item in value)
    return value


def cache_marks(value: Any) -> int:
    """How many cache marks stand in the turns of a request."""
    if isinstance(value, tuple):
        return sum(map(cache_marks, value))
    if isinstance(value, ToolResult):
        return cache_marks(value.content)
    if isinstance(value, Turn):
        return cache_marks(value.blocks)
    return int(isinstance(value, Block) and value.cache is not None)


@given(requests())
def test_a_request_is_read_back_as_it_was_written(request: Request) -> None:
    """read(write(x)) == x, and nothing is lost."""
    assume(cache_marks(request.turns) <= wire.MAX_CACHE_MARKS)
    written = Written(request, OPTIONS, CAPABILITIES)
    assert written.losses == {}
    assert bare(CODEC.translate.read_request(written.body, SEALER)) == bare(request)


@given(requests())
def test_the_service_takes_what_is_written(request: Request) -> None:
    """Checked as the service checks it, by code that shares nothing with the writer."""
    check_responses(Written(request, OPTIONS, CAPABILITIES).body, ORGANIZATION, frozenset())
