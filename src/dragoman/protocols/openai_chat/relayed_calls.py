"""Tool calls of a stream that is passed through, of which some servers give several one index.

Clients put together what has one index, so such calls are numbered anew, by the rules that
`tool_fragments` has for streams that are translated.
"""

from __future__ import annotations

from typing import Any

from dragoman import jsontext
from dragoman.canonical.call_ids import CallIds, made_id
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.tools import is_json_object
from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import JsonObject


class _Call:
    """A call at an index of the upstream; `filled`: arguments of it came."""

    __slots__ = ("_kept", "at", "filled", "id", "name", "pieces", "shown")

    def __init__(self, at: int, shown: int) -> None:
        self.at = at
        self.id = self.name = ""
        self.filled = False
        self.pieces: list[str | bytes] | None = []
        """Its arguments, and chunks with such that nobody looked at; None of too many of those."""
        self._kept = 0
        """Bytes of the chunks."""
        self.shown = shown
        """Index that the client sees."""

    def keep(self, data: bytes) -> None:
        """A chunk was passed on that goes on with it."""
        self.filled = True
        self._kept += len(data)
        if self._kept > _MOST_KEPT:
            self.pieces = None
        elif self.pieces is not None:
            self.pieces.append(data)

    def arguments(self) -> str | None:
        """All of its arguments so far, None if they are not known."""
        if self.pieces is None:
            return None
        text = "".join(piece if isinstance(piece, str) else _more(piece) for piece in self.pieces)
        self.pieces = [text]
        return text


class RelayedCalls:
    """The calls of a stream, by choice and index. `moved` is whether any is shown under another
    index than its own: then every piece of a call has to be looked at."""

    __slots__ = ("_all", "_at", "_ids", "_last", "_next", "moved")

    def __init__(self) -> None:
        self._all: dict[int, list[_Call]] = {}
        """The calls of each choice."""
        self._at: dict[tuple[int, int], _Call] = {}
        """The latest call at each index."""
        self._next: dict[int, int] = {}
        """The index after all that were shown, by choice."""
        self._ids = CallIds("call_")
        self._last: _Call | None = None
        self.moved = False

    def __bool__(self) -> bool:
        """Whether there was any."""
        return self._last is not None

    def pass_on(self, data: bytes) -> None:
        """A chunk was passed on that has arguments of the call that was named last."""
        if self._last is not None:
            self._last.keep(data)

    def renumber(self, chunk: JsonObject) -> bool:
        """Give the calls that begin in a chunk, and those that go on, the indexes that they are to
        have; whether anything changed."""
        changed = False
        choices = chunk.get("choices")
        for choice in choices if type(choices) is list else ():
            delta = choice.get("delta") if type(choice) is dict else None
            calls = delta.get("tool_calls") if type(delta) is dict else None
            if type(delta) is not dict or type(calls) is not list:
                continue
            index = choice.get("index")
            number = index if type(index) is int else 0
            kept = []
            for fragment in calls:
                if type(fragment) is dict:
                    is_new = self._renumbered(number, fragment, chunk.get("id"))
                    changed = changed or is_new is not False
                    if is_new is None:
                        continue
                kept.append(fragment)
            if len(kept) < len(calls):
                delta["tool_calls"] = kept
        return changed

    def _renumbered(self, choice: int, fragment: JsonObject, answer_id: Any) -> bool | None:
        """Whether a fragment was changed; None of one that repeats a whole call.

        Raises:
            UpstreamError: it may do so, but what the call said is not known any more.
        """
        index = fragment.get("index")
        at = index if type(index) is int else _NO_INDEX
        body = _body(fragment)
        changed = False
        if isinstance(body.get("arguments"), dict | list):
            body["arguments"] = to_json_text(body["arguments"])
            changed = True
        text = _text(body.get("arguments")) or _text(body.get("input"))
        name, call_id = _text(body.get("name")), _text(fragment.get("id"))
        call = self._at.get((choice, at))
        if call is not None and call_id and call_id != call.id:
            call = self._named(choice, at, call_id) or call
        known = None
        if call is not None and name and name == call.name and text.strip() and call.filled:
            known = call.arguments()
            is_same = bool(call_id) and call_id == call.id
            if is_same and known == text and is_json_object(text):
                return None
            if is_same and known is None and is_json_object(text):
                raise UpstreamError.unreadable("a long tool call may be said twice")
        if known is not None and is_json_object(known):
            call = self._begin(choice, at, call)
            if not call_id:
                # Two without an id could not be told apart.
                fragment["id"] = call_id = made_id("call_", f"{answer_id}:{call.shown}")
                changed = True
        elif (
            call is None
            or _is_another(call, call_id, name)
            or (at == _NO_INDEX and name not in ("", call.name))
        ):
            call = self._begin(choice, at, call)
        if not call.id and not call.filled and call_id:
            fragment["id"] = self._ids.take(call_id, f"{call_id}:{call.shown}")
            changed = changed or fragment["id"] != call_id
        if name and not call.filled:
            call.name = name if name.startswith(call.name) else call.name + name
        call.id = call.id or call_id
        if text:
            call.filled = True
            if call.pieces is not None:
                call.pieces.append(text)
        self._last = call
        if call.shown != at:
            fragment["index"] = call.shown
            changed = self.moved = True
        return changed

    def _begin(self, choice: int, at: int, before: _Call | None) -> _Call:
        free = self._next.get(choice, 0)
        shown = at if before is None and at >= free else free
        self._next[choice] = shown + 1
        call = self._at[choice, at] = _Call(at, shown)
        self._all.setdefault(choice, []).append(call)
        return call

    def _named(self, choice: int, at: int, call_id: str) -> _Call | None:
        """The call of an id at an index that a later one has, too."""
        calls = self._all.get(choice, ())
        return next((call for call in calls if call.id == call_id and call.at == at), None)

    def after(self, choice: int, whole: Any) -> list[JsonObject]:
        """The calls of a whole message that follows the pieces of calls, without those, which are
        the first of them.

        Raises:
            UpstreamError: it has others.
        """
        fragments = [one for one in whole if type(one) is dict] if type(whole) is list else []
        calls = self._all.get(choice, [])
        # A chunk that nobody looked at may be of another call than the last that was named.
        told = "".join(call.arguments() or "" for call in calls)
        for call, fragment in zip(calls, fragments, strict=False):
            body = _body(fragment)
            said, text = call.arguments() or "", _text(body.get("arguments"))
            differs = (
                text.strip() not in ("", "{}")
                and text not in told
                and is_json_object(said)
                and jsontext.object_of(said) != jsontext.object_of(text)
            )
            if differs or _text(body.get("name")) not in ("", call.name):
                raise UpstreamError.unreadable("a whole message has other calls than its deltas")
        free = self._next.get(choice, 0)
        return [
            {**fragment, "index": free + number}
            for number, fragment in enumerate(fragments[len(calls) :])
        ]


_NO_INDEX = -1

_MOST_KEPT = 256 * 1024
"""Bytes of chunks that are kept of a call, to know whether it is said again."""


def _more(data: bytes) -> str:
    """The arguments in a chunk that goes on with a call."""
    choices = (jsontext.object_of(data) or {}).get("choices")
    choice = choices[0] if type(choices) is list and choices else None
    delta = choice.get("delta") if type(choice) is dict else None
    calls = delta.get("tool_calls") if type(delta) is dict else None
    texts = []
    for fragment in calls if type(calls) is list else ():
        body = _body(fragment)
        texts.append(_text(body.get("arguments")) or _text(body.get("input")))
    return "".join(texts)


def _body(fragment: JsonObject) -> JsonObject:
    body = fragment.get("custom") or fragment.get("function")
    return body if type(body) is dict else {}


def _is_another(call: _Call, call_id: str, name: str) -> bool:
    """Whether a fragment at the index of a call begins another one: it has a name, and another id,
    or another name although arguments came."""
    if not name:
        return False
    if call_id and call.id and call_id != call.id:
        return True
    return call.filled and bool(call.name) and name != call.name


def _text(value: Any) -> str:
    return value if type(value) is str else ""
