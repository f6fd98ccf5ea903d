"""How an answer ended, both ways."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.options import Options
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.finish_words import FILTER_WORDS
from dragoman.protocols.openai_responses.settings import ResponsesOptions

_CUT = frozenset({FinishReason.LENGTH, FinishReason.CONTEXT_WINDOW})


def read_finish(complete: bool, details: Any, has_calls: bool) -> Finish:
    """The end of an answer from whether it is `completed`, else its `incomplete_details`.

    Any reason other than a filter is a limit.
    """
    if complete:
        return Finish(FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP)
    reason = details.get("reason") if isinstance(details, dict) else None
    if isinstance(reason, str) and reason in FILTER_WORDS:
        return Finish(FinishReason.CONTENT_FILTER)
    return Finish(FinishReason.LENGTH)


class Status(Struct, frozen=True):
    """`status` of a response, why it is incomplete, and `status` of its last item."""

    response: str
    details: JsonObject | None
    last_item: str


def write_finish(finish: Finish, options: Options, ledger: Ledger) -> Status:
    """The end of an answer as the client is to see it."""
    reason = finish.reason
    if finish.category is not None:
        ledger.add("stop_details.category", LossKind.KNOB, "filters have no categories")
    if reason in _CUT:
        return Status("incomplete", {"reason": "max_output_tokens"}, "incomplete")
    if reason is FinishReason.CONTENT_FILTER and not (
        finish.declined and options.of(ResponsesOptions).refusal_as == "completed"
    ):
        return Status("incomplete", {"reason": "content_filter"}, "completed")
    if reason is FinishReason.STOP_SEQUENCE:
        ledger.add("stop_sequence", LossKind.KNOB, "stop sequences are not reported")
    elif reason is FinishReason.PAUSE:
        ledger.add("stop_reason", LossKind.CONVERTED, "a paused answer looks completed")
    return Status("completed", None, "completed")
