"""Settings of a request that are common to all protocols: how they are adapted to an upstream, and
the losses reported for it.

A protocol's own request writer adds its field names and vocabularies. Kinds are those of
protocols.md 3.1.1: a tuning parameter is a knob; a number out of the upstream's range is repaired;
a replaced word is converted; anything the client relies on is content."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Final

from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Request, Thinking
from dragoman.canonical.stops import EMULATED, emulated
from dragoman.protocols.base import Outbound
from dragoman.protocols.efforts import known_effort

NO_COUNTERPART: Final = "has no counterpart upstream"
GO_ON: Final = "(The conversation goes on with the assistant.)"
GOES_ON: Final = "a user message was put after the last turn, which the upstream must not end with"
NOT_TAKEN: Final = "the upstream does not take it"
NO_SCHEMA: Final = "the upstream takes no schema for its answer"

UNNAMED: Final = "output"
"""The name of an unnamed answer schema, for protocols that require one."""

DECODING: Final = ("seed", "presence_penalty", "frequency_penalty")
"""Settings of the choice of tokens that not all protocols have."""

FAST_TIERS: Final = frozenset({"fast", "priority"})
"""Service tiers of OpenAI's protocols that `map_fast` ties to the speed `fast` of Messages."""


class RequestSettings:
    """The settings of one request for one upstream."""

    __slots__ = ("_ledger", "capabilities", "options", "request", "same_protocol")

    def __init__(self, request: Request, outbound: Outbound) -> None:
        self.request = request
        self.capabilities = outbound.capabilities
        self.options = outbound.options
        self.same_protocol = outbound.same_protocol
        self._ledger = outbound.ledger

    def lose(self, name: str, kind: LossKind, detail: str) -> None:
        """Report the canonical field `name` under the client's name for it."""
        self._ledger.add(self.request.path_of(name), kind, detail)

    def drop(self, *names: str) -> None:
        """Report knobs that the upstream's protocol does not have."""
        for name in names:
            self.lose(name, LossKind.KNOB, NO_COUNTERPART)

    def drop_decoding(self) -> None:
        """Report the settings `DECODING`, to an upstream whose protocol has none of them; a penalty
        of 0 asks for nothing."""
        for name in DECODING:
            value = getattr(self.request, name)
            if value is not None and (value != 0 or name == "seed"):
                self.drop(name)

    def lose_thinking(self, kind: LossKind, detail: str) -> None:
        """Report the conversion of the requested thinking."""
        self.lose("thinking", kind, detail)

    def effort(self, effort: str | None, converted: str | None) -> str | None:
        """The effort, or the nearest one that the upstream supports; `converted` is the detail of
        an earlier conversion, see `effort_of`."""
        if converted is not None:
            self.lose_thinking(LossKind.CONVERTED, converted)
        if effort is None:
            return None
        return known_effort(effort, self.capabilities.efforts, self.lose_thinking)

    def check_display(self, thinking: Thinking) -> None:
        """Report an unknown form of reasoning display."""
        if thinking.display not in (None, "summarized", "omitted"):
            self.lose_thinking(LossKind.KNOB, "thinking is not shown in this way")

    def output_limit(self, asked: int, least: int = 0) -> int:
        """The output limit, in tokens, within the upstream's range."""
        most = self.capabilities.max_output_tokens
        limit = max(asked, least)
        limit = limit if most is None else min(limit, most)
        if limit != asked:
            self.lose("max_output_tokens", LossKind.REPAIRED, fitted(limit))
        return limit

    def sampling(self, name: str, value: float | None) -> float | None:
        """The temperature or `top_p`, if the upstream supports it."""
        if value is None or self.capabilities.sampling:
            return value
        if value != 1:  # 1 is the default
            self.lose(name, LossKind.KNOB, NOT_TAKEN)
        return None

    def top_logprobs(self) -> int | None:
        """The number of alternatives of each token requested, if log probabilities are."""
        request = self.request
        if request.logprobs:
            return request.top_logprobs
        if request.top_logprobs:
            self.lose("top_logprobs", LossKind.KNOB, "log probabilities were not asked for")
        return None

    def stops(self, taken: Sequence[str], kind: LossKind, detail: str) -> list[str]:
        """The stop sequences that the upstream supports. Others are emulated, or reported as lost
        with `kind` and `detail`."""
        asked = self.request.stop
        if len(taken) < len(asked):
            if emulated(asked, taken, self.options):
                self.lose("stop", LossKind.CONVERTED, EMULATED)
            else:
                self.lose("stop", kind, detail)
        return list(taken)

    def user_id(self, name: str, value: str, longest: int) -> str:
        """The id of the end user in the field `name`, or its hash if it has more characters than
        the upstream allows."""
        if len(value) <= longest:
            return value
        self.lose(name, LossKind.CONVERTED, "too long for the upstream: its hash is sent")
        return hashlib.sha256(value.encode()).hexdigest()

    def service_tier(self, known: Collection[str]) -> str | None:
        """The service tier in the words of OpenAI's protocols, if the upstream knows it.

        A tier that the client gave takes precedence over the one for its speed: a client that
        forbids priority capacity must not pay for it."""
        tier, speed = self.request.service_tier, self.request.speed
        if speed == "fast" and tier is None and self.options.map_fast:
            return "fast"
        if speed not in (None, "standard"):
            self.drop("speed")
        if tier is None or tier in known:
            return tier
        self.drop("service_tier")
        return None

    def drop_automatic_cache(self) -> None:
        """Report that the client asked for caching, to an upstream that caches unasked."""
        self.lose("auto_cache", LossKind.KNOB, "the upstream chooses by itself what to cache")

    def drop_store(self) -> None:
        """Report that the client asked to keep the answer."""
        self.lose("store", LossKind.KNOB, "the upstream is not asked to keep the answer")


def fitted(limit: int) -> str:
    """The loss detail for a number of tokens out of the upstream's range."""
    return f"fitted to the upstream's limit of {limit} tokens"
