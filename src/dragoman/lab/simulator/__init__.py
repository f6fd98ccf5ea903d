"""A scripted upstream that speaks Chat Completions, Messages, Responses and both of Google's APIs.

It shares no code with the gateway, so that the two can't agree on the same mistake. Run it with
``dragoman simulate``, inside a test with ``dragoman.lab.simulator.testing.running_simulator``, or
mount ``dragoman.lab.simulator.server.app`` on its own server. ``docs/simulator.md`` is its
guide.
"""

from dragoman.lab.simulator.script import (
    Citation,
    Failure,
    Fault,
    HostedSearch,
    Pace,
    ParallelTools,
    Reasoning,
    Refusal,
    Scenario,
    Text,
    ToolCall,
    Usage,
)

__all__ = [
    "Citation",
    "Failure",
    "Fault",
    "HostedSearch",
    "Pace",
    "ParallelTools",
    "Reasoning",
    "Refusal",
    "Scenario",
    "Text",
    "ToolCall",
    "Usage",
]
