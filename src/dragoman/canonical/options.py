"""Options of a route and capabilities of an upstream: the settings that translation depends on.

The settings here apply to every protocol. A protocol declares its own as structs of its package
(`Endpoint.capabilities`, `Translate.options`); they travel inside these, see `Extensible.of`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from dragoman.canonical.losses import Policy

S = TypeVar("S", bound=Struct)


class Extensible(Struct, frozen=True, kw_only=True):
    """Settings of all protocols, with room for those of single ones."""

    own: Mapping[type[Struct], Any] = {}
    """The settings of single protocols, by the struct that declares them."""
    given: frozenset[str] = frozenset()
    """Names of the settings that were set, even to their default; those of protocols included."""

    def of(self, kind: type[S]) -> S:
        """The settings that a protocol declares as `kind`, with their defaults if none are set."""
        found: S | None = self.own.get(kind)
        return _defaults(kind) if found is None else found


@lru_cache(maxsize=64)
def _defaults(kind: type[S]) -> S:
    return kind()


class Options(Extensible, frozen=True, kw_only=True):
    """How requests and answers of one route are translated."""

    policy: Policy = Policy.BALANCED
    """Which losses refuse a request: strict, balanced or lenient."""
    budget_status: Literal[400, 402, 403, 429] | None = None
    """Status of the error for a key whose budget is spent; absent: the
    vendor's own, 402 for Messages clients and 429 for OpenAI's. opencode, which asks again five
    times after any 429, stops at 402."""
    show_reasoning: Literal["auto", "always", "never"] = "auto"
    """Whether clients see reasoning. `auto`: Messages clients that enabled thinking, and all
    Chat and Responses clients."""
    reasoning_details: bool = False
    """Give Chat clients `reasoning_details` entries that carry signatures and encrypted
    reasoning, so that they can send them back."""
    invalid_tool_arguments: Literal["wrap", "error", "empty"] = "wrap"
    """Tool arguments in a client's history that are not a JSON object: wrapped as
    `{"invalid_arguments": text}` and reported, refused, or replaced by `{}` and reported."""
    custom_tools: Literal["wrap", "reject"] = "wrap"
    """Free-text tools where the upstream has none: emulated by a function with one string,
    or treated as lost content."""
    hosted_tools: Literal["drop", "reject", "map", "search"] = "drop"
    """Vendor-run tools where the upstream has none: dropped and reported, or treated as lost
    content. `map` makes a web search of one vendor the other's, between Messages and Responses and
    from Chat's `web_search_options`, and drops the others. `search` has web searches made by the
    engine of `[search]`, and drops the others: the default where that is set."""
    orphan_calls: Literal["repair", "reject"] = "repair"
    """Tool calls without a result: a synthetic error result is added, or the request refused."""
    orphan_results: Literal["reject", "drop", "text"] = "reject"
    """Tool results without a call: refused as lost content, dropped, or given as user text."""
    tool_error_prefix: str = ""
    """Text put before a failed tool's output where the upstream has no error flag."""
    interleaved_tools: Literal["buffer", "error"] = "buffer"
    """Fragments of a tool call that is no longer the open one: buffered, or an upstream error."""
    keepalive: Literal["usual", "numbered", "off"] = "usual"
    """Signs of life in silent streams: what every client of the protocol ignores, in Responses
    streams `ping` events that count in the sequence, or none."""
    stop_on_responses: Literal["emulate", "reject", "drop"] = "emulate"
    """Stop sequences toward Responses upstreams, which have none: emulated, so that the answer is
    cut here at the first and the upstream's call ended; treated as lost content; or dropped. What
    Chat upstreams (more than four) and Messages upstreams (blank ones) do not take is emulated as
    well."""
    map_fast: bool = False
    """Translate `service_tier: fast|priority` to and from `speed: fast`."""

    @property
    def maps_searches(self) -> bool:
        """Whether a web search of the client's vendor is made, by another vendor or here."""
        return self.hosted_tools in ("map", "search")

    def __post_init__(self) -> None:
        """Raises ValueError for a policy that does not exist."""
        if type(self.policy) is not Policy:
            force_setattr(self, "policy", Policy(self.policy))


class Capabilities(Extensible, frozen=True, kw_only=True):
    """What one upstream accepts and needs."""

    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    """The most tokens that the model can answer with. A higher limit in a request is lowered to it
    and reported as a loss; a request without a limit stays without one."""
    context_window: Annotated[int, Meta(ge=1)] | None = None
    """The most tokens of a conversation with its answer. Lists of models report it to agents, which
    compact before it is full: the least of it and of what the route's upstreams list; 128,000 for
    Codex where neither is known."""
    stream_above: Annotated[int, Meta(ge=0)] | None = None
    """Whole answers that may have more tokens than this are asked for as streams and put together
    here, where they are translated: what is silent for minutes is cut by proxies on the way.
    Absent: 21,333 for Messages upstreams, above which the vendor's SDKs refuse to wait, and no
    such limit for others."""
    images: bool = True
    """The upstream takes images."""
    strict_tools: bool = True
    """The upstream takes `strict` on function tools."""
    structured_output: bool = True
    """The upstream takes a JSON schema for its answer."""
    sampling: bool = True
    """The upstream takes temperature and top_p (reasoning models do not)."""
    efforts: tuple[str, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    """Effort words the upstream knows; others are replaced by the nearest lower one."""
    late_system: Literal["message", "user", "hoist"] = "message"
    """System and developer messages after the beginning of a conversation: left where they are, if
    that is valid; given as user text in their place, between `<system-reminder>` lines; or moved to
    the front, which costs the upstream's prompt cache. With `user` and `hoist`, all system text at
    the beginning becomes one message. Chat upstreams other than OpenAI's own and Azure's have
    `user` if it is not set, since the chat templates of many models refuse or ignore such
    messages."""
    tools_without_reasoning: bool = True
    """The upstream takes function tools if it is asked not to reason. Where it takes none, as
    OpenAI's newest models by the Chat protocol, `reasoning_with_tools_via` serves all requests with
    tools."""
    final_assistant: bool = True
    """The upstream takes a conversation whose last message is the model's own; otherwise a user
    message that asks to go on is put after it. Where it refuses, that is remembered. Google
    upstreams have `false` if it is not set."""
    output_limit: bool = True
    """Chat and Responses upstreams take an output limit. Where it refuses, that is remembered."""
    reasoning_in: Literal["field", "auto", "tags"] = "field"
    """Where the upstream gives reasoning: in the protocol's own members; or, if an answer's text
    begins with `<think>`, up to `</think>`, which is `auto`, for servers without a parser of
    reasoning; or always at the beginning of the text, with the closing tag alone, which is `tags`,
    for models whose chat template has the opening one. Within one protocol, answers are changed
    with `tags` only. Chat upstreams other than OpenAI's own have `auto` if it is not set."""
    web_search: bool = True
    """The upstream makes the web searches of its own protocol itself. Where it does not, those of
    `[search]` take their place, which Chat upstreams other than OpenAI's own have by default."""
    tool_text: Literal["report", "parse"] = "report"
    """Tool calls that a server without a parser for them leaves in the text of an answer, between
    `<tool_call>` tags or as `<function=NAME>`: reported, with the flags that the server lacks; or
    made calls, where they are whole and of a tool of the request. Within one protocol, answers are
    read for them with `parse` only."""
    body: dict[str, Any] = {}
    """Members added to the body of every request, such as `chat_template_kwargs` or
    `reasoning_split`. Tables are merged with the request's own; in place of any other value that a
    client gave, these are sent, and that is reported."""
    omit_fields: tuple[str, ...] = ()
    """Members of requests that are not sent, such as `context_management` or, of every tool,
    `tools.*.defer_loading`; each is reported as a loss. Those that the upstream refuses by name are
    remembered."""
    prompt_cache_breakpoints: bool = False
    """OpenAI-shaped upstream takes explicit prompt cache breakpoints on content parts."""
