"""Whole answers of the Responses protocol, read."""

from __future__ import annotations

from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.events import Ended, Event, Finished
from dragoman.protocols.base import Inbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_errors import fault_of
from dragoman.protocols.openai_responses.assembler import Assembler
from dragoman.protocols.openai_responses.stream_reader import metered, report_unread, started
from dragoman.protocols.openai_responses.usage import read_finish, read_moderation


def read_response(body: JsonObject, inbound: Inbound) -> list[Event]:
    """A whole answer as the events of its stream.

    Raises:
        UpstreamError: the answer failed, is not finished, or is not an answer.
    """
    status, output, error = body.get("status"), body.get("output"), body.get("error")
    if error or status == "failed":
        raise UpstreamError(fault_of(error))
    if status not in (None, "completed", "incomplete"):
        raise UpstreamError.unreadable(f"its status is {status}")
    if not isinstance(output, list):
        raise UpstreamError.unreadable("it has no output")
    answer = Assembler(inbound)
    events: list[Event] = [started(body)]
    for number, item in enumerate(output):
        if not isinstance(item, dict):
            raise UpstreamError.unreadable("an output item is not an object")
        events += answer.complete(number, item, f"output[{number}]")
    report_unread(body, "", inbound)
    complete = status != "incomplete"
    finish = read_finish(complete, body.get("incomplete_details"), answer.has_calls)
    return [*events, Finished(finish), *metered(body, inbound), Ended(read_moderation(body))]
