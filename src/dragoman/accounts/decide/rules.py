"""Rule sets: what the failures of upstreams mean, as rows. The first row that fits decides.

`DEFAULT` follows what the vendors document of their statuses and codes: a 429 is mostly a passing
limit, quota has codes of its own. `SOP` is the contract of the account-pool procedure: 429 and 402
take the account out, and what no row names goes back to the client.

Sources besides the vendors' error references (OpenAI, guide "Error codes" and help articles 5955604
and 6614457; Anthropic, API reference "Errors" and "Rate limits", and the types of its SDK for
`details.error_code`): OpenRouter, "Errors and debugging"
(403 for a flagged input); Google, "Gemini API troubleshooting" (a refused key is a 400 with the
reason API_KEY_INVALID); Amazon, "Troubleshooting Amazon Bedrock API error codes"
(ServiceQuotaExceededException is a 400, to be sent again later; 424 ModelErrorException, 429
ModelNotReadyException). Words that no reference has were
reported with whole answers: github.com/openai/codex/issues/6603 (ChatGPT accounts),
anthropics/claude-code/issues/6871 and 8046 (subscriptions), 536 (Bedrock),
obot-platform/obot/issues/6747 (Bedrock), can1357/oh-my-pi/issues/39 and zai-org/GLM-5/issues/49
(Z.ai), tencentmusic/supersonic/issues/1572 and RooCodeInc/Roo-Code/issues/12309 (Alibaba Cloud),
google-gemini/gemini-cli/issues/1993 (Google's regions), continuedev/continue/issues/10298
and anomalyco/opencode/issues/12219 (OpenRouter, requests above what is left).
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.accounts.decide.limits import WINDOW_SPENT
from dragoman.failing import TEMPLATE_TEXTS, Rule, Verdict

_QUOTA_WORDS = (
    # OpenAI
    "insufficient_quota",
    "credit_balance_exhausted",
    "billing_hard_limit_reached",
    "billing_not_active",
    "organization_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "project_spend_limit_exceeded",
    "usage_not_included",
    # Anthropic
    "billing_error",
    "enforced_spend_limit_reached",
    "contract_spend_limit_reached",
    "linked_organization_spend_limit_reached",
    "linked_organization_billing_unavailable",
    # Alibaba Cloud
    "arrearage",
)
_QUOTA_TEXTS = (
    "exceeded your current quota",
    "reached your api usage limits",
    "reached your specified api usage limits",
    "reached your specified workspace api usage limits",
    "credit balance is too low",
    "insufficient balance or no resource package",  # Z.ai
    "due to overdue account",  # Alibaba Cloud
)
_WINDOW_WORDS = (WINDOW_SPENT, "usage_limit_reached")
_ABOVE_TEXTS = ("can only afford", "prompt tokens limit exceeded")
_POOR_TEXTS = ("insufficient tokens", "upgrade your plan", "limit reached")
_PLAN_TEXTS = (
    "not supported when using",  # "... when using Codex with a ChatGPT account"
    "organization must be verified",
    "not available for this key",
    "not available on your plan",
    "not available in your plan",
    "subscription plan does not yet include access",  # Z.ai, as a 429
    "have access to the model",  # Bedrock: "You don't have access to the model with ..."
    "use case details have not been submitted",  # Bedrock, as a 404
    "not authorized to perform",  # AWS: a policy of the model, or of one region
    "is not allowed to use publisher model",  # Vertex AI, as a 400
    "publisher model `",  # Vertex AI, as a 404: not in this location, or not enabled
)
"""Texts of an answer that is about the plan of one account, not about the request."""
_ASKED_TEXTS = (
    "required for long context",
    "not yet available for this subscription",
    "only authorized for use with claude code",
)
"""Texts of an answer that one account's plan lacks what the request asks for beside the model."""
_AWS_KEY_WORDS = (
    "unrecognizedclientexception",
    "invalidsignatureexception",
    "signaturedoesnotmatch",
)
_UNKNOWN_TO_AWS = (
    "security token included in the request is invalid",
    "must start with pre-defined prefix",
    "request signature we calculated does not match",
)
_PERMISSION_TEXTS = (
    "permission 'aiplatform.",  # Vertex AI
    "has not been used in project",  # Google, of an API that is not enabled
    "lacks the required data action",  # Azure
)
_NO_STATUSES = (*range(100, 400), *range(600, 1000))
_LIMITED = "rate limited"
_OUT_OF_QUOTA = "out of quota"
_TOO_LITTLE = "too little quota for this request"
_WINDOW_OVER = "its usage window is spent"
_KEY_REFUSED = "the upstream refused its key"

_TOO_EXPENSIVE = Rule(
    Verdict.RETURN_TO_CLIENT,
    "the request exceeds what any account allows",
    statuses=(403,),
    texts=("estimated cost",),
)
_TOO_POOR = Rule(Verdict.TRY_NEXT, _TOO_LITTLE, statuses=(403,), texts=_POOR_TEXTS)
_BAD_KEY = Rule(Verdict.DISABLE, _KEY_REFUSED, statuses=(401,))
_UNREACHABLE = Rule(Verdict.TRY_NEXT, "the upstream could not be reached", statuses=(0,))


class RuleSet(Struct, frozen=True):
    """A table, and which error a client gets when every account failed.

    `final` is "last" for the upstream's own last error in the client's shape, "none_left" for a
    503 whatever it was.
    """

    rules: tuple[Rule, ...]
    final: Literal["last", "none_left"] = "last"


DEFAULT = RuleSet(
    (
        _TOO_EXPENSIVE,
        _TOO_POOR,
        # Quota. Of what is left of it a request may ask for too much: a client sets its own limit.
        Rule(Verdict.EXHAUST, _OUT_OF_QUOTA, statuses=(402,), texts=("can only afford 0.",)),
        Rule(Verdict.TRY_NEXT, _TOO_LITTLE, statuses=(402,), texts=_ABOVE_TEXTS),
        Rule(Verdict.EXHAUST, _OUT_OF_QUOTA, statuses=(402,)),
        Rule(Verdict.EXHAUST, _OUT_OF_QUOTA, statuses=(400, 403, 429), words=_QUOTA_WORDS),
        # Google reports a limit per minute in the words of spent quota.
        Rule(Verdict.COOL, _LIMITED, statuses=(429,), words=("resource_exhausted",)),
        Rule(Verdict.EXHAUST, _OUT_OF_QUOTA, statuses=(400, 403, 429), texts=_QUOTA_TEXTS),
        Rule(Verdict.EXHAUST, _WINDOW_OVER, statuses=(403, 429), words=_WINDOW_WORDS),
        # Keys and organisations that are refused.
        Rule(
            Verdict.TRY_NEXT,
            "its key is not for our network address",
            statuses=(401,),
            words=("ip_not_authorized",),
        ),
        Rule(
            Verdict.TRY_NEXT,
            "the upstream does not serve our network address",
            statuses=(400,),
            texts=("user location is not supported",),
        ),
        _BAD_KEY,
        Rule(Verdict.DISABLE, _KEY_REFUSED, statuses=(400, 403), words=("api_key_invalid",)),
        Rule(
            Verdict.DISABLE,
            "its organisation is disabled",
            statuses=(400, 403),
            texts=("organization has been disabled",),
        ),
        Rule(Verdict.DISABLE, "AWS does not know its key", statuses=(403,), words=_AWS_KEY_WORDS),
        Rule(Verdict.DISABLE, "AWS does not know its key", statuses=(403,), texts=_UNKNOWN_TO_AWS),
        Rule(
            Verdict.COOL,
            "its session token has expired",
            statuses=(400, 403),
            words=("expiredtokenexception",),
            every_model=True,
        ),
        Rule(
            Verdict.COOL,
            "its permissions do not allow the call",
            statuses=(403,),
            texts=_PERMISSION_TEXTS,
            every_model=True,
        ),
        # Limits that do not concern the account's next request.
        Rule(
            Verdict.TRY_NEXT,
            "the request is larger than its limits allow",
            statuses=(429,),
            texts=("request too large for",),
        ),
        Rule(
            Verdict.TRY_NEXT,
            "its plan lacks what the request asks for",
            statuses=(400, 403, 429),
            texts=_ASKED_TEXTS,
        ),
        Rule(
            Verdict.COOL,
            "its plan lacks the model",
            statuses=(400, 403, 404, 429),
            texts=_PLAN_TEXTS,
            soft=True,
        ),
        Rule(
            Verdict.COOL,
            "the model is starting",
            statuses=(429,),
            words=("modelnotreadyexception",),
            soft=True,
        ),
        Rule(Verdict.COOL, _LIMITED, statuses=(429,)),
        Rule(Verdict.COOL, _LIMITED, statuses=(400,), words=("servicequotaexceededexception",)),
        # A 403 is about the account, but for an input that was flagged. The account without access
        # to a model is avoided for it; otherwise it is as good as before.
        Rule(
            Verdict.RETURN_TO_CLIENT,
            "the input was flagged",
            statuses=(403,),
            texts=("input was flagged",),
        ),
        Rule(
            Verdict.COOL,
            "it has no access to the model",
            statuses=(403,),
            words=("model_not_found",),
            soft=True,
        ),
        Rule(Verdict.TRY_NEXT, "not permitted", statuses=(403,)),
        # The service as a whole.
        Rule(Verdict.COOL, "the upstream is overloaded", statuses=(503, 529), soft=True),
        Rule(Verdict.TRY_NEXT, "the upstream gave up waiting", statuses=(408, 425, 499)),
        Rule(Verdict.COOL, "the model failed", statuses=(424,), soft=True),
        Rule(
            Verdict.COOL,
            "it has no such model where it is",
            statuses=(404,),
            words=("resourcenotfoundexception",),
            soft=True,
        ),
        Rule(Verdict.TRY_NEXT, "the host does not serve this name", statuses=(421,)),
        Rule(
            Verdict.RETURN_TO_CLIENT,
            "the model's chat template refuses the conversation",
            statuses=(500,),
            texts=TEMPLATE_TEXTS,
        ),
        Rule(
            Verdict.RETURN_TO_CLIENT,
            "the conversation is too long",
            statuses=(500,),
            words=("exceed_context_size_error", "context_length_exceeded"),
        ),
        Rule(
            Verdict.RETURN_TO_CLIENT,
            "the model's output cannot be read",  # llama.cpp
            statuses=(500,),
            texts=("the model produced output that does not match",),
        ),
        Rule(Verdict.COOL, "the upstream failed", statuses=tuple(range(500, 600)), soft=True),
        _UNREACHABLE,
        # A redirect, an informational status or one beyond HTTP is no answer of an API.
        Rule(Verdict.TRY_NEXT, "the upstream's answer is unusable", statuses=_NO_STATUSES),
    )
)
"""Rules for official upstreams and what imitates them. What no row names (400, 404, 409, 413, 422
and such) is the request's own fault: it goes to the client, and the account is not punished. That
includes a model that does not exist: other accounts of one upstream have the same models, and
those that differ are configured with `models`."""

SOP = RuleSet(
    (
        _TOO_EXPENSIVE,
        _TOO_POOR,
        Rule(Verdict.DISABLE, _OUT_OF_QUOTA, statuses=(402, 429)),
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


def table(name: str, own: tuple[Rule, ...]) -> RuleSet:
    """The shipped table `name` after an upstream's own rows."""
    shipped = RULE_SETS[name]
    return RuleSet(own + shipped.rules, shipped.final) if own else shipped
