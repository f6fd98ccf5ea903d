"""The rules of client keys and teams, in the configuration and in the store."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

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
"""A name that logs, metrics and prefixes of models can contain."""

HeaderName = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z", description="the name of an HTTP header")
]
"""A token of RFC 9110, section 5.6.2."""

ANYONE = "anyone"
"""The client's name if no key is required. What is stored for it belongs to no key."""

NonEmpty = Annotated[str, Meta(min_length=1)]
Moment = Annotated[datetime, Meta(tz=True)]
"""A point in time with its zone."""


class AccessRules(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Rules of a key, or of all keys of a team. Both must allow a request."""

    note: str = ""
    """Purpose of the key; shown to operators only."""
    enabled: bool = True
    """False: every request is rejected."""
    not_before: Moment | None = None
    """Requests before this time are rejected; a time with its zone."""
    expires: Moment | None = None
    """Requests from this time on are rejected; a time with its zone, `2027-01-31T00:00:00Z`."""
    addresses: tuple[NonEmpty, ...] | None = None
    """Addresses or networks (`10.0.0.0/8`) that may send requests; absent: all. Behind a proxy this
    is the client's own address, see `trusted_proxies`."""
    addresses_denied: tuple[NonEmpty, ...] = ()
    """Addresses or networks whose requests are rejected, even if `addresses` has them."""
    models: tuple[NonEmpty, ...] | None = None
    """Model names that may be requested, `*` allowed in each; absent: all. The list must also have
    the name that an alias, or an added or removed prefix, leads to, the model of `upstream/model`
    (an entry with a slash has both), and models that a request names elsewhere (`fallbacks`, an
    advisor among its tools). The model that an entry without `*` stands for, and the model that a
    route sets, are allowed with the name."""
    models_denied: tuple[NonEmpty, ...] = ()
    """Model names that may not be requested, `*` allowed in each, even if `models` has them:
    neither by that name nor by another that leads to it. An entry with a slash is `upstream/model`.
    Fallbacks to such models are skipped."""
    paths: tuple[NonEmpty, ...] | None = None
    """API paths that may be used, `*` allowed in each: `/v1/messages*` is messages and their token
    counts; absent: all. Model lists, `/v1/key` and `/v1/usage` are always allowed."""
    upstreams: tuple[Name, ...] | None = None
    """Names of the upstreams that may be used; absent: all. Fallbacks to others are skipped."""
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    """Most output tokens of an answer. A request that asks for more, or sets no limit, gets this
    limit, and its answer has `x-dragoman-clamped`."""
    limits: tuple[Limit, ...] = ()
    """How much may be used, see `[[clients.limits]]`."""
    share: Literal["team"] | None = None
    """`team`: files, batches and what else services hold are shared by the keys of a team: what one
    makes from then on, all that have this setting may use. Absent: they are of the key that makes
    them. A team's setting is that of all of its keys."""
    show_amounts: bool = True
    """Show the holder of the key its limits and what it has used: in errors, headers and `GET
    /v1/key`. False: only that a limit is reached, and until when."""


class KeyRules(AccessRules, frozen=True, kw_only=True):
    """Rules of a key."""

    team: Name | None = None
    """Name of a team whose rules apply as well."""
    policy: Policy | None = None
    """Which losses reject this client's requests; takes precedence over the route's."""
    dialect: Dialect | None = None
    """Contract that this client was written against; takes precedence over the route's."""
    keep_bodies: bool = False
    """Store this client's requests and answers, and those of its upstreams, in the request log:
    encrypted with `[storage] key`, without which nothing is stored, and visible to admins only."""


class SignInRule(KeyRules, frozen=True, kw_only=True):
    """What people may do who are in one of `groups`, have one of `emails`, or an e-mail address of
    one of `domains`. The first rule that matches a person counts; without any of the three it
    matches everybody whom the provider signs in. All else is as for a key, for each person by
    itself; `team` limits all of its people together."""

    groups: tuple[NonEmpty, ...] = ()
    """Groups of the provider, as `groups_claim` names them."""
    emails: tuple[NonEmpty, ...] = ()
    """E-mail addresses."""
    domains: tuple[NonEmpty, ...] = ()
    """Domains of e-mail addresses, such as `example.com`, without those below."""
    role: Literal["viewer", "admin"] | None = None
    """What such people may do in the dashboard and below `/admin`, where they sign in with the same
    account: `viewer` reads, `admin` does everything; absent: nothing."""
    managed_settings: dict[str, Any] | None = None
    """Settings of Claude Code for such people, merged over those of `[managed_settings]`."""

    @property
    def rules(self) -> KeyRules:
        """The rules of a person, without whom they are for."""
        return KeyRules(**{name: getattr(self, name) for name in KeyRules.__struct_fields__})
