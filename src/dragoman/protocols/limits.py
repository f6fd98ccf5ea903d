"""Pass-through: output limits lowered to those of the upstream's model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Raw

from dragoman.canonical.losses import Ledger, LossKind
from dragoman.jsontext import JsonError, decoder

_integer = decoder(int)


def within(
    members: Mapping[str, Raw], names: Iterable[str], most: int | None, ledger: Ledger
) -> Mapping[str, Raw]:
    """The members; those of `names` above `most` tokens are lowered to it and reported."""
    if most is None:
        return members
    fitted = dict(members)
    for name in names:
        asked = whole(members.get(name))
        if asked is not None and asked > most:
            fitted[name] = Raw(b"%d" % most)
            ledger.add(name, LossKind.REPAIRED, f"fitted to the upstream's limit of {most} tokens")
    return fitted


def whole(raw: Raw | None) -> int | None:
    """An integer; None if `raw` is none."""
    if raw is None:
        return None
    try:
        return _integer(raw)
    except JsonError:
        return None
