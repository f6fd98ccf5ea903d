"""Answers that name things which a service made on the way, such as the container in
which the model's code ran: they are their client's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman import jsontext
from dragoman.canonical.errors import DragomanError
from dragoman.edge.auth import Caller
from dragoman.jsontext import JsonError
from dragoman.protocols.raw import holds
from dragoman.serving.bindings import Bindings
from dragoman.serving.bound_notes import things_in
from dragoman.serving.recorder import AnswerRecorder
from dragoman.sse import Decoder
from dragoman.translation import ClientRequest

_WORDS = (b'"file_id"', b'"container')


def makes_things(request: ClientRequest) -> bool:
    """Whether the service may make something for a request: it has a tool that runs code."""
    return holds(request.members.get("tools"), b'"code_')


class BoundAnswerRecorder(AnswerRecorder):
    """Binds the things that an answer names to the caller. All else is up to `recorder`, None
    if nothing else is recorded."""

    __slots__ = ("_account", "_bindings", "_caller", "_recorder")

    def __init__(self, bindings: Bindings, caller: Caller, recorder: AnswerRecorder | None) -> None:
        self._bindings = bindings
        self._caller = caller
        self._recorder = recorder
        self._account = ""

    @property
    def only(self) -> str:
        """Name of the one account that can answer, empty if any can."""
        return "" if self._recorder is None else self._recorder.only

    @property
    def response_id(self) -> str | None:
        """The id that the response is to have, None if the upstream gives it one."""
        return None if self._recorder is None else self._recorder.response_id

    @property
    def follows(self) -> bool:
        """Any event may name something."""
        return True

    def added(self, addition: Any) -> None:
        """Record input that was added to the response in flight."""
        if self._recorder is not None:
            self._recorder.added(addition)

    async def begun(self, account: str, answer_id: str) -> None:
        """The account of that name answers with that id."""
        self._account = account
        if self._recorder is not None:
            await self._recorder.begun(account, answer_id)

    async def follow(self, data: bytes) -> bytes:
        """Bind what events name that are not the last."""
        await self._bind(data)
        if self._recorder is None or not self._recorder.follows:
            return data
        return await self._recorder.follow(data)

    async def whole(self, body: bytes) -> bytes:
        """Bind what a whole answer names."""
        await self._bind(body, is_whole=True)
        return body if self._recorder is None else await self._recorder.whole(body)

    async def stream(self, data: bytes) -> bytes:
        """Bind what the last events name."""
        await self._bind(data)
        return data if self._recorder is None else await self._recorder.stream(data)

    async def _bind(self, data: bytes, *, is_whole: bool = False) -> None:
        if not any(data.find(word) >= 0 for word in _WORDS):
            return
        pieces: Sequence[bytes] = [data] if is_whole else _events(data)
        things = [
            thing
            for piece in pieces
            for thing in things_in(_decoded(piece), "", self._caller.owner, self._account)
        ]
        try:
            await self._bindings.bind(things)
        except DragomanError:
            # The answer is as good as any; only what it names cannot be asked for.
            return


def _events(data: bytes) -> list[bytes]:
    decoder = Decoder()
    return [frame.data for frame in (*decoder.feed(data), *decoder.finish())]


def _decoded(text: bytes) -> Any:
    try:
        return jsontext.decode(text)
    except JsonError:
        return {}
