"""What is needed to call an upstream."""

from __future__ import annotations

from msgspec import Struct

from dragoman.accounts.pool import AccountPool
from dragoman.serving.bindings import Bindings
from dragoman.serving.calls import Calls
from dragoman.serving.limits.accounts import AccountLimits
from dragoman.serving.searches import SearchEngine
from dragoman.serving.upstream_requests import UpstreamRequestBuilders
from dragoman.upstream.client import UpstreamClient


class Upstreams(Struct, frozen=True, weakref=True):
    """The accounts of all upstreams, the builders of their requests, the client that sends these,
    the limits of accounts that have some, the engine that searches for models, and whose each
    id is that they gave out."""

    pool: AccountPool
    builders: UpstreamRequestBuilders
    client: UpstreamClient
    limits: AccountLimits | None = None
    engine: SearchEngine | None = None
    bindings: Bindings | None = None

    @property
    def ids(self) -> Bindings:
        """Whose each id is; there are some at all upstreams of the configuration."""
        assert self.bindings is not None
        return self.bindings

    @property
    def calls(self) -> Calls:
        """What calls an upstream by one account, apart from the requests of clients."""
        return Calls(self.client, self.builders.credentials)
