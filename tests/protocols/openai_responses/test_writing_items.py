"""Turns become input items, and whatever does not arrive is reported."""

from __future__ import annotations

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
    Nested,
    Opaque,
    PlainText,
    Reasoning,
    Refusal,
    SearchResult,
    Text,
    ToolCall,
    ToolReference,
    ToolResult,
    Url,
    UrlCitation,
)
from dragoman.canonical.losses import LossKind
from dragoman.canonical.pairing import UNAVAILABLE
from dragoman.canonical.requests import Role, Turn
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.settings import make_capabilities, make_options
from tests.protocols.openai_responses.helpers import (
    CONTENT,
    CONVERTED,
    KNOB,
    REPAIRED,
    JsonObject,
    assistant,
    user,
    write,
)

P = "messages[0].content[0]"
MARKED = make_capabilities(prompt_cache_breakpoints=True)
CALL = ToolCall(id="c1", name="f", arguments='{"a":1}', path="messages[1].content[0]")


def result(*content: Block, is_error: bool | None = None) -> ToolResult:
    path = "messages[2].content[0]"
    return ToolResult(call_id="c1", content=content, is_error=is_error, path=path)


@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_messages_keep_their_role_and_place(role: Role) -> None:
    """System and developer messages stay where they are."""
    written = write(
        user(Text(text="hi")), Turn(role=role, blocks=(Text(text="now"),)), user(Text(text="on"))
    )
    assert written.input[1] == {"type": "message", "role": role, "content": "now"}
    assert written.losses == {}


def test_several_parts_stay_apart() -> None:
    written = write(user(Text(text="a"), Text(text="b")))
    assert written.input[0]["content"] == [
        {"type": "input_text", "text": "a"},
        {"type": "input_text", "text": "b"},
    ]


PARTS: list[tuple[Block, list[JsonObject], dict[str, LossKind]]] = [
    (
        Image(source=Base64("image/png", "aGk="), path=P),
        [{"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="}],
        {},
    ),
    (
        Image(source=Url("https://a/b.png"), detail="high", path=P),
        [{"type": "input_image", "detail": "high", "image_url": "https://a/b.png"}],
        {},
    ),
    (
        Image(source=FileId("file-1", "openai"), path=P),
        [{"type": "input_image", "detail": "auto", "file_id": "file-1"}],
        {},
    ),
    (Image(source=FileId("file_1", "anthropic"), path=P), [], {P: CONTENT}),
    (
        Document(source=Base64("application/pdf", "aGk="), title="a.pdf", path=P),
        [
            {
                "type": "input_file",
                "filename": "a.pdf",
                "file_data": "data:application/pdf;base64,aGk=",
            }
        ],
        {},
    ),
    (
        Document(source=Base64("application/pdf", "aGk="), path=P),
        [
            {
                "type": "input_file",
                "filename": "document.pdf",
                "file_data": "data:application/pdf;base64,aGk=",
            }
        ],
        {},
    ),
    (
        Document(source=Url("https://a/b.pdf"), title="b", path=P),
        [{"type": "input_file", "file_url": "https://a/b.pdf", "filename": "b"}],
        {},
    ),
    (
        Document(source=FileId("file-1", "openai"), path=P),
        [{"type": "input_file", "file_id": "file-1"}],
        {},
    ),
    (Document(source=FileId("file_011C"), path=P), [], {P: CONTENT}),
    (
        Document(source=PlainText("body"), title="T", path=P),
        [{"type": "input_text", "text": "Document: T\n\nbody"}],
        {P: CONVERTED},
    ),
    (
        Document(
            source=Nested((Text(text="a"), Image(source=Url("https://a/b.png")))),
            title="T",
            path=P,
        ),
        [
            {"type": "input_text", "text": "Document: T"},
            {"type": "input_text", "text": "a"},
            {"type": "input_image", "detail": "auto", "image_url": "https://a/b.png"},
        ],
        {P: CONVERTED},
    ),
    (
        Document(source=Url("https://a/b.pdf"), context="about", path=P),
        [
            {"type": "input_text", "text": "about"},
            {"type": "input_file", "file_url": "https://a/b.pdf"},
        ],
        {f"{P}.context": CONVERTED},
    ),
    (
        Document(source=Url("https://a/b.pdf"), citations=True, path=P),
        [{"type": "input_file", "file_url": "https://a/b.pdf"}],
        {f"{P}.citations": KNOB},
    ),
    (
        SearchResult(
            source="https://a", title="T", content=(Text(text="x"), Text(text="y")), path=P
        ),
        [{"type": "input_text", "text": "T\nhttps://a\n\nx\n\ny"}],
        {P: CONVERTED},
    ),
    (
        SearchResult(source="https://a", title="T", content=(), citations=True, path=P),
        [{"type": "input_text", "text": "T\nhttps://a"}],
        {P: CONVERTED, f"{P}.citations": KNOB},
    ),
    (Audio(data="aGk=", format="wav", path=P), [], {P: CONTENT}),
    (Foreign(origin="anthropic_messages", type="x", raw={}, path=P), [], {P: CONTENT}),
    (
        Foreign(origin="anthropic_messages", type="x", raw={}, loss=KNOB, path=P),
        [],
        {P: KNOB},
    ),
]


@pytest.mark.parametrize(("block", "parts", "losses"), PARTS)
def test_blocks_become_parts(
    block: Block, parts: list[JsonObject], losses: dict[str, LossKind]
) -> None:
    """Every kind of content, in a message and inside a tool result."""
    written = write(user(Text(text="see"), block))
    assert written.input == [
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "see"}, *parts],
        }
        if parts
        else {"type": "message", "role": "user", "content": "see"}
    ]
    assert written.losses == losses
    inside = write(assistant(CALL), user(result(Text(text="see"), block)))
    assert inside.input[1]["output"] == (
        [{"type": "input_text", "text": "see"}, *parts] if parts else "see"
    )
    assert inside.losses == losses


def test_images_are_lost_content_where_the_upstream_takes_none() -> None:
    image = Image(source=Url("https://a/b.png"), path=P)
    written = write(user(image), capabilities=make_capabilities(images=False))
    assert written.input == []
    assert written.losses == {P: CONTENT}


def test_speakers_names_are_reported() -> None:
    turn = Turn(role="user", blocks=(Text(text="hi"),), name="ann", path="messages[0]")
    assert write(turn).losses == {"messages[0].name": KNOB}


class TestAssistant:
    """The model's own turns."""

    def test_plain_text_takes_the_easy_form(self) -> None:
        written = write(user(Text(text="a")), assistant(Text(text="b", phase="commentary")))
        assert written.input[1] == {
            "type": "message",
            "role": "assistant",
            "content": "b",
            "phase": "commentary",
        }

    def test_refusals_and_several_texts_take_the_full_form(self) -> None:
        written = write(
            user(Text(text="a")), assistant(Text(text="b"), Text(text="c"), Refusal(text="no"))
        )
        assert written.input[1] == {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "b", "annotations": []},
                {"type": "output_text", "text": "c", "annotations": []},
                {"type": "refusal", "refusal": "no"},
            ],
        }

    def test_texts_of_two_phases_are_two_messages(self) -> None:
        written = write(
            assistant(Text(text="a", phase="commentary"), Text(text="b", phase="final_answer"))
        )
        assert [item["phase"] for item in written.input] == ["commentary", "final_answer"]

    def test_citations_come_along(self) -> None:
        text = Text(
            text="see it",
            annotations=(
                UrlCitation(url="https://a", title="A", start=0, end=3),
                UrlCitation(url="https://b"),
                ForeignCitation(wire.NAME, {"type": "file_path"}),
                ForeignCitation("anthropic_messages", {"type": "page_location"}),
                UrlCitation(url="https://c", cited_text="it", start=4, end=6),
            ),
            path=P,
        )
        written = write(assistant(text))
        annotations = written.input[0]["content"][0]["annotations"]
        assert [
            (note["type"], note.get("start_index"), note.get("end_index")) for note in annotations
        ] == [
            ("url_citation", 0, 3),
            ("url_citation", 0, 6),
            ("file_path", None, None),
            ("url_citation", 4, 6),
        ]
        assert written.losses == {P: KNOB}

    @pytest.mark.parametrize(
        "block", [Text(text=""), Refusal(text=""), Reasoning(parts=("x",), path=P)]
    )
    def test_turns_with_nothing_left_are_dropped(self, block: Block) -> None:
        written = write(user(Text(text="a")), assistant(block), user(Text(text="b")))
        assert [item["role"] for item in written.input] == ["user", "user"]

    def test_pictures_of_the_models_side_are_lost_content(self) -> None:
        written = write(assistant(Image(source=Url("https://a/b.png"), path=P)))
        assert written.losses == {P: CONTENT}

    def test_the_order_of_a_turn_is_kept(self) -> None:
        own = Reasoning(parts=("r",), opaque=Opaque(wire.NAME, "E", "rs_1"))
        other = ToolCall(id="c2", name="g", arguments="{}")
        written = write(assistant(own, Text(text="a"), CALL, Text(text="b"), other))
        assert [item["type"] for item in written.input] == [
            "reasoning",
            "message",
            "function_call",
            "message",
            "function_call",
            "function_call_output",
            "function_call_output",
        ]


class TestReasoning:
    """Only the maker of reasoning can take it back."""

    def test_own_state_goes_back_with_its_id(self) -> None:
        block = Reasoning(parts=("a", "b"), opaque=Opaque(wire.NAME, "E", "rs_1"), path=P)
        written = write(assistant(block, Text(text="c")))
        assert written.input[0] == {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [
                {"type": "summary_text", "text": "a"},
                {"type": "summary_text", "text": "b"},
            ],
            "encrypted_content": "E",
        }
        assert written.losses == {}

    def test_state_without_text_goes_back(self) -> None:
        block = Reasoning(opaque=Opaque(wire.NAME, "E", "rs_1"))
        assert write(assistant(block, Text(text="c"))).input[0]["summary"] == []

    def test_reasoning_that_led_to_nothing_is_dropped(self) -> None:
        """The service refuses a reasoning item without the item it produced."""
        block = Reasoning(opaque=Opaque(wire.NAME, "E", "rs_1"), path=P)
        written = write(assistant(Text(text="a"), block), user(Text(text="on")))
        assert [item["type"] for item in written.input] == ["message", "message"]
        assert written.losses == {P: KNOB}

    def test_raw_reasoning_goes_back_raw(self) -> None:
        block = Reasoning(parts=("a",), style="raw", opaque=Opaque(wire.NAME, "E"))
        item, _ = write(assistant(block, Text(text="c"))).input
        assert item["content"] == [{"type": "reasoning_text", "text": "a"}]
        assert item["summary"] == []
        assert "id" not in item

    @pytest.mark.parametrize(
        "opaque", [None, Opaque("anthropic_messages", "sig"), Opaque("marker", "hash")]
    )
    def test_any_other_is_dropped_and_reported(self, opaque: Opaque | None) -> None:
        written = write(assistant(Reasoning(parts=("a",), opaque=opaque, path=P), Text(text="b")))
        assert [item["type"] for item in written.input] == ["message"]
        assert written.losses == {P: KNOB}


class TestTools:
    """Calls and results."""

    def test_a_call_and_its_result(self) -> None:
        """id to call_id, name, input as JSON text; no item id, no status. req: 52, 53"""
        written = write(assistant(CALL), user(result(Text(text="42"))))
        assert written.input == [
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'},
            {"type": "function_call_output", "call_id": "c1", "output": "42"},
        ]
        assert written.losses == {}

    def test_custom_calls_and_results_stay_custom(self) -> None:
        call = ToolCall(id="c1", name="g", arguments="free", custom=True)
        written = write(assistant(call), user(result(Text(text="42"))))
        assert written.input == [
            {"type": "custom_tool_call", "call_id": "c1", "name": "g", "input": "free"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "42"},
        ]

    def test_namespaces_are_native(self) -> None:
        call = ToolCall(id="c1", name="f", arguments="{}", namespace="ns")
        (item, _) = write(assistant(call)).input
        assert (item["name"], item["namespace"]) == ("f", "ns")

    @pytest.mark.parametrize("arguments", ["", "  \n"])
    def test_missing_arguments_are_an_empty_object(self, arguments: str) -> None:
        (item, _) = write(assistant(ToolCall(id="c", name="f", arguments=arguments))).input
        assert item["arguments"] == "{}"

    def test_arguments_that_are_not_json_pass_as_they_came(self) -> None:
        (item, _) = write(assistant(ToolCall(id="c", name="f", arguments='{"a":'))).input
        assert item["arguments"] == '{"a":'

    @pytest.mark.parametrize("call_id", ["x" * 65, "functions.f:0", "ä"])
    def test_call_ids_are_fitted_alike_in_call_and_result(self, call_id: str) -> None:
        call = ToolCall(id=call_id, name="f", arguments="{}")
        written = write(assistant(call), user(ToolResult(call_id=call_id)))
        ids = {item["call_id"] for item in written.input}
        assert len(ids) == 1
        assert len(ids.pop()) <= 64

    @pytest.mark.parametrize("failed", [True, False])
    def test_the_error_flag_has_no_counterpart(self, failed: bool) -> None:
        """Status is never incomplete for a failed tool. req: 52"""
        written = write(assistant(CALL), user(result(Text(text="bad"), is_error=failed)))
        assert written.input[1] == {
            "type": "function_call_output",
            "call_id": "c1",
            "output": "bad",
        }
        assert written.losses == ({"messages[2].content[0]": KNOB} if failed else {})

    def test_a_failed_tool_can_be_named_in_text(self) -> None:
        options = make_options(tool_error_prefix="ERROR: ")
        failed = result(Text(text="bad"), is_error=True)
        written = write(assistant(CALL), user(failed), options=options)
        assert written.input[1]["output"] == "ERROR: bad"
        assert written.losses == {"messages[2].content[0]": CONVERTED}

    def test_a_result_of_found_tools_names_them(self) -> None:
        """Claude Code's tool search answers with references and no text."""
        found = ToolReference(name="Edit", path="messages[2].content[0].content[0]")
        written = write(assistant(CALL), user(result(found)))
        assert written.input[1]["output"] == "Tool found: Edit"
        assert written.losses == {"messages[2].content[0].content[0]": CONVERTED}

    def test_results_come_before_what_the_user_says(self) -> None:
        written = write(assistant(CALL), user(Text(text="on"), result(Text(text="42"))))
        assert [item["type"] for item in written.input] == [
            "function_call",
            "function_call_output",
            "message",
        ]

    def test_a_missing_result_is_added(self) -> None:
        """A truncated history is completed, and reported. req: 151"""
        written = write(assistant(CALL), user(Text(text="on")))
        assert written.input[1] == {
            "type": "function_call_output",
            "call_id": "c1",
            "output": UNAVAILABLE,
        }
        assert written.losses == {CALL.path: REPAIRED}

    def test_a_result_without_a_call_is_lost_content(self) -> None:
        written = write(user(result(Text(text="42")), Text(text="on")))
        assert [item["type"] for item in written.input] == ["message"]
        assert written.losses == {"messages[2].content[0]": CONTENT}


class TestCacheMarks:
    """Breakpoints, where the upstream takes them."""

    def test_they_are_dropped_where_it_does_not(self) -> None:
        written = write(user(Text(text="a", cache=CacheMark(), path=P)))
        assert written.input[0]["content"] == "a"
        assert written.losses == {P: KNOB}

    @pytest.mark.parametrize(
        ("ttl", "mark", "losses"),
        [
            (None, {"mode": "explicit"}, {}),
            ("12h", {"mode": "explicit", "ttl": "12h"}, {}),
            ("1h", {"mode": "explicit"}, {P: KNOB}),
        ],
    )
    def test_they_stand_on_the_part(
        self, ttl: str | None, mark: JsonObject, losses: dict[str, LossKind]
    ) -> None:
        marked = Text(text="a", cache=CacheMark(ttl), path=P)
        written = write(user(marked), capabilities=MARKED)
        assert written.input[0]["content"] == [
            {"type": "input_text", "text": "a", "prompt_cache_breakpoint": mark}
        ]
        assert written.losses == losses

    def test_a_marked_result_has_its_mark_on_the_last_part(self) -> None:
        marked = ToolResult(
            call_id="c1", content=(Text(text="a"), Text(text="b")), cache=CacheMark()
        )
        written = write(assistant(CALL), user(marked), capabilities=MARKED)
        first, last = written.input[1]["output"]
        assert "prompt_cache_breakpoint" not in first
        assert last["prompt_cache_breakpoint"] == {"mode": "explicit"}

    def test_only_four_marks_are_taken(self) -> None:
        """The last are kept, for they cover the most."""
        marked = [Text(text=str(n), cache=CacheMark(), path=f"p[{n}]") for n in range(6)]
        written = write(user(*marked), capabilities=MARKED)
        parts = written.body["input"][0]["content"]
        assert ["prompt_cache_breakpoint" in part for part in parts] == [False] * 2 + [True] * 4
        assert written.losses == {"p[0]": KNOB, "p[1]": KNOB}

    @pytest.mark.parametrize(
        "block",
        [
            Text(text="a", cache=CacheMark(), path=P),
            ToolCall(id="c", name="f", cache=CacheMark(), path=P),
        ],
    )
    def test_the_models_side_takes_none(self, block: Block) -> None:
        written = write(assistant(block), user(ToolResult(call_id="c")), capabilities=MARKED)
        assert written.losses[P] is KNOB


def test_own_items_go_back_as_they_came() -> None:
    raw = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    shown = {"type": "mcp_approval_response", "approve": True}
    written = write(
        assistant(Foreign(origin=wire.NAME, type="web_search_call", raw=raw)),
        user(Text(text="a"), Foreign(origin=wire.NAME, type="mcp_approval_response", raw=shown)),
    )
    assert written.input == [raw, {"type": "message", "role": "user", "content": "a"}, shown]


def test_a_longer_conversation_begins_with_the_same_items() -> None:
    turns = [
        user(Text(text="a")),
        assistant(Text(text="b"), Refusal(text="c"), CALL),
        user(result(Text(text="42"))),
        assistant(Text(text="d"), Text(text="e")),
    ]
    before = write(*turns).input
    after = write(*turns, user(Text(text="on")), assistant(Refusal(text="no"))).input
    assert after[: len(before)] == before
    ids = [item["id"] for item in after if "id" in item]
    assert len(ids) == len(set(ids))


def test_the_same_reasoning_is_sent_once() -> None:
    """The service refuses an item that it is given twice, as forked histories do."""
    thought = Reasoning(opaque=Opaque(wire.NAME, "e", id="rs_1"), path=P)
    said = assistant(thought, Text(text="a"))
    written = write(said, user(Text(text="b")), said, user(Text(text="c")))
    reasoned = [item["id"] for item in written.input if item["type"] == "reasoning"]
    assert reasoned == ["rs_1"]
    assert written.losses == {P: KNOB}


def test_reasoning_left_out_at_one_place_is_sent_at_another() -> None:
    thought = Reasoning(opaque=Opaque(wire.NAME, "e", id="rs_1"), path=P)
    idle, used = assistant(thought), assistant(thought, Text(text="a"))
    written = write(idle, user(Text(text="b")), used, user(Text(text="c")))
    assert [item["type"] for item in written.input] == [
        "message",
        "reasoning",
        "message",
        "message",
    ]
