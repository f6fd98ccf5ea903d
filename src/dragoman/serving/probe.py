"""Probes: one short request to an account, made by an operator, or because the account is out and
may be back.

The outcome is handled as that of a client's request: the same reading of answers, the same rules,
the same `observe`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.decide import rules
from dragoman.accounts.decide.decisions import apply, classify
from dragoman.accounts.decide.explain import of_account
from dragoman.accounts.decide.states import AccountState, Failed, Succeeded, Transition
from dragoman.accounts.decide.symptoms import UNREACHABLE
from dragoman.canonical.blocks import Text
from dragoman.canonical.errors import DragomanError, Fault, FaultKind, UpstreamError
from dragoman.canonical.losses import Policy
from dragoman.canonical.options import Options
from dragoman.canonical.requests import Request, Turn
from dragoman.config import Account, Config, Secret, Upstream
from dragoman.config.names import matches
from dragoman.failing import Verdict
from dragoman.operations.errors import NoModel
from dragoman.protocols.presets import completed
from dragoman.serving.answers import holds_events, read_error
from dragoman.serving.calls import Calls, own_calls
from dragoman.serving.failures import Failure, failed_call, refused, unusable
from dragoman.serving.listing import NO_LIST, one_line, proxy_of, read_models
from dragoman.translation import Call, CallSettings, ClientRequest, Outcome
from dragoman.upstream.errors import CallError, TotalTimeout

if TYPE_CHECKING:
    from dragoman.operations.context import StoreContext

T = TypeVar("T")

_log = logging.getLogger("dragoman.gateway")

OUTPUT_TOKENS = 16
"""Length of the answer asked for: the least that Responses allows, and enough for a model that
thinks to say that it was cut off."""

_ANSWER_BYTES = 1024 * 1024
_TIME_LIMIT_S = 60.0
_MOST_AT_ONCE = 4
_EVERY_S = 1.0

Who = Literal["probe", "operator"]


class Finding(Struct, frozen=True, kw_only=True):
    """The outcome of a probe of one account.

    `status` is that of the upstream's answer, 0 if there was none. `why` names the rule that fits
    a failure, `message` is the upstream's message without secrets. `account_is` says what the
    outcome means for the account.
    """

    account: str
    upstream: str
    model: str
    passed: bool
    status: int
    why: str
    message: str
    account_is: str
    milliseconds: float


def named_model(config: Config, upstream: Upstream, account: Account) -> str:
    """The model to ask an account for when nobody names one: that of `upstreams.probe`, else one
    that the account, its upstream or a route names; empty if none does."""
    if upstream.probe is not None:
        return upstream.probe.model
    routes = (
        route.model or route.match for route in config.routes if route.upstream == upstream.name
    )
    for model in (*(account.models or ()), *(upstream.models or ()), *routes):
        if "*" not in model:
            return model
    return ""


async def _listed_model(calls: Calls, config: Config, upstream: Upstream, account: Account) -> str:
    """A model that the upstream lists for an account: the first to which a route leads, else the
    first.

    Raises:
        Failure: it refused.
        NoModel: it lists none.
    """
    builder = calls.builder(upstream, account)
    try:
        entries = await read_models(calls.client, builder, upstream, proxy_of(upstream, account))
    except CallError as error:
        raise failed_call(error, upstream.name) from None
    except ValueError:
        entries = []
    except Failure as failure:
        if failure.symptom.status not in NO_LIST:
            raise
        entries = []
    names: list[str] = [entry["id"] for entry in entries]
    if not names:
        raise NoModel(upstream.name)
    routes = [one.match for one in config.routes if one.upstream == upstream.name]
    routed = (name for name in names if any(matches(one, name) for one in routes))
    return next(routed, names[0])


async def probe(
    calls: Calls,
    config: Config,
    account: Account,
    state: AccountState,
    *,
    who: Who,
    model: str | None = None,
    proxy: Secret | None = None,
) -> tuple[Finding, Transition | None]:
    """Ask `account` for a short answer of `model`. The transition is what the outcome changes in
    the account's `state`; None if nothing: the request itself was refused, or never arrived.
    `proxy` is the proxy to call through, by default one of those configured.

    Raises:
        NoModel: no model is given or known, and the upstream lists none.
    """
    upstream = config.upstream(account.upstream)
    model = model or named_model(config, upstream, account)
    began, sent_at = time.monotonic(), time.time()
    failure: Failure | None = None
    try:
        async with asyncio.timeout(_TIME_LIMIT_S):
            model = model or await _listed_model(calls, config, upstream, account)
            await _answer(calls, upstream, account, model, proxy or proxy_of(upstream, account))
    except Failure as failed:
        failure = failed
    except TimeoutError:
        failure = failed_call(TotalTimeout(""), upstream.name)
    now = time.time()
    transition: Transition | None = None
    why = message = ""
    if failure is None:
        transition = Transition(account.name, Succeeded(who), now, model, random.random())
    else:
        decision = classify(
            failure.symptom, rules.table(upstream.account_rules, upstream.rules).rules
        )
        why, message = decision.why, one_line(failure.fault.message)
        if decision.verdict not in (Verdict.RETURN_TO_CLIENT, Verdict.TRY_NEXT):
            key = account.fingerprint
            outcome = Failed(decision, who, failure.symptom.status, key, sent_at)
            transition = Transition(account.name, outcome, now, model, random.random())
        elif not why:
            why = "the request was refused: this says nothing of the account"
    after = state if transition is None else apply(state, transition)
    finding = Finding(
        account=account.name,
        upstream=upstream.name,
        model=model,
        passed=failure is None,
        status=200 if failure is None else failure.symptom.status,
        why=why,
        message=message,
        account_is=of_account(state, after, model, now),
        milliseconds=round((time.monotonic() - began) * 1000, 1),
    )
    return finding, transition


async def _answer(
    calls: Calls, upstream: Upstream, account: Account, model: str, proxy: Secret | None
) -> None:
    """Return if the upstream answers as it should.

    Raises:
        Failure: it does not.
    """
    builder = calls.builder(upstream, account)
    question = ClientRequest.of(upstream.protocol, _question(model))
    call = Call(question, upstream.protocol, _settings(upstream, model))
    try:
        await builder.ready()
        request = builder.post(call.path, call.body, None, stream=False)
        request = replace(request, proxy=None if proxy is None else proxy.reveal(), ready=None)
        async with await calls.client.send(request) as answer:
            if not 200 <= answer.status < 300:
                body = builder.mask.error(await read_error(answer))
                raise refused(call.codec, answer.status, answer.headers, body)
            body = await answer.read(_ANSWER_BYTES)
            read = call.stream_as_response if holds_events(body) else call.translate_response
            read(body, Outcome())
    except CallError as error:
        raise failed_call(error, upstream.name) from None
    except UpstreamError as error:
        raise unusable(builder.mask.fault(error.fault)) from None
    except DragomanError as error:
        raise unusable(error.fault) from None
    except ValueError:
        # What the message says may quote a header or a proxy.
        problem = "The request cannot be sent: its URL, proxy or headers are at fault."
        raise Failure(Fault(FaultKind.UPSTREAM_FAILED, problem), UNREACHABLE) from None


def _question(model: str) -> Request:
    asked = Turn(role="user", blocks=(Text(text="Say ok."),))
    return Request(model=model, turns=(asked,), max_output_tokens=OUTPUT_TOKENS)


def _settings(upstream: Upstream, model: str) -> CallSettings:
    return CallSettings(
        model=model,
        options=Options(policy=Policy.LENIENT),
        capabilities=completed(
            upstream.capabilities, upstream.protocol, upstream.base_url, model, upstream.service
        ),
        service=upstream.service,
    )


def probe_all(context: StoreContext, names: Iterable[str], model: str | None) -> Iterator[Finding]:
    """Probe accounts, some at once, and apply the outcome of each to its state. Findings are
    yielded as they are made. For programs without an event loop.

    Raises:
        NoModel, Unknown, Conflict: an account cannot be tested.
    """
    config, queries = context.config, context.queries
    waiting = [queries.account(name) for name in names]
    states = queries.states()
    with asyncio.Runner() as runner:
        own = own_calls(context)
        calls = runner.run(own.__aenter__())
        try:
            while waiting:
                now, waiting = waiting[:_MOST_AT_ONCE], waiting[_MOST_AT_ONCE:]
                probes = [
                    probe(
                        calls,
                        config,
                        account,
                        states.get(account.name, AccountState(account.name)),
                        who="operator",
                        model=model,
                    )
                    for account in now
                ]
                for finding, transition in runner.run(_all(probes)):
                    if transition is not None:
                        context.accounts.observe(transition)
                    yield finding
        finally:
            runner.run(own.__aexit__(None, None, None))


async def _all(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    return list(await asyncio.gather(*calls))
