"""The choices of an answer of which one was asked for.

Nearly all have one. Some servers split an answer in two, the text in one choice and the calls in
another (GitHub Copilot does), and some have a finish reason in every chunk.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.finish import Finish
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.finish_words import failure, is_failure, plain, unknown_finish
from dragoman.protocols.openai_chat import wire
from dragoman.protocols.openai_chat.finish import is_cut, is_known_reason, read_finish

_TEXT, _CALLS = "text", "calls"
_CONTENT_FIELDS = wire.DELTA_FIELDS - {"role", "annotations"}
_NOTHING: JsonObject = {}


class Choices(Struct, eq=False):
    """The choices seen so far and how each ended. `source` is the member with a choice's content,
    `delta` or `message`."""

    source: str
    index: int = 0
    """Index of the last choice."""
    last: JsonObject = {}
    reasons: dict[int, tuple[str, JsonObject]] = {}
    """The lower-case finish reason of each choice that has one, and the choice object with it."""
    shares: dict[str, int] | None = None
    """The index of the choice with the text and of the one with the calls, if there are several."""

    def begin(self, choice: JsonObject) -> bool:
        """Take the next choice. Returns whether there are several, which then have to `share`."""
        index = choice.get("index")
        self.index = index if type(index) is int else 0
        self.last = choice
        return self.index != 0 or self.shares is not None

    def share(self, *, text: bool, calls: bool) -> None:
        """Assign the last choice its share, as one of several; `text` and `calls`: content before
        it.

        Raises:
            UpstreamError: two of them have text, or two have calls: they are two answers.
        """
        if self.shares is None:
            self.shares = {share: 0 for share, was in ((_TEXT, text), (_CALLS, calls)) if was}
        received = content_of(self.last, self.source)
        for share, names in _SHARES.items():
            has = any(received.get(name) for name in names)
            if has and self.shares.setdefault(share, self.index) != self.index:
                raise UpstreamError.unreadable("it has more than one choice")

    def go_on(self) -> None:
        """Drop the finish reason of the choice, which has more content: some servers send one after
        each piece. Its last finish reason counts, as in the official SDK."""
        self.reasons.pop(self.index, None)

    def end(self, reason: Any, *, strict: bool = True) -> bool:
        """Record the finish reason of the last choice. Returns whether some server uses it; an
        unknown one is an ordinary end, unless `strict`.

        Raises:
            UpstreamError: it means a failure, or cannot be an end.
        """
        word = plain(reason) if type(reason) is str else ""
        is_known = is_known_reason(word)
        if not is_known and (strict or not word or is_failure(reason)):
            raise UpstreamError(failure(reason) if is_failure(reason) else unknown_finish(reason))
        self.reasons[self.index] = word, self.last
        return is_known

    @property
    def last_has_content(self) -> bool:
        """Whether the last choice has content."""
        return has_content(content_of(self.last, self.source))

    @property
    def ended_with_calls(self) -> bool:
        """Whether a choice ended for its tool calls."""
        return any(word in _CALLING for word, _ in self.reasons.values())

    @property
    def calls_elsewhere(self) -> bool:
        """Whether the calls are those of another choice."""
        return self.shares is not None and self.shares.get(_CALLS, self.index) != self.index

    @property
    def ended_blank(self) -> bool:
        """Whether the last chunk marked the end with an empty finish reason, as some servers do."""
        if self.reasons or self.last.get("finish_reason") != "":
            return False
        delta = self.last.get(self.source)
        return not (delta if type(delta) is str else type(delta) is dict and has_content(delta))

    def finish(self, *, has_calls: bool) -> Finish | None:
        """The end of the answer; None if a choice with a share in it has not ended. An answer with
        one share cut off is incomplete."""
        if self.shares is None:
            ended = self.reasons.get(self.index)
        elif self.reasons.keys() >= set(self.shares.values()):
            reasons = self.reasons.values()
            ended = next((one for one in reasons if is_cut(one[0])), next(iter(reasons), None))
        else:
            ended = None
        return None if ended is None else read_finish(*ended, has_calls=has_calls)


_CALLING = ("tool_calls", "function_call")
_SHARES = {_TEXT: ("content", "refusal"), _CALLS: ("tool_calls", "function_call")}


def indexed(choices: list[Any]) -> list[JsonObject]:
    """The choices of a chunk, indexed by position if their indexes are not distinct.

    Raises:
        UpstreamError: they are not objects.
    """
    if not all(type(choice) is dict for choice in choices):
        raise UpstreamError.unreadable("its choices are not objects")
    if len({str(choice.get("index")) for choice in choices}) == len(choices):
        return choices
    return [{**choice, "index": index} for index, choice in enumerate(choices)]


def with_own_delta(choice: JsonObject, source: str) -> JsonObject:
    """The choice in the protocol's form if its content is outside `source` instead of in it;
    else the choice unchanged.

    Raises:
        UpstreamError: its own content contradicts its delta.
    """
    own = {name: choice[name] for name in _CONTENT_FIELDS if choice.get(name)}
    if not own:
        return choice
    received = content_of(choice, source)
    remaining = {name: value for name, value in choice.items() if name not in own}
    if has_content(received):
        if any(received.get(name) != own[name] for name in own):
            raise UpstreamError.unreadable("a choice does not say what its delta says")
        return remaining
    return {**remaining, source: {**received, **own}}


def content_of(choice: JsonObject, source: str) -> JsonObject:
    """The content of a choice, in whichever member it has it."""
    for place in (source, "message", "text"):
        received = choice.get(place)
        if received:
            return received if type(received) is dict else {"content": received}
    return _NOTHING


def has_content(delta: JsonObject) -> bool:
    """Whether a delta or message has content."""
    return any(delta.get(name) for name in _CONTENT_FIELDS)
