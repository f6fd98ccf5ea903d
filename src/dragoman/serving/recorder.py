"""The interface of what records an answer before it is sent to the client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class AnswerRecorder(ABC):
    """Records one answer on its way to the client: stores it, or records which upstream does."""

    __slots__ = ()

    @property
    def only(self) -> str:
        """Name of the one account that can answer, empty if any can."""
        return ""

    @property
    def response_id(self) -> str | None:
        """The id that the response is to have, None if the upstream gives it one."""
        return None

    @abstractmethod
    async def begun(self, account: str, answer_id: str) -> None:
        """The account of that name answers with that id, which the client does not know yet."""

    @property
    def follows(self) -> bool:
        """Whether all that is sent of the answer's stream goes through `follow`: there may be more
        than one response in it."""
        return False

    def added(self, addition: Any) -> None:  # noqa: B027 - most ignore it
        """Record input that was added to the response in flight."""

    async def follow(self, data: bytes) -> bytes:
        """Record events of the stream that are not its last. Returns the events
        to send."""
        return await self.stream(data)

    @abstractmethod
    async def whole(self, body: bytes) -> bytes:
        """Record a whole answer. Returns the answer to send."""

    @abstractmethod
    async def stream(self, data: bytes) -> bytes:
        """Record the answer in the last events of a stream. Returns the events to send."""
