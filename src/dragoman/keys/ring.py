"""Who presents a key, and whether it may be used now and from there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from math import inf
from typing import NamedTuple

from msgspec.structs import replace

from dragoman.canonical.losses import Policy
from dragoman.config.access_rules import AccessRules, KeyRules
from dragoman.config.limits import Limit
from dragoman.config.names import matches, means
from dragoman.http.addresses import Address, Network, network
from dragoman.keys.records import StoredKey, StoredTeam, Uses
from dragoman.keys.secrets import digest_of, is_mistyped
from dragoman.limits.rules import Rules, with_resets
from dragoman.protocols.dialects import Dialect


class FixedKey(NamedTuple):
    """A key of the configuration: its name, its rules, and the SHA-256 of its secrets."""

    name: str
    rules: KeyRules
    digests: tuple[bytes, ...]


class Denial(Enum):
    """Why a key is refused."""

    UNKNOWN = "is not valid for this gateway"
    MISTYPED = "is not whole, or mistyped: its check sum is wrong"
    REPLACED = "was replaced by another, and its time is over"
    ENDED = "was replaced or signed out"
    DISABLED = "is disabled"
    EARLY = "is not valid yet"
    EXPIRED = "has expired"
    ELSEWHERE = "may not be used from this address"
    LAPSED = "has expired: it is renewed with the refresh token"
    UNSIGNED = "was not made by this gateway, or was changed"
    FLAWED = "is refused"
    KEYS_AWAY = "cannot be verified now: the keys of its issuer are not known"
    NO_RULE = "is of nobody whom a rule of this gateway lets call"
    SIGNED_OUT = "is of a session that has ended: sign in again"


class Denied(Exception):
    """A key is refused. `denial` is the reason, the message says it, more exactly where there is a
    `text`."""

    def __init__(self, denial: Denial, text: str = "") -> None:
        super().__init__(text or denial.value)
        self.denial = denial


class ModelList:
    """The models that a key, or its team, may ask for."""

    __slots__ = ("_models",)

    def __init__(self, models: tuple[str, ...]) -> None:
        self._models = models

    def allows(self, model: str) -> bool:
        """Whether the list has `model`."""
        return any(means(pattern, model) for pattern in self._models)

    def names(self, model: str) -> bool:
        """Whether the list spells `model` out, without a pattern."""
        return any("*" not in one and means(one, model) for one in self._models)

    def allows_below(self, name: str, model: str) -> bool:
        """Whether the list has `name`, which is `upstream/model`: `model` by itself, or by an entry
        with the upstream before a slash."""
        return any(means(pattern, name if "/" in pattern else model) for pattern in self._models)


class Access:
    """Rules of a key or a team, ready to be asked."""

    __slots__ = ("_allowed", "_begins", "_denied", "_enabled", "_ends")

    def __init__(self, rules: AccessRules) -> None:
        self._enabled = rules.enabled
        self._begins = _seconds(rules.not_before, 0.0)
        self._ends = _seconds(rules.expires, inf)
        self._allowed = None if rules.addresses is None else _networks(rules.addresses)
        self._denied = _networks(rules.addresses_denied)

    @property
    def is_open(self) -> bool:
        """Whether there is nothing to ask."""
        unbounded = self._enabled and not self._begins and self._ends == inf
        return unbounded and self._allowed is None and not self._denied

    @property
    def asks_address(self) -> bool:
        """Whether it matters from where a key is used."""
        return self._allowed is not None or bool(self._denied)

    def denial(self, now: float, address: Address | None) -> Denial | None:
        """Why a key may not be used at `now` (Unix seconds) from `address` (None: from this
        machine, by a Unix socket); None if it may."""
        if not self._enabled:
            return Denial.DISABLED
        if now < self._begins:
            return Denial.EARLY
        if now >= self._ends:
            return Denial.EXPIRED
        if not self.asks_address:
            return None
        if address is None:
            return Denial.ELSEWHERE if self._allowed is not None else None
        if any(address in denied for denied in self._denied):
            return Denial.ELSEWHERE
        if self._allowed is None or any(address in allowed for allowed in self._allowed):
            return None
        return Denial.ELSEWHERE


class Caller:
    """Someone who may call.

    `policy` and `dialect` override the route's, None if they do not. `lists` are the lists of
    models that must all have what is asked for, `paths` those of paths, `upstreams` the names of
    those that may be used, None for all. `team` is empty without one. `limits` are those of the
    key, `team_limits` those of its team; `shows_amounts`: the caller may know what they are.
    `most_output` are the tokens that an answer may have, None for any number. `keeps_bodies`: its
    requests and answers are stored, encrypted. `ends` is when the key expires, infinity for never.
    """

    __slots__ = (
        "_access",
        "_models_denied",
        "bound",
        "dialect",
        "ends",
        "is_checked",
        "is_limited",
        "is_ruled",
        "keeps_bodies",
        "limits",
        "lists",
        "most_output",
        "name",
        "names_models",
        "owner",
        "paths",
        "policy",
        "restricted",
        "shows_amounts",
        "team",
        "team_limits",
        "upstreams",
    )

    def __init__(
        self,
        name: str,
        *,
        policy: Policy | None = None,
        dialect: Dialect | None = None,
        team: str = "",
        rules: Iterable[AccessRules] = (),
        limits: tuple[Limit, ...] = (),
        team_limits: tuple[Limit, ...] = (),
        keeps_bodies: bool = False,
    ) -> None:
        self.name = name
        self.keeps_bodies = keeps_bodies
        self.policy = policy
        self.dialect = dialect
        self.team = team
        given = tuple(rules)
        shares = bool(team) and any(one.share == "team" for one in given)
        self.owner = f"team/{team}" if shares else name
        """Under what name upstreams hold what the caller makes: no caller has that of a team."""
        self.limits = limits
        self.team_limits = team_limits
        self.is_limited = bool(limits or team_limits)
        """Whether there are any."""
        self.bound: Rules | None = None
        """All of them; None before they are bound."""
        self.shows_amounts = all(one.show_amounts for one in given)
        caps = [one.max_output_tokens for one in given if one.max_output_tokens is not None]
        self.most_output = min(caps) if caps else None
        self.ends = min((_seconds(one.expires, inf) for one in given), default=inf)
        self.lists = tuple(ModelList(one.models) for one in given if one.models is not None)
        self._models_denied = tuple(name for one in given for name in one.models_denied)
        self.paths = tuple(one.paths for one in given if one.paths is not None)
        upstreams = [frozenset(one.upstreams) for one in given if one.upstreams is not None]
        self.upstreams = frozenset.intersection(*upstreams) if upstreams else None
        self.names_models = bool(self.lists or self._models_denied)
        """Whether there are models that the caller may not ask for, by their names."""
        self.restricted = self.names_models or self.upstreams is not None
        """Whether some models are closed to the caller, by their names or their upstreams."""
        self.is_ruled = self.is_limited or self.most_output is not None or keeps_bodies
        """Whether the caller's requests are limited, have a longest answer, or are stored."""
        access = [Access(one) for one in given]
        self._access = tuple(one for one in access if not one.is_open)
        self.is_checked = bool(self._access)
        """Whether there is anything for `check` to ask."""

    def may_call(self, path: str) -> bool:
        """Whether the caller may call a path of the API."""
        return all(any(matches(one, path) for one in paths) for paths in self.paths)

    def may_reach(self, upstream: str) -> bool:
        """Whether the caller may use an upstream."""
        return self.upstreams is None or upstream in self.upstreams

    @property
    def asks_address(self) -> bool:
        """Whether it matters from where the caller calls."""
        return any(access.asks_address for access in self._access)

    def denies(self, *names: str) -> bool:
        """Whether one of these names of a model is denied."""
        return any(means(denied, name) for denied in self._models_denied for name in names)

    def allows(self, model: str) -> bool:
        """Whether the caller's lists have `model`, and it is not denied."""
        return all(one.allows(model) for one in self.lists) and not self.denies(model)

    def check(self, now: float, address: Address | None) -> None:
        """Make sure that the caller may call at `now` (Unix seconds) from `address`.

        Raises:
            Denied: it may not.
        """
        for access in self._access:
            denial = access.denial(now, address)
            if denial is not None:
                raise Denied(denial)

    def denials(self, now: float, address: Address | None) -> list[Denial]:
        """All for which `check` would refuse."""
        found = [access.denial(now, address) for access in self._access]
        return [denial for denial in found if denial is not None]


class _Secret:
    """One secret in the ring. `digest` is that under which its uses are counted, empty for those of
    the configuration; `denial` is why it is refused once it is `revoked`."""

    __slots__ = ("caller", "denial", "digest", "revoked")

    def __init__(
        self,
        caller: Caller,
        revoked: float = inf,
        digest: bytes = b"",
        denial: Denial = Denial.REPLACED,
    ) -> None:
        self.caller = caller
        self.revoked = revoked
        self.digest = digest
        self.denial = denial


class AccessToken(NamedTuple):
    """A token that was presented in place of a key: the digest of the secret that it stands for,
    and until when it does, in Unix seconds."""

    digest: bytes
    ends: float


ReadToken = Callable[[bytes, float], AccessToken | None]
"""Reads an access token, and checks its signature; None if it is of another issuer. May raise
`Denied`."""


_MOST_SEEN = 20_000
"""Keys that are cached as they were sent; tokens of people are others every hour."""

_NO_TEAMS: Mapping[str, AccessRules] = {}
_NO_RESETS: Mapping[str, float] = {}
_NOBODY = AccessRules(enabled=False, note="its team does not exist")


class KeyRing:
    """The keys of the configuration, and those of the store, as far as they are known.

    A key is looked up by its SHA-256, so that the time of a lookup reveals nothing about the keys:
    an attacker cannot choose what is compared. Keys that were found are cached as they were sent,
    under Python's own hash, which is seeded anew for each process. A name of the configuration
    takes precedence over the same name in the store.
    """

    def __init__(
        self, clients: Iterable[FixedKey] = (), teams: Mapping[str, AccessRules] = _NO_TEAMS
    ) -> None:
        self.is_loaded = True
        """Whether what the store has is known. It is, where nothing is stored."""
        self.unusable: dict[str, str] = {}
        """Names of keys that are refused because their rules, or their team's, cannot be followed,
        with why."""
        self._readers: Sequence[ReadToken] = ()
        self._fixed_teams = teams
        self._clients = {client.name: client for client in clients}
        self._teams: dict[str, StoredTeam] = {}
        self._keys: dict[str, StoredKey] = {}
        self._resets: dict[str, float] = {}
        self.is_empty = not self._clients
        """Whether there is no key, and never was one."""
        self.on_changed: Callable[[Rules, Caller | None], object] = lambda bound, caller: None
        """Called with the limits of a caller that were in use, and who takes its place."""
        self._secrets: dict[bytes, _Secret] = {}
        self._digests: dict[str, tuple[bytes, ...]] = {}
        self._seen: dict[bytes, _Secret] = {}
        self._used: dict[bytes, tuple[int, float]] = {}
        for client in self._clients.values():
            self._put_client(client)

    def redefine(self, clients: Iterable[FixedKey], teams: Mapping[str, AccessRules]) -> None:
        """Take over the keys and teams of another configuration. Those of the store stay."""
        found = {client.name: client for client in clients}
        if found == self._clients and teams == self._fixed_teams:
            return
        self._clients, self._fixed_teams = found, teams
        self.is_empty = not found and not self._keys
        bound = {
            one.caller.name: one.caller.bound
            for one in self._secrets.values()
            if one.caller.bound is not None
        }
        self._secrets, self._digests, self.unusable = {}, {}, {}
        for client in found.values():
            self._put_client(client)
        for key in self._keys.values():
            self._put_key(key)
        self._seen.clear()
        for name, rules in bound.items():
            self.on_changed(rules, self.caller(name))

    @property
    def count(self) -> int:
        """How many keys there are or were, by name."""
        return len(self._clients.keys() | self._keys.keys())

    @property
    def has_one_client(self) -> bool:
        """Whether all requests are of one client: there was never a second key, and nobody can sign
        in."""
        return self.count <= 1 and not self._readers

    def find(self, key: bytes, now: float) -> Caller:
        """Who presents `key` at `now` (Unix seconds). Whether it may be used then is for `check`.

        Raises:
            Denied: nobody has it, or it was replaced.
        """
        found = self._seen.get(key)
        if found is None:
            # What is a token of a known issuer is never tried as a key.
            found = self._by_token(key, now) if key.count(b".") == 2 else None
            found = found or self._secrets.get(digest_of(key))
            if found is None:
                raise Denied(Denial.MISTYPED if is_mistyped(key) else Denial.UNKNOWN)
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            self._seen[key] = found
        if now >= found.revoked:
            raise Denied(found.denial)
        if found.digest:
            uses, _ = self._used.get(found.digest, (0, 0.0))
            self._used[found.digest] = uses + 1, now
        return found.caller

    def digest_of(self, key: bytes, now: float) -> bytes:
        """The digest of the secret that a key is, or that an access token stands for.

        Raises:
            Denied: it is an access token that is refused.
        """
        token = self._token(key, now) if key.count(b".") == 2 else None
        return digest_of(key) if token is None else token.digest

    def is_good(self, digest: bytes, now: float) -> bool:
        """Whether a secret is one of a caller, and was neither replaced nor, of a session of a
        person, ended."""
        found = self._secrets.get(digest)
        return found is not None and now < found.revoked

    def _token(self, key: bytes, now: float) -> AccessToken | None:
        return next(filter(None, (read(key, now) for read in self._readers)), None)

    def _by_token(self, key: bytes, now: float) -> _Secret | None:
        """The secret that an access token stands for, as long as that lasts."""
        token = self._token(key, now)
        if token is None:
            return None
        found = self._secrets.get(token.digest)
        if found is None:
            raise Denied(Denial.SIGNED_OUT)
        return _Secret(found.caller, token.ends, found.digest, Denial.LAPSED)

    def follow_tokens(self, readers: Sequence[ReadToken]) -> None:
        """Take access tokens that one of these reads in place of keys."""
        self._readers = readers
        self._seen.clear()

    def caller(self, name: str) -> Caller | None:
        """Who calls with the key of this name; None if there is none, or its rules cannot be
        followed."""
        if name in self._clients:
            return self._usable(name, self._clients[name].rules)
        key = self._keys.get(name)
        return None if key is None or key.removed is not None else self._usable(name, key.rules)

    def callers(self) -> Collection[Caller]:
        """Whoever has a key that is known, each once."""
        return {one.caller.name: one.caller for one in self._secrets.values()}.values()

    def take_uses(self) -> Uses:
        """Which secrets of the store were used since the last call."""
        taken, self._used = self._used, {}
        return taken

    def restore_uses(self, uses: Uses) -> None:
        """Put back what was taken and could not be written."""
        for digest, (count, at) in uses.items():
            more, last = self._used.get(digest, (0, 0.0))
            self._used[digest] = count + more, max(at, last)

    def update(
        self,
        keys: Iterable[StoredKey] = (),
        teams: Iterable[StoredTeam] = (),
        resets: Mapping[str, float] = _NO_RESETS,
    ) -> list[str]:
        """Take over keys, teams and resets of limits of the configuration as the store has them.
        Returns the names of keys that the configuration has too: those of the store are not used.
        One whose rules cannot be followed is refused, and stands in `unusable`."""
        clashes: list[str] = []
        changed = {team.name for team in teams}
        self._teams |= {team.name: team for team in teams}
        if resets:
            self._resets |= resets
            changed |= self._fixed_teams.keys()
            for client in self._clients.values():
                self._put_client(client)
        for key in keys:
            if key.name in self._clients:
                clashes.append(key.name)
            self._keys[key.name] = key
            self.is_empty = False
            self._put_key(key)
        if changed:
            for client in self._clients.values():
                if client.rules.team in changed:
                    self._put_client(client)
            for key in self._keys.values():
                if key.rules.team in changed:
                    self._put_key(key)
        return clashes

    def retain(self, keys: Iterable[str], teams: Iterable[str]) -> None:
        """Refuse all keys of the store but those of these names, and forget all of its teams but
        those of these names, and its resets. That there were keys is not forgotten."""
        self._resets.clear()
        known_keys, known_teams = set(keys), set(teams)
        gone = [key for key in self._keys.values() if key.name not in known_keys]
        self.update(replace(key, secrets=(), removed=key.removed or 0.0) for key in gone)
        left = [team for team in self._teams.values() if team.name not in known_teams]
        self.update(teams=[replace(team, removed=team.removed or 0.0) for team in left])

    def forget(self, names: Iterable[str]) -> None:
        """Refuse the keys of these names, which are not of the configuration, and forget them."""
        for name in names:
            if self._keys.pop(name, None) is not None and name not in self._clients:
                self._put(name, {}, None)
                del self._digests[name]
                self.unusable.pop(name, None)

    def _put_client(self, client: FixedKey) -> None:
        caller = self._usable(client.name, client.rules)
        secrets = {} if caller is None else {one: _Secret(caller) for one in client.digests}
        self._put(client.name, secrets, caller)

    def _put_key(self, key: StoredKey) -> None:
        if key.name in self._clients:
            return
        secrets: dict[bytes, _Secret] = {}
        caller = self._usable(key.name, key.rules) if key.removed is None else None
        if caller is not None:
            for one in key.secrets:
                revoked = inf if one.revoked is None else one.revoked
                secrets[one.digest] = _Secret(caller, revoked, one.digest)
        self._put(key.name, secrets, caller)

    def _put(self, name: str, secrets: Mapping[bytes, _Secret], caller: Caller | None) -> None:
        self._seen.clear()
        for digest in self._digests.pop(name, ()):
            former = self._secrets.pop(digest).caller
            if former.bound is not None:
                self.on_changed(former.bound, caller)
                former.bound = None
        # A secret of the configuration is not taken over by a key of the store.
        fresh = {digest: one for digest, one in secrets.items() if digest not in self._secrets}
        self._secrets |= fresh
        self._digests[name] = tuple(fresh)

    def _usable(self, name: str, rules: KeyRules) -> Caller | None:
        """The caller of a key; None if its rules cannot be followed, whatever is wrong with them:
        others wrote them, and they must not keep those of other keys from being obeyed."""
        self.unusable.pop(name, None)
        try:
            return self._caller(name, rules)
        except Exception as error:
            self.unusable[name] = str(error)
            return None

    def _caller(self, name: str, rules: KeyRules) -> Caller:
        limits = rules.limits
        if name in self._clients:
            limits = with_resets(limits, name, self._resets)
        given: list[AccessRules] = [rules]
        if rules.team is not None:
            given.append(self._team(rules.team))
        return Caller(
            name,
            policy=rules.policy,
            dialect=rules.dialect,
            team=rules.team or "",
            rules=given,
            limits=limits,
            team_limits=given[1].limits if len(given) > 1 else (),
            keeps_bodies=rules.keep_bodies,
        )

    def _team(self, name: str) -> AccessRules:
        """The rules of a team's keys: those of a team that does not exist may not call."""
        if name in self._fixed_teams:
            rules = self._fixed_teams[name]
            limits = with_resets(rules.limits, name, self._resets, is_team=True)
            return replace(rules, limits=limits)
        stored = self._teams.get(name)
        return _NOBODY if stored is None or stored.removed is not None else stored.rules


def _seconds(moment: datetime | None, otherwise: float) -> float:
    return otherwise if moment is None else moment.timestamp()


def _networks(texts: Iterable[str]) -> tuple[Network, ...]:
    return tuple(network(text) for text in texts)
