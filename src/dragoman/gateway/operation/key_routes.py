"""Client keys and teams below `/admin`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from dragoman.administration.drafts import FieldError, InvalidDraft
from dragoman.administration.keys import GRACE_S, KeyAdministration
from dragoman.administration.limits import LimitAdministration, Owner
from dragoman.administration.times import LONGEST_SPAN_S
from dragoman.gateway.edge.incoming import IncomingRequest

T = TypeVar("T")

Reply = tuple[int, object]
Handlers = dict[str, Callable[[], Awaitable[Reply]]]


class Ask(Protocol):
    """Calls a function with the administration of keys, in the thread of the store."""

    async def __call__(self, work: Callable[[KeyAdministration], T], /) -> T: ...


class ReadObject(Protocol):
    """Reads the JSON object in a body; `{}` for none, where that may be."""

    async def __call__(
        self, incoming: IncomingRequest, /, *, may_be_empty: bool = False
    ) -> dict[str, Any]: ...


class KeyRoutes:
    """Which handlers serve the paths below `/admin/keys` and `/admin/teams`."""

    def __init__(self, ask: Ask, read: ReadObject) -> None:
        self._ask = ask
        self._read = read

    def handlers(self, parts: list[str], incoming: IncomingRequest) -> Handlers | None:
        """The handlers of a path by method; None if there is nothing at it."""
        match parts:
            case ["keys"]:
                return {"GET": self._list, "POST": lambda: self._add(incoming)}
            case ["keys", name, "rotate"]:
                return {"POST": lambda: self._rotate(name, incoming)}
            case ["keys", name, "enable" | "disable" as verb]:
                fields = {"enabled": verb == "enable"}
                return {"POST": lambda: self._change(name, fields)}
            case ["keys" | "teams" as kind, name, "limits", *rest]:
                return self._limit_handlers(
                    "key" if kind == "keys" else "team", name, rest, incoming
                )
            case ["keys", name]:
                return {
                    "GET": lambda: self._show(name),
                    "PATCH": lambda: self._patch(name, incoming),
                    "DELETE": lambda: self._remove(name),
                }
            case ["teams"]:
                return {"GET": self._list_teams, "POST": lambda: self._add_team(incoming)}
            case ["teams", name]:
                return {
                    "GET": lambda: self._show_team(name),
                    "PATCH": lambda: self._patch_team(name, incoming),
                    "DELETE": lambda: self._remove_team(name),
                }
        return None

    def _limit_handlers(
        self, owner: Owner, name: str, rest: list[str], incoming: IncomingRequest
    ) -> Handlers | None:
        def on(change: Callable[[LimitAdministration], object]) -> Callable[[], Awaitable[Reply]]:
            async def handle() -> Reply:
                return 200, {
                    "limits": await self._ask(lambda keys: change(LimitAdministration(keys)))
                }

            return handle

        async def add() -> Reply:
            fields = await self._read(incoming)
            _, told = await on(lambda limits: limits.add(owner, name, fields))()
            return 201, told

        match rest:
            case []:
                return {"GET": on(lambda limits: limits.limits(owner, name)), "POST": add}
            case ["reset"]:
                return {"POST": on(lambda limits: limits.reset(owner, name))}
            case [number] if _is_number(number):
                return {"DELETE": on(lambda limits: limits.remove(owner, name, int(number)))}
            case [number, "reset"] if _is_number(number):
                return {"POST": on(lambda limits: limits.reset(owner, name, int(number)))}
        return None

    async def _list(self) -> Reply:
        return 200, {"keys": await self._ask(lambda keys: keys.keys())}

    async def _add(self, incoming: IncomingRequest) -> Reply:
        fields = await self._read(incoming)
        name = _taken_name(fields)
        return 201, await self._ask(lambda keys: keys.add(name, fields))

    async def _show(self, name: str) -> Reply:
        return 200, await self._ask(lambda keys: keys.key(name))

    async def _patch(self, name: str, incoming: IncomingRequest) -> Reply:
        return await self._change(name, await self._read(incoming))

    async def _change(self, name: str, fields: dict[str, Any]) -> Reply:
        return 200, await self._ask(lambda keys: keys.change(name, fields))

    async def _rotate(self, name: str, incoming: IncomingRequest) -> Reply:
        fields = await self._read(incoming, may_be_empty=True)
        grace = fields.pop("grace_s", GRACE_S)
        if fields:
            raise InvalidDraft((FieldError(next(iter(fields))[:60], "there is no such field"),))
        if type(grace) not in (int, float) or not 0 <= grace < LONGEST_SPAN_S:
            raise InvalidDraft((FieldError("grace_s", "expected a number of seconds"),))
        return 201, await self._ask(lambda keys: keys.rotate(name, float(grace)))

    async def _remove(self, name: str) -> Reply:
        return 200, {"removed": await self._ask(lambda keys: keys.remove([name]))}

    async def _list_teams(self) -> Reply:
        return 200, {"teams": await self._ask(lambda keys: keys.teams())}

    async def _add_team(self, incoming: IncomingRequest) -> Reply:
        fields = await self._read(incoming)
        name = _taken_name(fields)
        return 201, await self._ask(lambda keys: keys.add_team(name, fields))

    async def _show_team(self, name: str) -> Reply:
        return 200, await self._ask(lambda keys: keys.team(name))

    async def _patch_team(self, name: str, incoming: IncomingRequest) -> Reply:
        fields = await self._read(incoming)
        return 200, await self._ask(lambda keys: keys.change_team(name, fields))

    async def _remove_team(self, name: str) -> Reply:
        return 200, {"removed": await self._ask(lambda keys: keys.remove_team(name))}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 4


def _taken_name(fields: dict[str, Any]) -> str:
    """The name among the fields, taken out of them."""
    name = fields.pop("name", None)
    if not isinstance(name, str):
        raise InvalidDraft((FieldError("name", "a text is expected"),))
    return name
