"""The named scenarios as a table: what can follow ``sim-`` in a model name."""

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

from dragoman.lab.simulator import agent, scenarios
from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.frames import FRAMINGS
from dragoman.lab.simulator.rendering import QUIRKS
from dragoman.lab.simulator.scenarios import Source
from dragoman.lab.simulator.script import Failure, Fault, FaultKind, Scenario
from dragoman.lab.simulator.steering import Options
from dragoman.lab.simulator.view import View

_NAMED: tuple[Callable[[View, Options], Scenario], ...] = (
    scenarios.demo,
    scenarios.text,
    scenarios.multibyte,
    scenarios.tool,
    scenarios.text_tool,
    scenarios.parallel_tools,
    scenarios.custom_tool,
    scenarios.namespace_tool,
    scenarios.bad_arguments,
    scenarios.empty_arguments,
    scenarios.length_tool,
    scenarios.tool_finish_stop,
    scenarios.reasoning,
    scenarios.reasoning_parts,
    scenarios.reasoning_tool,
    scenarios.redacted_thinking,
    scenarios.interleaved_thinking,
    scenarios.reasoning_roundtrip,
    scenarios.refusal,
    scenarios.length,
    scenarios.context_window,
    scenarios.content_filter,
    scenarios.stop_sequence,
    scenarios.structured,
    scenarios.citations,
    scenarios.hosted_search,
    scenarios.pause_turn,
    scenarios.logprobs,
    scenarios.cached_usage,
    scenarios.media,
    scenarios.echo,
    scenarios.flood,
    scenarios.two_choices,
    agent.agent,
)
_DEMO_NAMES = ("chat", "messages", "responses", "google", "interactions")
_SILENCE_MS = 1000
_IN_STREAM = ("error_in_stream", "truncate", "close", "reset", "silence")
_FIRST_EVENTS = 3
_SERVER_ERROR, _BAD_GATEWAY = 500, 502


def named_scenarios() -> dict[str, Source]:
    """A new table of all scenarios by name."""
    table: dict[str, Source] = {source.__name__: source for source in _NAMED}
    table |= dict.fromkeys(_DEMO_NAMES, scenarios.demo)
    table |= {kind: _faulty(kind) for kind in get_args(FaultKind)}
    table |= {quirk: _quirky(quirk) for quirk in (*FRAMINGS, *QUIRKS)}
    return table


def describe(source: Source) -> str:
    """The first line of a scenario's docstring."""
    return (source.__doc__ or "").partition("\n")[0] if callable(source) else "A fixed scenario."


def find_scenario(table: dict[str, Source], name: str) -> Source:
    """The scenario of that name; digits name the error of that status.

    Raises:
        ApiError: 404 if there is none.
    """
    if (source := table.get(name)) is not None:
        return source
    if name.isdecimal() and len(name) == 3:
        return _faulty("error", int(name))
    raise ApiError(404, f"The simulator has no scenario '{name[:60]}'.", code="model_not_found")


def _faulty(kind: FaultKind, status: int | None = None) -> Source:
    after = _FIRST_EVENTS if kind in _IN_STREAM else 0
    if status is None:
        status = _BAD_GATEWAY if kind == "html" else _SERVER_ERROR
    ms = _SILENCE_MS if kind == "silence" else 0
    fault = Fault(kind, after=after, ms=ms, failure=Failure(status=status))

    def scenario(view: View, options: Options) -> Scenario:
        return replace(scenarios.text(view, options), fault=fault)

    scenario.__doc__ = f"Text with the fault `{kind}`."
    return scenario


def _quirky(quirk: str) -> Source:
    base = scenarios.reasoning if "reasoning" in quirk else scenarios.text

    def scenario(view: View, options: Options) -> Scenario:
        return replace(base(view, options), quirks=frozenset({quirk}))

    scenario.__doc__ = f"Text with the quirk `{quirk}`."
    return scenario
