"""A call of an operation over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from dragoman.admin.gateway import Gateway
from dragoman.admin.replies import Operator, Refusal
from dragoman.audit import Actor, Change
from dragoman.edge.incoming import IncomingRequest
from dragoman.operations.context import StoreContext
from dragoman.operations.inputs import Check
from dragoman.serving.offered_models import offered_to
from dragoman.storage.opening import cipher_for

T = TypeVar("T")


class Call(Struct, frozen=True):
    """One call. `check` raises `Refusal` unless what is to be changed is as the caller believes it
    to be; None if the caller believes nothing."""

    gateway: Gateway
    incoming: IncomingRequest
    operator: Operator
    actor: Actor
    check: Check | None = None

    async def in_store(self, work: Callable[[StoreContext], T]) -> T:
        """Call a function with the store, in the thread that uses it.

        Raises:
            Refusal: nothing is stored.
            StoreError: the store cannot be used.
        """
        gateway = self.gateway
        if gateway.sync is None:
            raise Refusal(409, "conflict", "Nothing is stored: [storage] path is not set.")
        return await gateway.sync.ask(
            lambda store: work(
                StoreContext(
                    config=gateway.config,
                    store=store,
                    cipher=cipher_for(gateway.config),
                    actor=self.actor,
                    role=self.operator.role,
                    check=self.check,
                    loaded_prices=gateway.prices,
                    offered=offered_to,
                )
            )
        )

    async def record(self, change: Change, *, needs_store: bool = True) -> None:
        """Add a line to the log of changes, of what the store itself records nothing.

        Raises:
            Refusal: nothing is stored, and it must be recorded.
        """
        if needs_store or self.gateway.sync is not None:
            await self.in_store(lambda context: context.accounts.record(change))
