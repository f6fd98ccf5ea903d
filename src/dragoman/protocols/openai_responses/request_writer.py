"""Writes a request for a Responses upstream (types: response_create_params.py)."""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from dragoman.canonical.blocks import Text
from dragoman.canonical.losses import LossKind
from dragoman.canonical.pairing import pair_tools, report_silence
from dragoman.canonical.requests import JsonSchema, Request, Thinking
from dragoman.canonical.stops import EMULATED, emulated
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.item_writer import ItemWriter
from dragoman.protocols.openai_responses.settings import ResponsesCapabilities
from dragoman.protocols.openai_responses.tools import write_tool_choice, write_tools
from dragoman.protocols.openai_schemas import is_strict

_BILLING_HEADER = "x-anthropic-billing-header:"
"""Begins a system text of Claude Code that differs in every request (claude-code#68900)."""

_EFFORT_OF_BUDGET = ((2048, "low"), (12288, "medium"), (32768, "high"))
"""Largest thinking budget, in tokens, that an effort stands for; above all: xhigh (3.2.1)."""


def write_request(request: Request, outbound: Outbound) -> JsonObject:
    """The upstream's body; what it does not carry goes into the ledger."""
    return _Writer(request, outbound).write()


class _Writer:
    """Builds one body. Members that stay the same over a conversation come first, so that a
    longer conversation begins with the same bytes.
    """

    __slots__ = ("_body", "_ledger", "_outbound", "_request")

    def __init__(self, request: Request, outbound: Outbound) -> None:
        self._request = request
        self._outbound = outbound
        self._ledger = outbound.ledger
        self._body: JsonObject = {"model": outbound.model}

    def write(self) -> JsonObject:
        for extra in self._request.extras:
            self._ledger.add(extra.path, extra.kind, extra.detail, extra.code)
        self._write_tools()
        self._write_input()
        self._write_limits()
        self._write_sampling()
        self._write_text()
        self._write_reasoning()
        self._write_include()
        self._write_identity()
        self._write_cache()
        self._write_service()
        return self._body

    def _lose(self, name: str, kind: LossKind, detail: str) -> None:
        """Report the canonical field `name` under the client's name for it."""
        self._ledger.add(self._request.path_of(name), kind, detail)

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
            self._ledger.add(choice.path, LossKind.CONTENT, "no tool is left to choose from")

    def _write_input(self) -> None:
        request = self._request
        items = ItemWriter(self._outbound)
        texts = self._instructions()
        if any(text.cache is not None for text in texts):
            items.message("developer", items.parts.write_all(texts))
        elif texts:
            self._body["instructions"] = "\n\n".join(text.text for text in texts)
        for turn in pair_tools(request.turns, self._outbound.options, self._ledger):
            items.write(turn)
        items.parts.finish()
        if not items.items and not texts:
            report_silence(request.turns, self._ledger)
        self._body["input"] = items.items

    def _instructions(self) -> list[Text]:
        texts = []
        for text in self._request.instructions:
            if text.text.startswith(_BILLING_HEADER):
                detail = "billing header of another vendor; it would defeat prompt caching"
                self._ledger.add(text.path, LossKind.KNOB, detail)
                text = replace(text, text=text.text.partition("\n")[2].lstrip("\n"))
            if text.annotations:
                self._ledger.add(text.path, LossKind.KNOB, "instructions take no citations")
            if text.text:
                texts.append(text)
        return texts

    def _write_limits(self) -> None:
        request, body = self._request, self._body
        limit = request.max_output_tokens
        if limit is not None and limit > 0:
            highest = self._outbound.capabilities.max_output_tokens
            fitted = max(limit, wire.MIN_OUTPUT_TOKENS)
            fitted = fitted if highest is None else min(fitted, highest)
            if fitted != limit:
                detail = f"fitted to the upstream's limit of {fitted} tokens"
                self._lose("max_output_tokens", LossKind.REPAIRED, detail)
            body["max_output_tokens"] = fitted
        if request.stop:
            options = self._outbound.options
            if emulated(request.stop, (), options):
                self._lose("stop", LossKind.CONVERTED, EMULATED)
            else:
                drop = options.stop_on_responses == "drop"
                kind = LossKind.KNOB if drop else LossKind.CONTENT
                self._lose("stop", kind, "the upstream has no stop sequences")

    def _write_sampling(self) -> None:
        request = self._request
        sampling = {"temperature": request.temperature, "top_p": request.top_p}
        for name, value in sampling.items():
            if value is None:
                continue
            if self._outbound.capabilities.sampling:
                self._body[name] = value
            elif value != 1:  # 1 is what the model does anyway
                self._lose(name, LossKind.KNOB, "the upstream's models take no sampling options")
        if request.top_k is not None:
            self._lose("top_k", LossKind.KNOB, "the upstream has no such option")

    def _write_text(self) -> None:
        request = self._request
        text: JsonObject = {}
        match request.output_format:
            case JsonSchema() as schema:
                if self._outbound.capabilities.structured_output:
                    text["format"] = self._schema(schema)
                else:
                    detail = "the upstream takes no output schema"
                    self._lose("output_format", LossKind.CONTENT, detail)
            case None:
                pass
            case _:
                text["format"] = {"type": "json_object"}
        if request.verbosity is not None:
            text["verbosity"] = request.verbosity
        if text:
            self._body["text"] = text

    def _schema(self, asked: JsonSchema) -> JsonObject:
        written: JsonObject = {
            "type": "json_schema",
            "name": asked.name or "output",
            "schema": asked.schema,
        }
        if asked.description is not None:
            written["description"] = asked.description
        strict = asked.strict
        if asked.name is None and strict is not False:
            # Only protocols that always enforce a schema leave its name out; this one enforces
            # a part of what schemas can say.
            strict = is_strict(asked.schema)
            if not strict:
                detail = "the schema is a request here: strict mode would refuse it"
                self._lose("output_format", LossKind.CONVERTED, detail)
        if strict is not None:
            written["strict"] = strict
        return written

    def _write_reasoning(self) -> None:
        thinking = self._request.thinking
        if thinking is None:
            return
        reasoning: JsonObject = {}
        effort = self._effort(thinking)
        if effort is not None:
            reasoning["effort"] = effort
        summary = self._summary(thinking, effort)
        if summary is not None:
            reasoning["summary"] = summary
        if reasoning:
            self._body["reasoning"] = reasoning

    def _effort(self, thinking: Thinking) -> str | None:
        effort = thinking.effort
        if effort is None:
            match thinking.mode:
                case "disabled":
                    effort = "none"
                case "between_tools":
                    effort = "none"
                    self._lose("thinking", LossKind.CONVERTED, "no thinking between tool calls")
                case "enabled" if thinking.budget is not None:
                    budgets = ((word, top) for top, word in _EFFORT_OF_BUDGET)
                    budget = thinking.budget
                    effort = next((word for word, top in budgets if budget <= top), "xhigh")
                    detail = f"a thinking budget becomes the effort {effort}"
                    self._lose("thinking", LossKind.CONVERTED, detail)
        return None if effort is None else self._known_effort(effort)

    def _known_effort(self, effort: str) -> str | None:
        """The effort itself, or the nearest lower one (else the lowest) the upstream knows."""
        known = [word for word in wire.EFFORTS if word in self._outbound.capabilities.efforts]
        if effort in self._outbound.capabilities.efforts:
            return effort
        if effort not in wire.EFFORTS or not known:
            self._lose("thinking", LossKind.KNOB, "the upstream knows no such effort")
            return None
        rank = wire.EFFORTS.index(effort)
        lower = [word for word in known if wire.EFFORTS.index(word) < rank]
        nearest = lower[-1] if lower else known[0]
        detail = f"the nearest effort the upstream knows is {nearest}"
        self._lose("thinking", LossKind.CONVERTED, detail)
        return nearest

    def _summary(self, thinking: Thinking, effort: str | None) -> str | None:
        """Nothing readable comes back unless it is asked for."""
        if thinking.display not in (None, "summarized", "omitted"):
            detail = "reasoning is shown as summaries"
            self._lose("thinking", LossKind.CONVERTED, detail)
        if thinking.summary is not None:
            return thinking.summary
        hidden = (
            self._outbound.options.show_reasoning == "never"
            or thinking.display == "omitted"
            or thinking.mode in ("disabled", "between_tools")
            or "none" in (thinking.effort, effort)
        )
        return None if hidden else "auto"

    def _write_include(self) -> None:
        request, options = self._request, self._outbound.options
        include = []
        thinking = request.thinking
        shown = thinking is not None and thinking.mode in ("adaptive", "enabled")
        if options.show_reasoning != "auto":
            shown = options.show_reasoning == "always"
        # Models that do not reason refuse to be asked, so ask only for clients that can send
        # the state back: those shown thinking blocks or `reasoning_details`.
        if self._outbound.capabilities.of(ResponsesCapabilities).encrypted_reasoning and (
            shown or options.reasoning_details
        ):
            include.append(wire.ENCRYPTED_REASONING)
        if request.logprobs:
            include.append(wire.LOGPROBS)
            if request.top_logprobs is not None:
                self._body["top_logprobs"] = request.top_logprobs
        elif request.top_logprobs:
            self._lose("top_logprobs", LossKind.KNOB, "log probabilities were not asked for")
        if include:
            self._body["include"] = include

    def _write_identity(self) -> None:
        request = self._request
        if request.metadata:
            self._body["metadata"] = request.metadata
        for name in ("user", "safety_identifier"):
            value: str | None = getattr(request, name)
            if value is None:
                continue
            if len(value) > wire.USER_ID_LIMIT:
                value = hashlib.sha256(value.encode()).hexdigest()
                self._lose(name, LossKind.CONVERTED, "too long for the upstream: its hash is sent")
            self._body[name] = value

    def _write_cache(self) -> None:
        request, body = self._request, self._body
        if request.prompt_cache_key is not None:
            body["prompt_cache_key"] = request.prompt_cache_key
        if request.prompt_cache_retention is not None:
            body["prompt_cache_retention"] = request.prompt_cache_retention
        options = request.prompt_cache_options
        if request.max_output_tokens == 0:
            options = {**(options or {}), "prewarm": True}
        if options:
            body["prompt_cache_options"] = options
        if request.auto_cache is not None:
            self._lose("auto_cache", LossKind.KNOB, "the upstream chooses by itself what to cache")

    def _write_service(self) -> None:
        request, body = self._request, self._body
        tier = request.service_tier
        if request.speed == "fast" and tier is None and self._outbound.options.map_fast:
            tier = "fast"
        elif request.speed not in (None, "standard"):
            self._lose("speed", LossKind.KNOB, "the upstream has no such option")
        if tier is not None:
            body["service_tier"] = tier
        if request.moderation is not None:
            body["moderation"] = request.moderation
        # Left out, it would mean "keep the answer for thirty days".
        body["store"] = bool(request.store)
        if request.stream:
            body["stream"] = True
            body["stream_options"] = {"include_obfuscation": False}
