"""Prices of models as operators are shown them, and pricing usage again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.store import ChargeCount, ChargeKey, Store
from dragoman.accounts.usage import OTHER
from dragoman.audit import Actor, Change
from dragoman.operations.terminal import this_user
from dragoman.prices.lookup import Basis, Prices
from dragoman.prices.rates import PER_MILLION, Price, dollars
from dragoman.storage.retention import USUAL

_SEARCHES = 1000
_DAY_S = 86400


class PriceView(Struct, frozen=True, kw_only=True):
    """One price, in US dollars for a million tokens, a thousand searches, or one request. `since`
    is its first day (UTC), `hours` the time of the day, `tier` the service tier, `above`
    the length of the prompt; empty, or 0, where that does not matter."""

    since: str = ""
    hours: str = ""
    tier: str = ""
    above: int = 0
    input: str
    cached: str
    cache_write: str
    cache_write_1h: str
    output: str
    reasoning: str
    search: str
    request: str


class Repriced(Struct, frozen=True, kw_only=True):
    """The outcome of pricing usage again: changed rows, of how many, and their cost before and
    after. `unpriced` are answers that still have no price."""

    rows: int
    changed: int
    before_usd: str
    after_usd: str
    unpriced: int


class ListedPrice(Struct, frozen=True, kw_only=True):
    """The prices that stand under a name or pattern, for these upstreams. `own` if they are of the
    configuration; otherwise they are of the table."""

    name: str
    upstreams: tuple[str, ...]
    own: bool
    prices: tuple[PriceView, ...]


class FoundPrices(Struct, frozen=True):
    """The first of the prices that were looked for, and how many there are."""

    rows: tuple[ListedPrice, ...]
    total: int


def found_prices(prices: Prices, search: str, limit: int) -> FoundPrices:
    """The prices with a text in their name or in that of their upstream: own ones first, then by
    name."""
    text = search.lower()
    found: dict[tuple[str, bool, tuple[Price, ...]], list[str]] = {}
    for upstream, listed in prices.lists.items():
        of_upstream = text in upstream.lower()
        for name, rows, own in listed.listed():
            if of_upstream or text in name.lower():
                found.setdefault((name, own, tuple(rows)), []).append(upstream)
    keys = sorted(found, key=lambda key: (not key[1], key[0], found[key]))
    shown = tuple(
        ListedPrice(
            name=key[0],
            upstreams=tuple(found[key]),
            own=key[1],
            prices=tuple(price_views(key[2])),
        )
        for key in keys[:limit]
    )
    return FoundPrices(shown, len(keys))


def price_views(prices: Sequence[Price]) -> Iterator[PriceView]:
    """Prices as they are shown."""
    for price in prices:
        yield PriceView(
            since=time.strftime("%Y-%m-%d", time.gmtime(price.since)) if price.since else "",
            hours=f"{_clock(price.begins)}-{_clock(price.ends)}"
            if price.begins != price.ends
            else "",
            tier=price.tier,
            above=price.above,
            input=dollars(price.input * PER_MILLION),
            cached=dollars(price.cached * PER_MILLION),
            cache_write=dollars(price.cache_write * PER_MILLION),
            cache_write_1h=dollars(price.cache_write_1h * PER_MILLION),
            output=dollars(price.output * PER_MILLION),
            reasoning=dollars(price.reasoning * PER_MILLION),
            search=dollars(price.search * _SEARCHES),
            request=dollars(price.request),
        )


def hours_since() -> float:
    """Since when usage is stored by the hour, in Unix seconds; before, it is by the day."""
    return time.time() - USUAL.hours_days * _DAY_S


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


def reprice(
    store: Store,
    prices: Prices,
    since: float,
    until: float,
    hours_since: float,
    *,
    dry_run: bool = False,
    actor: Actor | None = None,
) -> Repriced:
    """Price usage again of the hours that begin in [since, until), as of each hour.

    What has no price stays as it is. With `dry_run` nothing is changed. A price for times of the
    day is that of the hour's beginning. What was counted before `hours_since` (Unix seconds)
    is added up by the day, and stays as it is where its price depends on the time of the day.

    Raises:
        StoreError: the store cannot be used; nothing is changed then.
    """
    rows = before = after = unpriced = changed = 0

    def price(key: ChargeKey, count: ChargeCount) -> tuple[ChargeKey, ChargeCount] | None:
        nonlocal rows, before, after, unpriced, changed
        made = _priced(prices, key, count, hours_since)
        rows += 1
        before += count.cost
        after += made[1].cost
        unpriced += made[1].unpriced
        changed += made[1].cost != count.cost or made[1].unpriced != count.unpriced
        return None if dry_run else made

    with store.deciding():
        store.reprice(since, until, price)
        if changed and not dry_run:
            after_usd = {"cost_usd": dollars(after), "rows": changed, "prices": prices.version}
            store.record(
                actor or this_user(),
                [
                    Change(
                        action="reprice",
                        kind="prices",
                        before={"cost_usd": dollars(before), "since": since, "until": until},
                        after=after_usd,
                    )
                ],
            )
    return Repriced(
        rows=rows,
        changed=changed,
        before_usd=dollars(before),
        after_usd=dollars(after),
        unpriced=unpriced,
    )


def _priced(
    prices: Prices, key: ChargeKey, count: ChargeCount, hours_since: float
) -> tuple[ChargeKey, ChargeCount]:
    if key.priced_as == OTHER:
        return key, count
    basis = Basis(key.upstream, key.priced_as, key.tier, key.above, key.prices)
    is_day = key.hour < hours_since and key.hour % _DAY_S == 0
    found = prices.price(basis, key.hour, key.hour + is_day * _DAY_S)
    if found is None:
        return key, count
    other, price = found
    cost = price.cost_of(count, count.requests)
    new_key = replace(
        key,
        upstream=other.upstream,
        priced_as=other.model,
        tier=other.tier,
        above=other.above,
        prices=other.prices,
    )
    sums = ChargeCount()
    sums.add(count)
    sums.cost, sums.unpriced = cost, 0
    return new_key, sums
