"""Which models there are, and the endpoints that list them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import reduce
from urllib.parse import parse_qs

from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.pool import LeaseRequest
from dragoman.agents import codex
from dragoman.agents.models import ShownModel
from dragoman.config import Config, Upstream
from dragoman.config.names import ALIASES
from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.prices.lookup import Prices
from dragoman.prices.rates import dollars
from dragoman.prices.units import UnitPrice
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.model_facts import ModelFacts, facts_in, model_info
from dragoman.serving.failures import Failure
from dragoman.serving.listing import read_models
from dragoman.serving.offered_models import shown
from dragoman.serving.routing import Router, may_use, model_not_found
from dragoman.serving.upstreams import Upstreams

_log = logging.getLogger("dragoman.gateway")

Fetch = Callable[[Upstream], Awaitable[list[JsonObject]]]
"""Fetches the models of an upstream; raises an exception of any kind if that fails."""

_PATIENCE_S = 10.0
"""Seconds that an upstream has to list its models: clients wait for the lists of all."""

_FRESH_S = 300.0
"""For which an upstream's list of models is not asked for again."""
_RETRY_S = 30.0
"""Seconds after which an upstream that failed is asked again."""


class ListedModel(Struct, frozen=True):
    """One model: `owner` is the name of the upstream that serves it, `details` the upstream's own
    entry for it with what is served of it here, `shown` what agents are shown."""

    owner: str
    details: JsonObject
    shown: ShownModel


class Catalogue:
    """All models: those of the routes, the aliases, and those of the upstreams.

    Upstreams are asked at most every five minutes, all at once, and all clients
    that wait share one fetch. An upstream that fails keeps its last list, and so does one that is
    the same in the configuration before, whose catalogue `former` is.
    """

    def __init__(
        self,
        config: Config,
        router: Router,
        prices: Prices,
        fetch: Fetch,
        clock: Callable[[], float],
        former: Catalogue | None = None,
    ) -> None:
        self._config = config
        self._router = router
        self._fetch = fetch
        self._clock = clock
        self._prices = prices
        self._lists: dict[str, list[JsonObject]] = {}
        own = config.models.aliases
        self._shipped = {name for name, to in ALIASES.items() if own.get(name) == to}
        """Aliases that nobody has set: they are listed only where the upstream has their model, as
        a route for all names leads anywhere."""
        self._due = dict.fromkeys((upstream.name for upstream in config.upstreams), 0.0)
        self._asking: asyncio.Task[None] | None = None
        if former is not None:
            self._keep_lists(former)

    def _keep_lists(self, former: Catalogue) -> None:
        for upstream in self._config.upstreams:
            name = upstream.name
            if upstream in former._config.upstreams and name in former._lists:
                self._lists[name], self._due[name] = former._lists[name], former._due[name]

    async def models(self) -> Mapping[str, ListedModel]:
        """Every model by its name, in the order of the configuration."""
        now = self._clock()
        if any(due <= now for due in self._due.values()):
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._refresh(now))
            await asyncio.shield(self._asking)
        return self._list_all()

    def may_list(self, caller: Caller, name: str) -> bool:
        """Whether a client may use a model that is listed by that name."""
        return not caller.restricted or may_use(caller, name, self._router.resolve(name))

    async def _refresh(self, now: float) -> None:
        stale = [entry for entry in self._config.upstreams if self._due[entry.name] <= now]
        await asyncio.gather(*(self._fetch_list(upstream) for upstream in stale))

    async def _fetch_list(self, upstream: Upstream) -> None:
        patience = _FRESH_S
        if upstream.models is not None:
            self._lists[upstream.name] = [{"id": model} for model in upstream.models]
        else:
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    self._lists[upstream.name] = await self._fetch(upstream)
            except Exception as error:
                patience = min(patience, _RETRY_S)
                _log.warning(
                    "upstream %s does not list its models: %s", upstream.name, _reason(error)
                )
        self._due[upstream.name] = self._clock() + patience

    def _list_all(self) -> Mapping[str, ListedModel]:
        known = {
            (name, entry["id"]): entry for name, entries in self._lists.items() for entry in entries
        }
        listed: dict[str, ListedModel] = {}
        now = time.time()
        for name in self._names():
            if name in listed or not self._router.knows(name):
                continue
            target = self._router.resolve(name)
            place = (target.upstream.name, target.model)
            if place not in known and place[0] in self._lists and name in self._shipped:
                continue
            model = shown(name, self._router, self._prices, now)
            entry = known.get(place, {})
            served = [
                facts_in(known.get((one.upstream.name, one.model), {})).within(one.capabilities)
                for one in (target, *target.fallbacks)
            ]
            facts = reduce(ModelFacts.least, served)
            model = replace(model, context_window=facts.context_window, max_output=facts.max_output)
            details = {
                **_priced(model, self._prices.units(*place)),
                **entry,
                **facts.members(),
                "type": facts.kind,
                **_named(model),
            }
            listed[name] = ListedModel(target.upstream.name, details, model)
        return listed

    def _names(self) -> Iterable[str]:
        yield from (route.match for route in self._config.routes if "*" not in route.match)
        yield from (alias for alias in self._config.models.aliases if "*" not in alias)
        for upstream in self._config.upstreams:
            for entry in self._lists.get(upstream.name, ()):
                yield self._public_name(upstream, entry["id"])

    def _public_name(self, upstream: Upstream, model: str) -> str:
        """The name under which a client reaches the upstream's model."""
        if self._router.knows(model):
            target = self._router.resolve(model)
            if (target.upstream.name, target.model) == (upstream.name, model):
                return model
        return f"{upstream.name}/{model}"


def _priced(model: ShownModel, units: UnitPrice) -> JsonObject:
    """The prices of a model, where its upstream lists none, in the words of OpenRouter's."""
    if model.price is None:
        return {}
    given = {
        "prompt": model.price.input,
        "completion": model.price.output,
        "input_cache_read": model.price.cached,
        "image": units.image,
        "request": units.request,
    }
    return {"pricing": {name: dollars(one) for name, one in given.items() if one is not None}}


def _named(model: ShownModel) -> JsonObject:
    """What the configuration calls a model, whatever its upstream does."""
    shown: JsonObject = {"description": model.description} if model.description else {}
    if model.label != model.name:
        shown["display_name"] = model.label
    return shown


class ModelEndpoints:
    """Handlers of the paths that list models. Where protocols have the same path for
    them, what a client sends decides, see `edge.paths.implied_codec`."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def list(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        """`GET` of all models that the client may use, or the part that its query asks for."""
        form = incoming.codec.endpoint.models
        listed = await self._of(caller)
        models = [
            form.write_model(name, one.owner, _details(one, caller)) for name, one in listed.items()
        ]
        query = {
            name: values[-1] for name, values in parse_qs(incoming.query.decode("latin-1")).items()
        }
        answer = form.write_list(models, query)
        if codex.is_asking(query, incoming.headers.get(b"user-agent", b"")):
            answer["models"] = codex.catalogue(one.shown for one in listed.values())
        incoming.reply(200, to_json(answer))

    async def info(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        """`GET` of all models that the client may use, as LiteLLM describes them."""
        listed = await self._of(caller)
        models = [model_info(name, _details(one, caller)) for name, one in listed.items()]
        incoming.reply(200, to_json({"data": models}))

    async def _of(self, caller: Caller) -> Mapping[str, ListedModel]:
        return {
            name: model
            for name, model in (await self._catalogue.models()).items()
            if self._catalogue.may_list(caller, name)
        }

    async def show(
        self, name: str, incoming: IncomingRequest, caller: Caller, record: Record
    ) -> None:
        """`GET` of one model.

        Raises:
            DragomanError: MODEL_NOT_FOUND.
        """
        model = (await self._catalogue.models()).get(name)
        if model is None or not self._catalogue.may_list(caller, name):
            raise model_not_found(name)
        form = incoming.codec.endpoint.models
        entry = form.write_model(name, model.owner, _details(model, caller))
        incoming.reply(200, to_json(entry))


def _details(model: ListedModel, caller: Caller) -> JsonObject:
    """What is served of a model to a client, whose answers may be shorter."""
    if caller.most_output is None:
        return model.details
    most = ModelFacts(max_output=caller.most_output)
    return {**model.details, **facts_in(model.details).least(most).members()}


def _reason(error: Exception) -> str:
    """Why there is no list, without any text of an upstream."""
    if isinstance(error, Failure):
        return f"status {error.status}" if error.status else error.cause or "no answer"
    return "the answer is no list" if isinstance(error, ValueError) else type(error).__name__


async def fetch_models(upstreams: Upstreams, upstream: Upstream) -> list[JsonObject]:
    """The models that an upstream lists for one of its accounts.

    Raises:
        DragomanError: no account can be used.
        Failure, CallError, ValueError: as `read_models`.
    """
    with await upstreams.pool.acquire(LeaseRequest(upstream.name)) as lease:
        builder = upstreams.builders.of(lease.account)
        return await read_models(upstreams.client, builder, upstream, lease.proxy)
