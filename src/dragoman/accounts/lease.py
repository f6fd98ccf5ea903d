"""One account, lent to one request, and what the request asks of it."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.accounts.decide.members import Choice
from dragoman.accounts.decide.states import Decision
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.accounts.silence import UNKNOWN_LIMIT_S
from dragoman.config import Account, Secret

if TYPE_CHECKING:
    from dragoman.accounts.pool import AccountPool
    from dragoman.accounts.upstream_pool import UpstreamPool


class LeaseRequest(Struct, frozen=True):
    """What a request needs an account for.

    `model` is the upstream's name of the model, empty for any; `pin` the digest of the
    conversation's key, empty for none; `account` the name of the account that is known to hold the
    conversation's reasoning, which goes before the one that is remembered for `pin`. `proven` says
    that accounts that were avoided and have not answered since are asked last: the request has
    waited long enough for one that hung.
    """

    upstream: str
    model: str = ""
    pin: bytes = b""
    account: str = ""
    proven: bool = False


class Lease(Struct, eq=False):
    """One account, lent to one request. A context manager: leaving it gives the account back.

    `account` is the account, one of `accounts`, lent at the time `taken` as `wanted`; `moved` says
    that the conversation was with another account before, whose reasoning this one may not be able
    to use. `has_slot` is whether it has a slot of the account, which the owner lends. `proxy` is
    the URL of the proxy to call through, None for none, and `proxy_index` its place in a rotating
    set, -1 if it is of none. `is_trial`: it shows whether an upstream that refused all accounts
    still does. `answered` becomes true with the head of an answer, `has_begun` with the beginning
    of a good one.
    """

    _pool: AccountPool
    accounts: UpstreamPool
    choice: Choice
    account: Account
    wanted: LeaseRequest
    taken: float
    moved: bool
    has_slot: bool
    proxy: Secret | None
    proxy_index: int
    answered: bool = False
    has_begun: bool = False
    is_trial: bool = False
    _given_back: bool = False

    def __repr__(self) -> str:
        return f"Lease({self.account.name})"

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.give_back()

    def __del__(self) -> None:
        if not self._given_back:
            self._given_back = True
            self._pool.lease_lost(self)

    def give_back(self) -> None:
        """End the lease. Harmless when it has ended."""
        if not self._given_back:
            self._given_back = True
            self._pool.lease_ended(self)

    def succeeded(self, tokens: float = 0.0) -> None:
        """The upstream answered well, and used `tokens` of the account's balance. May be called
        again, with tokens that were not known before.
        """
        self._pool.lease_succeeded(self, tokens)

    def failed(self, symptom: Symptom) -> Decision:
        """The upstream failed with `symptom`: what to do about it."""
        return self._pool.lease_failed(self, symptom)

    def began(self, seconds: float, *, stream: bool) -> None:
        """A good answer, whole or a stream, began so many seconds after it was asked for."""
        self.has_begun = True
        wait = self.accounts.waits[stream]
        if self.choice.member.avoidance is not None or self.is_trial:
            self._pool.lease_began(self, seconds, wait.limit)
        wait.heard(seconds)

    def is_late(self, seconds: float, *, stream: bool) -> bool:
        """Whether an answer, whole or a stream, that has not begun after so many seconds is far too
        late."""
        return seconds >= (self.accounts.waits[stream].limit or UNKNOWN_LIMIT_S)

    def fell_silent(self, *, ended: bool = False) -> bool:
        """The call says nothing for far longer than is usual: the account is avoided for a while.
        `ended`: the call was ended. Returns whether it is to end, although it may be at work."""
        return self._pool.lease_silent(self, ended=ended)

    def unreached(self, *, failed: int, timed_out: bool, cause: str = "") -> bool:
        """The call got no connection, the `failed`-th of its request, for a cause that is
        logged. Returns whether the host is tried once more."""
        return self._pool.lease_unreached(self, failed=failed, timed_out=timed_out, cause=cause)

    def proxy_failed(self) -> None:
        """The call did not get through `proxy`: the account is not to blame."""
        self._pool.lease_proxy_failed(self)

    def pin(self, digest: bytes) -> None:
        """Remember the account for one more digest of the conversation, such as that of the
        answer's id."""
        self._pool.pin(self, digest)
