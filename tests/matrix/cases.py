"""The scenarios of the matrix: what the model does, what the client asks, what it must see.

Every case runs in all sixteen cells unless `cannot` gives, for a cell, why a protocol has
no way to say it; then the client must get the stated error instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from dragoman.lab.simulator.script import (
    Failure,
    Fault,
    Pace,
    ParallelTools,
    Reasoning,
    Refusal,
    Scenario,
    Text,
    ToolCall,
    Usage,
)
from tests.matrix.bodies import Wish, pdf, png
from tests.matrix.judges import Api, Seen

APIS: tuple[Api, ...] = ("chat", "messages", "responses", "google")
SILENT = ("chat", "google")
"""Upstreams that may say nothing of usage."""
Cell = tuple[Api, Api]

FINISH: dict[str, dict[Api, str]] = {
    "stop": {
        "chat": "stop",
        "messages": "end_turn",
        "responses": "completed",
        "google": "STOP",
    },
    "tools": {
        "chat": "tool_calls",
        "messages": "tool_use",
        "responses": "completed",
        "google": "STOP",
    },
    "length": {
        "chat": "length",
        "messages": "max_tokens",
        "responses": "incomplete/max_output_tokens",
        "google": "MAX_TOKENS",
    },
}
MULTIBYTE = "héllo wörld 👋🏽 日本語 \u2028 \u2029 \x85 é 🏳️‍🌈 ends"
PATCH = "*** Begin Patch\n*** Add File: a.txt\n+hello\n*** End Patch"


@dataclass(frozen=True)
class Cannot:
    """Why a cell cannot carry a case, and the error the client gets instead."""

    why: str
    status: int | None = 400
    mentions: str = ""


@dataclass(frozen=True)
class Case:
    """One row of the table.

    `say` gives the model's answer per client and upstream protocol. `check` looks at what the
    client saw, `arrived` at the body the upstream received.
    """

    name: str
    say: Callable[[Api, Api], Scenario]
    wish: Wish = field(default_factory=Wish)
    check: Callable[[Api, Api, Seen], None] = lambda client, upstream, seen: None
    arrived: Callable[[Api, dict[str, Any]], None] = lambda upstream, body: None
    cannot: Callable[[Api, Api], Cannot | str | None] = lambda client, upstream: None


def always(*steps: Any, **more: Any) -> Callable[[Api, Api], Scenario]:
    """The same answer from every upstream."""
    scenario = Scenario(steps=steps, **more)
    return lambda client, upstream: scenario


def saw_text(text: str, finish: str = "stop") -> Callable[[Api, Api, Seen], None]:
    """The client saw exactly this text, and the right finish."""

    def check(client: Api, upstream: Api, seen: Seen) -> None:
        assert seen.error is None, seen.error
        assert seen.text == text
        assert seen.finish == FINISH[finish][client]

    return check


def _tool(client: Api, upstream: Api, seen: Seen) -> None:
    assert seen.error is None, seen.error
    (call,) = seen.calls
    assert (call.name, call.input) == ("get_weather", {"city": "Paris"})
    assert seen.finish == FINISH["tools"][client]


def _parallel(client: Api, upstream: Api, seen: Seen) -> None:
    assert seen.error is None, seen.error
    assert [(call.name, call.input) for call in seen.calls] == [
        ("get_weather", {"city": "Paris"}),
        ("get_time", {"city": "Tokyo"}),
    ]
    assert len({call.id for call in seen.calls}) == 2
    assert seen.finish == FINISH["tools"][client]


def _custom(client: Api, upstream: Api, seen: Seen) -> None:
    assert seen.error is None, seen.error
    (call,) = seen.calls
    assert (call.name, call.arguments, call.custom) == ("apply_patch", PATCH, True)


def _custom_answer(client: Api, upstream: Api) -> Scenario:
    if upstream == "responses" or (client, upstream) == ("chat", "chat"):
        return Scenario(steps=(ToolCall("apply_patch", PATCH, kind="custom"),))
    import json

    return Scenario(steps=(ToolCall("apply_patch", json.dumps({"input": PATCH})),))


def _reasoned(client: Api, upstream: Api, seen: Seen) -> None:
    assert seen.error is None, seen.error
    assert seen.reasoning == "Let me think about it."
    assert seen.text == "The answer is 4."


def _refused(client: Api, upstream: Api, seen: Seen) -> None:
    assert seen.error is None, seen.error
    if client == "google":  # which has no refusals, and whose SDK drops the finish message
        assert seen.finish == "SAFETY"
        return
    if upstream == "google":
        filtering: dict[Api, str] = {
            "chat": "content_filter",
            "messages": "refusal",
            "responses": "incomplete/content_filter",
        }
        assert seen.finish == filtering[client]
        return
    assert seen.refusal == "I cannot help with that."
    filtered = upstream == "messages"
    expected: dict[Api, str] = {
        "chat": "content_filter" if filtered else "stop",
        "messages": "refusal",
        "responses": "completed",
    }
    assert seen.finish == expected[client]


def _stopped(client: Api, upstream: Api, seen: Seen) -> None:
    assert seen.error is None, seen.error
    assert seen.text == "one two "
    if (client, upstream) == ("messages", "messages"):
        assert (seen.finish, seen.stop_sequence) == ("stop_sequence", "three")
    else:
        assert seen.finish == FINISH["stop"][client]


def _structured(client: Api, upstream: Api, seen: Seen) -> None:
    import json

    assert seen.error is None, seen.error
    assert len(seen.texts) == 1
    assert json.loads(seen.text) == {"name": "Ada", "age": 36}


def _usage(client: Api, upstream: Api, seen: Seen) -> None:
    assert seen.error is None, seen.error
    assert {name: seen.usage.get(name) for name in ("input", "output", "total", "cached")} == {
        "input": 120,
        "output": 30,
        "total": 150,
        "cached": 80,
    }
    assert seen.usage.get("reasoning", 10) == 10


def _holds(data: str) -> Callable[[Api, dict[str, Any]], None]:
    def arrived(upstream: Api, body: dict[str, Any]) -> None:
        import json

        # Google's SDK for Python writes the other alphabet of base64.
        assert data in json.dumps(body).replace("-", "+").replace("_", "/")

    return arrived


def _no_custom(client: Api, upstream: Api) -> Cannot | str | None:
    if client == "google":
        return "a Google client has no free-text tools"
    return "a Messages client has no free-text tools" if client == "messages" else None


def _no_stop(client: Api, upstream: Api) -> Cannot | str | None:
    if client == "responses":
        return "a Responses client cannot name stop sequences"
    if upstream == "responses":
        return Cannot("Responses has no stop sequences: refused, naming the field", 400, "stop")
    return None


WEATHER = ToolCall("get_weather", '{"city": "Paris"}')
CASES: tuple[Case, ...] = (
    Case(
        "text",
        always(Text("Hello, world. How are you?")),
        check=saw_text("Hello, world. How are you?"),
    ),
    Case(
        "multi-byte text cut anywhere",
        always(Text(MULTIBYTE), pace=Pace(cut=3)),
        check=saw_text(MULTIBYTE),
    ),
    Case(
        "long text",
        always(Text("word " * 400)),
        check=saw_text("word " * 400),
    ),
    Case("one tool call", always(WEATHER), Wish(tools=("get_weather",)), check=_tool),
    Case(
        "text, then a tool call",
        always(Text("I will look."), WEATHER),
        Wish(tools=("get_weather",)),
        check=lambda client, upstream, seen: _both(client, upstream, seen),
    ),
    Case(
        "two parallel tools, deltas interleaved",
        always(ParallelTools((WEATHER, ToolCall("get_time", '{"city": "Tokyo"}')))),
        Wish(tools=("get_weather", "get_time")),
        check=_parallel,
    ),
    Case(
        "custom tool",
        _custom_answer,
        Wish(custom_tool=True),
        check=_custom,
        cannot=_no_custom,
    ),
    Case(
        "reasoning",
        always(Reasoning(("Let me think about it.",)), Text("The answer is 4.")),
        Wish(thinking=True),
        check=_reasoned,
    ),
    Case(
        "refusal",
        always(Refusal("I cannot help with that.")),
        check=_refused,
    ),
    Case(
        "length",
        always(Text("and so on and"), finish="length"),
        check=saw_text("and so on and", "length"),
    ),
    Case(
        "stop sequence",
        always(Text("one two "), finish="stop_sequence", stop_sequence="three"),
        Wish(stop="three"),
        check=_stopped,
        cannot=_no_stop,
    ),
    Case(
        "structured output",
        always(Text('{"name": "Ada", "age": 36}')),
        Wish(schema=True),
        check=_structured,
        arrived=_holds('"age"'),
    ),
    Case(
        "image",
        always(Text("I see.")),
        Wish(image=True),
        check=saw_text("I see."),
        arrived=_holds(png()),
    ),
    Case(
        "PDF",
        always(Text("I read.")),
        Wish(document=True),
        check=saw_text("I read."),
        arrived=_holds(pdf()),
    ),
    Case(
        "cached usage",
        always(
            Text("Cheap."), usage=Usage(input=120, output=30, cached=80, written=20, reasoning=10)
        ),
        check=_usage,
    ),
    Case(
        "usage unknown",
        lambda client, upstream: Scenario(
            steps=(Text("Who knows."),),
            quirks=frozenset({"usage_none"}) if upstream in SILENT else frozenset(),
        ),
        check=saw_text("Who knows."),
    ),
    Case(
        "nothing said",
        always(),
        check=saw_text(""),
    ),
)


def _both(client: Api, upstream: Api, seen: Seen) -> None:
    _tool(client, upstream, seen)
    assert seen.text == "I will look."


def faulty(case: Case, fault: Fault) -> Case:
    """The same case, going wrong."""

    def say(client: Api, upstream: Api) -> Scenario:
        return replace(case.say(client, upstream), fault=fault)

    return replace(case, say=say)


def failing(status: int, **more: Any) -> Scenario:
    """An answer with an error status before anything is said."""
    return Scenario(fault=Fault("error", failure=Failure(status=status, **more)))
