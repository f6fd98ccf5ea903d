"""Controlling the simulator from within a request, in ways that pass through any gateway.

The model name carries a scenario and options, ``sim-text?chunks=50&delay_ms=20``, and the last
user text may carry a directive, ``[[sim: scenario=parallel_tools delay_ms=5]]``, that overrides
the model name. Values in a directive may be quoted. A model name that does not begin with
``sim-`` gets the friendly ``demo`` scenario.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast, get_args
from urllib.parse import parse_qsl

from dragoman.lab.simulator.directives import last_directive
from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.frames import FRAMINGS
from dragoman.lab.simulator.rendering import QUIRKS
from dragoman.lab.simulator.script import (
    Failure,
    Fault,
    FaultKind,
    FinishReason,
    Pace,
    Scenario,
    Usage,
)

DEFAULT_SCENARIO = "demo"
_PREFIX = "sim-"

OPTIONS: dict[str, str] = {
    "scenario": "the scenario's name; only in a directive",
    "text": "the text of the answer",
    "words": "how many words of filler the answer has",
    "thought": "the text of the reasoning",
    "parts": "how many parts or blocks the reasoning has",
    "tool": "the name of the tool to call",
    "args": "the raw text of the call's arguments",
    "calls": "how many calls parallel_tools and agent make",
    "path": "the file that agent writes",
    "content": "what agent writes into the file",
    "rounds": "how many tool rounds come before the answer",
    "chunks": "how many deltas a text is cut into",
    "size": "the characters of a delta",
    "cut": "flush the byte stream in pieces of so many bytes",
    "escape": "1: write non-ASCII characters as JSON escapes",
    "head_ms": "wait before the status line",
    "slow_head_ms": "let the head trickle out for so long",
    "first_ms": "wait between the head and the first event",
    "delay_ms": "wait between two events",
    "input": "prompt tokens, cached ones included",
    "output": "output tokens, reasoning included",
    "cached": "prompt tokens read from the cache",
    "written": "prompt tokens written to the cache",
    "reasoning_tokens": "output tokens spent on reasoning",
    "finish": "the finish reason: " + ", ".join(get_args(FinishReason)),
    "choices": "how many choices a Chat answer has",
    "quirks": "a comma-separated list of quirks",
    "fault": "what goes wrong: " + ", ".join(get_args(FaultKind)),
    "after": "how many stream events arrive before an in-stream fault",
    "ms": "the length of a silence",
    "times": "how many requests with this very steering meet the fault; the later ones go well",
    "steered": "pending: input for a response under way waits for the request that goes on from it",
    "status": "the HTTP status of an error",
    "message": "the message of an error; with status 403 also one of the named texts",
    "type": "the type of an error",
    "code": "the code of an error",
    "param": "the field an error names",
    "retry_after": "the Retry-After header of an error",
    "events": "how many events a flood has",
    "bytes": "the size of each event's text in a flood",
    "seed": "the number that ids and times derive from, in place of the running count",
    "compatible": "1: accept unknown request fields (Chat, Responses); only in the model name",
}
"""Every option with its meaning. Times are in milliseconds."""


class Options:
    """The options of one request, with typed access.

    Raises:
        ApiError: 400 for an option that does not exist or a value of the wrong kind.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        for name in values:
            if name not in OPTIONS:
                raise ApiError(400, f"The simulator has no option '{name[:60]}'.", code="simulator")
        self._values = values

    def text(self, name: str) -> str | None:
        return self._values.get(name)

    def integer(self, name: str, default: int = 0) -> int:
        value = self._values.get(name)
        if value is None:
            return default
        if not value.isdecimal():
            raise ApiError(
                400, f"The simulator's option '{name}' must be a number.", code="simulator"
            )
        return int(value)

    def flag(self, name: str) -> bool:
        return self.integer(name) != 0

    def one_of(self, name: str, values: tuple[str, ...]) -> str | None:
        value = self._values.get(name)
        if value is not None and value not in values:
            raise ApiError(
                400, f"The simulator's option '{name}' can't be '{value[:60]}'.", code="simulator"
            )
        return value

    def names(self, name: str, known: Mapping[str, Any]) -> frozenset[str]:
        """A comma-separated list of names."""
        found = frozenset(filter(None, (self._values.get(name) or "").split(",")))
        for entry in found:
            if entry not in known:
                raise ApiError(400, f"The simulator has no quirk '{entry[:60]}'.", code="simulator")
        return found


@dataclass(frozen=True, slots=True)
class Steering:
    """The scenario and options of a request. Equal steering has equal ``key``s."""

    scenario: str
    options: Options
    key: str


def steer(model: str, user_text: str) -> Steering:
    """The steering in a model name and in the last user text."""
    name, values = steer_by_model(model)
    directive = last_directive(user_text)
    if directive is not None:
        values = {**values, **_parse_directive(directive)}
        name = values.pop("scenario", name)
    key = f"{model}\n{directive or ''}"
    return Steering(name.replace("-", "_"), Options(values), key)


def steer_by_model(model: str) -> tuple[str, dict[str, str]]:
    """The scenario and the raw options in a model name; a provider's prefix is ignored."""
    path, _, query = model.partition("?")
    name = path.rsplit("/", 1)[-1]
    scenario = name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else DEFAULT_SCENARIO
    return scenario, dict(parse_qsl(query, keep_blank_values=True))


def _parse_directive(text: str) -> dict[str, str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        message = f"The simulator's directive can't be read: {error}"
        raise ApiError(400, message, code="simulator") from error
    pairs = (word.partition("=") for word in words)
    return {name: value for name, _, value in pairs}


def apply_options(scenario: Scenario, options: Options) -> Scenario:
    """The scenario with the options that apply to every scenario."""
    finish = options.one_of("finish", get_args(FinishReason))
    return replace(
        scenario,
        pace=_pace(scenario.pace, options),
        usage=_usage(scenario.usage, options),
        fault=_fault(scenario.fault, options),
        quirks=scenario.quirks | options.names("quirks", {**QUIRKS, **FRAMINGS}),
        finish=scenario.finish if finish is None else cast(FinishReason, finish),
        choices=options.integer("choices", scenario.choices),
    )


def _pace(pace: Pace, options: Options) -> Pace:
    return Pace(
        head_ms=options.integer("head_ms", pace.head_ms),
        slow_head_ms=options.integer("slow_head_ms", pace.slow_head_ms),
        first_ms=options.integer("first_ms", pace.first_ms),
        delay_ms=options.integer("delay_ms", pace.delay_ms),
        chunks=options.integer("chunks", pace.chunks),
        size=options.integer("size", pace.size),
        cut=options.integer("cut", pace.cut),
        escape=options.flag("escape") or pace.escape,
    )


def _usage(usage: Usage, options: Options) -> Usage:
    def count(name: str, default: int | None) -> int | None:
        return default if options.text(name) is None else options.integer(name)

    return Usage(
        input=count("input", usage.input),
        output=count("output", usage.output),
        cached=options.integer("cached", usage.cached),
        written=options.integer("written", usage.written),
        reasoning=count("reasoning_tokens", usage.reasoning),
    )


FORBIDDEN_TEXTS: dict[str, str] = {
    "estimated_cost": "The estimated cost of this request exceeds your balance.",
    "insufficient_tokens": "You have insufficient tokens for this request.",
    "upgrade": "Please upgrade your plan to use this model.",
    "limit": "Your account's limit reached for this period.",
}
"""By name, the texts of a 403 by which relays report the state of an account."""


def failure_from(failure: Failure, options: Options) -> Failure:
    """The failure with the changes of the options."""
    message = options.text("message")
    if message is not None:
        message = FORBIDDEN_TEXTS.get(message, message)
    return Failure(
        status=options.integer("status", failure.status),
        message=failure.message if message is None else message,
        type=options.text("type") or failure.type,
        code=options.text("code") or failure.code,
        param=options.text("param") or failure.param,
        retry_after=options.text("retry_after") or failure.retry_after,
    )


def _fault(fault: Fault | None, options: Options) -> Fault | None:
    kind = options.one_of("fault", get_args(FaultKind))
    if kind is not None:
        fault = Fault(cast(FaultKind, kind))
    if fault is None:
        return None
    return Fault(
        kind=fault.kind,
        after=options.integer("after", fault.after),
        ms=options.integer("ms", fault.ms),
        failure=failure_from(fault.failure, options),
        times=options.integer("times", fault.times),
    )
