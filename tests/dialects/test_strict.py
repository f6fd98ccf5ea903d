"""What the strict policy alone refuses: nothing is made up, and nothing comes early. What else it
refuses is in the tables, whose rows are run under all policies."""

from __future__ import annotations

import pytest

from dragoman.canonical.errors import DragomanError
from tests.tables.cells import (
    CHAT,
    CHAT_USAGE,
    MESSAGES,
    RESPONSES,
    ROLE,
    STOP,
    WEATHER,
    Json,
    asking,
    calling,
    chat_chunk,
    chat_stream,
    events,
    function_call,
    streamed,
)

LOOK = {"type": "function", "function": {"name": "look", "parameters": WEATHER}}
USAGE = chat_chunk(usage=CHAT_USAGE)
HI = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize("arguments", ["", "{", "[1]", '"text"', "null", "{'a': 1}"])
def test_arguments_that_are_no_object_fail(arguments: str) -> None:
    """They are not replaced by an empty one."""
    with pytest.raises(DragomanError) as caught:
        calling(
            CHAT,
            MESSAGES,
            asking(
                CHAT,
                messages=[
                    HI,
                    {"role": "assistant", "tool_calls": [function_call(1, "look", arguments)]},
                    {"role": "tool", "tool_call_id": "call_1", "content": "found"},
                ],
                tools=[LOOK],
                max_tokens=50,
            ),
            policy="strict",
        )
    assert caught.value.fault.param == "messages[1].tool_calls[0]"


def told(*chunks: Json, client: str = MESSAGES) -> list[str]:
    """The names of the events of a stream."""
    stream = streamed(client, CHAT, chat_stream(*chunks), policy="strict")
    return [name for name, _ in events(stream)]


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("early", [USAGE, chat_chunk()], ids=["usage", "nothing"])
def test_chunks_without_choices_before_the_end_fail(client: str, place: int, early: Json) -> None:
    """Only usage comes without a choice, and only after the finish reason. req: 95"""
    chunks = [ROLE, chat_chunk({"content": "Hi"}), STOP]
    chunks.insert(place, early)
    assert told(*chunks, client=client)[-1] == (
        "error" if client == MESSAGES else "response.failed"
    )


def test_usage_beside_a_choice_ends_nothing() -> None:
    """Some servers tell it with every chunk; what is told last counts."""
    some = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    spoken = chat_chunk({"content": "Hi"})
    stream = chat_stream(ROLE, {**spoken, "usage": some}, spoken, STOP, USAGE)
    made = events(streamed(MESSAGES, CHAT, stream, policy="strict"))
    texts = [data["delta"]["text"] for name, data in made if name == "content_block_delta"]
    assert "".join(texts) == "HiHi"
    assert made[-2][1]["usage"]["output_tokens"] == CHAT_USAGE["completion_tokens"]
