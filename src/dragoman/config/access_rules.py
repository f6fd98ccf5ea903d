"""The rules of client keys and of teams, in the configuration and in the store alike."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from dragoman.canonical.losses import Policy
from dragoman.config.limits import Limit
from dragoman.protocols.dialects import Dialect

Name = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z",
        description="a name of at most 64 letters, digits, _ . and -",
    ),
]
"""A name for logs, metrics and the prefix of models, so it is kept to what these can carry."""

ANYONE = "anyone"
"""The name of whoever calls where no key is asked for. What was stored for it is no key's."""

NonEmpty = Annotated[str, Meta(min_length=1)]
Moment = Annotated[datetime, Meta(tz=True)]
"""A point in time, with its zone."""


class AccessRules(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What holds for a key, or for all keys of a team. Of both, all must allow a request."""

    note: str = ""
    """What it is for; shown to operators only."""
    enabled: bool = True
    """False: every request is refused."""
    not_before: Moment | None = None
    """Requests before this time are refused; a time with its zone."""
    expires: Moment | None = None
    """Requests from this time on are refused; a time with its zone, `2027-01-31T00:00:00Z`."""
    addresses: tuple[NonEmpty, ...] | None = None
    """Addresses or networks (`10.0.0.0/8`) that requests may come from; absent: all. Behind a proxy
    the client's own address counts, see `trusted_proxies`."""
    addresses_denied: tuple[NonEmpty, ...] = ()
    """Addresses or networks whose requests are refused, also out of `addresses`."""
    models: tuple[NonEmpty, ...] | None = None
    """Model names that may be asked for, `*` allowed in each; absent: all. What a name stands for
    must be in the list too: the name that an alias, or a prefix left out or added, leads to, the
    model of `upstream/model` (an entry with a slash has both), and models that a request names
    besides (`fallbacks`, an advisor among its tools). Allowed with their name are what an entry
    without `*` stands for, and what a route sets."""
    models_denied: tuple[NonEmpty, ...] = ()
    """Model names that may not be asked for, `*` allowed in each, also out of `models`: neither by
    that name nor by another that leads to it. An entry with a slash is `upstream/model`. Fallbacks
    to such models are left out."""
    paths: tuple[NonEmpty, ...] | None = None
    """Paths of the API that may be called, `*` allowed in each: `/v1/messages*` are messages and
    their counts; absent: all. Lists of models, `/v1/key` and `/v1/usage` always may."""
    upstreams: tuple[Name, ...] | None = None
    """Names of the upstreams that may be used; absent: all. Fallbacks to others are left out."""
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    """Tokens that an answer may have at most: a request that asks for more, or sets no limit, is
    given this one, and its answer says so in `x-dragoman-clamped`."""
    limits: tuple[Limit, ...] = ()
    """How much may be used, see `[[clients.limits]]`."""
    show_amounts: bool = True
    """Tell whoever has the key how much it may use and has used: in refusals, headers and
    `GET /v1/key`. False: only that a limit is reached, and until when."""


class KeyRules(AccessRules, frozen=True, kw_only=True):
    """What holds for a key."""

    team: Name | None = None
    """Name of the team whose rules hold, too."""
    policy: Policy | None = None
    """Which losses refuse this client's requests; overrides the route's."""
    dialect: Dialect | None = None
    """Contract that this client was written against; overrides the route's."""
    keep_bodies: bool = False
    """Keep what this client asks and is answered, and what its upstreams are, in the log of
    requests: sealed with `[storage] key`, without which nothing is kept, and for admins alone."""
