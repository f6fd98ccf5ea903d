"""Alerts to the operator's webhook, sent outside the request path.

`Alerts` looks at the accounts twice a second and hands alerts to `Webhook`, whose queue is bounded
and which retries for a day while the receiver fails. Of several workers that find the same alert,
one sends it: they claim it in the store. Without a store each sends what it found.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import msgspec

import dragoman
from dragoman.accounts.decide.alerts import Alert, of_change, of_pool, of_quota
from dragoman.accounts.decide.states import AccountState
from dragoman.accounts.store import StoreError
from dragoman.accounts.sync import AccountSync
from dragoman.config import Webhook as WebhookSettings
from dragoman.observability.current import Current
from dragoman.observability.metrics.metrics import Metrics
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import CallError
from dragoman.upstream.request import Timeouts, UpstreamRequest

_log = logging.getLogger("dragoman.gateway")

SIGNATURE = "x-dragoman-signature"

RETRIED_S = 86_400.0
"""For which an alert is sent again until it is accepted."""
MOST_WAITING = 1000
"""Alerts that wait in each worker; further ones are dropped, and counted."""
_TIMEOUT_S = 10.0
_POOL_LEFT = 0.1
"""Share of an upstream's accounts that can still be used, at or below which there is an alert."""
_EVERY_S = 0.5
_LAST_S = 2.0
"""Seconds in which waiting alerts are sent when the gateway stops."""
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0
_MOST_CHANGES = 10_000
_MOST_SENT = 10_000
_ANSWER_BYTES = 64 * 1024


class Webhook:
    """A queue of alerts, sent one after another. `metrics` counts the results. While the receiver
    fails, waiting alerts are tried in turn, so one that it rejects delays no other."""

    def __init__(
        self,
        settings: WebhookSettings,
        client: UpstreamClient,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._client = client
        self._metrics = metrics
        self._waiting: deque[Alert] = deque()
        self._failing = False
        self._news = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start sending, in the running loop."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> list[Alert]:
        """Send what waits, once and within a short time, and stop. Returns the alerts not
        accepted."""
        self._stopping.set()
        self._news.set()
        if self._task is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._task, _LAST_S)
        for _ in self._waiting:
            self._metrics.alerted("dropped")
        return list(self._waiting)

    def offer(self, alert: Alert) -> None:
        """Queue an alert; it is dropped if the queue is full."""
        if len(self._waiting) >= MOST_WAITING:
            self._metrics.alerted("dropped")
            return
        self._waiting.append(alert)
        self._news.set()

    async def _run(self) -> None:
        wait = _FIRST_WAIT_S
        while not self._stopping.is_set():
            if not self._waiting:
                self._news.clear()
                await self._news.wait()
            elif await self._send_first():
                wait = _FIRST_WAIT_S
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), wait)
                wait = min(2 * wait, _LONGEST_WAIT_S)
        for _ in range(len(self._waiting)):
            await self._send_first()

    async def _send_first(self) -> bool:
        """Send the first alert; if it is not accepted, it is queued again, as the last. Returns
        whether it was accepted."""
        alert = self._waiting[0]
        problem = await self._call(alert_body(alert))
        self._waiting.popleft()
        if not problem:
            self._metrics.alerted("sent")
            self._failing = False
            return True
        if not self._failing:
            self._failing = True
            _log.warning("the webhook did not accept an alert of %s: %s", alert.type, problem)
        if time.time() - alert.at < RETRIED_S:
            self._waiting.append(alert)
        else:
            _log.error("an alert of %s is dropped: the webhook never accepted it", alert.type)
            self._metrics.alerted("failed")
        return False

    async def _call(self, body: bytes) -> str:
        """Send a body once. Returns why it was not accepted, empty if it was."""
        settings = self._settings
        assert settings.url is not None
        headers = {
            "content-type": "application/json",
            "user-agent": f"dragoman/{dragoman.__version__}",
            **{name.lower(): value.reveal() for name, value in settings.headers.items()},
        }
        if settings.secret is not None:
            headers[SIGNATURE] = signature(settings.secret.reveal(), int(time.time()), body)
        limit = _TIMEOUT_S
        request = UpstreamRequest(
            method="POST",
            url=settings.url.reveal(),
            headers=tuple(headers.items()),
            body=body,
            timeouts=Timeouts(connect=limit, first_byte=limit, idle=limit, total=limit),
        )
        try:
            async with await self._client.send(request) as answer:
                if 200 <= answer.status < 300:
                    with suppress(CallError):
                        await answer.read(_ANSWER_BYTES)
                    return ""
                return f"status {answer.status}"
        except CallError as error:
            return error.cause
        except (ValueError, RuntimeError) as error:
            # Their text may quote the URL, which may contain a token.
            return type(error).__name__


def alert_body(alert: Alert) -> bytes:
    """The body of an alert. Its `id` is the same for every worker and every retry."""
    name = hashlib.sha256(f"{alert.key} {alert.until:.0f}".encode()).hexdigest()[:24]
    members = msgspec.to_builtins(alert)
    for inner in ("key", "until", "also"):
        members.pop(inner, None)
    return msgspec.json.encode({"id": f"alert_{name}", **members})


def signature(secret: str, at: int, body: bytes) -> str:
    """The value of the header that proves who sent a body, and when (Unix seconds)."""
    digest = hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


class Alerts:
    """The alerts of one worker's accounts, sent as `settings` say. Where accounts are chosen by
    their quotas without a store, it also reads the quotas that upstreams reported."""

    def __init__(
        self,
        settings: WebhookSettings,
        current: Current,
        account_sync: AccountSync | None,
        client: UpstreamClient,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._current = current
        self._account_sync = account_sync
        self._clock = clock
        self._webhook = None if settings.url is None else Webhook(settings, client, metrics)
        self._changes: deque[tuple[AccountState, AccountState]] = deque(maxlen=_MOST_CHANGES)
        self._notified: deque[Alert] = deque(maxlen=_MOST_CHANGES)
        self._sent_until: dict[str, float] = {}
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start, in the running loop, if there is anything to watch. Called again with each
        configuration."""
        if self._task is not None:
            return
        upstreams = self._current.generation.config.upstreams
        by_quota = any(one.selection == "most_quota_left" for one in upstreams)
        if self._webhook is not None:
            self._current.generation.pool.on_change = self._changed
            self._webhook.start()
        if self._webhook is not None or (self._account_sync is None and by_quota):
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Send what is left, and stop."""
        self._stopping.set()
        if self._task is not None:
            await self._task
        if self._webhook is not None:
            self._current.generation.pool.on_change = None
            lost = await self._webhook.close()
            if lost and self._account_sync is not None:
                # The next worker that finds the same alert sends it.
                with suppress(StoreError):
                    await self._account_sync.ask(
                        lambda store: store.release([alert.key for alert in lost])
                    )

    def notify(self, alert: Alert) -> None:
        """Send an alert of another part within half a second: one of several workers sends it, once
        until the alert ends. Does nothing without a webhook. For the event loop; returns at
        once."""
        if self._webhook is not None:
            self._notified.append(alert)

    def _changed(self, before: AccountState, after: AccountState) -> None:
        self._changes.append((before, after))

    async def _run(self) -> None:
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _EVERY_S)
            try:
                await self._look()
            except Exception as error:
                _log.error("accounts could not be watched: %s", type(error).__name__)

    async def _look(self) -> None:
        self._current.generation.pool.settle_quotas()
        if self._webhook is None:
            return
        now = self._clock()
        found = {alert.key: alert for alert in self._alerts(now)}
        fresh = [alert for key, alert in found.items() if self._sent_until.get(key, 0.0) <= now]
        if not fresh:
            return
        claims = {key: alert.until for alert in fresh for key in (*alert.also, alert.key)}
        # A duplicate alert is better than none.
        sync = self._account_sync
        claimed = set(claims) if sync is None else await sync.claim(claims, now)
        if len(self._sent_until) > _MOST_SENT:
            self._sent_until = {
                key: until for key, until in self._sent_until.items() if until > now
            }
        self._sent_until |= claims
        for alert in fresh:
            if alert.key in claimed:
                self._webhook.offer(alert)

    def _alerts(self, now: float) -> list[Alert]:
        pool = self._current.generation.pool
        found = list(self._notified)
        self._notified.clear()
        while self._changes:
            before, after = self._changes.popleft()
            with suppress(KeyError):
                upstream = pool.account(after.name).upstream
                if (alert := of_change(before, after, upstream, now)) is not None:
                    found.append(alert)
        quotas = pool.quotas
        changed, quotas.changed = quotas.changed, set()
        for name in changed:
            with suppress(KeyError):
                upstream, windows = pool.account(name).upstream, quotas.windows[name]
                found += of_quota(name, upstream, windows, self._settings.thresholds, now)
        for name in pool.upstreams():
            usable, accounts = pool.left(name), pool.size(name)
            alert = of_pool(name, usable, accounts, _POOL_LEFT, now)
            if alert is not None:
                found.append(alert)
        return found
