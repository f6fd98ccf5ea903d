"""The administration of one worker. What only it needs is an eighth of all modules, so this is
imported only where a configuration has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.accounts.sync import AccountSync
from dragoman.admin.events import Events
from dragoman.admin.gateway import Gateway, Observed
from dragoman.admin.operators import Operators
from dragoman.admin.repeated import RepeatedPosts
from dragoman.admin.server import Admin
from dragoman.admin.sessions import Sessions
from dragoman.admin.workbench.sending import Bench
from dragoman.edge.auth import Keyring
from dragoman.http.addresses import Proxies
from dragoman.keys.ring import KeyRing
from dragoman.link.messages import Peer
from dragoman.observability.current import Current
from dragoman.observability.metrics.scrape import Scrape
from dragoman.processes.reload import ReloadRequest
from dragoman.serving.limits.admission import Admission
from dragoman.serving.limits.client import Limits
from dragoman.serving.limits.simulation import SimulatedAdmission
from dragoman.storage.opening import Watching
from dragoman.storage.request_log import RequestLogFiles

if TYPE_CHECKING:
    from dragoman.sign_in.endpoints import SignInEndpoints


class Parts(Struct, frozen=True, kw_only=True):
    """The parts of a worker that its administration uses. `requests` is the log of requests, None
    if there is none, `account_sync` None if nothing is stored, `reload` if the configuration came
    from no file; `link` is the one to the owner of what `workers` workers share."""

    current: Current
    scrape: Scrape
    watching: Watching
    requests: RequestLogFiles | None
    account_sync: AccountSync | None
    keys: KeyRing
    limits: Limits
    admission: Admission
    link: Peer
    workers: int
    reload: ReloadRequest | None
    is_draining: Callable[[], bool]


class Administration:
    """What the administrations of all configurations share: signed-in operators, open pages, and
    the answers to repeated requests."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        watching = parts.watching
        self.events = Events(
            parts.current,
            parts.scrape,
            watching.series,
            parts.requests,
            parts.workers,
            parts.is_draining,
        )
        self._observed = Observed(
            parts.scrape, parts.requests, watching.bodies, watching.series, self.events
        )
        self._sessions = Sessions(parts.link)
        self._repeated = RepeatedPosts()

    def admin_of(
        self, bench: Bench, keys: Keyring, proxies: Proxies, sign_in: SignInEndpoints | None
    ) -> Admin:
        """What serves `/admin` of the configuration of `bench`."""
        parts, sync = self._parts, self._parts.account_sync
        simulated = SimulatedAdmission(
            parts.keys,
            bench.router,
            bench.prices,
            parts.limits,
            parts.admission.expected.output,
        )
        operators = Operators(bench.config.admin, sync, self._sessions, proxies, sign_in)
        gateway = Gateway(bench, sync, keys, simulated, operators, self._observed, parts.reload)
        return Admin(gateway, self._repeated)
