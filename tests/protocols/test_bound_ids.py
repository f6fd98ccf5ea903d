"""Which ids of things that a service holds a request names."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.protocols import CODECS
from dragoman.protocols.bound_ids import MOST_NAMED

CHAT, RESPONSES, MESSAGES = "openai_chat", "openai_responses", "anthropic_messages"


def ids(protocol: str, body: Any) -> list[str]:
    text = body if isinstance(body, bytes) else msgspec.json.encode(body)
    members = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    return list(CODECS[protocol].passthrough.bound_ids(members))


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


@pytest.mark.parametrize(
    ("protocol", "body", "named"),
    [
        (CHAT, {"messages": [user({"type": "file", "file": {"file_id": "file-1"}})]}, ["file-1"]),
        (CHAT, {"messages": [user({"type": "text", "text": '"file_id": "file-1"'})]}, []),
        (CHAT, {"messages": [{"role": "user", "content": "Hi"}], "metadata": {"file_id": "x"}}, []),
        (
            RESPONSES,
            {"input": [user({"type": "input_file", "file_id": "file-1"},
                            {"type": "input_image", "file_id": "file-2"})]},
            ["file-1", "file-2"],
        ),
        (RESPONSES, {"input": "Hi", "conversation": "conv_1"}, ["conv_1"]),
        (RESPONSES, {"input": "Hi", "conversation": {"id": "conv_1"}}, ["conv_1"]),
        (
            RESPONSES,
            {"input": "Hi", "tools": [
                {"type": "file_search", "vector_store_ids": ["vs_1", "vs_2"]},
                {"type": "code_interpreter", "container": "cntr_1"},
                {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-1"]}},
                {"type": "function", "name": "f",
                 "parameters": {"properties": {"file_id": {"type": "string", "file_id": "no"}}}},
            ]},
            ["vs_1", "vs_2", "cntr_1", "file-1"],
        ),
        (
            RESPONSES,
            {"input": [{"type": "function_call_output", "call_id": "c",
                        "output": [{"type": "input_file", "file_id": "file-1"}]},
                       {"type": "function_call", "arguments": '{"file_id":"no"}'}]},
            ["file-1"],
        ),
        (
            MESSAGES,
            {"container": "container_1", "messages": [
                user({"type": "document", "source": {"type": "file", "file_id": "file_1"}},
                     {"type": "container_upload", "file_id": "file_2"},
                     {"type": "tool_result", "tool_use_id": "t", "content": [
                         {"type": "image", "source": {"type": "file", "file_id": "file_3"}}]}),
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "t", "name": "n", "input": {"file_id": "no"}}]},
            ]},
            ["container_1", "file_1", "file_2", "file_3"],
        ),
        (MESSAGES, {"container": {"id": "container_1", "skills": []}, "messages": []},
         ["container_1"]),
    ],
)  # fmt: skip
def test_ids_are_found_where_the_vendor_reads_them(
    protocol: str, body: Any, named: list[str]
) -> None:
    """And not in what a tool is given, or a client says."""
    assert ids(protocol, body) == named


def test_no_spelling_hides_an_id() -> None:
    body = rb'{"messages":[{"role":"user","content":[{"file":{"\u0066ile_id":"file-1"}}]}]}'
    assert ids(CHAT, body) == ["file-1"]


def test_of_a_member_that_stands_there_twice_all_count() -> None:
    """Services may read the first or the last."""
    part = b'{"type":"file","file":{"file_id":"file-1","file_id":"file-2"}}'
    twice = b'{"messages":[{"content":[%b],"content":"Hi"}]}' % part
    assert ids(CHAT, twice) == ["file-1", "file-2"]


def test_of_many_ids_one_more_is_found_than_a_request_may_name() -> None:
    parts = [{"type": "input_file", "file_id": f"file-{number}"} for number in range(1000)]
    assert len(ids(RESPONSES, {"input": [user(*parts)]})) == MOST_NAMED + 1
