"""Conversations and their accounts: each stays with one account where it can; where it cannot, the
reasoning that another account made is left out of the request, and reported as lost."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.accounts.pool import AccountPool, Lease
from dragoman.canonical.errors import InvalidRequest
from dragoman.serving.affinity import (
    ForeignReasoning,
    conversation_keys,
    reasoning_account,
)
from dragoman.serving.context import RequestContext
from dragoman.serving.large import LargeBodies
from dragoman.translation import ALL_REASONING


class Conversations:
    """Identifies conversations, and fits their requests to the account that is asked. `foreign`
    remembers what accounts could not use."""

    __slots__ = ("_foreign", "_large", "_pool")

    def __init__(self, pool: AccountPool, large: LargeBodies, foreign: ForeignReasoning) -> None:
        self._pool = pool
        self._large = large
        self._foreign = foreign

    def identify(self, context: RequestContext) -> None:
        """Find the keys of the request's conversation at the upstream of its plan, which has more
        than one account.

        Raises:
            InvalidRequest: it is one that no account but its own could go on with.
        """
        upstream, request = context.plan.upstream, context.request
        context.has_choice = True
        passes_through = context.call.passes_through
        if passes_through:
            request.codec.passthrough.check_conversation(request.members)
        if upstream.affinity != "off":
            native = passes_through and upstream.stored_responses == "pass"
            headers, client = context.incoming.headers, context.caller.name
            keys = conversation_keys(headers, request, client, upstream.name, native)
            if keys.lookup and not keys.named and not passes_through:
                sealer, origin = context.plan.settings.sealer, context.call.codec.name
                tag = reasoning_account(request.read(sealer), origin)
                if tag:
                    keys = replace(keys, account=self._pool.tagged(tag))
            context.keys = keys
            if keys.lookup:
                wanted = replace(context.wanted, pin=keys.lookup, account=keys.account)
                context.wanted = wanted
                context.record.conversation = "named" if keys.named else "recognised"

    async def drop_foreign_reasoning(self, context: RequestContext, lease: Lease) -> int:
        """Leave out reasoning that the account of the lease cannot use. The body is written again
        only if there is some. Returns how many pieces were left out.

        Raises:
            Refused: the policy does not allow the loss.
        """
        call, key = context.call, context.keys.lookup
        bound = context.has_choice and context.plan.upstream.binds_reasoning
        least = self._foreign.count(key) if key and call.passes_through else 0
        dropped = await self._large.drop_reasoning(
            call, context.request, bound=bound, moved=lease.moved, least=least
        )
        if dropped and call.passes_through:
            self._foreign.record(key, dropped)
        if context.ledger is not call.ledger:
            context.ledger = call.ledger
            context.update_headers()
        return dropped

    async def drop_all_reasoning(self, context: RequestContext, dropped: int) -> bool:
        """Leave out all reasoning, of which `dropped` pieces were left out before: the account
        refused the rest. False if there is no more, or the policy does not allow the loss."""
        call = context.call
        try:
            dropped_now = await self._large.drop_reasoning(
                call, context.request, bound=False, moved=False, least=ALL_REASONING
            )
        except InvalidRequest:
            return False
        if dropped_now == dropped:
            return False
        if call.passes_through:
            self._foreign.record(context.keys.lookup, dropped_now)
        context.ledger = call.ledger
        context.update_headers()
        return True
