"""State of calls for clients that did not ask for thinking."""

from __future__ import annotations

import pytest

from dragoman.canonical.blocks import Opaque, Reasoning, ToolCall
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.events import (
    Closed,
    Delta,
    Ended,
    Event,
    Finished,
    Opened,
    Sealed,
    Started,
)
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.losses import Ledger
from dragoman.canonical.requests import Request
from dragoman.protocols import CODECS
from dragoman.protocols.base import Reply

CALL: tuple[Event, ...] = (
    Opened(1, ToolCall(id="one", name="f")),
    Delta(1, "{}"),
    Closed(1),
    Finished(Finish(FinishReason.TOOL_CALLS)),
    Ended(),
)


@pytest.mark.parametrize(
    ("opaque", "kinds"),
    [
        (Opaque("another", "state", anchor="next"), ["thinking", "tool_use"]),
        (Opaque("another", "state", anchor="previous"), ["tool_use"]),
        (Opaque("another", "state"), ["tool_use"]),
    ],
    ids=["of-a-call", "of-a-text", "of-reasoning"],
)
def test_state_of_a_call_is_given_to_clients_without_thinking(
    opaque: Opaque, kinds: list[str]
) -> None:
    ledger, sealer = Ledger(), Sealer()
    reply = Reply(
        request=Request(model="m", turns=()),
        id="msg_1",
        created=0,
        model="m",
        ledger=ledger,
        sealer=sealer,
        mint=str,
    )
    writer = CODECS["anthropic_messages"].translate.answer_writer(reply, False)
    thought = Opened(0, Reasoning()), Delta(0, "Hm."), Sealed(0, opaque), Closed(0)
    for event in (Started("x", "y"), *thought, *CALL):
        writer.write(event)
    content = writer.answer()["content"]
    assert [block["type"] for block in content] == kinds
    assert ("reasoning" in [loss.path for loss in ledger]) is (len(kinds) == 1)
    if len(kinds) == 2:
        assert content[0]["thinking"] == ""
        opened = sealer.open(content[0]["signature"])
        assert opened is not None
        assert opened.opaque == opaque
