"""What one protocol can say, read and written again in the same: the readers and the writers know
the same forms. Pass-through translates nothing; between other protocols some of them have no
counterpart, so no other table shows them."""

from __future__ import annotations

import json

import msgspec
import pytest

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.losses import Ledger, Policy
from dragoman.canonical.options import Capabilities, Options
from dragoman.protocols import CODECS
from dragoman.protocols.base import Outbound
from dragoman.protocols.settings import make_capabilities
from dragoman.translation import tool_names
from tests.properties.cells import read_stream, read_whole, write_stream, write_whole
from tests.tables import wire_chat as wc
from tests.tables import wire_messages as wm
from tests.tables import wire_responses as wr
from tests.tables.answers import LEAST_ANSWER
from tests.tables.clients import answer_of
from tests.tables.requests import (
    CLOSED,
    LEAST,
    PDF,
    PDF_URL,
    PNG,
    PNG_URL,
    SCHEMA,
    A,
    C,
    JsonObject,
    R,
)
from tests.tables.upstreams import STREAMS

EPHEMERAL: JsonObject = {"type": "ephemeral"}
LATER = {**EPHEMERAL, "ttl": "1h"}
PAGE = {"type": "page_location", "cited_text": "t", "document_index": 0}

MESSAGES: JsonObject = {
    "model": "m",
    "max_tokens": 9000,
    "system": [wm.text("s", cache_control=LATER)],
    "messages": [
        wm.said(
            "user",
            wm.linked("https://a.example/i.png"),
            wm.picture(PNG),
            wm.stored("file_1"),
            wm.pdf(PDF, title="a.pdf"),
            wm.note("t", context="c", citations={"enabled": True}),
            wm.linked("https://a.example/x.pdf", "document"),
            wm.stored("file_2", "document"),
            {
                "type": "document",
                "source": {"type": "content", "content": [wm.text("t"), wm.picture(PNG)]},
            },
            {
                "type": "search_result",
                "source": "https://a.example",
                "title": "t",
                "content": [wm.text("c")],
                "citations": {"enabled": True},
                "cache_control": EPHEMERAL,
            },
            {"type": "container_upload", "file_id": "file_3"},
            wm.text("hi", cache_control={**EPHEMERAL, "ttl": "5m"}),
        ),
        wm.said(
            "assistant",
            wm.thinking("t", "SIG"),
            {"type": "redacted_thinking", "data": "D"},
            wm.text("x", citations=[PAGE]),
            wm.use("c1", {"a": 1}),
            wm.use("c2"),
        ),
        wm.said(
            "user",
            wm.given(
                "c1",
                [
                    wm.text("t"),
                    wm.picture(PNG),
                    {"type": "tool_reference", "tool_name": "f"},
                ],
            ),
            wm.given("c2", "r", is_error=True),
        ),
    ],
    "tools": [
        wm.tool("f", SCHEMA, description="d", cache_control=LATER),
        {"type": "web_search_20260318", "name": "web_search", "max_uses": 2},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "adaptive", "display": "summarized"},
    "output_config": {"effort": "low"},
    "metadata": {"user_id": "u"},
    "service_tier": "standard_only",
    "speed": "fast",
    "stop_sequences": ["x"],
    "stream": True,
}

CHAT: JsonObject = {
    "model": "m",
    "messages": [
        wc.system("s"),
        wc.user(
            [
                wc.text("hi"),
                wc.image(PNG_URL, detail="low"),
                wc.image("https://a.example/i.png"),
                wc.file(filename="a.pdf", file_data=PDF_URL),
                wc.file(file_id="file-1"),
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            ],
            name="bob",
        ),
        wc.assistant("a", refusal="b"),
        wc.system("late"),
        wc.assistant(
            reasoning_content="hm",
            reasoning_details=[
                {"type": "reasoning.text", "text": "hm", "signature": "SIG", "format": "x"}
            ],
            tool_calls=[wc.call("c1", '{"a":1}'), wc.free_call("c2")],
        ),
        wc.result("c1", "r"),
        wc.result("c2", "r"),
        wc.user("and?"),
    ],
    "tools": [
        wc.function(description="d", parameters=CLOSED, strict=True),
        wc.free(format=wc.grammar("start: /x/")),
    ],
    "tool_choice": wc.allowed("auto", wc.function()),
    "parallel_tool_calls": False,
    "max_completion_tokens": 50,
    "stop": ["x"],
    "temperature": 0.5,
    "top_p": 0.5,
    "logprobs": True,
    "top_logprobs": 2,
    "response_format": wc.schema_format(CLOSED, name="n", description="d", strict=True),
    "reasoning_effort": "low",
    "verbosity": "low",
    "web_search_options": {"search_context_size": "low"},
    "metadata": {"a": "b"},
    "service_tier": "flex",
    "safety_identifier": "u",
    "prompt_cache_key": "k",
    "stream": True,
    "stream_options": {"include_usage": True},
}

CITED = {"type": "url_citation", "url": "https://a.example", "title": "t"}
SPAN = {**CITED, "start_index": 0, "end_index": 1}
RESPONSES: JsonObject = {
    "model": "m",
    "instructions": "s",
    "input": [
        wr.user(
            [
                wr.text("hi", prompt_cache_breakpoint={"mode": "explicit"}),
                wr.image(PNG_URL, "low"),
                {"type": "input_image", "detail": "auto", "file_id": "file-1"},
                wr.file(filename="a.pdf", file_data=PDF_URL),
                wr.file(file_url="https://a.example/x.pdf"),
                wr.file(file_id="file-2"),
            ]
        ),
        wr.message("developer", "late"),
        wr.summarized("hm", encrypted_content="E"),
        {
            **wr.summarized(encrypted_content="F"),
            "id": "rs_2",
            "content": [{"type": "reasoning_text", "text": "raw"}],
        },
        wr.message(
            "assistant",
            [wr.told("x", annotations=[SPAN]), wr.refused("No.")],
            id="msg_4",
            status="completed",
            phase="commentary",
        ),
        wr.message("assistant", "y", phase="final_answer"),
        wr.call("c1", '{"a":1}', namespace="one"),
        wr.free_call("c2"),
        wr.output("c1", [wr.text("r"), wr.image("https://a.example/i.png")]),
        wr.free_output("c2", "r"),
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "x"}},
        wr.user("and?"),
    ],
    "tools": [
        {
            "type": "namespace",
            "name": "one",
            "description": "one",
            "tools": [wr.function(description="d", parameters=SCHEMA, strict=False)],
        },
        wr.free(format=wr.grammar("start: /x/")),
        wr.function("h", parameters=CLOSED, strict=True),
        {"type": "web_search", "search_context_size": "low"},
    ],
    "tool_choice": wr.allowed("auto", wr.function("h")),
    "parallel_tool_calls": False,
    "max_output_tokens": 50,
    "temperature": 0.5,
    "top_p": 0.5,
    "top_logprobs": 2,
    "include": ["message.output_text.logprobs"],
    "text": {
        "format": wr.schema_format(CLOSED, name="n", description="d", strict=True),
        "verbosity": "low",
    },
    "reasoning": {"effort": "low", "summary": "auto"},
    "metadata": {"a": "b"},
    "store": True,
    "service_tier": "flex",
    "safety_identifier": "u",
    "prompt_cache_key": "k",
    "stream": True,
    "stream_options": {"include_obfuscation": False},
}

CAPABILITIES = make_capabilities(
    custom_tools_native=True, replay_reasoning="always", prompt_cache_breakpoints=True
)


def again(
    protocol: str, body: JsonObject, capabilities: Capabilities = CAPABILITIES
) -> tuple[JsonObject, dict[str, str]]:
    """The request as it is written after it was read, and what was lost."""
    codec = CODECS[protocol]
    request = codec.translate.read_request(msgspec.json.encode(body), Sealer())
    ledger = Ledger()
    outbound = Outbound(
        model=request.model,
        names=tool_names(request, codec),
        ledger=ledger,
        sealer=Sealer(),
        options=Options(policy=Policy.LENIENT),
        capabilities=capabilities,
    )
    written = json.loads(msgspec.json.encode(codec.translate.write_request(request, outbound)))
    return written, {loss.path: loss.kind.value for loss in ledger}


@pytest.mark.parametrize(("protocol", "body"), [(C, CHAT), (A, MESSAGES), (R, RESPONSES)])
def test_request(protocol: str, body: JsonObject) -> None:
    assert again(protocol, body) == (body, {})


ADAPTIVE: JsonObject = {"type": "adaptive"}
DISABLED: JsonObject = {"type": "disabled"}


def budget(tokens: int) -> JsonObject:
    return {"type": "enabled", "budget_tokens": tokens}


@pytest.mark.parametrize(
    ("thinking", "effort", "capabilities", "sent", "sent_effort", "lost"),
    [
        (ADAPTIVE, None, {}, ADAPTIVE, None, {}),
        (
            {**ADAPTIVE, "display": "omitted"},
            "max",
            {},
            {**ADAPTIVE, "display": "omitted"},
            "max",
            {},
        ),
        (DISABLED, None, {}, DISABLED, None, {}),
        (DISABLED, "low", {}, DISABLED, "low", {}),
        ({"type": "between_tools"}, None, {}, {"type": "between_tools"}, None, {}),
        (budget(5000), None, {}, budget(5000), None, {}),
        (budget(8000), None, {}, budget(8000), None, {}),
        # qwen-code sends a budget as large as the limit.
        (budget(9000), None, {}, budget(6750), None, {"thinking": "repaired"}),
        (DISABLED, None, {"disable_thinking": False}, None, "low", {"thinking": "converted"}),
        (
            ADAPTIVE,
            "low",
            {"adaptive_thinking": False},
            budget(2048),
            None,
            {"thinking": "converted"},
        ),
        (
            ADAPTIVE,
            "low",
            {"efforts": ("medium",)},
            ADAPTIVE,
            "medium",
            {"thinking": "converted"},
        ),
        (ADAPTIVE, "low", {"efforts": ()}, ADAPTIVE, None, {"thinking": "knob"}),
    ],
)
def test_thinking(
    thinking: JsonObject,
    effort: str | None,
    capabilities: JsonObject,
    sent: JsonObject | None,
    sent_effort: str | None,
    lost: dict[str, str],
) -> None:
    """The words of Messages for it, and what becomes of them where a model lacks some."""
    body = {**LEAST[A], "max_tokens": 9000, "thinking": thinking}
    if effort is not None:
        body["output_config"] = {"effort": effort}
    written, losses = again(A, body, make_capabilities(**capabilities))
    assert written.get("thinking") == sent
    assert written.get("output_config", {}).get("effort") == sent_effort
    assert losses == lost


LOGPROB = {"token": "x", "logprob": -0.1, "bytes": None, "top_logprobs": []}
MESSAGES_ANSWER: JsonObject = {
    **LEAST_ANSWER[A],
    "id": "msg_1",
    "model": "filler",
    **wm.content(
        wm.thinking("hm", "SIG"),
        {"type": "redacted_thinking", "data": "D"},
        wm.text("x", citations=[PAGE]),
        wm.use("c1", {"a": 1}),
        stop="tool_use",
    ),
}
CHAT_ANSWER: JsonObject = {
    **LEAST_ANSWER[C],
    "id": "chatcmpl-1",
    "model": "filler",
    **wc.choice(
        "tool_calls",
        {"content": [LOGPROB], "refusal": None},
        reasoning_content="hm",
        annotations=[
            {
                "type": "url_citation",
                "url_citation": {
                    "url": "https://a.example",
                    "title": "t",
                    "start_index": 0,
                    "end_index": 1,
                },
            }
        ],
        tool_calls=[wc.call("c1"), wc.free_call("c2")],
    ),
    "service_tier": "flex",
}
OUTPUT: list[JsonObject] = [
    {**wr.summarized("hm", encrypted_content="E"), "id": "rs_0"},
    {
        **wr.spoken(wr.part("x", SPAN, {"type": "file_path", "file_id": "f", "index": 0})),
        "id": "msg_1",
        "phase": "commentary",
    },
    {**wr.spoken("y", wr.refused("No.")), "id": "msg_2", "phase": "final_answer"},
    {**wr.called("c1"), "id": "fc_3"},
    {**wr.called_free("c2", "free"), "id": "ctc_4"},
]
RESPONSES_ANSWER = {**LEAST_ANSWER[R], "id": "resp_1", "model": "filler", "output": OUTPUT}


@pytest.mark.parametrize(
    ("protocol", "answer"), [(C, CHAT_ANSWER), (A, MESSAGES_ANSWER), (R, RESPONSES_ANSWER)]
)
def test_answer(protocol: str, answer: JsonObject) -> None:
    """Whole, and as a stream."""
    written = write_whole(protocol, read_whole(protocol, answer))
    assert {name: written[name] for name in answer} == answer
    stream = write_stream(protocol, read_stream(protocol, STREAMS[protocol](answer)))
    told = answer_of(protocol, stream)
    assert {name: told[name] for name in answer} == answer
