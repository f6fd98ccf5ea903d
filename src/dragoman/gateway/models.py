"""The list of models: one list that both vendors' SDKs read (types/model.py of openai,
types/model_info.py of anthropic)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from urllib.parse import parse_qs

from dragoman import jsontext
from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.config import Config, Upstream
from dragoman.gateway.serving.routing import Router
from dragoman.protocols.fields import JsonObject

_log = logging.getLogger("dragoman.gateway")

Fetch = Callable[[Upstream], Awaitable[list[JsonObject]]]
"""Asks an upstream for its models; raises an exception of any kind when it cannot say."""

_CARRIED = (
    "max_input_tokens",
    "max_tokens",
    "context_length",
    "capabilities",
    "line",
    "shutdown_date",
    "deprecated_at",
    "retires_at",
)
"""What else an upstream may tell of a model and SDKs read."""

_PATIENCE_S = 10.0
"""Seconds that an upstream is given to list its models: people wait for the others' meanwhile."""

_RETRY_S = 30.0
"""Seconds after which an upstream that could not say is asked again."""


class Catalogue:
    """Which models there are: those of the routes, the aliases, and those of the upstreams.

    Upstreams are asked at most every `models.list_cache_s` seconds, all at once, and one question
    serves everybody who waits. One that cannot say keeps its last list.
    """

    def __init__(
        self, config: Config, router: Router, fetch: Fetch, clock: Callable[[], float]
    ) -> None:
        self._config = config
        self._router = router
        self._fetch = fetch
        self._clock = clock
        self._lists: dict[str, list[JsonObject]] = {}
        self._due = dict.fromkeys((upstream.name for upstream in config.upstreams), 0.0)
        self._asking: asyncio.Task[None] | None = None

    async def models(self) -> list[JsonObject]:
        """Every model, each once, in the order of the configuration."""
        now = self._clock()
        if any(due <= now for due in self._due.values()):
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._refresh(now))
            await asyncio.shield(self._asking)
        return self._listed()

    async def _refresh(self, now: float) -> None:
        stale = [entry for entry in self._config.upstreams if self._due[entry.name] <= now]
        await asyncio.gather(*(self._ask(upstream) for upstream in stale))

    async def _ask(self, upstream: Upstream) -> None:
        patience = self._config.models.list_cache_s
        if upstream.models is not None:
            self._lists[upstream.name] = [{"id": model} for model in upstream.models]
        else:
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    self._lists[upstream.name] = await self._fetch(upstream)
            except Exception as error:
                patience = min(patience, _RETRY_S)
                kind = type(error).__name__
                _log.warning("upstream %s does not list its models: %s", upstream.name, kind)
        self._due[upstream.name] = self._clock() + patience

    def _listed(self) -> list[JsonObject]:
        known = {
            (name, entry["id"]): entry for name, entries in self._lists.items() for entry in entries
        }
        listed: dict[str, JsonObject] = {}
        for name in self._names():
            if name in listed or not self._router.knows(name):
                continue
            target = self._router.resolve(name)
            told = known.get((target.upstream.name, target.model), {})
            listed[name] = model_object(name, target.upstream.name, told)
        return list(listed.values())

    def _names(self) -> Iterable[str]:
        yield from (route.match for route in self._config.routes if "*" not in route.match)
        yield from self._config.models.aliases
        for upstream in self._config.upstreams:
            for entry in self._lists.get(upstream.name, ()):
                yield self._shown(upstream, entry["id"])

    def _shown(self, upstream: Upstream, model: str) -> str:
        """The name under which a client reaches the upstream's model."""
        if self._router.knows(model):
            target = self._router.resolve(model)
            if (target.upstream.name, target.model) == (upstream.name, model):
                return model
        return f"{upstream.name}/{model}"


def model_object(name: str, owner: str, told: JsonObject) -> JsonObject:
    """One model in a form that satisfies both vendors' SDKs; `told` is the upstream's own."""
    created, created_at = _created(told)
    display = told.get("display_name")
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "created": created,
        "created_at": created_at,
        "owned_by": owner,
        "display_name": display if isinstance(display, str) else name,
        "lifecycle": "active",
        **{key: told[key] for key in _CARRIED if told.get(key) is not None},
    }


def _created(told: JsonObject) -> tuple[int, str]:
    """When a model was made, in Unix seconds and as text; the epoch if that is not said."""
    try:
        if type(told.get("created")) is int:
            moment = datetime.fromtimestamp(told["created"], UTC)
        else:
            moment = datetime.fromisoformat(told["created_at"]).astimezone(UTC)
        seconds = int(moment.timestamp())
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        seconds = 0
    if seconds <= 0:
        moment, seconds = datetime.fromtimestamp(0, UTC), 0
    return seconds, moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def read_list(body: bytes) -> list[JsonObject]:
    """The models in an upstream's answer, those with a usable id.

    Raises:
        ValueError: it is not a list of models.
    """
    value = jsontext.decode(body)
    entries = value.get("data") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        raise ValueError("not a list of models")
    return [
        entry
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]
    ]


def page(models: list[JsonObject], query: bytes) -> JsonObject:
    """The part of the list that a query asks for: `limit`, `after_id`, `before_id` as Anthropic
    pages; all of it when it asks for nothing, as OpenAI lists.

    Raises:
        DragomanError: INVALID_REQUEST for a limit that is none, or an id that is not there.
    """
    wanted = {name: values[-1] for name, values in parse_qs(query.decode("latin-1")).items()}
    ids = [model["id"] for model in models]
    start, end, more = 0, len(models), False
    if "after_id" in wanted:
        start = _index(ids, "after_id", wanted["after_id"]) + 1
    if "before_id" in wanted:
        end = _index(ids, "before_id", wanted["before_id"])
    if "limit" in wanted:
        limit = _limit(wanted["limit"])
        more = end - start > limit
        if "before_id" in wanted and "after_id" not in wanted:
            start = max(start, end - limit)
        else:
            end = min(end, start + limit)
    data = models[start:end]
    return {
        "object": "list",
        "data": data,
        "has_more": more,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
    }


def _index(ids: list[str], param: str, value: str) -> int:
    try:
        return ids.index(value)
    except ValueError:
        raise _bad(param, "no such model in the list") from None


def _limit(value: str) -> int:
    if not (value.isdecimal() and 1 <= int(value) <= 1000):
        raise _bad("limit", "must be a number from 1 to 1000")
    return int(value)


def _bad(param: str, problem: str) -> DragomanError:
    return DragomanError(Fault(FaultKind.INVALID_REQUEST, f"{param}: {problem}", param=param))
