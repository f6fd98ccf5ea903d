"""Client keys and charges in the store."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.accounts.store import Batch, ChargeCount, Store
from dragoman.accounts.usage import OTHER, Attribution, Meter
from dragoman.canonical.usage import Usage, consistent
from dragoman.config import KeyRules
from dragoman.keys.records import StoredKey, StoredSecret
from dragoman.keys.secrets import digest_of
from dragoman.operations.pricing import reprice
from dragoman.prices.lookup import PriceList, Prices
from dragoman.prices.rates import Price


def test_two_who_change_a_key_at_once_lose_and_revive_nothing(store: Store) -> None:
    kept = store.client_keys

    def secret(name: str, created: float, revoked: float | None = None) -> StoredSecret:
        digest = digest_of(name.encode())
        return StoredSecret(digest=digest, ending=name[-4:], created=created, revoked=revoked)

    first = secret("first", 1.0)
    seen = StoredKey(name="k", created=1.0, secrets=(first,))
    assert kept.add(seen)
    assert not kept.add(StoredKey(name="k", created=2.0, secrets=(secret("other", 2.0),)))
    # Both saw the key with one secret, and rotate it.
    kept.save([replace(seen, secrets=(replace(first, revoked=50.0), secret("one", 3.0)))])
    kept.save([replace(seen, secrets=(replace(first, revoked=90.0), secret("two", 4.0)))])
    (key,) = kept.all_keys()
    assert [(one.ending, one.revoked) for one in key.secrets] == [
        ("irst", 50.0),
        ("one", None),
        ("two", None),
    ]
    # Someone who saw it before the rotation changes its rules.
    kept.save([replace(seen, rules=KeyRules(note="x"))])
    (key,) = kept.all_keys()
    assert (key.rules.note, key.secrets[0].revoked, len(key.secrets)) == ("x", 50.0, 3)
    assert (kept.key("k"), kept.key("K")) == (key, None)
    # Someone removes it, and someone who saw it before changes it.
    kept.save([replace(seen, secrets=(), removed=5.0)])
    kept.save([replace(seen, rules=KeyRules(note="y"))])
    (key,) = kept.all_keys()
    assert (key.removed, key.secrets, key.rules.note) == (5.0, (), "")


def test_an_upstream_that_tells_of_more_than_can_be_is_not_believed(store: Store) -> None:
    listed = PriceList([("*", [Price(0, "", 0, 0, 0, *[10**7] * 6)])], [])
    prices = Prices({"up": listed}, "v")
    meter = Meter()
    for usage in (
        Usage(input=10**18),
        Usage(output=10**30),
        Usage(output=10**10),  # Fewer tokens, and still more money than anybody would pay.
        Usage(input=3, cached=10**30, cache_write=10**30),
    ):
        usage = consistent(usage)
        charge = prices.charge("up", "m", usage, 1.8e9)
        whose = Attribution("a", "c", "m", "/")
        meter.count(1.8e9, whose, usage, 1.0, charge=charge)
    store.exchange("w", Batch(charges=meter.take_charges()), 0)
    charges = store.charges(0, 2**40)
    reprice(store, prices, 0, 2**40, 0)
    assert store.charges(0, 2**40) == charges
    by_model = {key.priced_as: sums for key, sums in charges.items()}
    assert by_model["m"] == ChargeCount(requests=1, input=3, cached=3, cost=3 * 10**7)
    assert by_model[OTHER] == ChargeCount(requests=3, unpriced=3)


def test_workers_learn_of_resets_of_limits(store: Store) -> None:
    first = store.exchange("w", Batch(), 0)
    assert first.limit_resets == {}
    store.client_keys.reset_limits({"one": 1.0, "two": 2.0})
    second = store.exchange("w", Batch(), first.version)
    assert second.limit_resets == {"one": 1.0, "two": 2.0}
    store.client_keys.reset_limits({"two": 3.0})
    assert store.exchange("w", Batch(), second.version).limit_resets == {"two": 3.0}
    assert store.client_keys.limit_resets() == {"one": 1.0, "two": 3.0}
