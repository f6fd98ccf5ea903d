"""The messages of a client's Chat request, in canonical form."""

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
    Image,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.canonical.envelope import Sealer
from dragoman.protocols.openai_chat import CODEC
from tests.protocols.openai_chat.helpers import (
    CONTENT,
    HI,
    KNOB,
    PDF,
    PDF_URL,
    PNG,
    PNG_URL,
    SEALER,
    blocks_of,
    extras,
    read,
    refusal,
)


def part(**fields: Any) -> dict[str, Any]:
    """A user message of one part."""
    return {"role": "user", "content": [fields]}


PATH = "messages[0].content[0]"
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
def test_every_role_says_text(role: Any) -> None:
    turn = read({"role": role, "content": "one", "name": "ada"}).turns[0]
    assert (turn.role, turn.name, turn.path) == (role, "ada", "messages[0]")
    assert turn.blocks == (Text(text="one", path="messages[0].content"),)


def test_text_parts_keep_their_boundaries() -> None:
    """One block per part, in order. req: 32"""
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert blocks_of({"role": "system", "content": parts}) == (
        Text(text="one", path="messages[0].content[0]"),
        Text(text="two", path="messages[0].content[1]"),
    )


@pytest.mark.parametrize(
    ("given", "block"),
    [
        (
            {"type": "image_url", "image_url": {"url": PNG_URL, "detail": "low"}},
            Image(source=Base64("image/png", PNG), detail="low", path=PATH),
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}},
            Image(source=Url("https://x.org/a.png"), path=PATH),
        ),
        (
            {"type": "image_url", "image_url": "http://x.org/a.png"},
            Image(source=Url("http://x.org/a.png"), path=PATH),
        ),
        (
            {"type": "file", "file": {"file_data": PDF_URL, "filename": "a.pdf"}},
            Document(source=Base64("application/pdf", PDF), title="a.pdf", path=PATH),
        ),
        (
            {"type": "file", "file": {"file_data": PDF}},
            Document(source=Base64("application/pdf", PDF), path=PATH),
        ),
        (
            {"type": "file", "file": {"file_data": "aGk=", "filename": "a.txt"}},
            Document(source=Base64("text/plain", "aGk="), title="a.txt", path=PATH),
        ),
        (
            {"type": "file", "file": {"file_id": "file-1"}},
            Document(source=FileId("file-1", "openai"), path=PATH),
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
            Audio(data="aGk=", format="wav", path=PATH),
        ),
        (
            {
                "type": "text",
                "text": "x",
                "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"},
            },
            Text(text="x", cache=CacheMark("12h"), path=PATH),
        ),
    ],
)
def test_user_parts(given: dict[str, Any], block: Block) -> None:
    """Images, files and sound are kept with their sources. req: 33, 34, 44"""
    assert blocks_of({"role": "user", "content": [given]}) == (block,)


def test_an_assistant_turn_is_reasoning_then_text_then_refusal_then_calls() -> None:
    """Calls follow the text, with id, name and arguments as they came. req: 35, 55"""
    blocks = blocks_of(
        {
            "role": "assistant",
            "reasoning_content": "hm",
            "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
            "refusal": "c",
            "tool_calls": [
                CALL,
                {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "free"}},
            ],
        }
    )
    assert blocks == (
        Reasoning(parts=("hm",), style="raw", path="messages[0].reasoning_content"),
        Text(text="a", path="messages[0].content[0]"),
        Refusal(text="b", path="messages[0].content[1]"),
        Refusal(text="c", path="messages[0].refusal"),
        ToolCall(id="c1", name="f", arguments='{"a":1}', path="messages[0].tool_calls[0]"),
        ToolCall(
            id="c2", name="g", arguments="free", custom=True, path="messages[0].tool_calls[1]"
        ),
    )


@pytest.mark.parametrize("content", [None, "", []])
def test_calls_need_no_text_beside_them(content: Any) -> None:
    """Clients write null, nothing or an empty string there."""
    blocks = blocks_of({"role": "assistant", "content": content, "tool_calls": [CALL]})
    assert [type(block) for block in blocks] == [ToolCall]


def test_arguments_that_are_not_json_stay_as_they_are() -> None:
    """History is not refused for them here; a writer that must parse them decides. req: 36"""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{nope"}}
    (block,) = blocks_of({"role": "assistant", "tool_calls": [call]})
    assert isinstance(block, ToolCall)
    assert block.arguments == "{nope"


@pytest.mark.parametrize(
    ("content", "inner"),
    [
        ("done", (Text(text="done", path="messages[2].content"),)),
        (
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            (
                Text(text="a", path="messages[2].content[0]"),
                Text(text="b", path="messages[2].content[1]"),
            ),
        ),
        (
            [{"type": "image_url", "image_url": {"url": PNG_URL}}],
            (Image(source=Base64("image/png", PNG), path="messages[2].content[0]"),),
        ),
        ("", ()),
        (None, ()),
    ],
)
@pytest.mark.parametrize("custom", [False, True])
def test_tool_messages_are_results(content: Any, inner: tuple[Block, ...], custom: bool) -> None:
    """A result knows its call and says nothing of failure. req: 37, 38, 39"""
    call = {"id": "c1", "type": "custom", "custom": {"name": "g", "input": "x"}} if custom else CALL
    request = read(
        HI,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": content},
    )
    result = ToolResult(call_id="c1", content=inner, custom=custom, path="messages[2]")
    assert request.turns[2].blocks == (result,)
    assert request.turns[2].role == "user"


def test_legacy_function_messages_are_kept_whole_as_lost_content() -> None:
    """A function message has no call id, and none is invented. req: 40"""
    message = {"role": "function", "name": "f", "content": "4"}
    asked = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}}
    request = read(asked, message)
    assert request.turns[0].blocks == (
        Foreign(
            origin="openai_chat",
            type="function_call",
            raw={"name": "f", "arguments": ""},
            path="messages[0].function_call",
        ),
    )
    assert request.turns[1].blocks == (
        Foreign(origin="openai_chat", type="function", raw=message, path="messages[1]"),
    )


def test_audio_of_an_earlier_answer_is_lost_content() -> None:
    (block,) = blocks_of({"role": "assistant", "audio": {"id": "audio_1"}})
    assert isinstance(block, Foreign)
    assert (block.type, block.loss, block.path) == ("audio", CONTENT, "messages[0].audio")


class TestReasoning:
    def message(self, **fields: Any) -> list[Block]:
        blocks = blocks_of({"role": "assistant", "content": "x", **fields})
        return [block for block in blocks if isinstance(block, Reasoning)]

    def test_equal_duplicates_are_used_once(self) -> None:
        (block,) = self.message(reasoning="hm", reasoning_content="hm")
        assert block == Reasoning(parts=("hm",), style="raw", path="messages[0].reasoning_content")

    def test_the_newer_field_alone(self) -> None:
        (block,) = self.message(reasoning="hm")
        assert block == Reasoning(parts=("hm",), style="raw", path="messages[0].reasoning")

    def test_an_envelope_becomes_the_block_that_was_sealed(self) -> None:
        sealed = Reasoning(
            parts=("a", "b"), opaque=Opaque("openai_responses", "ENC", "rs_1", "acme")
        )
        entry = {
            "type": "reasoning.text",
            "text": "a\n\nb",
            "signature": SEALER.seal(sealed),
            "index": 0,
        }
        (block,) = self.message(reasoning_details=[entry], reasoning_content="a\n\nb")
        assert block == Reasoning(
            parts=("a", "b"),
            opaque=sealed.opaque,
            path="messages[0].reasoning_details[0]",
        )

    def test_withheld_reasoning_stands_beside_readable_text(self) -> None:
        sealed = Reasoning(redacted=True, opaque=Opaque("anthropic_messages", "RED"))
        entry = {"type": "reasoning.encrypted", "data": SEALER.seal(sealed), "index": 0}
        first, second = self.message(reasoning_details=[entry], reasoning_content="hm")
        assert isinstance(first, Reasoning)
        assert first.parts == ("hm",)
        assert isinstance(second, Reasoning)
        assert second.redacted

    def test_a_forged_envelope_is_not_opened(self) -> None:
        """With a key, a client cannot write reasoning into an envelope."""
        forged = SEALER.seal(Reasoning(parts=("evil",), opaque=Opaque("anthropic_messages", "S")))
        entry = {"type": "reasoning.text", "text": "evil", "signature": forged}
        body = {
            "model": "m",
            "messages": [{"role": "assistant", "content": "x", "reasoning_details": [entry]}],
        }
        block = CODEC.translate.read_request(body, Sealer(b"key")).turns[0].blocks[0]
        assert isinstance(block, Reasoning)
        assert block.opaque is not None
        assert block.opaque.origin == "openai_chat"

    def test_state_of_another_chat_server_is_kept(self) -> None:
        entries = [
            {"type": "reasoning.text", "text": "hm", "signature": "SIG", "format": "x", "index": 0}
        ]
        (block,) = self.message(reasoning_details=entries, reasoning="hm")
        assert isinstance(block, Reasoning)
        assert block.parts == ("hm",)
        assert block.opaque is not None
        assert '"signature":"SIG"' in block.opaque.data

    def test_text_that_differs_from_the_details_is_reported(self) -> None:
        sealed = Reasoning(parts=("a",), opaque=Opaque("anthropic_messages", "S"))
        entry = {"type": "reasoning.text", "text": "a", "signature": SEALER.seal(sealed)}
        message = {
            "role": "assistant",
            "content": "x",
            "reasoning_details": [entry],
            "reasoning": "b",
        }
        assert extras(read(message)) == {("messages[0].reasoning", KNOB)}


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({"content": "x"}, "messages[0].role"),
        ({"role": "wizard", "content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": []}, "messages[0].content"),
        ({"role": "user", "content": 5}, "messages[0].content"),
        ({"role": "user", "content": ["x"]}, "messages[0].content[0]"),
        (part(type="video_url"), f"{PATH}.type"),
        (part(text="x"), f"{PATH}.type"),
        (part(type="text", text=5), f"{PATH}.text"),
        (part(type="image_url"), f"{PATH}.image_url"),
        (part(type="image_url", image_url={"url": "ftp://x"}), f"{PATH}.image_url.url"),
        (
            part(type="image_url", image_url={"url": "data:image/png;base64,@@@"}),
            f"{PATH}.image_url.url",
        ),
        (part(type="image_url", image_url={"url": "data:image/png,abc"}), f"{PATH}.image_url.url"),
        (part(type="image_url", image_url={"url": "data:;base64,aGk="}), f"{PATH}.image_url.url"),
        (
            part(type="image_url", image_url={"url": PNG_URL, "detail": "huge"}),
            f"{PATH}.image_url.detail",
        ),
        (part(type="file", file={}), f"{PATH}.file.file_data"),
        (part(type="file", file={"file_data": "not base64!"}), f"{PATH}.file.file_data"),
        (
            part(type="input_audio", input_audio={"data": "aGk=", "format": "flac"}),
            f"{PATH}.input_audio.format",
        ),
        (
            part(type="input_audio", input_audio={"data": "a", "format": "wav"}),
            f"{PATH}.input_audio.data",
        ),
        ({"role": "system", "content": [{"type": "image_url"}]}, f"{PATH}.type"),
        ({"role": "assistant", "content": [{"type": "image_url"}]}, f"{PATH}.type"),
        ({"role": "tool", "content": "x"}, "messages[0].tool_call_id"),
        ({"role": "assistant", "tool_calls": [{"id": "c"}]}, "messages[0].tool_calls[0].function"),
        (
            {"role": "assistant", "tool_calls": [{"type": "function", "function": {}}]},
            "messages[0].tool_calls[0].id",
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "shell"}]},
            "messages[0].tool_calls[0].type",
        ),
    ],
)
def test_bad_messages_are_refused_at_the_field(message: Any, path: str) -> None:
    assert refusal(message) == path
