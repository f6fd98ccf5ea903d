"""The request's own limits on an answer: ``max_tokens`` and stop sequences."""

from dataclasses import replace

from dragoman.lab.simulator.script import (
    ParallelTools,
    Reasoning,
    Scenario,
    Step,
    Text,
    ToolCall,
)
from dragoman.lab.simulator.usage import CHARACTERS_PER_TOKEN, counts
from dragoman.lab.simulator.view import View


def within_limits(scenario: Scenario, view: View) -> Scenario:
    """The scenario, ended at the request's stop sequence or token limit."""
    if not scenario.limited:
        return scenario
    if view.stop_sequences:
        scenario = _until_stop(scenario, view.stop_sequences)
    if view.max_tokens is None:
        return scenario
    generated = counts(replace(scenario, usage=replace(scenario.usage, output=None)), 0).output
    return scenario if generated <= view.max_tokens else _until_limit(scenario, view.max_tokens)


def _until_stop(scenario: Scenario, sequences: tuple[str, ...]) -> Scenario:
    for number, step in enumerate(scenario.steps):
        if not isinstance(step, Text):
            continue
        found = [(step.text.find(s), s) for s in sequences if s and s in step.text]
        if found:
            at, sequence = min(found)
            steps = scenario.steps[:number]
            if at:
                steps += (replace(step, text=step.text[:at]),)
            return replace(scenario, steps=steps, finish="stop_sequence", stop_sequence=sequence)
    return scenario


def _until_limit(scenario: Scenario, max_tokens: int) -> Scenario:
    left = max_tokens * CHARACTERS_PER_TOKEN
    steps: list[Step] = []
    for step in scenario.steps:
        if left <= 0:
            break
        cut, used = _cut(step, left)
        left -= used
        if cut is not None:
            steps.append(cut)
    return replace(scenario, steps=tuple(steps), finish="length")


def _cut(step: Step, left: int) -> tuple[Step | None, int]:
    """The part of a step that fits into ``left`` characters, and how many it uses."""
    match step:
        case Text(text=text):
            return replace(step, text=text[:left]), len(text)
        case Reasoning(parts=parts):
            texts: list[str] = []
            used = 0
            for part in parts:
                if used < left:
                    texts.append(part[: left - used])
                used += len(part)
            return replace(step, parts=tuple(texts)), used
        case ToolCall(name=name, arguments=arguments):
            room = left - len(name)
            if room >= len(arguments):
                return step, len(name) + len(arguments)
            return replace(step, arguments=arguments[: max(0, room)], cut=True), left
        case ParallelTools(calls=calls):
            fitting: list[ToolCall] = []
            used = 0
            for call in calls:
                if used >= left:
                    break
                piece, size = _cut(call, left - used)
                if isinstance(piece, ToolCall):
                    fitting.append(piece)
                used += size
            return ParallelTools(tuple(fitting)), used
        case _:
            return step, 0
