"""Output limits in the members of a client's request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Raw

from dragoman.canonical.losses import Ledger, LossKind
from dragoman.jsontext import JsonError, decoder

_number = decoder(float)


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


def highest_of(
    *names: str, also: Collection[str] = ()
) -> Callable[[Mapping[str, Raw]], int | None]:
    """The function behind `Endpoint.limits` where these top-level members set output limits. Those
    in `also` are limits to some servers only, and none by themselves. A negative one is none to
    some servers, whatever stands beside it."""

    every = (*names, *also)

    def highest(members: Mapping[str, Raw]) -> int | None:
        most = -1
        for name in every:
            one = whole(members[name]) if name in members else None
            if one is None or (most < 0 and name in also):
                continue
            if one < 0:
                return None
            most = max(most, one)
        return most if most >= 0 else None

    return highest


def lowered_to(
    *names: str, also: Collection[str] = ()
) -> Callable[[Mapping[str, Raw], int], Mapping[str, Raw]]:
    """The function behind `Endpoint.limited` where these top-level members set output limits; the
    first is set where none is. Those in `also` are limits to some servers only."""

    def lowered(members: Mapping[str, Raw], most: int) -> Mapping[str, Raw]:
        given = [name for name in names if name in members] or list(names[:1])
        given += [name for name in also if name in members]
        changed = {}
        for name in given:
            asked = whole(members.get(name))
            if asked is None or not 0 < asked <= most:
                # 0 means no limit to other protocols.
                changed[name] = Raw(b"1" if asked == 0 else b"%d" % most)
        return {**members, **changed} if changed else members

    return lowered


def whole(raw: Raw | None) -> int | None:
    """A whole number, also one that is written `5.0` or `5e3`; None if `raw` is none."""
    if raw is None:
        return None
    try:
        number = _number(raw)
    except JsonError:
        return None
    return int(number) if number.is_integer() else None
