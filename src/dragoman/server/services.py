"""The parts that one worker's gateway is made of, and the order in which they are made."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING
from weakref import finalize

from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.credentials.account_credentials import AccountCredential
from dragoman.accounts.credentials.authorising import expiring
from dragoman.accounts.credentials.reporting import note_change
from dragoman.accounts.credentials.stored_logins import StoredLogins
from dragoman.accounts.pool import AccountPool
from dragoman.accounts.sync import AccountSync
from dragoman.accounts.usage import Meter
from dragoman.admin.own_usage import OwnUsage
from dragoman.config import Config
from dragoman.config.access_rules import SignInRule
from dragoman.edge.auth import Keyring
from dragoman.edge.logins import WrongCodes
from dragoman.edge.record import Record
from dragoman.endpoints.parts import Parts, SessionParts
from dragoman.endpoints.service import Endpoints
from dragoman.endpoints.vendors import holding
from dragoman.http.addresses import Proxies
from dragoman.keys.records import UsedInHour
from dragoman.keys.ring import KeyRing
from dragoman.link.messages import Peer
from dragoman.observability.current import Current
from dragoman.observability.metrics.listed import listed_models
from dragoman.observability.metrics.metrics import Metrics, Signal
from dragoman.observability.metrics.scrape import Scrape, Sources, WorkerSlot
from dragoman.observability.metrics.series import SeriesKeeper
from dragoman.observability.recorder import RequestRecorder, is_charged
from dragoman.observability.traces.exporting import SpanExporter
from dragoman.observability.traces.sampling import is_disabled
from dragoman.observability.traces.traces import Traces, peers_of
from dragoman.observability.webhook import Alerts
from dragoman.prices.loading import load_prices
from dragoman.prices.lookup import Prices
from dragoman.prices.rates import PICO
from dragoman.processes.reload import ReloadRequest
from dragoman.responses.background import Background, BackgroundTasks
from dragoman.responses.conversations import StoredConversations
from dragoman.responses.response_store import ResponseStoreThread
from dragoman.responses.stored import StoredResponses
from dragoman.responses.upstream_responses import UpstreamResponses
from dragoman.server.configured import (
    fixed_keys,
    fixed_teams,
    has_same_accounts,
    idle_connections,
    named_models,
    protocols_of,
    sealer_of,
)
from dragoman.server.count import Counter
from dragoman.server.managed_settings import ManagedSettings
from dragoman.server.models import Catalogue, fetch_models
from dragoman.server.telemetry import TelemetryEndpoint, TelemetryForwarder
from dragoman.serving.account_slots import AccountSlots
from dragoman.serving.affinity import ForeignReasoning
from dragoman.serving.attribution import Attributor
from dragoman.serving.bindings import Bindings
from dragoman.serving.calls import Calls, Watch, credentials_of
from dragoman.serving.conversations import Conversations
from dragoman.serving.exchange import Exchange, Recording
from dragoman.serving.large import LargeBodies
from dragoman.serving.limits.accounts import AccountLimits
from dragoman.serving.limits.admission import Admission
from dragoman.serving.limits.alerts import LimitAlerts
from dragoman.serving.limits.budgets import budgets
from dragoman.serving.limits.client import Limits
from dragoman.serving.limits.exchange import LedgerExchange
from dragoman.serving.limits.history import UsageHistory, UsedSince, UsersSince
from dragoman.serving.offered_models import OfferedModels
from dragoman.serving.plan import Plans
from dragoman.serving.prober import Prober
from dragoman.serving.resolver import RequestResolver
from dragoman.serving.routing import Router
from dragoman.serving.searches import SearchEngine
from dragoman.serving.upstream_requests import UpstreamRequestBuilders
from dragoman.serving.upstreams import Upstreams
from dragoman.storage.bound import BoundId
from dragoman.storage.opening import (
    Watching,
    cipher_for,
    ledgers_for,
    responses_for,
    store_for,
)
from dragoman.upstream.client import UpstreamClient

if TYPE_CHECKING:
    from dragoman.admin.server import Admin
    from dragoman.edge.websockets import OpenSockets
    from dragoman.endpoints.client_secrets import ClientSecrets
    from dragoman.mcp.endpoints import McpEndpoints
    from dragoman.observability.request_log.writing import RequestLog
    from dragoman.server.administration import Administration
    from dragoman.serving.request_check import RequestChecker
    from dragoman.sign_in.endpoints import SignInEndpoints
    from dragoman.sign_in.issuers import JwtIssuers

_log = logging.getLogger("dragoman")


class Generation(Struct, frozen=True, kw_only=True):
    """What one configuration is made into: all that is prepared of it, once. A request takes it at
    its start, and ends on it, whatever is served meanwhile. `number` counts the configurations of
    this gateway, from 1. `admin` is None if there is no administration, `sign_in` if people cannot
    sign in, `jwt_issuers` if no tokens of others are taken, `request_check` if the operator has no
    check of requests, `mcp` if there is no MCP server."""

    number: int
    config: Config
    pool: AccountPool
    upstreams: Upstreams
    keys: Keyring
    proxies: Proxies
    prices: Prices
    limits: Limits
    exchange: Exchange
    telemetry: TelemetryEndpoint
    stored: StoredResponses
    counter: Counter
    catalogue: Catalogue
    own_usage: OwnUsage
    endpoints: Endpoints
    managed: ManagedSettings
    admin: Admin | None = None
    sign_in: SignInEndpoints | None = None
    jwt_issuers: JwtIssuers | None = None
    request_check: RequestChecker | None = None
    mcp: McpEndpoints | None = None


class Services:
    """The parts of one worker that outlive its configurations, and the configuration that it
    serves, which is in `current`. `account_sync` and `responses` are None if nothing is stored,
    `exporting` if nothing is traced.

    `log` and `slot` are as for `Gateway`; `in_flight` returns how many requests are being served,
    `reload` reads the configuration anew (None: it came from no file), `is_draining` returns
    whether the gateway is ending, `link` is the one to the owner.
    """

    def __init__(
        self,
        config: Config,
        log: Callable[[bytes], None] | None,
        slot: WorkerSlot | None,
        in_flight: Callable[[], int],
        reload: ReloadRequest | None,
        number: int,
        is_draining: Callable[[], bool],
        link: Peer,
    ) -> None:
        """
        Raises:
            PriceError: as `prepare`.
        """
        self._reload = reload
        self._link = link
        self._workers = 1 if slot is None else slot.total
        self._is_draining = is_draining
        self._config = config
        """The first: what it says of storage and WebSocket holds to the end."""
        self._watching_calls: set[asyncio.Task[None]] = set()
        """What watches calls of realtime."""
        self.administration: Administration | None = None
        """What the administrations of all configurations share, once one has any."""
        self.client = UpstreamClient(max_idle=idle_connections(config))
        self.meter = Meter(named_models(config))
        self.keys = KeyRing(fixed_keys(config), fixed_teams(config))
        pool = AccountPool(config)
        pool.share(AccountSlots(link, lambda name: self.generation.pool.has_room(name)))
        self.account_sync = _account_sync(
            config, pool, self.meter, self.keys, "" if slot is None else slot.gateway
        )
        logins = None
        if self.account_sync is not None:
            logins = StoredLogins(self.account_sync.ask, cipher_for(config))
        self.credentials = credentials_of(
            link,
            self.client,
            Watch(
                self._credential_changed,
                lambda account, outcome: self.metrics.credential_refreshed(account, outcome),
                self._is_out,
            ),
            logins,
        )
        self.credentials.serve(expiring(config))
        self.keys.is_loaded = self.account_sync is None
        self.large = LargeBodies()
        self.responses = _responses(config)
        self._conversations = StoredConversations(
            self.responses if config.storage.responses else None, self.large
        )
        self._wrong_codes = WrongCodes(link)
        self._reserved: dict[tuple[str, str], Record] = {}
        self._names: OrderedDict[tuple[str, str], BoundId] = OrderedDict()
        self._foreign = ForeignReasoning()
        self._unpriced = _UnpricedModels()
        self.background = BackgroundTasks(self._conversations)
        self.current = Current()
        is_watched = config.admin.is_served
        self.metrics = metrics = Metrics(
            None if slot is None else slot.before, records_series=is_watched
        )
        self.alerts = Alerts(config.webhook, self.current, self.account_sync, self.client, metrics)
        alerts = LimitAlerts(self.alerts.notify)
        self.limits = _limits(config, self.account_sync, link, alerts)
        self.admission = Admission(self.limits, alerts)
        self.keys.on_changed = self.limits.retire
        if self.account_sync is not None:
            self.account_sync.settled = self.limits
            self.account_sync.logs_operators = slot is None or not slot.number
        self.exporting = _exporting(config, metrics)
        self._traces = None if self.exporting is None else Traces(config, self.exporting.add)
        self._watching = Watching(config, None if slot is None else slot.folder)
        self.request_log: RequestLog | None = None
        if config.request_log.enabled and is_watched:
            from dragoman.observability.request_log.writing import RequestLog

            self.request_log = RequestLog(
                self._watching.requests,
                self._watching.bodies,
                protocols_of(config),
                metrics.logged,
                partial(metrics.stored, "requests"),
            )
        self._observe_stores()
        self.scrape = Scrape(self.current, metrics, self._sources(config, in_flight), slot, link)
        self._keeper = SeriesKeeper(
            self._watching.series, self.scrape.counts, lambda: self.current.generation.number
        )
        self._keeps_series = is_watched and (slot is None or not slot.number)
        self.recorder = RequestRecorder(
            metrics,
            None if self.account_sync is None else self.meter,
            self.admission.settle,
            log,
            self._traces,
            None if self.request_log is None else self.request_log.add,
        )
        self._own_usage = OwnUsage(self.account_sync)
        self._forwarder = TelemetryForwarder(self.client, metrics.telemetry_forwarded)
        self.generation = self._made(config, number, None, pool)
        self.current.generation = self.generation
        self._follow_people(self.generation, self.generation)
        self.limits.history.subscriptions = self.generation.prices.subscriptions
        metrics.set_listed(listed_models(config, self.generation.prices))
        self.prober = Prober(
            self.current,
            Calls(self.client, self.credentials),
            metrics,
            self.account_sync,
            worker=0 if slot is None else slot.number,
            workers=self._workers,
        )

    def _observe_stores(self) -> None:
        """Have the metrics record the writes of the stores."""
        record = self.metrics.stored
        if self.account_sync is not None:
            self.account_sync.on_exchanged = partial(record, "usage")
        if self.responses is not None:
            self.responses.on_written = partial(record, "responses")

    def _sources(self, config: Config, in_flight: Callable[[], int]) -> Sources:
        """What the gauges of this worker are read from."""
        limits = self.limits
        queues: dict[Signal, Callable[[], int]] = {}
        if (responses := self.responses) is not None:
            queues["responses"] = lambda: responses.waiting
        if (log := self.request_log) is not None:
            queues["requests"] = lambda: log.waiting
        if (exporting := self.exporting) is not None:
            queues["traces"] = lambda: exporting.waiting
        return Sources(
            in_flight=in_flight,
            account_sync=self.account_sync,
            limits_away=None if config.storage.url is None else lambda: limits.away_since,
            limit_reserved=lambda: limits.reserved_cost / PICO,
            budgets=lambda: budgets(self.keys.callers(), limits),
            queues=queues,
            credentials=self.credentials.ends,
        )

    def prepare(self, config: Config, number: int) -> Generation:
        """All that is made of a configuration, ready to be served. Nothing is changed; any thread
        may call it.

        Raises:
            PriceError: the table of prices cannot be used.
        """
        return self._made(config, number, self.generation)

    def _made(
        self,
        config: Config,
        number: int,
        former: Generation | None,
        pool: AccountPool | None = None,
    ) -> Generation:
        """A generation. What is the same as in the `former` one is shared with it; the accounts of
        a `pool` of its own come with `adopt`."""
        prices = _prices(config, former, self._unpriced)
        if former is not None and has_same_accounts(former.config, config):
            upstreams = former.upstreams
        else:
            pool = pool or AccountPool(replace(config, accounts=()))
            upstreams = Upstreams(
                pool,
                UpstreamRequestBuilders(config.upstreams, self.credentials),
                self.client,
                AccountLimits(self.limits, self.admission.expected, config.accounts)
                if any(one.limits for one in config.accounts)
                else None,
                SearchEngine(config.search, self.client) if config.search.engine else None,
                Bindings(self.responses, self._names, pool, self.keys, config.upstreams),
            )
        pool, server = upstreams.pool, config.server
        proxies = Proxies(server.trusted_proxies)
        sealer = sealer_of(config)
        router = Router(config, sealer)

        keeps = self.request_log is not None and config.storage.key is not None
        recording = Recording(
            None if self.account_sync is None else Attributor(config.usage),
            self._traces,
            config.request_log.body_bytes if keeps else 0,
            explains=self.request_log is not None,
        )

        def plans_of(router: Router, upstreams: Upstreams, prices: Prices) -> Plans:
            return Plans(
                router,
                upstreams.pool,
                prices,
                shows_cost=config.pricing.header,
                holding=() if upstreams.bindings is None else holding(config),
            )

        plans = plans_of(router, upstreams, prices)

        def exchange_of(
            router: Router,
            upstreams: Upstreams,
            prices: Prices = prices,
            plans: Plans | None = None,
        ) -> Exchange:
            plans = plans or plans_of(router, upstreams, prices)
            return Exchange(
                server,
                RequestResolver(plans, self.large, server.body_limit_bytes),
                upstreams,
                self.large,
                Conversations(upstreams.pool, self.large, self._foreign),
                self.admission,
                recording,
            )

        exchange = exchange_of(router, upstreams, prices, plans)
        upstream_responses = UpstreamResponses(config, upstreams, self._conversations)
        sign_in = self._sign_in(config, former, proxies)
        jwt_issuers = self._jwt_issuers(config, former)
        keys = Keyring(
            self.keys,
            requires_key=server.require_key or bool(config.sign_in or config.jwt_issuers),
        )
        background = Background(
            self._conversations,
            self.background,
            exchange,
            keys,
            lambda: self.client.clock,
            self.recorder.record_background,
            config,
        )
        generation = Generation(
            number=number,
            config=config,
            pool=pool,
            upstreams=upstreams,
            keys=keys,
            proxies=proxies,
            prices=prices,
            exchange=exchange,
            own_usage=self._own_usage,
            endpoints=Endpoints(
                Parts(
                    server,
                    plans,
                    upstreams,
                    self.admission,
                    recording,
                    self.recorder.record_background,
                    lambda: self.client.clock,
                    self._reserved,
                    self._sessions(keys),
                )
            ),
            limits=self.limits,
            stored=StoredResponses(
                self._conversations,
                upstream_responses,
                background,
                exchange,
                server.body_limit_bytes,
            ),
            counter=Counter(
                exchange.resolver,
                upstreams,
                self._conversations,
                upstream_responses,
                self.large,
                self.limits,
            ),
            catalogue=Catalogue(
                config,
                router,
                prices,
                partial(fetch_models, upstreams),
                time.monotonic,
                None if former is None else former.catalogue,
            ),
            managed=ManagedSettings(OfferedModels(config, router, prices), self._rule_of),
            sign_in=sign_in,
            jwt_issuers=jwt_issuers,
            request_check=self._request_check(config),
            telemetry=TelemetryEndpoint(config.telemetry, self._forwarder),
            mcp=self._mcp(config, former),
        )
        if not config.admin.is_served:
            return generation
        from dragoman.admin.workbench.sending import Bench

        bench = Bench(
            config,
            router,
            upstreams,
            prices,
            exchange_of,
            self.recorder.record,
            sealer.key,
            self.large,
        )
        admin = self._administration().admin_of(bench, keys, proxies, sign_in)
        return replace(generation, admin=admin)

    @cached_property
    def sockets(self) -> OpenSockets:
        """All connections of clients over WebSocket. What they need takes 4 MB, and is imported
        with the first."""
        from dragoman.edge.websockets import OpenSockets

        return OpenSockets(self._config.websocket, self._is_draining)

    @cached_property
    def client_secrets(self) -> ClientSecrets:
        """The client secrets of realtime."""
        from dragoman.endpoints.client_secrets import ClientSecrets

        return ClientSecrets(self.account_sync, cipher_for(self._config))

    def _sessions(self, keys: Keyring) -> SessionParts:
        return SessionParts(
            keys,
            self.recorder.record,
            lambda: self.sockets,
            lambda: self.client_secrets,
            self._watching_calls,
        )

    def _sign_in(
        self, config: Config, former: Generation | None, proxies: Proxies
    ) -> SignInEndpoints | None:
        """What signs people in. What was read of the same provider is shared."""
        settings = config.sign_in
        if settings is None or self.account_sync is None:
            return None
        from dragoman.sign_in.endpoints import SignInEndpoints
        from dragoman.sign_in.provider import Provider

        before = None if former is None or former.sign_in is None else former.sign_in.provider
        return SignInEndpoints(
            before if before and before.settings == settings else Provider(settings, self.client),
            self.account_sync,
            cipher_for(config),
            proxies,
            self._wrong_codes,
        )

    def _rule_of(self, name: str) -> SignInRule | None:
        """The rule of a person who has signed in; None for other callers."""
        return None if self.account_sync is None else self.account_sync.people.rule_named(name)

    def _jwt_issuers(self, config: Config, former: Generation | None) -> JwtIssuers | None:
        """What takes tokens of others, with all that is known of the same issuers."""
        if not config.jwt_issuers:
            return None
        if former is not None and former.config.jwt_issuers == config.jwt_issuers:
            return former.jwt_issuers
        from dragoman.sign_in.issuers import JwtIssuers

        count = self.metrics.refused_token
        return JwtIssuers(config.jwt_issuers, self.client, self.keys, count)

    def _request_check(self, config: Config) -> RequestChecker | None:
        if config.request_check is None:
            return None
        from dragoman.serving.request_check import RequestChecker

        return RequestChecker(config.request_check, self.client, self.metrics.checked)

    def _mcp(self, config: Config, former: Generation | None) -> McpEndpoints | None:
        """What serves MCP servers. The open streams of the configuration before are still open."""
        if not config.mcp_servers:
            return None
        from dragoman.mcp.endpoints import McpEndpoints
        from dragoman.mcp.streams import Streams

        before = None if former is None else former.mcp
        streams = Streams(self._is_draining) if before is None else before.streams
        return McpEndpoints(config, self.client, self.credentials, self.admission, streams)

    def _follow_people(self, generation: Generation, former: Generation) -> None:
        """Let those in who have signed in, by the rules of a configuration."""
        settings, sign_in = generation.config.sign_in, generation.sign_in
        if self.account_sync is not None:
            rules = () if settings is None else settings.rules
            self.keys.update(self.account_sync.people.redefine(rules))
        jwt_issuers, before = generation.jwt_issuers, former.jwt_issuers
        if before is not None and before is not jwt_issuers:
            before.retire()
        readers = [
            *(() if sign_in is None else (sign_in.tokens.read,)),
            *(() if jwt_issuers is None else (jwt_issuers.read,)),
        ]
        self.keys.follow_tokens(readers)

    def _administration(self) -> Administration:
        if self.administration is None:
            from dragoman.server.administration import Administration, Parts

            parts = Parts(
                current=self.current,
                scrape=self.scrape,
                watching=self._watching,
                requests=None if self.request_log is None else self.request_log.files,
                account_sync=self.account_sync,
                keys=self.keys,
                limits=self.limits,
                admission=self.admission,
                link=self._link,
                workers=self._workers,
                reload=self._reload,
                is_draining=self._is_draining,
            )
            self.administration = Administration(parts)
        return self.administration

    async def _visit_batches(self, *, is_ours: bool) -> None:
        """Look after batches: their ends if that `is_ours`, and what is reserved here for those
        that another process has counted."""
        if not holding(self.generation.config):
            return
        batches = self.generation.endpoints.batches()
        if is_ours:
            await batches.look_due()
        if self._reserved:
            await batches.release()

    def adopt(self, generation: Generation) -> None:
        """Serve what was prepared, from the next request on. Those in flight end on what they
        began with, with the accounts of then."""
        former, config = self.generation, generation.config
        pool = generation.pool
        if pool is not former.pool:
            stored = () if self.account_sync is None else self.account_sync.stored()
            pool.take_over(former.pool, (*stored, *config.accounts))
            # Whoever takes accounts of the former pool holds this.
            finalize(former.upstreams, former.pool.retire).atexit = False
            if self.account_sync is not None:
                self.account_sync.follow(pool, config.accounts)
        self.keys.redefine(fixed_keys(config), fixed_teams(config))
        self._follow_people(generation, former)
        self.limits.history.subscriptions = generation.prices.subscriptions
        self.meter.know(named_models(config))
        self.metrics.set_listed(listed_models(config, generation.prices))
        if self.exporting is not None:
            self.exporting.add_peers(peers_of(config))
        if self.request_log is not None:
            self.request_log.add_protocols(protocols_of(config))
        self.generation = self.current.generation = generation
        self.credentials.serve(expiring(config))
        self.prober.start()
        self.alerts.start()

    def _credential_changed(self, entry: AccountCredential) -> None:
        """A credential was obtained, or could not be."""
        note_change(self.generation.pool, entry, time.time())

    def _is_out(self, name: str) -> bool:
        """Whether the account of that name is disabled, or gone."""
        try:
            return bool(self.generation.pool.state(name).disabled)
        except KeyError:
            return True

    async def start(self) -> None:
        """Make ready to call upstreams, in the running loop, with all that the store knows."""
        await self.client.start()
        if self.account_sync is not None:
            await self.account_sync.start()
            if self.generation.sign_in is not None:
                await self.generation.sign_in.start()
            # A store has both.
            self.background.start(
                self.responses,
                self.account_sync.claim,
                lambda: self.generation.stored.background,
                self._visit_batches,
            )
        self.credentials.start()
        self.scrape.start()
        self.prober.start()
        self.alerts.start()
        if self.exporting is not None:
            self.exporting.start()
        if self.request_log is not None:
            self.request_log.start()
        if self._keeps_series:
            self._keeper.start()

    async def close(self) -> None:
        """Close the connections to upstreams, and write to the store what it does not know yet."""
        await self.prober.close()
        await self.alerts.close()
        await self.background.aclose()
        await self._forwarder.close()
        for task in self._watching_calls:
            task.cancel()
        await asyncio.gather(*self._watching_calls, return_exceptions=True)
        await self.client.aclose()
        if self.responses is not None:
            await self.responses.aclose()
        if self.account_sync is not None:
            await self.account_sync.close()
        await self.limits.close()
        if self.exporting is not None:
            await asyncio.to_thread(self.exporting.close)
        if self.request_log is not None:
            await asyncio.to_thread(self.request_log.close)
        await self._keeper.close()
        await asyncio.to_thread(self._watching.close)
        await self.scrape.close()
        self.large.close()


def _prices(config: Config, former: Generation | None, unknown: _UnpricedModels) -> Prices:
    """The prices of a configuration: those of the one before where nothing of them is another."""
    if former is not None:
        before = former.config
        if (before.pricing.table, before.prices, before.upstreams) == (
            config.pricing.table,
            config.prices,
            config.upstreams,
        ):
            return former.prices
    return load_prices(config, unknown)


class _UnpricedModels:
    """Logs models that have no price, each once, and no more than can be read."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def __call__(self, upstream: str, model: str) -> None:
        if len(self._told) < _MOST_UNPRICED and (upstream, model) not in self._told:
            self._told.add((upstream, model))
            _log.warning(
                "no price is known for the model %r of upstream %s: what it costs is not counted",
                model[:200],
                upstream,
            )


_MOST_UNPRICED = 100


def _exporting(config: Config, metrics: Metrics) -> SpanExporter | None:
    if not config.traces.enabled or is_disabled(os.environ):
        return None
    return SpanExporter(peers_of(config), config.traces.conventions, metrics.traced)


def _account_sync(
    config: Config, pool: AccountPool, meter: Meter, keys: KeyRing, gateway: str
) -> AccountSync | None:
    store = store_for(config)
    if store is None:
        return None
    sync_s = config.storage.sync_s
    return AccountSync(
        pool,
        store,
        cipher_for(config),
        config.accounts,
        sync_s=sync_s,
        meter=meter,
        keys=keys,
        gateway=gateway,
    )


def _limits(
    config: Config, account_sync: AccountSync | None, link: Peer, alerts: LimitAlerts
) -> Limits:
    """What asks the owner of limits at the other end of `link`."""
    ledgers = ledgers_for(config)
    used_since, users_since = _used_since(account_sync), _users_since(account_sync)
    limits = Limits(
        link,
        UsageHistory(used_since, users_since, is_shared=ledgers is not None),
        alerts,
        None if account_sync is None else account_sync.mark_of,
        None if ledgers is None else LedgerExchange(ledgers),
    )
    limits.register(link.handlers)
    return limits


def _used_since(account_sync: AccountSync | None) -> UsedSince | None:
    """What reads rows of usage; None if nothing is stored."""
    if account_sync is None:
        return None

    async def used_since(name: str, since: float, *, is_team: bool) -> Sequence[UsedInHour]:
        rows = await account_sync.ask(
            lambda store: store.client_keys.used(name, since, is_team=is_team)
        )
        return [row for row in rows if is_charged(row.route)]

    return used_since


def _users_since(account_sync: AccountSync | None) -> UsersSince | None:
    """A function that returns who has rows of usage; None if nothing is stored."""
    if account_sync is None:
        return None

    async def users_since(since: float, *, is_team: bool) -> Collection[str]:
        return await account_sync.ask(lambda store: store.client_keys.users(since, is_team=is_team))

    return users_since


def _responses(config: Config) -> ResponseStoreThread | None:
    store = responses_for(config)
    return None if store is None else ResponseStoreThread(store, config.storage.responses_days)
