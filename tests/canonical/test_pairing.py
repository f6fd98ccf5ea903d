"""Tool calls and results are brought together, and every repair is reported."""

from __future__ import annotations

from dragoman.canonical.blocks import Block, Text, ToolCall, ToolResult
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.options import Options
from dragoman.canonical.pairing import UNAVAILABLE, coalesce, pair_tools
from dragoman.canonical.requests import Turn
from dragoman.protocols.settings import make_options


def call(id: str) -> ToolCall:
    return ToolCall(id=id, name="f", arguments="{}", path=f"call.{id}")


def result(id: str, text: str = "ok") -> ToolResult:
    return ToolResult(call_id=id, content=(Text(text=text),), path=f"result.{id}")


def user(*blocks: Block) -> Turn:
    return Turn(role="user", blocks=blocks)


def assistant(*blocks: Block) -> Turn:
    return Turn(role="assistant", blocks=blocks)


DEFAULTS = Options()


def pair(*turns: Turn, options: Options = DEFAULTS) -> tuple[list[Turn], Ledger]:
    ledger = Ledger()
    return pair_tools(turns, options, ledger), ledger


def test_a_complete_history_is_left_alone() -> None:
    turns = (user(Text(text="hi")), assistant(call("a")), user(result("a"), Text(text="go")))
    paired, ledger = pair(*turns)
    assert paired == list(turns)
    assert not len(ledger)


def test_results_come_first_and_in_the_order_of_the_calls() -> None:
    """Results before text, ordered as called. req: 23"""
    paired, _ = pair(
        assistant(call("a"), call("b")), user(Text(text="go"), result("b"), result("a"))
    )
    assert paired[1].blocks == (result("a"), result("b"), Text(text="go"))


def test_a_missing_result_is_added_and_reported() -> None:
    """A call without result gets the stated error result. req: 151"""
    paired, ledger = pair(user(Text(text="hi")), assistant(call("a")), user(Text(text="go")))
    added = paired[2].blocks[0]
    assert isinstance(added, ToolResult)
    assert (added.call_id, added.is_error) == ("a", True)
    assert added.content == (Text(text=UNAVAILABLE),)
    assert paired[2].blocks[1] == Text(text="go")
    assert [(loss.path, loss.kind) for loss in ledger] == [("call.a", LossKind.REPAIRED)]


def test_a_call_at_the_very_end_is_answered_too() -> None:
    paired, _ = pair(assistant(call("a")))
    assert [turn.role for turn in paired] == ["assistant", "user"]


def test_a_missing_result_can_be_refused() -> None:
    _, ledger = pair(assistant(call("a")), options=make_options(orphan_calls="reject"))
    assert [loss.kind for loss in ledger] == [LossKind.CONTENT]


def test_a_result_without_a_call_is_lost_content_by_default() -> None:
    paired, ledger = pair(user(result("x"), Text(text="go")))
    assert paired == [user(Text(text="go"))]
    assert [(loss.path, loss.kind) for loss in ledger] == [("result.x", LossKind.CONTENT)]


def test_a_result_without_a_call_can_become_text() -> None:
    paired, ledger = pair(user(result("x", "42")), options=make_options(orphan_results="text"))
    assert paired == [user(Text(text="42"))]
    assert [loss.kind for loss in ledger] == [LossKind.CONVERTED]


def test_a_late_result_moves_to_its_call() -> None:
    paired, ledger = pair(
        assistant(call("a")),
        user(Text(text="wait")),
        assistant(Text(text="waiting")),
        user(result("a"), Text(text="there")),
    )
    assert paired[1].blocks == (result("a"), Text(text="wait"))
    assert paired[3].blocks == (Text(text="there"),)
    assert [loss.kind for loss in ledger] == [LossKind.REPAIRED]


def test_a_system_turn_between_call_and_result_steps_aside() -> None:
    system = Turn(role="system", blocks=(Text(text="note"),))
    paired, _ = pair(assistant(call("a")), system, user(result("a")))
    assert paired == [assistant(call("a")), user(result("a")), system]


def test_a_second_result_of_one_call_is_an_orphan() -> None:
    _, ledger = pair(assistant(call("a")), user(result("a"), result("a")))
    assert [loss.kind for loss in ledger] == [LossKind.CONTENT]


def test_a_result_knows_whether_its_call_was_custom() -> None:
    custom = ToolCall(id="a", name="f", arguments="text", custom=True)
    paired, _ = pair(assistant(custom), user(result("a")))
    answer = paired[1].blocks[0]
    assert isinstance(answer, ToolResult)
    assert answer.custom


def test_neighbouring_turns_merge_only_in_the_given_roles() -> None:
    merged = coalesce([user(Text(text="a")), user(Text(text="b"))], frozenset({"user"}))
    assert merged == [user(Text(text="a"), Text(text="b"))]
    kept = coalesce([user(Text(text="a")), user(Text(text="b"))], frozenset({"assistant"}))
    assert len(kept) == 2


def test_an_id_used_in_every_turn_is_made_unique() -> None:
    """Some models count their calls anew in every turn."""
    turns = [
        turn
        for number in range(3)
        for turn in (assistant(call("call_0")), user(result("call_0", f"r{number}")))
    ]
    ledger = Ledger()

    paired = pair_tools(turns, DEFAULTS, ledger)

    blocks = [block for turn in paired for block in turn.blocks]
    calls = [block.id for block in blocks if isinstance(block, ToolCall)]
    results = [block.call_id for block in blocks if isinstance(block, ToolResult)]
    assert calls == results == ["call_0", "call_0_2", "call_0_3"]
    assert not len(ledger), "nothing is lost"


def test_calls_of_one_turn_that_share_an_id_are_answered_in_order() -> None:
    turns = [
        assistant(call("a"), call("a_2"), call("a")),
        user(result("a", "first"), result("a", "second"), result("a_2", "other")),
    ]
    ledger = Ledger()

    (asked, answered) = pair_tools(turns, DEFAULTS, ledger)

    assert [block.id for block in asked.blocks if isinstance(block, ToolCall)] == [
        "a",
        "a_2",
        "a_3",
    ]
    said = {
        block.call_id: block.content[0].text
        for block in answered.blocks
        if isinstance(block, ToolResult) and isinstance(block.content[0], Text)
    }
    assert said == {"a": "first", "a_2": "other", "a_3": "second"}


def test_a_result_belongs_to_the_latest_call_of_its_id() -> None:
    turns = [assistant(call("a")), user(Text(text="never mind")), assistant(call("a"))]
    ledger = Ledger()

    paired = pair_tools([*turns, user(result("a", "late"))], DEFAULTS, ledger)

    assert paired[-1].blocks == (
        ToolResult(call_id="a_2", content=(Text(text="late"),), path="result.a"),
    )
