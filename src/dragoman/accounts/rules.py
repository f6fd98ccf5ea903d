"""Rule sets: what the failures of upstreams mean, as rows. The first row that fits decides.

Sources: `DEFAULT` follows what the vendors document of their statuses (a 429 is mostly a passing
limit, quota has codes of its own); `SOP` is the contract of the account-pool procedure: 429 and
402 take the account out, and what no row names goes back to the client.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.failing import Rule, Verdict

_QUOTA_WORDS = (
    "insufficient_quota",
    "credit_balance_exhausted",
    "billing_hard_limit_reached",
    "billing_error",
    "enforced_spend_limit_reached",
    "contract_spend_limit_reached",
)
_POOR_TEXTS = ("insufficient tokens", "upgrade your plan", "limit reached")

_TOO_EXPENSIVE = Rule(
    Verdict.RETURN_TO_CLIENT,
    "the request exceeds what any account allows",
    statuses=(403,),
    texts=("estimated cost",),
)
_TOO_POOR = Rule(
    Verdict.TRY_NEXT, "too little quota for this request", statuses=(403,), texts=_POOR_TEXTS
)
_BAD_KEY = Rule(Verdict.DISABLE, "the upstream refused its key", statuses=(401,))
_NO_STATUSES = (*range(100, 400), *range(600, 1000))
_UNREACHABLE = Rule(Verdict.TRY_NEXT, "the upstream could not be reached", statuses=(0,))


class RuleSet(Struct, frozen=True):
    """A table and what a client is told when every account failed.

    `final` is "last" for the upstream's own last error in the client's shape, "none_left" for a
    503 whatever it was.
    """

    rules: tuple[Rule, ...]
    final: Literal["last", "none_left"] = "last"


DEFAULT = RuleSet(
    (
        _TOO_EXPENSIVE,
        _TOO_POOR,
        _BAD_KEY,
        Rule(Verdict.EXHAUST, "out of quota", statuses=(402,)),
        Rule(Verdict.EXHAUST, "out of quota", statuses=(403, 429), words=_QUOTA_WORDS),
        Rule(
            Verdict.EXHAUST,
            "out of quota",
            statuses=(400,),
            texts=("credit balance is too low", "reached your specified api usage limits"),
        ),
        Rule(Verdict.COOL, "rate limited", statuses=(429,)),
        # An organisation without access to the model or region: the account is as good as before.
        Rule(Verdict.TRY_NEXT, "not permitted", statuses=(403,)),
        Rule(Verdict.COOL, "the upstream is overloaded", statuses=(503, 529), soft=True),
        Rule(Verdict.TRY_NEXT, "the upstream gave up waiting", statuses=(408, 425)),
        Rule(Verdict.COOL, "the upstream failed", statuses=tuple(range(500, 600)), soft=True),
        _UNREACHABLE,
        # A redirect, an informational status or one beyond HTTP is no answer of an API.
        Rule(Verdict.TRY_NEXT, "the upstream's answer is unusable", statuses=_NO_STATUSES),
    )
)
"""Rules for official upstreams and what imitates them."""

SOP = RuleSet(
    (
        _TOO_EXPENSIVE,
        _TOO_POOR,
        Rule(Verdict.DISABLE, "out of quota", statuses=(402, 429)),
        _BAD_KEY,
        _UNREACHABLE,
    ),
    final="none_left",
)
"""The account-pool procedure's four tiers, to the letter (requirements 133 to 139)."""

NONE = RuleSet((_UNREACHABLE,))
"""No rules: every answer that no rule of the configuration fits goes to the client."""

RULE_SETS: dict[str, RuleSet] = {"default": DEFAULT, "sop": SOP, "none": NONE}
"""Every rule set by its name in the configuration."""
