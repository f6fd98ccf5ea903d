"""Rows of the request log, built from finished requests. They contain no text of a prompt or an
answer, and no key."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec
from msgspec import Struct

from dragoman.canonical.losses import Loss
from dragoman.canonical.usage import Usage
from dragoman.edge.record import CLIENT_GONE, FailedAttempt, Record
from dragoman.observability.finished import FinishedRequest
from dragoman.prices.rates import dollars
from dragoman.protocols.purposes import Purpose
from dragoman.storage.request_log import LOSS_SLOT_S, Entry, LossCount, LossKey

_LONGEST = 200
_LONGEST_CLIENT = 40
_MOST_LOSSES = 100
_SLOW_MS = 60_000.0
_BAD = 400
_INDEX = re.compile(r"\[\d+\]")
_CLIENT = re.compile(r"[A-Za-z0-9@._ -]+")
_CLIENTS = {
    "claude-cli": "Claude Code",
    "codex_cli_rs": "Codex",
    "codex_exec": "Codex",
    "codex-tui": "Codex",
    "opencode": "opencode",
    "Cline": "Cline",
    "QwenCode": "Qwen Code",
    "OpenAI": "OpenAI SDK",
    "AsyncOpenAI": "OpenAI SDK",
    "Anthropic": "Anthropic SDK",
    "AsyncAnthropic": "Anthropic SDK",
    "curl": "curl",
}
"""Names of clients by what their user agents begin with."""

NO_CLIENT = "(none)"

_encode = msgspec.json.Encoder().encode


class Attempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One account that was asked: from when to when, in milliseconds from the beginning of the
    request, and the result. For a failed one, `kind`, and which row of the rules matched:
    `row` of `table` (counted from 1), the verdict, why, and for how long the account rests.
    `bytes_up` is how large the body was that it was sent, `bytes_down` what came back, head and
    framing included."""

    upstream: str
    account: str
    model: str
    status: int
    start_ms: float
    end_ms: float
    kind: str = ""
    verdict: str = ""
    why: str = ""
    row: int = 0
    table: str = ""
    rest_s: float | None = None
    bytes_up: int | None = None
    bytes_down: int | None = None


class LossRow(Struct, frozen=True):
    """A loss."""

    path: str
    kind: str
    detail: str


class ChosenFrom(Struct, frozen=True):
    """The accounts among which the first attempt at the last upstream chose: how many serve the
    model, how many could be chosen, how many could not and why, and the order of selection."""

    serving: int
    could_serve: int
    left_out: tuple[tuple[str, int], ...]
    selection: str


class ListRow(Struct, frozen=True, kw_only=True):
    """A request in a list. `ms` is how long it took, `first_ms` when its answer had its first
    content, None if that is not known; `cost_usd` is None without a price, and without usage.
    `refusal` is the message of an error that the gateway returned without asking an upstream,
    and `limit` the name of the limit that refused the request."""

    id: str
    at: float
    status: int
    key: str
    client: str
    route: str
    model: str
    stream: bool
    upstream: str
    upstream_model: str
    account: str
    attempts: int
    ms: float
    first_ms: float | None
    usage: Usage | None
    estimated: bool
    cost_usd: str | None
    loss_kinds: tuple[str, ...]
    losses_total: int
    error: str
    refusal: str = ""
    limit: str


class DetailRow(ListRow, frozen=True, kw_only=True):
    """A request in full. `queue_ms` is how long it waited for accounts, `head_ms` when
    the head of its answer was sent. `conversation` is how its conversation was identified:
    `named` by the client, `recognised` by its prefix, empty if it was not; `accounts` how many its
    upstream has, where one failed. `purpose` is what an agent made it for, null if it did not say
    so. `why` gives the reason for each unknown member."""

    team: str
    user: str
    tags: str
    purpose: Purpose | None = None
    protocol: str
    user_agent: str
    address: str
    queue_ms: float
    head_ms: float | None
    tried: tuple[Attempt, ...]
    in_vain: int
    accounts: int | None
    conversation: str
    moved: bool
    finish: str
    exceeded: tuple[str, ...]
    losses: tuple[LossRow, ...]
    trace_id: str
    why: dict[str, str]
    chosen_from: ChosenFrom | None = None


def entry_of(request: FinishedRequest) -> Entry:
    """The entry of a request in the log."""
    record, usage, losses = request.record, request.record.usage, request.record.losses
    ms = round(request.seconds * 1000, 1)
    cost, head = record.cost, request.first_byte_s
    kinds = tuple(dict.fromkeys([str(loss.kind) for loss in losses]))
    client = client_of(request.user_agent)
    first = round((record.first_at - record.started) * 1000, 1) if record.first_at else None
    why = {}
    if usage is None:
        why["usage"] = "not_told"
    elif cost is None:
        why["cost_usd"] = "no_price"
    if first is None:
        why["first_ms"] = "no_answer"
    row = DetailRow(
        id=request.request_id,
        at=round(request.at, 3),
        status=request.status,
        key=record.caller,
        client=client,
        route=request.route,
        model=record.model[:_LONGEST],
        stream=record.stream,
        upstream=record.upstream,
        upstream_model=record.upstream_model[:_LONGEST],
        account=record.account,
        attempts=record.attempts,
        ms=ms,
        first_ms=first,
        usage=usage,
        estimated=record.estimated,
        cost_usd=None if cost is None else dollars(cost),
        loss_kinds=kinds,
        losses_total=len(losses),
        error=record.error,
        refusal=record.refusal[:_LONGEST],
        limit=record.limit,
        team=record.team,
        user=record.user[:_LONGEST],
        tags=record.tags[:_LONGEST],
        purpose=record.purpose,
        protocol=request.protocol,
        user_agent=request.user_agent[:_LONGEST].decode("latin-1"),
        address=record.address,
        queue_ms=round(record.queue_s * 1000, 1),
        head_ms=None if head is None else round(head * 1000, 1),
        tried=_attempts(request),
        in_vain=len(record.in_vain),
        accounts=record.accounts or None,
        conversation=record.conversation,
        moved=record.moved,
        finish=record.finish,
        exceeded=tuple(record.exceeded),
        losses=tuple(
            [
                LossRow(loss.path[:_LONGEST], loss.kind, loss.detail[:_LONGEST])
                for loss in losses[:_MOST_LOSSES]
            ]
        ),
        trace_id=f"{record.trace_id:032x}" if record.trace_id else "",
        why=why,
        chosen_from=_chosen_from(record),
    )
    accounts = [one.account for one in record.failed]
    if record.account:
        accounts.append(record.account)
    return Entry(
        at=request.at,
        id=request.request_id,
        key=record.caller,
        model=row.model,
        upstream=record.upstream,
        accounts=tuple(dict.fromkeys(accounts)),
        client=client,
        error=record.error,
        status=request.status,
        ms=ms,
        losses=kinds,
        notable=bool(record.error or record.failed or request.status >= _BAD or ms >= _SLOW_MS),
        row=_encode(row),
    )


def _chosen_from(record: Record) -> ChosenFrom | None:
    found = record.alternatives
    if found is None:
        return None
    could = max(0, found.serving - sum(count for _, count in found.left_out))
    return ChosenFrom(found.serving, could, found.left_out, found.selection)


def count_losses(
    request: FinishedRequest,
    client: str,
    protocol: str,
    counts: dict[LossKey, LossCount],
    known: set[str],
    most: int,
) -> None:
    """Count the losses of a request of `client`, toward an upstream that speaks `protocol`. At
    most `most` paths are counted separately: those in `known` and the next ones."""
    record = request.record
    if not record.model or not protocol:
        return
    slot = int(request.at) // LOSS_SLOT_S * LOSS_SLOT_S
    pair = f"{request.protocol}>{protocol}"
    refused = record.error == "invalid_request" and bool(record.losses)
    _one_more(counts, LossKey(slot, client, pair, "", "", "", record.caller), request, refused)
    for path, kind in {(folded(loss), str(loss.kind)) for loss in record.losses}:
        if path not in known:
            if len(known) >= most:
                path = "(other)"
            known.add(path)
        key = LossKey(slot, client, pair, path, kind, record.upstream, record.caller)
        _one_more(counts, key, request, refused)


def _one_more(
    counts: dict[LossKey, LossCount], key: LossKey, request: FinishedRequest, refused: bool
) -> None:
    found = counts.get(key)
    if found is None:
        found = counts[key] = LossCount(0, 0, request.at, request.at, "")
    found.requests += 1
    found.refused += refused
    found.last = request.at
    found.example = request.request_id


def folded(loss: Loss) -> str:
    """The path of a loss without its indexes: `messages[].name`."""
    return _INDEX.sub("[]", loss.path)[:_LONGEST]


@lru_cache(1024)
def client_of(user_agent: bytes) -> str:
    """The name of a client, from its user agent: the text before its version."""
    text = user_agent[:_LONGEST].decode("latin-1")
    found = _CLIENT.match(text.partition("/")[0].strip())
    if found is None:
        return NO_CLIENT
    name = found.group()[:_LONGEST_CLIENT].strip()
    return _CLIENTS.get(name, name) or NO_CLIENT


def _attempts(request: FinishedRequest) -> tuple[Attempt, ...]:
    """The attempts in their order, on the clock of the request."""
    record = request.record
    began_at = request.at - request.seconds
    tried = [_failed(one, began_at) for one in record.failed]
    if record.attempts > len(tried) and record.sent_at:
        tried.append(
            Attempt(
                upstream=record.upstream,
                account=record.account,
                model=record.upstream_model[:_LONGEST],
                status=request.status if record.error != CLIENT_GONE else 0,
                start_ms=round((record.sent_at - record.started) * 1000, 1),
                end_ms=round(request.seconds * 1000, 1),
                bytes_up=record.bytes_up or None,
                bytes_down=record.bytes_down or None,
            )
        )
    return tuple(tried)


def _failed(one: FailedAttempt, began_at: float) -> Attempt:
    end = max(0.0, one.at - began_at) * 1000
    return Attempt(
        upstream=one.upstream,
        account=one.account,
        model=one.model,
        status=one.status,
        start_ms=round(max(0.0, end - one.ms), 1),
        end_ms=round(end, 1),
        kind=one.kind,
        verdict=one.verdict,
        why=one.why,
        row=one.row,
        table=one.table,
        rest_s=one.rest_s,
        bytes_up=one.bytes_up or None,
        bytes_down=one.bytes_down or None,
    )
