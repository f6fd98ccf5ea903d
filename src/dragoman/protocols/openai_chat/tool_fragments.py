"""Tool calls of a Chat stream, put together from their fragments.

Officially the first fragment of a call has `index`, `id`, `type` and `function.name`, later ones
only `index` and `function.arguments`. Compatible servers leave out or repeat any of these, give
every call the index 0, or send whole calls at once; all of that is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.blocks import ToolCall
from dragoman.canonical.call_ids import made_id
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.events import Closed, Delta, Event, Opened
from dragoman.canonical.names import ToolNames, joined_name
from dragoman.canonical.tools import is_json_object
from dragoman.jsontext import object_of
from dragoman.protocols.openai_chat.shapes import CallPiece, FunctionPiece


class _Call(Struct, eq=False):
    """One call and its fragments so far."""

    number: int
    at: int | None
    block: int
    custom: bool
    id: str = ""
    name: str = ""
    opened: bool = False
    closed: bool = False
    pieces: list[str] = []
    alike: _Call | None = None
    """The earlier call with the same index, id and name."""
    deferred: bool = False
    """Whether its only piece is `{}`, a placeholder that servers send before the arguments."""

    def repeats(self) -> bool:
        """Whether it repeats, so far, the call in `alike`."""
        if self.alike is None or self.opened:
            return False
        return "".join(self.alike.pieces).startswith("".join(self.pieces))

    def content(self) -> tuple[str, Any]:
        """Its name and its arguments, in a form to compare."""
        text = "".join(self.pieces)
        return self.name, object_of(text) if is_json_object(text) else text.strip()

    def is_complete(self) -> bool:
        """Whether the arguments so far are a whole JSON object."""
        return (
            not self.custom
            and bool(self.pieces)
            and self.pieces[-1].rstrip().endswith("}")
            and is_json_object("".join(self.pieces))
        )


class ToolFragments(Struct, eq=False):
    """Turns fragments into the events of tool blocks. `_allocate` gives the next block index;
    `_seed` makes minted ids differ per answer; `_names` are the tools that can be called.

    A call that begins closes those before it only if their arguments are whole; otherwise they
    stay open along with it. With `_strict` it closes them in any case. A fragment of a closed call
    is an error unless it is blank.
    """

    _allocate: Callable[[], int]
    _seed: str
    _names: ToolNames
    _strict: bool
    _calls: list[_Call] = []
    _at: dict[int, _Call] = {}
    _by_id: dict[str, _Call] = {}
    _last: _Call | None = None

    def __bool__(self) -> bool:
        """Whether any call was made."""
        return any(call.opened for call in self._calls)

    def lacks_names(self) -> bool:
        """Whether a call never got a name."""
        return not all(call.name for call in self._calls)

    def add(self, piece: CallPiece, events: list[Event]) -> None:
        """Take one element of `tool_calls`; append its events.

        Raises:
            UpstreamError: it belongs to a call that is already over.
        """
        call_id, at, name, text = piece.id or "", piece.index, piece.called, piece.text
        if call_id and self._is_repetition(at, call_id, name, text):
            return
        call = self._find(at, call_id, name, text)
        if call is None:
            self.close_complete(events)
            call = self._begin(at, piece.custom is not None)
            alike = self._by_id.get(call_id)
            if alike is not None and alike.name == name and at in (None, alike.at):
                call.alike = alike
        self._last = call
        if call_id or name:
            self._fill(call, call_id, name)
        if call.closed:
            if text.strip():
                raise UpstreamError.unreadable("a tool call goes on after the next one began")
            return
        if text:
            if call.deferred:
                call.pieces.clear()
            call.deferred = not (call.pieces or call.custom) and text.strip() == "{}"
            call.pieces.append(text)
        if call.opened:
            if text and not call.deferred:
                events.append(Delta(call.block, text))
        elif call.id and call.name and (call.pieces or not self._names.may_go_on(call.name)):
            self._open(call, events)

    def close_complete(self, events: list[Event]) -> None:
        """Close the complete calls (with `strict` all of them), as another block begins."""
        for call in self._calls:
            if call.closed or not call.name or call.repeats():
                continue
            if not call.opened:
                self._open(call, events)
            if self._strict or call.is_complete():
                self._close(call, events)

    def close_all(self, events: list[Event]) -> None:
        """Close every call at the end of the answer.

        Raises:
            UpstreamError: a call never got a name.
        """
        for call in self._calls:
            if call.closed:
                continue
            if not call.name:
                if call.pieces or call.id:
                    raise UpstreamError.unreadable("a tool call has no name")
                continue
            if call.repeats() and call.is_complete():
                continue
            if not call.opened:
                self._open(call, events)
            self._close(call, events)

    def after(self, whole: Sequence[CallPiece]) -> list[CallPiece]:
        """The rest of a whole message's calls beyond their pieces, which came in the same order.

        Raises:
            UpstreamError: one of them is another call.
        """
        more = []
        for number, piece in enumerate(whole):
            if number >= len(self._calls):
                # An index of its own: those of the pieces may not be their order.
                more.append(replace(piece, index=-1 - number))
                continue
            known, name, text = self._calls[number], piece.called, piece.text
            earlier = "".join(known.pieces)
            same = text.strip() in ("", earlier.strip()) or (
                is_json_object(earlier) and object_of(earlier) == object_of(text)
            )
            if name not in ("", known.name) or not same:
                raise UpstreamError.unreadable("a whole message has other calls than its deltas")
        return more

    def beyond(self, others: ToolFragments) -> list[CallPiece]:
        """These calls, except those also among `others`, each counted once.

        Raises:
            UpstreamError: a call never got a name.
        """
        self.close_all([])
        left = [other.content() for other in others._calls]
        beyond = []
        for call in self._calls:
            content = call.content()
            if content in left:
                left.remove(content)
            elif call.name:
                function = FunctionPiece(name=call.name, arguments="".join(call.pieces))
                beyond.append(CallPiece(index=-1 - call.number, function=function))
        return beyond

    def _is_repetition(self, at: int | None, call_id: str, name: str, text: str) -> bool:
        """Whether a fragment repeats a whole call: index, id, name and arguments are the same."""
        call = self._by_id.get(call_id) if name and text.strip() else None
        return (
            call is not None
            and at in (None, call.at)
            and call.name == name
            and call.is_complete()
            and "".join(call.pieces) == text
        )

    def _find(self, at: int | None, call_id: str, name: str, text: str) -> _Call | None:
        """The call that a fragment goes on with; None if it begins a new one.

        The id decides, else the index, else it belongs to the last call. A repeated name is a
        repetition, unless complete arguments are followed by further ones. Another name starts a
        new call, unless the name itself comes in fragments, before the arguments."""
        current = self._last if at is None else self._at.get(at)
        if call_id:
            known = self._by_id.get(call_id)
            if known is not None and (at is None or known.at in (None, at)):
                current = known
            elif current is None or not name:
                return current  # without a name: a server that makes up an id per fragment
            else:
                return current if not current.id and current.name in ("", name) else None
        if current is None or not name or not current.name:
            return current
        if name == current.name:
            return None if text.strip() and current.is_complete() else current
        in_fragments = not current.opened and not current.pieces
        return current if in_fragments and self._names.goes_on(current.name, name) else None

    def _begin(self, at: int | None, custom: bool) -> _Call:
        call = _Call(len(self._calls), at, self._allocate(), custom)
        self._calls.append(call)
        if at is not None:
            self._at[at] = call
        return call

    def _fill(self, call: _Call, call_id: str, name: str) -> None:
        if call_id and not call.id and call_id not in self._by_id:
            call.id = call_id
            self._by_id[call_id] = call
        if name and not call.opened and name != call.name:
            call.name = joined_name(call.name, name)

    def _open(self, call: _Call, events: list[Event]) -> None:
        if not call.id:
            # The same answer gives the same ids, another answer of the conversation other ones.
            call.id = made_id("call_", f"{self._seed}:{call.number}")
        call.opened = True
        head = ToolCall(id=call.id, name=call.name, custom=call.custom)
        events.append(Opened(call.block, head))
        if call.pieces and not call.deferred:
            events.append(Delta(call.block, "".join(call.pieces)))

    def _close(self, call: _Call, events: list[Event]) -> None:
        call.closed = True
        if call.deferred:
            events.append(Delta(call.block, call.pieces[0]))
        events.append(Closed(call.block))
