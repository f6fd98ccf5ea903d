"""The choices of an answer of which one was asked for.

Nearly all have one. Some servers split an answer in two, the text in one choice and the calls in
another (GitHub Copilot does), and some have a finish reason in every chunk.
"""

from __future__ import annotations

from msgspec import Struct

from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.finish import Finish
from dragoman.protocols.finish_words import failure, is_failure, plain, unknown_finish
from dragoman.protocols.openai_chat.finish import is_cut, is_known_reason, read_finish
from dragoman.protocols.openai_chat.shapes import Choice, Said

_TEXT, _CALLS = "text", "calls"
_CALLING = ("tool_calls", "function_call")
_NOTHING = Said()


class Choices(Struct, eq=False):
    """The choices seen so far and how each ended."""

    last: Choice | None = None
    reasons: dict[int, tuple[str, Choice]] = {}
    """The lower-case finish reason of each choice that has one, and the choice with it."""
    shares: dict[str, int] | None = None
    """The index of the choice with the text and of the one with the calls, if there are several."""

    @property
    def index(self) -> int:
        """Index of the last choice."""
        return 0 if self.last is None else self.last.index

    def begin(self, choice: Choice) -> bool:
        """Take the next choice. Returns whether there are several, which then have to `share`."""
        self.last = choice
        return choice.index != 0 or self.shares is not None

    def share(self, *, text: bool, calls: bool) -> None:
        """Assign the last choice its share, as one of several; `text` and `calls`: content before
        it.

        Raises:
            UpstreamError: two of them have text, or two have calls: they are two answers.
        """
        if self.shares is None:
            self.shares = {share: 0 for share, was in ((_TEXT, text), (_CALLS, calls)) if was}
        said = self._said
        has_text, has_calls = said.content or said.refusal, said.tool_calls or said.function_call
        for share, has in ((_TEXT, has_text), (_CALLS, has_calls)):
            if has and self.shares.setdefault(share, self.index) != self.index:
                raise UpstreamError.unreadable("it has more than one choice")

    def go_on(self) -> None:
        """Drop the finish reason of the choice, which has more content: some servers send one after
        each piece. Its last finish reason counts, as in the official SDK."""
        self.reasons.pop(self.index, None)

    def end(self, reason: str, *, strict: bool = True) -> bool:
        """Record the finish reason of the last choice. Returns whether some server uses it; an
        unknown one is an ordinary end, unless `strict`.

        Raises:
            UpstreamError: it means a failure, or cannot be an end.
        """
        word, last = plain(reason), self.last
        is_known = is_known_reason(word)
        if not is_known and (strict or not word or is_failure(reason)):
            raise UpstreamError(failure(reason) if is_failure(reason) else unknown_finish(reason))
        assert last is not None
        self.reasons[last.index] = word, last
        return is_known

    @property
    def _said(self) -> Said:
        """The content of the last choice, in whichever member it has it."""
        last = self.last
        assert last is not None
        if last.delta is not None and (last.delta.has_content or last.message is None):
            return last.delta
        return last.message or (Said(content=last.text) if last.text else _NOTHING)

    @property
    def last_has_content(self) -> bool:
        """Whether the last choice has content."""
        return self._said.has_content

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
        last = self.last
        if last is None or self.reasons or last.finish_reason != "":
            return False
        return last.delta is None or not last.delta.has_content

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
