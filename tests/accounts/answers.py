"""What upstreams answer, and what that means: the first half of the decision table.

Each row tells what becomes of the request and of an account of which nothing was known before, by
the rules `default` and `sop`.
"""

from __future__ import annotations

from dragoman.canonical.errors import FaultKind
from tests.accounts.shapes import (
    CLIENT,
    DROPPED,
    NEXT,
    Answer,
    Fate,
    Nothing,
    Row,
    anthropic,
    aws,
    codex,
    epoch,
    google,
    inside,
    last,
    openai,
    out,
    rests,
    unified,
)

SPENT_TEXT = (
    "You have reached your specified API usage limits. You will regain access on 2026-12-01"
)
LOW_TEXT = "Your credit balance is too low to access the Anthropic API."
SLOW_TEXT = "Rate limit reached for gpt-5 on tokens per min (TPM). Please try again in 1.5s."
LARGE_TEXT = "Request too large for gpt-5 on tokens per min (TPM): Limit 30000, Requested 31538."
QUOTA_TEXT = "You exceeded your current quota, please check your plan and billing details."
PLAN_TEXT = "The 'gpt-5' model is not supported when using Codex with a ChatGPT account."
ABOVE_TEXT = "Prompt tokens limit exceeded: 230799 > 91442."
AFFORD_TEXT = "Fewer max_tokens are required. You requested up to 4096, but can only afford "
UNREAD = "The model produced output that does not match the expected peg-native format"
BETA_TEXT = "The long context beta is not yet available for this subscription."
CREDENTIAL_TEXT = (
    "This credential is only authorized for use with Claude Code and cannot be used ..."
)
LONG_TEXT = "Extra usage is required for long context requests."

NOT_MANAGED = "User: arn:aws:iam::1:user/x is not authorized to perform: bedrock:InvokeModel"
ON_DEMAND = (
    "Invocation of model ID anthropic.m with on-demand throughput isn\u2019t supported. Retry"
)
BUSY = "Too many tokens, please wait before trying again."
IN_PROJECT = (
    "Project `1` is not allowed to use Publisher Model `projects/p/locations/l/publishers/a`"
)
BASE_MODEL = (
    "Quota exceeded for aiplatform.googleapis.com/online_prediction_requests_per_base_model"
)
AUDIENCE = "Access token is missing, invalid, audience is incorrect (https://x), or have expired."
ROLE = "The principal `x` lacks the required data action `Microsoft.CognitiveServices/accounts/...`"


def everywhere(length: str) -> Fate:
    """The account is not used for any model."""
    return "next account", f"rests {length}, for every model"


TABLE: dict[str, tuple[Row, ...]] = {
    "The request is at fault": (
        Row("400", openai(400, None, "Bad", "invalid_request_error"), CLIENT, CLIENT),
        Row("400 from Anthropic", anthropic(400, "invalid_request_error", "x"), CLIENT, CLIENT),
        Row(
            "400, the conversation is too long for the model",
            openai(400, "context_length_exceeded", "This model's maximum context length is ..."),
            CLIENT,
            CLIENT,
        ),
        Row("400 without a body", Answer(400), CLIENT, CLIENT),
        Row("404, the model does not exist", openai(404, "model_not_found"), CLIENT, CLIENT),
        Row("404 from Anthropic", anthropic(404, "not_found_error", "x"), CLIENT, CLIENT),
        Row("405", Answer(405), CLIENT, CLIENT),
        Row("409", anthropic(409, "conflict_error"), CLIENT, CLIENT),
        Row("413", anthropic(413, "request_too_large"), CLIENT, CLIENT),
        Row("415", Answer(415), CLIENT, CLIENT),
        Row("422", openai(422, None, "Bad"), CLIENT, CLIENT),
        Row("451", Answer(451), CLIENT, CLIENT),
        Row(
            '403, "estimated cost" in its text',
            openai(403, None, "Estimated cost 12.50 exceeds the limit"),
            CLIENT,
            CLIENT,
        ),
        Row(
            "403, OpenRouter's moderation",
            openai(403, None, "Your chosen model requires moderation and your input was flagged"),
            CLIENT,
            CLIENT,
        ),
    ),
    "A limit that passes": (
        Row("429 without a word", Answer(429), rests("2 s"), DROPPED),
        Row(
            "429 `rate_limit_exceeded`",
            openai(429, "rate_limit_exceeded", kind="requests"),
            rests("2 s"),
            DROPPED,
        ),
        Row("429 `slow_down`", openai(429, "slow_down"), rests("2 s"), DROPPED),
        Row("429 `rate_limit_error`", anthropic(429, "rate_limit_error"), rests("2 s"), DROPPED),
        Row(
            "429 `ramp_limit_exceeded`",
            anthropic(429, "rate_limit_error", code="ramp_limit_exceeded"),
            rests("2 s"),
            DROPPED,
        ),
        Row(
            "429, `retry-after: 20`",
            openai(429, "rate_limit_exceeded", retry_after="20"),
            rests("20 s"),
            DROPPED,
        ),
        Row(
            "429, `retry-after-ms: 1500`",
            openai(429, "rate_limit_exceeded", retry_after="2", retry_after_ms="1500"),
            rests("1.5 s"),
            DROPPED,
        ),
        Row(
            "429, `retry-after` as a date 45 s ahead",
            openai(429, "slow_down", retry_after="Sat, 21 Nov 2026 00:00:45 GMT"),
            rests("45 s"),
            DROPPED,
        ),
        Row("429, `retry-after: 0`", openai(429, retry_after="0"), rests("0.5 s"), DROPPED),
        Row(
            "429, `retry-after` of two days: longer than any passing limit",
            openai(429, retry_after="172800"),
            rests("1 h"),
            DROPPED,
        ),
        Row(
            '429, "Please try again in 1.5s"',
            openai(429, "rate_limit_exceeded", SLOW_TEXT, "tokens"),
            rests("1.5 s"),
            DROPPED,
        ),
        Row(
            '429, "Please try again in 7m12s"',
            openai(429, "rate_limit_exceeded", "Please try again in 7m12s."),
            rests("7.2 min"),
            DROPPED,
        ),
        Row(
            "429 from Google with a `RetryInfo` of 34 s",
            google(429, "RESOURCE_EXHAUSTED", QUOTA_TEXT, reason="RATE_LIMIT", retryDelay="34s"),
            rests("34 s"),
            DROPPED,
        ),
        Row(
            "429, no tokens remain and `x-ratelimit-reset-tokens` is `1m4s`",
            openai(
                429,
                "rate_limit_exceeded",
                x_ratelimit_remaining_requests="12",
                x_ratelimit_reset_requests="20h0m0s",
                x_ratelimit_remaining_tokens="0",
                x_ratelimit_reset_tokens="1m4s",
            ),
            rests("1.07 min"),
            DROPPED,
        ),
        Row(
            "429, OpenAI's headers show that something remains of every limit",
            openai(
                429,
                "rate_limit_exceeded",
                x_ratelimit_remaining_requests="12",
                x_ratelimit_reset_requests="20h0m0s",
            ),
            rests("2 s"),
            DROPPED,
        ),
        Row(
            "429, no input tokens remain and their `anthropic-ratelimit-` reset is 30 s ahead",
            anthropic(
                429,
                "rate_limit_error",
                anthropic_ratelimit_input_tokens_remaining="0",
                anthropic_ratelimit_input_tokens_reset="2026-11-21T00:00:30Z",
                anthropic_ratelimit_requests_remaining="49",
                anthropic_ratelimit_requests_reset="2026-11-21T00:59:00Z",
            ),
            rests("30 s"),
            DROPPED,
        ),
        Row(
            "429, `x-ratelimit-remaining: 0` and its reset 5 s ahead in milliseconds",
            openai(429, x_ratelimit_remaining="0", x_ratelimit_reset=epoch(5) + "000"),
            rests("5 s"),
            DROPPED,
        ),
        Row(
            "429 to a Claude subscription, no window of which is at its end",
            unified("allowed", **{"5h_reset": epoch(9000), "7d_reset": epoch(500_000)}),
            rests("2 s"),
            DROPPED,
        ),
        Row(
            "429 to a Claude subscription whose weekly window for one model is at its end",
            unified("rejected", **{"7d_opus_status": "rejected", "7d_opus_reset": epoch(90_000)}),
            rests("1 h"),
            DROPPED,
        ),
        Row("429 to a ChatGPT subscription used to 64 %", codex("64"), rests("2 s"), DROPPED),
        Row(
            "400 `ServiceQuotaExceededException` from Bedrock",
            openai(400, "ServiceQuotaExceededException"),
            rests("2 s"),
            CLIENT,
        ),
    ),
    "A limit that this request alone exceeds": (
        Row(
            '429, "Request too large for ..."',
            openai(429, "rate_limit_exceeded", LARGE_TEXT, "tokens"),
            NEXT,
            DROPPED,
        ),
        Row(
            '429, "Extra usage is required for long context requests"',
            anthropic(429, "rate_limit_error", LONG_TEXT),
            NEXT,
            DROPPED,
        ),
        Row('403, "insufficient tokens"', openai(403, None, "Insufficient tokens"), NEXT, NEXT),
        Row('403, "upgrade your plan"', openai(403, None, "Please UPGRADE your plan"), NEXT, NEXT),
        Row('403, "limit reached"', openai(403, None, "Monthly limit reached"), NEXT, NEXT),
        Row("403, the same as plain text", Answer(403, b"insufficient tokens"), NEXT, NEXT),
        Row('402, "Prompt tokens limit exceeded"', openai(402, None, ABOVE_TEXT), NEXT, DROPPED),
        Row('402, "can only afford 4000"', openai(402, None, AFFORD_TEXT + "4000."), NEXT, DROPPED),
    ),
    "Quota": (
        Row("402", Answer(402), out("1 h"), DROPPED),
        Row('402, "can only afford 0"', openai(402, None, AFFORD_TEXT + "0."), out("1 h"), DROPPED),
        Row("402 `billing_error`", anthropic(402, "billing_error"), out("1 h"), DROPPED),
        Row("402, `retry-after: 600`", openai(402, retry_after="600"), out("10 min"), DROPPED),
        Row(
            "429 `insufficient_quota`",
            openai(429, "insufficient_quota", QUOTA_TEXT),
            out("1 h"),
            DROPPED,
        ),
        Row(
            "429 `insufficient_quota`, `retry-after: 1`",
            openai(429, "insufficient_quota", retry_after="1"),
            out("15 s"),
            DROPPED,
        ),
        Row(
            "429 `credit_balance_exhausted`",
            openai(429, "credit_balance_exhausted", kind="insufficient_quota"),
            out("1 h"),
            DROPPED,
        ),
        Row(
            "429 `billing_hard_limit_reached`",
            openai(429, "billing_hard_limit_reached"),
            out("1 h"),
            DROPPED,
        ),
        Row(
            "400 `billing_hard_limit_reached`",
            openai(400, "billing_hard_limit_reached"),
            out("1 h"),
            CLIENT,
        ),
        Row(
            "429 `project_spend_limit_exceeded`",
            openai(429, "project_spend_limit_exceeded", kind="insufficient_quota"),
            out("1 h"),
            DROPPED,
        ),
        Row(
            "429 `organization_spend_limit_exceeded`",
            openai(429, "organization_spend_limit_exceeded", kind="rate_limit_error"),
            out("1 h"),
            DROPPED,
        ),
        Row(
            "429 `organization_usage_limit_exceeded`",
            openai(429, "organization_usage_limit_exceeded", kind="rate_limit_error"),
            out("1 h"),
            DROPPED,
        ),
        Row("429 `billing_not_active`", openai(429, "billing_not_active"), out("1 h"), DROPPED),
        Row(
            '429, "You exceeded your current quota" and no code',
            openai(429, None, QUOTA_TEXT),
            out("1 h"),
            DROPPED,
        ),
        Row("403 `insufficient_quota`", openai(403, "insufficient_quota"), out("1 h"), CLIENT),
        Row(
            "400 from Alibaba Cloud, `Arrearage`",
            openai(400, "Arrearage", "Access denied, please make sure your account is in good ..."),
            out("1 h"),
            CLIENT,
        ),
        Row(
            '403 from Alibaba Cloud, "Access denied due to overdue account"',
            openai(403, None, "Access denied due to overdue account"),
            out("1 h"),
            CLIENT,
        ),
        Row(
            '429 from Z.ai, "Insufficient balance or no resource package"',
            openai(429, "1113", "Insufficient balance or no resource package. Please recharge."),
            out("1 h"),
            DROPPED,
        ),
        Row(
            "429 `enforced_spend_limit_reached`, access again on 1 December",
            anthropic(429, "rate_limit_error", SPENT_TEXT, "enforced_spend_limit_reached"),
            out("10 d"),
            DROPPED,
        ),
        Row(
            "429 `contract_spend_limit_reached`",
            anthropic(429, "rate_limit_error", "x", "contract_spend_limit_reached"),
            out("1 h"),
            DROPPED,
        ),
        Row(
            '400, "Your credit balance is too low"',
            anthropic(400, "invalid_request_error", LOW_TEXT),
            out("1 h"),
            CLIENT,
        ),
        Row(
            '400, "You have reached your specified API usage limits", access again on 1 December',
            anthropic(400, "invalid_request_error", SPENT_TEXT),
            out("10 d"),
            CLIENT,
        ),
        Row(
            '400, "You have reached your specified workspace API usage limits"',
            anthropic(400, "invalid_request_error", SPENT_TEXT.replace("API", "workspace API")),
            out("10 d"),
            CLIENT,
        ),
        Row(
            "429 to a Claude subscription whose 5-hour window is at its end",
            unified(
                "rejected",
                **{
                    "5h_status": "rejected",
                    "5h_reset": epoch(7200),
                    "7d_status": "allowed",
                    "7d_reset": epoch(500_000),
                },
            ),
            out("2 h"),
            DROPPED,
        ),
        Row(
            "429 to a Claude subscription, both windows of which are at their end",
            unified(
                "rejected",
                **{
                    "5h_status": "rejected",
                    "5h_reset": epoch(7200),
                    "7d_status": "rejected",
                    "7d_reset": epoch(432_000),
                },
            ),
            out("5 d"),
            DROPPED,
        ),
        Row(
            "429 to a Claude subscription that tells only which window decides",
            unified("rejected", representative_claim="five_hour", reset=epoch(1800)),
            out("30 min"),
            DROPPED,
        ),
        Row(
            "429 to a ChatGPT subscription used to 100 %",
            codex("100", "usage_limit_reached"),
            out("2 h"),
            DROPPED,
        ),
        Row(
            "429 `usage_limit_reached`, `resets_in_seconds` 5400",
            Answer(429, {"error": {"type": "usage_limit_reached", "resets_in_seconds": 5400}}),
            out("1.5 h"),
            DROPPED,
        ),
    ),
    "The key, or what it may do": (
        Row("401", Answer(401), DROPPED, DROPPED),
        Row("401 `invalid_api_key`", openai(401, "invalid_api_key"), DROPPED, DROPPED),
        Row("401 `authentication_error`", anthropic(401, "authentication_error"), DROPPED, DROPPED),
        Row(
            "401 `ip_not_authorized`: the key is not for our network address",
            openai(401, "ip_not_authorized"),
            NEXT,
            DROPPED,
        ),
        Row(
            "400 from Google, `API_KEY_INVALID`",
            google(400, "INVALID_ARGUMENT", "API key not valid.", reason="API_KEY_INVALID"),
            DROPPED,
            CLIENT,
        ),
        Row(
            '400, "This organization has been disabled"',
            anthropic(400, "invalid_request_error", "This organization has been disabled."),
            DROPPED,
            CLIENT,
        ),
        Row(
            "403 `permission_error`",
            anthropic(403, "permission_error", "Not allowed"),
            NEXT,
            CLIENT,
        ),
        Row("403 without a body", Answer(403), NEXT, CLIENT),
        Row(
            "403 `unsupported_country_region_territory`",
            openai(403, "unsupported_country_region_territory"),
            NEXT,
            CLIENT,
        ),
        Row(
            "403 `model_not_found`: no access to this model",
            openai(403, "model_not_found"),
            last("1 s"),
            CLIENT,
        ),
        Row(
            '400, "The model is not supported when using Codex with a ChatGPT account"',
            openai(400, None, PLAN_TEXT),
            last("1 s"),
            CLIENT,
        ),
        Row(
            '403, "Your organization must be verified to use the model"',
            openai(403, None, "Your organization must be verified to use the model `o3`."),
            last("1 s"),
            CLIENT,
        ),
        Row(
            '404, "not available for this key"',
            openai(404, "model_not_found", "The model is not available for this key."),
            last("1 s"),
            CLIENT,
        ),
        Row(
            '404 from Bedrock, "use case details have not been submitted"',
            Answer(404, {"message": "Model use case details have not been submitted for this ..."}),
            last("1 s"),
            CLIENT,
        ),
        Row(
            '403 from Bedrock, "You don\'t have access to the model"',
            Answer(403, {"message": "You don't have access to the model with the specified ..."}),
            last("1 s"),
            CLIENT,
        ),
        Row(
            '429 from Z.ai, "subscription plan does not yet include access"',
            openai(429, "1311", "Your current subscription plan does not yet include access to X"),
            last("1 s"),
            DROPPED,
        ),
        Row(
            '400, "The long context beta is not yet available for this subscription"',
            anthropic(400, "invalid_request_error", BETA_TEXT),
            NEXT,
            CLIENT,
        ),
        Row(
            '400, "This credential is only authorized for use with Claude Code"',
            anthropic(400, "invalid_request_error", CREDENTIAL_TEXT),
            NEXT,
            CLIENT,
        ),
        Row(
            '400 from Google, "User location is not supported"',
            google(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
            NEXT,
            CLIENT,
        ),
    ),
    "The service fails": (
        Row(
            "500", openai(500, None, "The server had an error", "server_error"), last("1 s"), CLIENT
        ),
        Row("500 from llama.cpp for its model's output", openai(500, None, UNREAD), CLIENT, CLIENT),
        Row("502 with a page of HTML", Answer(502, b"<html>Bad gateway"), last("1 s"), CLIENT),
        Row("503", openai(503, "server_is_overloaded"), last("1 s"), CLIENT),
        Row("503, `retry-after: 30`", openai(503, retry_after="30"), rests("30 s"), CLIENT),
        Row("503, `retry-after: 7200`", openai(503, retry_after="7200"), rests("5 min"), CLIENT),
        Row("504", anthropic(504, "timeout_error"), last("1 s"), CLIENT),
        Row("520 from a proxy in front", Answer(520), last("1 s"), CLIENT),
        Row("529 `overloaded_error`", anthropic(529, "overloaded_error"), last("1 s"), CLIENT),
        Row("408", Answer(408), NEXT, CLIENT),
        Row("421", Answer(421), NEXT, CLIENT),
        Row("425", Answer(425), NEXT, CLIENT),
        Row("a redirect", Answer(307), NEXT, CLIENT),
        Row("a status that HTTP does not have", Answer(799), NEXT, CLIENT),
        Row("no answer: refused, reset, or too late", Nothing(), NEXT, NEXT),
    ),
    "A cloud refuses": (
        Row(
            "400 from AWS, the conversation is too long",
            aws(400, "ValidationException", "Input is too long for requested model."),
            CLIENT,
            CLIENT,
        ),
        Row(
            "400 from AWS, a name that is not served so",
            aws(400, "ValidationException", ON_DEMAND),
            CLIENT,
            CLIENT,
        ),
        Row(
            "400 `ServiceQuotaExceededException` from AWS",
            aws(400, "ServiceQuotaExceededException", "Your request exceeds the service quota."),
            rests("2 s"),
            CLIENT,
        ),
        Row(
            "403 `ExpiredTokenException` from AWS",
            aws(403, "ExpiredTokenException", "The security token included in ... is expired"),
            everywhere("2 s"),
            CLIENT,
        ),
        Row(
            "403 `UnrecognizedClientException` from AWS",
            aws(403, "UnrecognizedClientException", "The security token included is invalid."),
            DROPPED,
            CLIENT,
        ),
        Row(
            '403 from AWS, "Invalid API Key format"',
            aws(403, "AccessDeniedException", "Must start with pre-defined prefix"),
            DROPPED,
            CLIENT,
        ),
        Row(
            "403 `InvalidSignatureException` from AWS",
            aws(403, "InvalidSignatureException", "The request signature we calculated ..."),
            DROPPED,
            CLIENT,
        ),
        Row(
            '403 `AccessDeniedException` from AWS, "is not authorized to perform"',
            aws(403, "AccessDeniedException", NOT_MANAGED),
            last("1 s"),
            CLIENT,
        ),
        Row(
            "404 `ResourceNotFoundException` from AWS",
            aws(404, "ResourceNotFoundException", "Could not resolve the foundation model"),
            last("1 s"),
            CLIENT,
        ),
        Row(
            "408 `ModelTimeoutException` from AWS",
            aws(408, "ModelTimeoutException", "Model has timed out in processing the request."),
            NEXT,
            CLIENT,
        ),
        Row(
            "424 `ModelErrorException` from AWS",
            aws(424, "ModelErrorException", "The system encountered an unexpected error."),
            last("1 s"),
            CLIENT,
        ),
        Row(
            '429 `ThrottlingException` from AWS, "Too many tokens, please wait"',
            aws(429, "ThrottlingException", BUSY),
            rests("2 s"),
            DROPPED,
        ),
        Row(
            '429 from AWS, "Too many tokens per day"',
            aws(429, "ThrottlingException", "Too many tokens per day, please wait before ..."),
            rests("1 h"),
            DROPPED,
        ),
        Row(
            "429 `ModelNotReadyException` from AWS",
            aws(429, "ModelNotReadyException", "Model is not ready for inference."),
            last("1 s"),
            DROPPED,
        ),
        Row(
            "403 from Vertex AI, no permission",
            google(403, "PERMISSION_DENIED", "Permission 'aiplatform.endpoints.predict' denied"),
            everywhere("2 s"),
            CLIENT,
        ),
        Row(
            "400 from Vertex AI, a model that the project may not use",
            google(400, "FAILED_PRECONDITION", IN_PROJECT),
            last("1 s"),
            CLIENT,
        ),
        Row(
            "404 from Vertex AI, a model that is not in this location",
            google(404, "NOT_FOUND", "Publisher Model `projects/p/locations/l` was not found"),
            last("1 s"),
            CLIENT,
        ),
        Row(
            "429 from Vertex AI, a quota of requests",
            google(429, "RESOURCE_EXHAUSTED", BASE_MODEL),
            rests("2 s"),
            DROPPED,
        ),
        Row("499 from Vertex AI", google(499, "CANCELLED", "It was cancelled."), NEXT, CLIENT),
        Row(
            "400 `content_filter` from Azure",
            openai(400, "content_filter", "The response was filtered due to the prompt ..."),
            CLIENT,
            CLIENT,
        ),
        Row(
            "401 from Azure, a token for something else",
            Answer(401, {"statusCode": 401, "message": f"Unauthorized. {AUDIENCE}"}),
            DROPPED,
            DROPPED,
        ),
        Row(
            "403 from Azure, a role is missing",
            openai(403, "PermissionDenied", ROLE),
            everywhere("2 s"),
            CLIENT,
        ),
        Row(
            '429 from Azure, "Please retry after 26 seconds"',
            openai(429, "429", "Requests have exceeded token rate limit. Retry after 26 seconds."),
            rests("26 s"),
            DROPPED,
        ),
        Row(
            "404 `DeploymentNotFound` from Azure",
            openai(404, "DeploymentNotFound", "The API deployment ... does not exist."),
            CLIENT,
            CLIENT,
        ),
    ),
    "An error in a stream that began well, before any content": (
        Row("overloaded", inside(FaultKind.OVERLOADED), last("1 s"), CLIENT),
        Row("failed", inside(FaultKind.UPSTREAM_FAILED, "server_error"), last("1 s"), CLIENT),
        Row("too late", inside(FaultKind.UPSTREAM_TIMEOUT), last("1 s"), CLIENT),
        Row(
            '`rate_limit_exceeded`, "Please try again in 1.5s"',
            inside(FaultKind.RATE_LIMITED, "rate_limit_exceeded", SLOW_TEXT),
            rests("1.5 s"),
            DROPPED,
        ),
        Row(
            "`insufficient_quota`",
            inside(FaultKind.RATE_LIMITED, "insufficient_quota"),
            out("1 h"),
            DROPPED,
        ),
        Row("payment required", inside(FaultKind.PAYMENT_REQUIRED), out("1 h"), DROPPED),
        Row("the key is refused", inside(FaultKind.UNAUTHENTICATED), DROPPED, DROPPED),
        Row("not permitted", inside(FaultKind.FORBIDDEN), NEXT, CLIENT),
        Row("the request is invalid", inside(FaultKind.INVALID_REQUEST), CLIENT, CLIENT),
        Row("the conversation is too long", inside(FaultKind.CONTEXT_TOO_LONG), CLIENT, CLIENT),
    ),
}
"""Rows by situation."""
