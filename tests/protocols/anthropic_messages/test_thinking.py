"""How much to think, toward a Messages upstream."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.blocks import Opaque, Reasoning, Text, ToolCall, ToolResult
from dragoman.canonical.options import Capabilities
from dragoman.canonical.requests import FunctionTool, Thinking, ToolChoice, ToolRef, Turn
from dragoman.protocols.settings import make_capabilities
from tests.protocols.anthropic_messages.helpers import (
    CONVERTED,
    KNOB,
    OLD_VERSION,
    PLAIN,
    REPAIRED,
    request_of,
    write,
)

HI = Turn(role="user", blocks=(Text(text="hi"),))
TOOLS = (FunctionTool(name="f"),)
BUDGETS = make_capabilities(adaptive_thinking=False)
PATHS = {"thinking": "reasoning_effort"}
LOST = ("reasoning_effort", KNOB)
NEAREST = ("reasoning_effort", CONVERTED)
ALWAYS = make_capabilities(disable_thinking=False)


def ask(
    thinking: Thinking | None, capabilities: Capabilities = PLAIN, **fields: Any
) -> tuple[Any, Any, Any]:
    """`thinking`, the effort, and the losses."""
    given = {"max_output_tokens": 100_000, **fields}
    request = request_of(HI, thinking=thinking, paths=PATHS, **given)
    body, losses = write(request, capabilities=capabilities)
    return body.get("thinking"), body.get("output_config", {}).get("effort"), losses


ADAPTIVE = {"type": "adaptive"}
DISABLED = {"type": "disabled"}


@pytest.mark.parametrize(
    ("effort", "expected"),
    [
        (None, (None, None, set())),
        ("none", (DISABLED, None, set())),
        ("minimal", (ADAPTIVE, "low", {NEAREST})),
        ("low", (ADAPTIVE, "low", set())),
        ("medium", (ADAPTIVE, "medium", set())),
        ("high", (ADAPTIVE, "high", set())),
        ("xhigh", (ADAPTIVE, "xhigh", set())),
        ("max", (ADAPTIVE, "max", set())),
    ],
)
def test_efforts_of_models_that_decide_themselves(effort: str | None, expected: Any) -> None:
    assert ask(None if effort is None else Thinking(effort=effort)) == expected


@pytest.mark.parametrize(
    ("effort", "budget"),
    [
        ("minimal", 1024),
        ("low", 2048),
        ("medium", 8192),
        ("high", 16384),
        ("xhigh", 32768),
        ("max", 65536),
    ],
)
def test_efforts_of_models_with_budgets(effort: str, budget: int) -> None:
    config = {"type": "enabled", "budget_tokens": budget}
    assert ask(Thinking(effort=effort), BUDGETS) == (config, None, set())


def test_no_effort_where_there_are_budgets() -> None:
    assert ask(Thinking(effort="none"), BUDGETS) == (DISABLED, None, set())
    assert ask(Thinking(summary="auto"), BUDGETS) == (None, None, set())


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(100_000, 65536), (40_000, 30_000), (4096, 3072), (3000, 1976), (1500, 1024), (1025, 1024)],
)
def test_budgets_leave_room_for_the_answer(limit: int, expected: int) -> None:
    """A quarter of the limit and at least 1024 tokens, where that is possible."""
    config, _, losses = ask(Thinking(effort="max"), BUDGETS, max_output_tokens=limit)
    assert config == {"type": "enabled", "budget_tokens": expected}
    assert losses == (set() if expected == 65536 else {LOST})


def test_no_thinking_where_there_is_no_room() -> None:
    found = ask(Thinking(effort="low"), BUDGETS, max_output_tokens=1024)
    assert found == (DISABLED, None, {LOST})


def test_models_that_cannot_stop_thinking() -> None:
    assert ask(Thinking(effort="none"), ALWAYS) == (None, "low", {NEAREST})
    assert ask(Thinking(mode="disabled"), ALWAYS) == (None, "low", {NEAREST})


@pytest.mark.parametrize(
    ("efforts", "asked", "expected"),
    [
        (("low", "medium", "high"), "xhigh", "high"),
        (("low", "medium", "high"), "max", "high"),
        (("medium", "high"), "low", "medium"),
        ((), "low", None),
    ],
)
def test_efforts_a_model_does_not_know(
    efforts: tuple[str, ...], asked: str, expected: str | None
) -> None:
    found = ask(Thinking(effort=asked), make_capabilities(efforts=efforts))
    assert found == (ADAPTIVE, expected, {NEAREST if expected else LOST})


def test_summaries_are_asked_for() -> None:
    shown = {"type": "adaptive", "display": "summarized"}
    assert ask(Thinking(effort="low", summary="detailed")) == (shown, "low", set())
    assert ask(Thinking(summary="auto")) == (shown, None, set())
    assert ask(Thinking(effort="none", summary="auto")) == (DISABLED, None, set())


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [
        (Thinking(mode="adaptive"), (ADAPTIVE, None)),
        (
            Thinking(mode="adaptive", effort="max", display="omitted"),
            ({"type": "adaptive", "display": "omitted"}, "max"),
        ),
        (Thinking(mode="disabled"), (DISABLED, None)),
        (Thinking(mode="disabled", effort="low"), (DISABLED, "low")),
        (Thinking(mode="between_tools"), ({"type": "between_tools"}, None)),
        (
            Thinking(mode="enabled", budget=90_000),
            ({"type": "enabled", "budget_tokens": 90_000}, None),
        ),
    ],
)
def test_the_words_of_this_protocol_pass(thinking: Thinking, expected: Any) -> None:
    assert ask(thinking) == (*expected, set())


def test_budgets_the_service_refuses_are_repaired() -> None:
    """qwen-code sends a budget as large as the limit."""
    config, _, losses = ask(Thinking(mode="enabled", budget=32_000), max_output_tokens=32_000)
    assert config == {"type": "enabled", "budget_tokens": 24_000}
    assert losses == {("reasoning_effort", REPAIRED)}
    config, _, losses = ask(Thinking(mode="enabled", budget=5))
    assert config == {"type": "enabled", "budget_tokens": 1024}
    assert losses == {("reasoning_effort", REPAIRED)}


def test_adaptive_thinking_becomes_a_budget_where_it_must() -> None:
    config, effort, losses = ask(Thinking(mode="adaptive", effort="low"), BUDGETS)
    assert (config, effort) == ({"type": "enabled", "budget_tokens": 2048}, None)
    assert losses == {("reasoning_effort", CONVERTED)}


FORCED = (ToolChoice(mode="required"), ToolChoice(mode="tool", tool=ToolRef("f")))


@pytest.mark.parametrize("choice", FORCED)
def test_a_forced_call_beats_a_mere_effort(choice: ToolChoice) -> None:
    config, effort, losses = ask(Thinking(effort="high"), tools=TOOLS, tool_choice=choice)
    assert (config, effort, losses) == (DISABLED, "high", {LOST})


@pytest.mark.parametrize("choice", FORCED)
def test_a_forced_call_yields_where_thinking_cannot_stop(choice: ToolChoice) -> None:
    request = request_of(
        HI,
        thinking=Thinking(effort="high"),
        tools=TOOLS,
        tool_choice=choice,
        parallel_tool_calls=False,
        paths=PATHS,
    )
    body, losses = write(request, capabilities=ALWAYS)
    assert body["thinking"] == ADAPTIVE
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert losses == {LOST}


def loop(*blocks: Any) -> tuple[Turn, ...]:
    """A tool loop whose assistant turn is made of `blocks`."""
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    results = tuple(ToolResult(call_id=call.id) for call in calls)
    return (HI, Turn(role="assistant", blocks=blocks), Turn(role="user", blocks=results))


CALL = ToolCall(id="1", name="f", arguments="{}")
THOUGHT = Reasoning(parts=("t",), opaque=Opaque("anthropic_messages", "SIG"))


def test_a_tool_loop_that_began_without_thinking_goes_on_without() -> None:
    request = request_of(*loop(CALL), thinking=Thinking(effort="low"), paths=PATHS)
    body, losses = write(request, capabilities=BUDGETS)
    assert body["thinking"] == DISABLED
    assert losses == {LOST}


def test_thinking_comes_first_in_a_tool_loop_with_a_budget() -> None:
    request = request_of(*loop(Text(text="a"), THOUGHT, CALL), thinking=Thinking(effort="low"))
    body, losses = write(request, capabilities=BUDGETS)
    assert body["thinking"]["type"] == "enabled"
    assert [block["type"] for block in body["messages"][1]["content"]] == [
        "thinking",
        "text",
        "tool_use",
    ]
    assert losses == set()


def test_no_sampling_beside_thinking() -> None:
    request = request_of(HI, thinking=Thinking(effort="low"), temperature=0.2, top_p=0.5, top_k=5)
    body, losses = write(request, capabilities=OLD_VERSION)
    assert not {"temperature", "top_p", "top_k"} & body.keys()
    assert losses == {("temperature", KNOB), ("top_p", KNOB), ("top_k", KNOB)}
