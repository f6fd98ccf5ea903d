"""Writes a request for a Responses upstream (types: response_create_params.py)."""

from __future__ import annotations

from dragoman.canonical.blocks import Text
from dragoman.canonical.losses import LossKind
from dragoman.canonical.options import Options
from dragoman.canonical.pairing import pair_tools, report_silence
from dragoman.canonical.requests import JsonSchema, Request, Thinking
from dragoman.protocols.base import Outbound
from dragoman.protocols.efforts import effort_of
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.content_writer import PartWriter
from dragoman.protocols.openai_responses.item_writer import ItemWriter
from dragoman.protocols.openai_responses.settings import ResponsesCapabilities
from dragoman.protocols.openai_responses.tools import write_tool_choice, write_tools
from dragoman.protocols.openai_settings import write_labels, write_sampling, write_schema
from dragoman.protocols.request_settings import NOT_TAKEN, RequestSettings
from dragoman.protocols.system_text import place_system_text
from dragoman.protocols.tools import NO_TOOLS


def write_request(request: Request, outbound: Outbound) -> JsonObject:
    """The upstream's body; what it does not carry goes into the ledger."""
    return _Writer(request, outbound).write()


class _Writer:
    """The builder of one body. Members that stay the same over a conversation come first, so that a
    longer conversation begins with the same bytes."""

    __slots__ = ("_body", "_ledger", "_outbound", "_request", "_settings")

    def __init__(self, request: Request, outbound: Outbound) -> None:
        self._request = place_system_text(request, outbound)
        self._outbound = outbound
        self._ledger = outbound.ledger
        self._settings = RequestSettings(request, outbound)
        self._body: JsonObject = {"model": outbound.model}

    def write(self) -> JsonObject:
        for extra in self._request.extras:
            self._ledger.add(extra.path, extra.kind, extra.detail, extra.code)
        self._write_tools()
        self._write_input()
        self._write_limits()
        write_sampling(self._body, self._settings)
        if self._request.top_k is not None:
            self._settings.drop("top_k")
        self._settings.drop_decoding()
        self._write_text()
        _write_reasoning(self._body, self._settings)
        self._write_include()
        write_labels(self._body, self._settings, wire.SERVICE_TIERS)
        self._write_cache_options()
        # Left out, it would mean "store the answer for thirty days".
        self._body["store"] = bool(self._request.store)
        if self._request.stream:
            self._body["stream"] = True
            self._body["stream_options"] = {"include_obfuscation": False}
        return self._body

    def _write_tools(self) -> None:
        request = self._request
        tools = write_tools(request, self._outbound)
        choice = request.tool_choice
        if tools:
            self._body["tools"] = tools
            written = None if choice is None else write_tool_choice(choice, request, self._outbound)
            if written is not None:
                self._body["tool_choice"] = written
            if request.parallel_tool_calls is not None:
                self._body["parallel_tool_calls"] = request.parallel_tool_calls
        elif choice is not None and choice.mode in ("required", "tool"):
            self._ledger.add(choice.path, LossKind.CONTENT, NO_TOOLS)

    def _write_input(self) -> None:
        request = self._request
        items = ItemWriter(self._outbound, PartWriter(self._outbound))
        texts = self._instructions()
        if texts:
            if any(text.cache is not None for text in texts):
                items.message("developer", items.parts.write_all(texts))
            else:
                self._body["instructions"] = "\n\n".join(text.text for text in texts)
        for turn in pair_tools(request.turns, self._outbound.options, self._ledger):
            items.write(turn)
        items.parts.finish()
        if not self._outbound.capabilities.final_assistant:
            items.go_on(request.turns[-1].path if request.turns else "")
        if not items.items and not texts:
            report_silence(request.turns, self._ledger)
        self._body["input"] = items.items

    def _instructions(self) -> list[Text]:
        texts = []
        for text in self._request.instructions:
            if text.annotations:
                self._ledger.add(text.path, LossKind.KNOB, "instructions take no citations")
            if text.text:
                texts.append(text)
        return texts

    def _write_limits(self) -> None:
        request, settings = self._request, self._settings
        limit = request.max_output_tokens
        if limit is not None and limit > 0 and not settings.capabilities.output_limit:
            settings.lose("max_output_tokens", LossKind.KNOB, NOT_TAKEN)
        elif limit is not None and limit > 0:
            fitted = settings.output_limit(limit, wire.MIN_OUTPUT_TOKENS)
            self._body["max_output_tokens"] = fitted
        if request.stop:
            drop = settings.options.stop_on_responses == "drop"
            kind = LossKind.KNOB if drop else LossKind.CONTENT
            settings.stops((), kind, "the upstream takes no stop sequences")

    def _write_text(self) -> None:
        request = self._request
        text: JsonObject = {}
        match request.output_format:
            case JsonSchema() as asked:
                schema = write_schema(asked, self._settings)
                if schema is not None:
                    text["format"] = {"type": "json_schema", **schema}
            case None:
                pass
            case _:
                text["format"] = {"type": "json_object"}
        if request.verbosity is not None:
            text["verbosity"] = request.verbosity
        if text:
            self._body["text"] = text

    def _write_include(self) -> None:
        options = self._outbound.options
        include = []
        # Models that do not reason refuse to be asked, so ask only for clients that can send
        # the state back: those shown thinking blocks or `reasoning_details`.
        keeps_state = options.reasoning_details or _shows_thinking(self._request.thinking, options)
        if (
            keeps_state
            and self._outbound.capabilities.of(ResponsesCapabilities).encrypted_reasoning
        ):
            include.append(wire.ENCRYPTED_REASONING)
        alternatives = self._settings.top_logprobs()
        if self._request.logprobs:
            include.append(wire.LOGPROBS)
            if alternatives is not None:
                self._body["top_logprobs"] = alternatives
        if include:
            self._body["include"] = include

    def _write_cache_options(self) -> None:
        options = self._request.prompt_cache_options
        if self._request.max_output_tokens == 0:
            options = {**(options or {}), "prewarm": True}
        if options:
            self._body["prompt_cache_options"] = options


def _write_reasoning(body: JsonObject, settings: RequestSettings) -> None:
    """`reasoning`: the effort and the summary that the client requests."""
    thinking = settings.request.thinking
    if thinking is None:
        return
    reasoning: JsonObject = {}
    effort = settings.effort(*effort_of(thinking))
    if effort is not None:
        reasoning["effort"] = effort
    settings.check_display(thinking)
    summary = thinking.summary
    if summary is None and not settings.same_protocol:
        summary = _summary(thinking, effort, settings.options)
    if summary is not None:
        reasoning["summary"] = summary
    if reasoning:
        body["reasoning"] = reasoning


def _summary(thinking: Thinking, effort: str | None, options: Options) -> str | None:
    """The summary to request for a client of another protocol: no readable reasoning comes back
    unless requested."""
    hidden = (
        options.show_reasoning == "never"
        or thinking.display == "omitted"
        or thinking.mode in ("disabled", "between_tools")
        or "none" in (thinking.effort, effort)
    )
    return None if hidden else "auto"


def _shows_thinking(thinking: Thinking | None, options: Options) -> bool:
    """Whether the client is shown thinking blocks, which it sends back."""
    if options.show_reasoning != "auto":
        return options.show_reasoning == "always"
    return thinking is not None and thinking.mode in ("adaptive", "enabled")
