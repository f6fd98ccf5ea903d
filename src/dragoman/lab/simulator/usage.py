"""Token counts, estimated: a token is about four characters, an image or page a flat sum."""

from dataclasses import dataclass

from dragoman.lab.simulator.script import (
    HostedSearch,
    ParallelTools,
    Reasoning,
    Refusal,
    Scenario,
    Step,
    Text,
    ToolCall,
)

CHARACTERS_PER_TOKEN = 4
MEDIA_TOKENS = 85
MESSAGE_TOKENS = 3


@dataclass(frozen=True, slots=True)
class Counts:
    """Final counts: ``input`` includes ``cached`` and ``written``, ``output`` ``reasoning``."""

    input: int
    output: int
    cached: int
    written: int
    reasoning: int


def tokens(characters: int) -> int:
    """The tokens of a text of that many characters."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def counts(scenario: Scenario, prompt_tokens: int) -> Counts:
    """The scenario's usage with what it leaves open estimated."""
    usage = scenario.usage
    reasoning = usage.reasoning
    if reasoning is None:
        reasoning = sum(tokens(len(s.text)) for s in scenario.steps if isinstance(s, Reasoning))
    output = usage.output
    if output is None:
        output = reasoning + sum(tokens(_visible(step)) for step in scenario.steps)
    return Counts(
        input=prompt_tokens + usage.cached + usage.written if usage.input is None else usage.input,
        output=output,
        cached=usage.cached,
        written=usage.written,
        reasoning=reasoning,
    )


def _visible(step: Step) -> int:
    match step:
        case Text(text=text) | Refusal(text=text):
            return len(text)
        case ToolCall(name=name, arguments=arguments):
            return len(name) + len(arguments)
        case HostedSearch(query=query):
            return len(query)
        case ParallelTools(calls=calls):
            return sum(_visible(call) for call in calls)
        case _:
            return 0
