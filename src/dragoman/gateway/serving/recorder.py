"""What is called with an answer that is to be stored, before the client is sent it."""

from __future__ import annotations

from abc import ABC, abstractmethod


class AnswerRecorder(ABC):
    """Records one answer on its way to the client: stores it, or notes which upstream does."""

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

    @abstractmethod
    async def whole(self, body: bytes) -> bytes:
        """Record a whole answer. Returns the answer to send."""

    @abstractmethod
    async def stream(self, data: bytes) -> bytes:
        """Record the answer that the last events of a stream hold. Returns the events to send."""
