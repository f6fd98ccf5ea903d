"""A request: the conversation so far, the tools on offer, and how to answer."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Raw, Struct, field

from dragoman.canonical.blocks import Block, CacheMark, Text
from dragoman.canonical.losses import UNSUPPORTED, LossKind

Role: TypeAlias = Literal["system", "developer", "user", "assistant"]


class Turn(Struct, frozen=True, kw_only=True, gc=False):
    """One message of one side. Tool results are blocks of a `user` turn, tool calls and reasoning
    blocks of an `assistant` turn. `name` is the speaker's name, if given.
    """

    role: Role
    blocks: tuple[Block, ...]
    name: str | None = None
    path: str = ""


class SchemaTraits(Struct, frozen=True):
    """What the text of a schema shows without decoding all of it.

    `is_shallow`: an object whose nesting is within the limit. `is_plain`: it combines nothing, in
    current words. `is_complete`: it has properties besides, and no arrays. `has_legal_names`: there
    are properties at its root alone, with names that Messages services take. Where one is False,
    all of the schema is to be looked at.
    """

    is_shallow: bool
    is_plain: bool
    is_complete: bool
    has_legal_names: bool


class FunctionTool(Struct, frozen=True, kw_only=True, gc=False):
    """A tool called with JSON arguments. `schema` is its JSON schema as given, None if none was; it
    is JSON text, of these `traits`, where no reader had to look into it. `strict` is None when the
    client left the choice to the service. `deferred` tools are hidden from the model until a tool
    search names them. `namespace` groups tools of a set. `form` is the client's own type of a tool
    that is a function only to others.
    """

    name: str
    description: str | None = None
    schema: dict[str, Any] | Raw | None = None
    traits: SchemaTraits | None = None
    strict: bool | None = None
    namespace: str | None = None
    deferred: bool = False
    form: str | None = None
    cache: CacheMark | None = None
    path: str = ""


class Grammar(Struct, frozen=True):
    """A constraint on free text: `syntax` is "lark" or "regex"."""

    syntax: str
    definition: str


class CustomTool(Struct, frozen=True, kw_only=True):
    """A tool called with free text, optionally constrained by a grammar."""

    name: str
    description: str | None = None
    grammar: Grammar | None = None
    namespace: str | None = None
    deferred: bool = False
    path: str = ""


class Extra(Struct, frozen=True):
    """A field of the client's request that the canonical model has no field for.

    A writer of another protocol reports it; nothing vanishes unseen. `code` is the error code
    shown when the policy refuses the request for it. `of_search`: the field configures the
    vendor's web search, and is no loss where a route maps that search.
    """

    path: str
    value: Any
    kind: LossKind
    detail: str = "has no counterpart upstream"
    code: str = UNSUPPORTED
    of_search: bool = False


class SearchTool(Struct, frozen=True, kw_only=True):
    """The vendors' search of the web, as far as they agree on it.

    `allowed_domains` are the only ones whose pages are found, None for all. `location` is about
    where the user is: `city`, `country`, `region`, `timezone`. `context_size` (low, medium, high)
    is how much of the pages the model reads. `name` is what tool choices call the tool, if it has
    a name; `choice` is whether the model must search (`forced`) or may although its choice of
    tools is restricted (`allowed`). `extras` is what only its own vendor's search can do.
    """

    name: str | None = None
    allowed_domains: tuple[str, ...] | None = None
    location: dict[str, str] | None = None
    context_size: str | None = None
    choice: Literal["allowed", "forced"] | None = None
    extras: tuple[Extra, ...] = ()


class HostedTool(Struct, frozen=True, kw_only=True):
    """A tool that only its own vendor can run or describe (web search, code interpreter, shell).

    `origin` names the protocol, `type` the wire type, `raw` the whole declaration. `search` is
    what it means to vendors who search the web as well.
    """

    origin: str
    type: str
    raw: dict[str, Any]
    search: SearchTool | None = None
    path: str = ""


Tool: TypeAlias = FunctionTool | CustomTool | HostedTool


class ToolRef(Struct, frozen=True, gc=False):
    """Names a declared tool. `properties` are those of its schema that have another name upstream,
    each with that name."""

    name: str
    custom: bool = False
    namespace: str | None = None
    form: str | None = None
    properties: dict[str, str] = {}


class ToolChoice(Struct, frozen=True, kw_only=True):
    """Which tools the model may or must call.

    `mode`: "auto", "none", "required" (any tool), or "tool" (the one named by `tool`).
    `allowed`, when not None, restricts auto or required to those tools.
    """

    mode: Literal["auto", "none", "required", "tool"]
    tool: ToolRef | None = None
    allowed: tuple[ToolRef, ...] | None = None
    path: str = ""


class JsonObject(Struct, frozen=True):
    """The answer is to be some JSON object."""


class JsonSchema(Struct, frozen=True, kw_only=True):
    """The answer is to be JSON that conforms to `schema`."""

    schema: dict[str, Any]
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


OutputFormat: TypeAlias = JsonObject | JsonSchema


class Thinking(Struct, frozen=True, kw_only=True):
    """How much the model should think, and what of it to show.

    `effort`: none, minimal, low, medium, high, xhigh, max. `mode`: adaptive (the model decides),
    enabled (with `budget` tokens), disabled, between_tools. `display`: "summarized", "omitted" or
    another word of the client's. `summary`: how readable reasoning is to be summarised (auto,
    concise, detailed). All None when the client left it to the service.
    """

    effort: str | None = None
    mode: Literal["adaptive", "enabled", "disabled", "between_tools"] | None = None
    budget: int | None = None
    display: str | None = None
    summary: str | None = None


class Request(Struct, frozen=True, kw_only=True):
    """One call, in the form of no protocol.

    `instructions` are system texts outside the turns. Token limits are in tokens;
    None everywhere means that the client did not set it. `safety_identifier` is the opaque id of
    the end user. `service_tier` is in the words of the OpenAI protocols. `source` has the
    members of the client's body that its answer repeats; it takes no part in translation.
    """

    model: str
    turns: tuple[Turn, ...]
    instructions: tuple[Text, ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: tuple[str, ...] = ()
    logprobs: bool = False
    top_logprobs: int | None = None
    output_format: OutputFormat | None = None
    verbosity: str | None = None
    thinking: Thinking | None = None
    stream: bool = False
    include_usage: bool = False
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    auto_cache: CacheMark | None = None
    service_tier: str | None = None
    speed: str | None = None
    moderation: dict[str, Any] | None = None
    store: bool | None = None
    compacts: bool = False
    """Whether the client wants the conversation summarised, for it to go on from."""
    extras: tuple[Extra, ...] = ()
    paths: dict[str, str] = field(default_factory=dict)
    """Canonical field name to the client's own name for it, where they differ
    (`max_output_tokens` to `max_tokens`); losses are reported under the client's name."""
    source: dict[str, Any] = field(default_factory=dict)

    def path_of(self, name: str) -> str:
        """The client's name for the canonical field `name`."""
        return self.paths.get(name, name)
