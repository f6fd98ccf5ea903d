"""A scenario: what the simulated model does, independent of the protocol.

A renderer (``dragoman.lab.simulator.rendering``) writes a scenario natively in one protocol. The
types are frozen, so one scenario can be shared by any number of concurrent answers.
"""

from dataclasses import dataclass, field
from typing import Literal

Protocol = Literal["chat", "messages", "responses", "google", "interactions"]
"""The protocol of a request: each has its own endpoint."""

FinishReason = Literal[
    "stop",
    "stop_sequence",
    "length",
    "context_window",
    "tool_calls",
    "content_filter",
    "refusal",
    "pause",
]
"""Why an answer ends; ``pause`` is a turn of hosted tools that the client sends back unchanged."""

FaultKind = Literal[
    # instead of an answer
    "error",
    "error_200",
    "html",
    "not_json",
    "empty",
    "wrong_protocol",
    "wrong_content_type",
    "full_body",
    # in the answer, after `after` events of a stream, or inside the body of a full answer
    "error_in_stream",
    "truncate",
    "close",
    "reset",
    "silence",
]


@dataclass(frozen=True, slots=True)
class Citation:
    """A source that the whole text beside it rests on."""

    url: str
    title: str
    cited_text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Thinking before what follows it.

    ``parts`` are the readable parts: summary parts of one Responses item, one thinking text for
    Messages and Chat. ``redacted`` reasoning has no readable part: a ``redacted_thinking`` block
    or a Responses item with ``encrypted_content`` only.
    """

    parts: tuple[str, ...]
    redacted: bool = False

    @property
    def text(self) -> str:
        """The parts as one text, separated by a blank line."""
        return "\n\n".join(self.parts)


@dataclass(frozen=True, slots=True)
class Text:
    """Visible text."""

    text: str
    citations: tuple[Citation, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool that the request offers.

    ``arguments`` is the raw text that the model writes: JSON for a function (well-formed or
    not), free text for a ``custom`` tool. ``cut`` is true if the model was stopped in the middle
    of writing it.
    """

    name: str
    arguments: str
    kind: Literal["function", "custom"] = "function"
    namespace: str | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class ParallelTools:
    """Several calls in one turn; their deltas alternate where the protocol can interleave."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The model declines, with an explanation."""

    text: str
    category: Literal["cyber", "bio", "general_harms"] | None = None


@dataclass(frozen=True, slots=True)
class HostedSearch:
    """A web search that the vendor itself carries out in the middle of the answer."""

    query: str
    results: tuple[Citation, ...]


Step = Reasoning | Text | ToolCall | ParallelTools | Refusal | HostedSearch


def calls_of(step: Step) -> tuple[ToolCall, ...]:
    """The tool calls that a step makes."""
    if isinstance(step, ToolCall):
        return (step,)
    return step.calls if isinstance(step, ParallelTools) else ()


def unusual_call(steps: tuple[Step, ...], who: str) -> str | None:
    """Why `who`, which has only JSON tools and no namespaces, cannot express the calls of steps."""
    for step in steps:
        for call in calls_of(step):
            if call.kind == "custom":
                return f"{who} has no free-text tools"
            if call.namespace:
                return f"{who} has no tool namespaces"
    return None


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts. What is None is estimated from the request or from the steps.

    ``input`` is the whole prompt with ``cached`` and ``written`` included, as OpenAI counts;
    ``output`` includes ``reasoning``. The Messages renderer subtracts for its own counting.
    """

    input: int | None = None
    output: int | None = None
    cached: int = 0
    written: int = 0
    reasoning: int | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """How the answer is cut and timed. Times are milliseconds.

    ``head_ms`` passes before the status line, ``slow_head_ms`` while the head trickles out,
    ``first_ms`` between the head and the first event, ``delay_ms`` between two events.
    ``chunks`` is the number of deltas a text is cut into, ``size`` the characters of one delta
    (else a text goes word by word). ``cut`` flushes the byte stream in pieces of that many
    bytes, wherever the cuts fall. ``escape`` writes non-ASCII characters as JSON escapes.
    """

    head_ms: int = 0
    slow_head_ms: int = 0
    first_ms: int = 0
    delay_ms: int = 0
    chunks: int = 0
    size: int = 0
    cut: int = 0
    escape: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in the protocol's own shape. What is None takes the usual value of the status."""

    status: int = 500
    message: str | None = None
    type: str | None = None
    code: str | None = None
    param: str | None = None
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong.

    ``after`` is the number of stream events that still arrive before an in-stream fault;
    ``ms`` the length of a silence; ``failure`` the error of the ``error*`` kinds; ``times`` the
    number of requests that meet the fault before the scenario succeeds (0: all).
    """

    kind: FaultKind
    after: int = 0
    ms: int = 0
    failure: Failure = field(default_factory=Failure)
    times: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One answer.

    ``finish`` defaults to what the steps imply. ``quirks`` are deviations from the official
    stream that compatible servers are known for (``rendering.QUIRKS`` and ``frames.FRAMINGS``).
    ``limited`` is true if the request's token limit and stop sequences end the answer.
    """

    steps: tuple[Step, ...] = ()
    finish: FinishReason | None = None
    stop_sequence: str | None = None
    usage: Usage = field(default_factory=Usage)
    pace: Pace = field(default_factory=Pace)
    fault: Fault | None = None
    quirks: frozenset[str] = frozenset()
    choices: int = 1
    limited: bool = True

    def reason(self) -> FinishReason:
        """``finish``, or the reason that the last step implies."""
        if self.finish is not None:
            return self.finish
        last = self.steps[-1] if self.steps else None
        if isinstance(last, ToolCall | ParallelTools):
            return "tool_calls"
        if isinstance(last, Refusal):
            return "refusal"
        return "stop"
