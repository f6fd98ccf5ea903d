"""Output limits in the members of a client's request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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


def highest_of(*names: str) -> Callable[[Mapping[str, Raw]], int | None]:
    """The function behind `Endpoint.limits` where these top-level members set output limits."""

    def highest(members: Mapping[str, Raw]) -> int | None:
        given = [whole(members[name]) for name in names if name in members]
        return max((one for one in given if one is not None and one >= 0), default=None)

    return highest


def lowered_to(*names: str) -> Callable[[Mapping[str, Raw], int], Mapping[str, Raw]]:
    """The function behind `Endpoint.limited` where these top-level members set output limits; the
    first is set where none is."""

    def lowered(members: Mapping[str, Raw], most: int) -> Mapping[str, Raw]:
        given = [name for name in names if name in members] or names[:1]
        asked = [whole(members.get(name)) for name in given]
        above = [
            name
            for name, one in zip(given, asked, strict=True)
            if one is None or not 0 <= one <= most
        ]
        return {**members, **dict.fromkeys(above, Raw(b"%d" % most))} if above else members

    return lowered


def whole(raw: Raw | None) -> int | None:
    """An integer; None if `raw` is none."""
    if raw is None:
        return None
    try:
        return _integer(raw)
    except JsonError:
        return None
