"""The parts that one worker's gateway is made of, and the order in which they are made."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from dragoman.accounts.pool import AccountPool
from dragoman.accounts.store import Counts
from dragoman.accounts.sync import AccountSync
from dragoman.accounts.usage import Meter
from dragoman.canonical.envelope import Sealer
from dragoman.config import Config
from dragoman.gateway.count import Counter
from dragoman.gateway.models import Catalogue, fetch_models
from dragoman.gateway.operation.admin import Admin
from dragoman.gateway.operation.prober import Prober
from dragoman.gateway.operation.scrape import Scrape, WorkerSlot
from dragoman.gateway.operation.tally import Tally
from dragoman.gateway.operation.webhook import Alerts
from dragoman.gateway.serving.admission import Admission
from dragoman.gateway.serving.exchange import Exchange
from dragoman.gateway.serving.large import LargeBodies
from dragoman.gateway.serving.limit_counters import LimitCounters, UsedSince
from dragoman.gateway.serving.routing import Router
from dragoman.gateway.serving.upstream_requests import UpstreamRequestBuilders
from dragoman.gateway.serving.upstreams import Upstreams
from dragoman.gateway.stored.background import Background
from dragoman.gateway.stored.conversations import StoredConversations
from dragoman.gateway.stored.response_store import ResponseStoreThread
from dragoman.gateway.stored.responses import StoredResponses
from dragoman.gateway.stored.upstream_responses import UpstreamResponses
from dragoman.http.limits import files_to_share
from dragoman.keys.records import UsedInHour
from dragoman.keys.ring import FixedKey, KeyRing
from dragoman.keys.secrets import digest_of
from dragoman.prices.loading import load_prices
from dragoman.storage.opening import cipher_for, counts_for, limits_for, responses_for, store_for
from dragoman.upstream.client import UpstreamClient

_log = logging.getLogger("dragoman")


class Services(Struct, frozen=True, kw_only=True):
    """What the handlers of one worker share. `account_sync` and `responses` are None if nothing is
    stored."""

    pool: AccountPool
    keys: KeyRing
    limits: LimitCounters
    account_sync: AccountSync | None
    meter: Meter
    client: UpstreamClient
    exchange: Exchange
    large: LargeBodies
    responses: ResponseStoreThread | None
    background: Background
    stored: StoredResponses
    counter: Counter
    catalogue: Catalogue
    scrape: Scrape
    tally: Tally
    admin: Admin
    prober: Prober
    alerts: Alerts
    open_counts: Callable[[], Counts | None]

    async def start(self) -> None:
        """Make ready to call upstreams, in the running loop, with all that the store knows."""
        await self.client.start()
        self.pool.share(self.open_counts())
        if self.account_sync is not None:
            await self.account_sync.start()
        self.background.start(self.responses)
        self.scrape.start()
        self.prober.start()
        self.alerts.start()

    async def close(self) -> None:
        """Close the connections to upstreams, and write to the store what it does not know yet."""
        await self.prober.close()
        await self.alerts.close()
        await self.background.aclose()
        await self.client.aclose()
        if self.responses is not None:
            await self.responses.aclose()
        if self.account_sync is not None:
            await self.account_sync.close()
        await self.limits.close()
        self.pool.share(None)
        await self.scrape.close()
        self.large.close()


def make_services(
    config: Config,
    log: Callable[[bytes], None] | None,
    slot: WorkerSlot | None,
    in_flight: Callable[[], int],
) -> Services:
    """The services of a configuration. `log` and `slot` are as for `Gateway`; `in_flight` tells
    how many requests are being served."""
    pool, client = AccountPool(config), UpstreamClient(max_idle=_idle_connections(config))
    meter = Meter(_configured_models(config))
    keys = _key_ring(config)
    account_sync = _account_sync(config, pool, meter, keys)
    keys.is_loaded = account_sync is None
    counts = None if slot is None else slot.counts
    limits = LimitCounters(keys, partial(limits_for, config, counts), _used_since(account_sync))
    admission = Admission(limits)
    if account_sync is not None:
        account_sync.settled = limits
    builders = UpstreamRequestBuilders(config.upstreams)
    upstreams = Upstreams(pool, builders, client)
    router = Router(config, _sealer(config))
    large = LargeBodies()
    prices = load_prices(config, _Unpriced())
    exchange = Exchange(
        config.server,
        router,
        upstreams,
        large,
        prices,
        admission,
        shows_cost=config.pricing.header,
    )

    scrape = Scrape(config, pool, account_sync, in_flight, slot)
    tally = Tally(scrape.metrics, None if account_sync is None else meter, admission.settle)

    responses = _responses(config)
    conversations = StoredConversations(responses if config.storage.responses else None, large)
    upstream_responses = UpstreamResponses(
        config, pool, client, builders, responses, conversations, keys
    )
    background = Background(
        conversations,
        exchange.answer,
        lambda: client.clock,
        tally.background,
        log,
        config.server.keepalive_s,
        config.server.max_concurrent,
    )
    return Services(
        pool=pool,
        keys=keys,
        limits=limits,
        account_sync=account_sync,
        meter=meter,
        client=client,
        exchange=exchange,
        large=large,
        responses=responses,
        background=background,
        stored=StoredResponses(
            conversations, upstream_responses, background, exchange, config.server.body_limit_bytes
        ),
        counter=Counter(exchange, upstreams, conversations, upstream_responses, large),
        catalogue=Catalogue(config, router, partial(fetch_models, upstreams), time.monotonic),
        scrape=scrape,
        tally=tally,
        admin=Admin(config, pool, account_sync, client, scrape, prices),
        alerts=Alerts(config, pool, account_sync, client, scrape.metrics),
        prober=Prober(
            config,
            pool,
            client,
            scrape.metrics,
            worker=0 if slot is None else slot.number,
            workers=1 if slot is None else slot.total,
        ),
        open_counts=partial(counts_for, config, counts),
    )


def _key_ring(config: Config) -> KeyRing:
    """The keys of the configuration."""
    clients = (
        FixedKey(
            client.name,
            client.rules,
            tuple(digest_of(secret.reveal().encode()) for secret in client.secrets),
        )
        for client in config.clients
    )
    return KeyRing(clients, {team.name: team for team in config.teams})


class _Unpriced:
    """Logs models that have no price, each once, and no more than can be read."""

    def __init__(self) -> None:
        self._room = 100

    def __call__(self, upstream: str, model: str) -> None:
        if self._room:
            self._room -= 1
            _log.warning(
                "no price is known for the model %r of upstream %s: what it costs is not counted",
                model[:200],
                upstream,
            )


def _account_sync(
    config: Config, pool: AccountPool, meter: Meter, keys: KeyRing
) -> AccountSync | None:
    store = store_for(config)
    if store is None:
        return None
    sync_s = config.storage.sync_s
    return AccountSync(
        pool, store, cipher_for(config), config.accounts, sync_s=sync_s, meter=meter, keys=keys
    )


def _used_since(account_sync: AccountSync | None) -> UsedSince | None:
    """What reads rows of usage; None if nothing is stored."""
    if account_sync is None:
        return None

    async def used_since(names: Sequence[str], since: float) -> Sequence[UsedInHour]:
        return await account_sync.ask(lambda store: store.client_keys.used(names, since))

    return used_since


def _configured_models(config: Config) -> set[str]:
    """The names of models that stand in the configuration without a pattern."""
    names = {route.match for route in config.routes} | config.models.aliases.keys()
    return {name for name in names if "*" not in name}


def _responses(config: Config) -> ResponseStoreThread | None:
    store = responses_for(config)
    return None if store is None else ResponseStoreThread(store, config.storage.responses_days)


def _idle_connections(config: Config) -> int:
    """Idle connections to keep for each upstream: no more than half of the files that are kept back
    for upstreams, so that calls of one find some whatever was called before."""
    files = files_to_share()
    if files is None:
        return _MOST_IDLE
    room = int(files * config.server.files_kept_back) // (2 * max(1, len(config.upstreams)))
    return max(1, min(_MOST_IDLE, room))


_MOST_IDLE = 512


def _sealer(config: Config) -> Sealer:
    key = config.server.envelope_key
    return Sealer() if key is None else Sealer(key.reveal().encode())
