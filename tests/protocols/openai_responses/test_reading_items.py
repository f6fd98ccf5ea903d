"""Input items become turns of ordered blocks, and every field is accounted for."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Block,
    CacheMark,
    Document,
    FileId,
    Foreign,
    ForeignCitation,
    Image,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Url,
    UrlCitation,
    WebSearch,
)
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.losses import LossKind
from dragoman.protocols.openai_responses import CODEC, wire
from tests.protocols.openai_responses.helpers import (
    CONTENT,
    CONVERTED,
    KNOB,
    SEALER,
    JsonObject,
    body_of,
    extras,
    read,
    read_items,
)

PNG = "iVBORw0KGgo="
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
CUSTOM_CALL = {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "x"}


def blocks_of(item: JsonObject) -> tuple[Block, ...]:
    """The blocks of the one turn of an item."""
    (turn,) = read_items(item).turns
    return turn.blocks


def parts_of(*parts: JsonObject) -> tuple[Block, ...]:
    return blocks_of({"role": "user", "content": list(parts)})


def test_a_string_is_one_user_message() -> None:
    """A string as input. req: 45"""
    (turn,) = read(input="hi there").turns
    assert (turn.role, turn.path) == ("user", "input")
    assert turn.blocks == (Text(text="hi there", path="input"),)


@pytest.mark.parametrize("role", ["user", "system", "developer", "assistant"])
@pytest.mark.parametrize("typed", [{}, {"type": "message"}])
def test_an_item_with_a_role_is_a_message(role: str, typed: JsonObject) -> None:
    """Messages with and without a type, content as a string. req: 47"""
    (turn,) = read_items({**typed, "role": role, "content": "hi"}).turns
    assert (turn.role, turn.path) == (role, "input[0]")
    assert turn.blocks == (Text(text="hi", path="input[0].content"),)


@pytest.mark.parametrize("kind", ["input_text", "output_text", "text"])
def test_text_parts_of_every_name_are_text(kind: str) -> None:
    """The three names of a text part, boundaries kept. req: 48"""
    parts = [{"type": kind, "text": "a"}, {"type": kind, "text": "b"}]
    assert parts_of(*parts) == (
        Text(text="a", path="input[0].content[0]"),
        Text(text="b", path="input[0].content[1]"),
    )


def test_a_message_without_parts_gives_no_turn() -> None:
    """An item with nothing to say gives no message. req: 48"""
    assert read_items({"role": "user", "content": []}).turns == ()


PARTS: list[tuple[JsonObject, Block]] = [
    (
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "high"},
        Image(source=Base64("image/png", PNG), detail="high"),
    ),
    (
        {"type": "input_image", "image_url": "https://example.com/a.png"},
        Image(source=Url("https://example.com/a.png")),
    ),
    (
        {"type": "input_image", "file_id": "file-1", "detail": "original"},
        Image(source=FileId("file-1", "openai"), detail="original"),
    ),
    (
        {"type": "input_file", "file_data": f"data:application/pdf;base64,{PNG}"},
        Document(source=Base64("application/pdf", PNG)),
    ),
    (
        {"type": "input_file", "file_data": "JVBERi0x", "filename": "a.bin"},
        Document(source=Base64("application/pdf", "JVBERi0x"), title="a.bin"),
    ),
    (
        {"type": "input_file", "file_data": "aGk=", "filename": "a.txt"},
        Document(source=Base64("text/plain", "aGk="), title="a.txt"),
    ),
    (
        {"type": "input_file", "file_data": "aGk="},
        Document(source=Base64("application/octet-stream", "aGk=")),
    ),
    (
        {"type": "input_file", "file_url": "https://example.com/a.pdf", "filename": "a.pdf"},
        Document(source=Url("https://example.com/a.pdf"), title="a.pdf"),
    ),
    (
        {"type": "input_file", "file_id": "file-1"},
        Document(source=FileId("file-1", "openai")),
    ),
    (
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        Audio(data="aGk=", format="wav"),
    ),
]


@pytest.mark.parametrize(("part", "block"), PARTS)
def test_parts_become_blocks(part: JsonObject, block: Block) -> None:
    """Images and files in every form."""
    (found,) = parts_of(part)
    assert found == type(block)(
        **{name: getattr(block, name) for name in block.__struct_fields__ if name != "path"},
        path="input[0].content[0]",
    )


@pytest.mark.parametrize("ttl", [None, "30m", "12h"])
@pytest.mark.parametrize("part", [{"type": "input_text", "text": "a"}, PARTS[0][0], PARTS[3][0]])
def test_breakpoints_are_cache_marks(part: JsonObject, ttl: str | None) -> None:
    (block,) = parts_of({**part, "prompt_cache_breakpoint": {"mode": "explicit", "ttl": ttl}})
    assert block.cache == CacheMark(ttl)


def test_an_answer_comes_back_with_its_phase_citations_and_refusal() -> None:
    (turn,) = read_items(
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": [
                {
                    "type": "output_text",
                    "text": "see",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url": "https://a",
                            "title": "A",
                            "start_index": 0,
                            "end_index": 3,
                        },
                        {"type": "file_path", "file_id": "f", "index": 1},
                    ],
                    "logprobs": [{"token": "see", "logprob": -1, "bytes": [], "top_logprobs": []}],
                },
                {"type": "refusal", "refusal": "no"},
            ],
        }
    ).turns
    text, refusal = turn.blocks
    assert isinstance(text, Text)
    assert text.phase == "commentary"
    assert text.annotations == (
        UrlCitation(url="https://a", title="A", start=0, end=3),
        ForeignCitation(wire.NAME, {"type": "file_path", "file_id": "f", "index": 1}),
    )
    assert text.logprobs is not None
    assert text.logprobs[0]["token"] == "see"
    assert refusal == Refusal(text="no", path="input[0].content[1]")


def test_the_phase_of_a_message_without_text_is_reported() -> None:
    request = read_items(
        {
            "role": "assistant",
            "phase": "final_answer",
            "content": [{"type": "refusal", "refusal": "no"}],
        }
    )
    assert extras(request) == {"input[0].phase": KNOB}


def test_neighbours_of_the_models_side_are_one_turn_in_their_order() -> None:
    request = read_items(
        {"role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"},
        {"role": "assistant", "content": "hm"},
        CALL,
        CUSTOM_CALL,
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "2"},
        {"role": "user", "content": "on"},
    )
    assert [(turn.role, turn.path) for turn in request.turns] == [
        ("user", "input[0]"),
        ("assistant", "input[1]"),
        ("user", "input[5]"),
        ("user", "input[7]"),
    ]
    assert [type(block) for block in request.turns[1].blocks] == [
        Reasoning,
        Text,
        ToolCall,
        ToolCall,
    ]
    assert [block.path for block in request.turns[1].blocks] == [
        "input[1]",
        "input[2].content",
        "input[3]",
        "input[4]",
    ]


def test_calls_keep_everything() -> None:
    function, custom = (
        blocks_of({**CALL, "namespace": "ns", "id": "fc_1", "status": "completed"})[0],
        blocks_of({**CUSTOM_CALL, "namespace": "ns", "id": "ctc_1"})[0],
    )
    assert function == ToolCall(id="c1", name="f", arguments="{}", namespace="ns", path="input[0]")
    assert custom == ToolCall(
        id="c2", name="g", arguments="x", custom=True, namespace="ns", path="input[0]"
    )


@pytest.mark.parametrize("custom", [False, True])
@pytest.mark.parametrize(
    ("output", "content"),
    [
        ("done", (Text(text="done", path="input[0].output"),)),
        ("", ()),
        ([], ()),
        (
            [
                {"type": "input_text", "text": "a"},
                {"type": "input_image", "image_url": "https://example.com/a.png"},
                {"type": "input_file", "file_url": "https://example.com/a.pdf"},
            ],
            (
                Text(text="a", path="input[0].output[0]"),
                Image(source=Url("https://example.com/a.png"), path="input[0].output[1]"),
                Document(source=Url("https://example.com/a.pdf"), path="input[0].output[2]"),
            ),
        ),
    ],
)
def test_outputs_become_results(custom: bool, output: Any, content: tuple[Block, ...]) -> None:
    """Outputs are strings or parts; no error flag is invented. req: 39"""
    kind = "custom_tool_call_output" if custom else "function_call_output"
    (result,) = blocks_of({"type": kind, "call_id": "c1", "output": output})
    assert result == ToolResult(
        call_id="c1", content=content, is_error=None, custom=custom, path="input[0]"
    )


class TestReasoning:
    """Reasoning items, which carry their maker's state."""

    def test_the_services_own_state_is_kept_with_its_id(self) -> None:
        item = {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [
                {"type": "summary_text", "text": "a"},
                {"type": "summary_text", "text": "b"},
            ],
            "encrypted_content": "OPAQUE",
            "status": "completed",
        }
        (block,) = blocks_of(item)
        opaque = Opaque(wire.NAME, "OPAQUE", "rs_1")
        assert block == Reasoning(parts=("a", "b"), opaque=opaque, path="input[0]")

    def test_raw_reasoning_is_raw(self) -> None:
        content = [{"type": "reasoning_text", "text": "a"}]
        (block,) = blocks_of({"type": "reasoning", "summary": [], "content": content})
        assert block == Reasoning(parts=("a",), style="raw", path="input[0]")

    def test_raw_reasoning_beside_a_summary_is_reported(self) -> None:
        request = read_items(
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "s"}],
                "content": [{"type": "reasoning_text", "text": "r"}],
            }
        )
        assert request.turns[0].blocks == (Reasoning(parts=("s",), path="input[0]"),)
        assert extras(request) == {"input[0].content": KNOB}

    def test_an_envelope_gives_back_the_exact_block(self) -> None:
        sealed = Reasoning(
            parts=("exact ",), opaque=Opaque("anthropic_messages", "c2ln", account="org")
        )
        shown = [{"type": "summary_text", "text": "edited"}]
        envelope = SEALER.seal(sealed)
        (block,) = blocks_of(
            {"type": "reasoning", "id": "rs_9", "summary": shown, "encrypted_content": envelope}
        )
        assert block == Reasoning(
            parts=("exact ",),
            opaque=Opaque("anthropic_messages", "c2ln", account="org"),
            path="input[0]",
        )

    def test_a_marker_keeps_the_clients_text(self) -> None:
        plain = Reasoning(parts=("thought",), style="raw")
        content = [{"type": "reasoning_text", "text": "thought"}]
        envelope = SEALER.seal(plain)
        (block,) = blocks_of(
            {"type": "reasoning", "summary": [], "content": content, "encrypted_content": envelope}
        )
        assert isinstance(block, Reasoning)
        assert (block.parts, block.style) == (("thought",), "raw")
        assert block.opaque is not None
        assert block.opaque.origin == "marker"

    def test_a_forged_envelope_is_dropped_and_reported(self) -> None:
        keyed = Sealer(b"secret")
        envelope = SEALER.seal(Reasoning(opaque=Opaque("anthropic_messages", "forged")))
        item = {"type": "reasoning", "summary": [], "encrypted_content": envelope}
        request = CODEC.translate.read_request(body_of(input=[item]), keyed)
        assert request.turns[0].blocks == (Reasoning(path="input[0]"),)
        assert extras(request) == {"input[0].encrypted_content": KNOB}


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        *((kind, "assistant") for kind in sorted(wire.FOREIGN_ASSISTANT_ITEMS)),
        *((kind, "user") for kind in sorted(wire.FOREIGN_USER_ITEMS)),
    ],
)
def test_items_of_the_vendor_alone_are_kept_whole(kind: str, role: str) -> None:
    item = {"type": kind, "id": "x_1", "anything": {"deep": [1]}}
    (turn,) = read_items(item).turns
    assert turn.role == role
    means = (WebSearch(),) if kind == "web_search_call" else None
    assert turn.blocks == (
        Foreign(origin=wire.NAME, type=kind, raw=item, loss=CONTENT, means=means, path="input[0]"),
    )


@pytest.mark.parametrize(
    "item", [{"type": "item_reference", "id": "rs_1"}, {"id": "rs_1"}, {"type": None, "id": "rs_1"}]
)
def test_references_are_lost_content(item: JsonObject) -> None:
    """Only the vendor can look an item up (AI SDK sends these when `store` is not false)."""
    request = read_items({"role": "user", "content": "hi"}, item)
    assert extras(request) == {"input[1]": CONTENT}
    assert len(request.turns) == 1


def test_added_tools_are_offered() -> None:
    """Codex with gpt-6 models sends its tools as the first item and nowhere else."""
    request = read_items(
        {
            "type": "additional_tools",
            "role": "developer",
            "tools": [
                {
                    "type": "namespace",
                    "name": "functions",
                    "description": "",
                    "tools": [
                        {"type": "custom", "name": "exec"},
                        {"type": "function", "name": "w"},
                    ],
                }
            ],
        },
        {"role": "user", "content": "go"},
    )
    assert [(tool.name, tool.namespace, tool.path) for tool in request.tools] == [  # type: ignore[union-attr]
        ("exec", "functions", "input[0].tools[0].tools[0]"),
        ("w", "functions", "input[0].tools[0].tools[1]"),
    ]
    assert extras(request) == {"input[0]": CONVERTED}


def test_configuration_updates_apply_to_the_answer() -> None:
    request = read(
        reasoning={"effort": "low", "summary": "auto"},
        input=[
            {"role": "user", "content": "hi"},
            {"type": "configuration_update", "reasoning": {"effort": "high"}},
        ],
    )
    assert request.thinking is not None
    assert (request.thinking.effort, request.thinking.summary) == ("high", "auto")
    assert extras(request) == {"input[1]": CONVERTED}


@pytest.mark.parametrize(
    ("item", "lost"),
    [
        ({**CALL, "caller": {"type": "program", "caller_id": "x"}}, {"input[0].caller": KNOB}),
        ({**CALL, "caller": {"type": "direct"}}, {}),
        ({**CALL, "async": True}, {"input[0].async": KNOB}),
        ({**CALL, "id": "fc_1", "status": "completed"}, {}),
        ({**CALL, "status": "incomplete"}, {"input[0].status": KNOB}),
        ({"role": "user", "content": "a", "surprise": 1}, {"input[0].surprise": KNOB}),
        ({"role": "user", "content": "a", "surprise": None}, {}),
        (
            {"role": "user", "content": [{**PARTS[3][0], "detail": "low"}]},
            {"input[0].content[0].detail": KNOB},
        ),
        ({"role": "user", "content": [{**PARTS[3][0], "detail": "auto"}]}, {}),
    ],
)
def test_what_has_no_home_is_reported(item: JsonObject, lost: dict[str, LossKind]) -> None:
    assert extras(read_items(item)) == lost


def test_output_fields_without_a_home_are_reported() -> None:
    request = read_items(
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": "",
            "name": "f",
            "namespace": "n",
        }
    )
    assert extras(request) == {"input[0].name": KNOB, "input[0].namespace": KNOB}
