"""What the parts of a gateway take from its configuration."""

from __future__ import annotations

from dragoman.canonical.envelope import Sealer
from dragoman.config import Config, Team
from dragoman.http.limits import RESERVED_FILES, files_to_share
from dragoman.keys.ring import FixedKey
from dragoman.keys.secrets import digest_of

_MOST_IDLE = 512
"""Idle connections that are kept for one upstream."""


def has_same_accounts(old: Config, new: Config) -> bool:
    """Whether upstreams and accounts are the same, and so all that is known of them."""
    return old.upstreams == new.upstreams and old.accounts == new.accounts


def fixed_keys(config: Config) -> list[FixedKey]:
    """The keys of the configuration."""
    return [
        FixedKey(
            client.name,
            client.rules,
            tuple(digest_of(secret.reveal().encode()) for secret in client.secrets),
        )
        for client in config.clients
    ]


def fixed_teams(config: Config) -> dict[str, Team]:
    """The teams of the configuration, by name."""
    return {team.name: team for team in config.teams}


def protocols_of(config: Config) -> dict[str, str]:
    """What each upstream speaks."""
    return {upstream.name: upstream.protocol for upstream in config.upstreams}


def named_models(config: Config) -> set[str]:
    """The names of models that stand in the configuration without a pattern."""
    names = {route.match for route in config.routes} | config.models.aliases.keys()
    return {name for name in names if "*" not in name}


def idle_connections(config: Config) -> int:
    """Idle connections to keep for each upstream: no more than half of the files that are kept back
    for upstreams, so that calls of one find some whatever was called before."""
    files = files_to_share()
    if files is None:
        return _MOST_IDLE
    room = int(files * RESERVED_FILES) // (2 * max(1, len(config.upstreams)))
    return max(1, min(_MOST_IDLE, room))


def sealer_of(config: Config) -> Sealer:
    """What seals reasoning state that clients keep."""
    key = config.server.envelope_key
    return Sealer() if key is None else Sealer(key.reveal().encode())
