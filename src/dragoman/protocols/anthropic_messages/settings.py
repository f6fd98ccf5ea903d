"""Translation settings of the Messages protocol."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from dragoman.canonical.options import Options
from dragoman.canonical.requests import Request


class MessagesOptions(Struct, frozen=True, kw_only=True):
    """How requests are written for Messages upstreams."""

    trailing_assistant: Literal["pass", "reject"] = "pass"
    """A final assistant message toward Messages upstreams, where it becomes a prefill."""
    default_max_tokens: Annotated[int, Meta(ge=1)] = 16384
    """Output limit, in tokens, sent to Messages upstreams when the client gave none."""


_OLD: Final = ("2023-06-01", "bedrock-2023-05-31", "vertex-2023-10-16")


class MessagesCapabilities(Struct, frozen=True, kw_only=True):
    """What one Messages upstream accepts and needs."""

    anthropic_version: str = "2026-10-21"
    """Value of the `anthropic-version` header. With `2023-06-01`, temperature, top_p and top_k
    are sent; with later versions they are refused upstream and therefore dropped here. With
    `service`, it is `anthropic_version` in the body; absent: the client's own date, if the service
    takes it, else `bedrock-2023-05-31` or `vertex-2023-10-16`, which are as the old version."""
    client_versions: bool = True
    """The service of a cloud takes the date of the API version that a client names. Where it
    refuses, that is remembered."""
    omit_betas: tuple[str, ...] = ()
    """Names in `anthropic-beta`, `*` for all, that are not sent; each is reported as a loss. Those
    that the upstream refuses are remembered."""
    adaptive_thinking: bool = True
    """Messages upstream takes `thinking: adaptive` with an effort; otherwise token budgets."""
    thinks_unasked: bool = False
    """The model thinks unless it is asked not to, and so refuses that a tool is to be called in any
    case: it is asked not to think then. Where it refuses, that is remembered."""
    disable_thinking: bool = True
    """Messages upstream takes `thinking: disabled`."""
    thinking_budgets: dict[str, Annotated[int, Meta(ge=0)]] = field(
        default_factory=lambda: {
            "minimal": 1024,
            "low": 2048,
            "medium": 8192,
            "high": 16384,
            "xhigh": 32768,
            "max": 65536,
        }
    )
    """Token budget per effort for Messages upstreams without adaptive thinking."""
    billing_header: bool | None = None
    """Messages upstream is sent the text that Claude Code puts before its system prompt, which
    bills a subscription and is new with every request: before any other service's prompt cache it
    spoils all that follows. Absent: only where the host of `base_url` is Anthropic's own."""
    auto_cache: bool = False
    """Ask Messages upstreams to cache by themselves for clients of other protocols, as OpenAI
    upstreams do. Anthropic's own has `true` if it is not set."""
    cache_ttl_30m_as: Literal["5m", "1h"] = "5m"
    """Cache lifetime asked of Messages upstreams for OpenAI's 30 minutes."""

    @property
    def is_vendors(self) -> bool:
        """Whether it is the vendor's own service."""
        return bool(self.billing_header)

    @property
    def is_old(self) -> bool:
        """Whether it is the version that still takes sampling, and media of the assistant."""
        return self.anthropic_version in _OLD


def output_limit(request: Request, options: Options) -> int | None:
    """The output limit that a request has when it is written: the protocol requires one."""
    if request.max_output_tokens is not None:
        return request.max_output_tokens
    return options.of(MessagesOptions).default_max_tokens
