"""Errors of upstreams for a conversation that is longer than the model's context window."""

from __future__ import annotations

import re
from typing import NamedTuple

_WORDS = re.compile(
    r"maximum context length|context (?:window|length|limit|size)|prompt is too long"
    r"|input is too long|prompt too long|prompt exceeds max length|maximum prompt length"
    r"|longer than the (?:maximum )?model|exceeds? the maximum number of tokens allowed"
    r"|exceeded model token limit|model token limit|range of input length should be"
    r"|input token length too long|input tokens exceed|prompt token count of \d+ exceeds"
    r"|reduce the length of the (?:messages|input|prompt)|only supports? up to \d+ tokens"
    r"|too large for model with \d+ maximum|must be <= \d+. given: \d+ `?inputs",
    re.IGNORECASE,
)
"""Of OpenAI, Anthropic, vLLM, SGLang, llama.cpp, LM Studio, Ollama, Gemini, xAI, Groq, Bedrock,
DashScope, GLM, Kimi, MiniMax, Mistral, Copilot, Text Generation Inference."""

_OF_A_RATE = re.compile(r"please wait|per (?:minute|min|day|hour)\b|rate limit", re.IGNORECASE)

CODES = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "model_max_prompt_tokens_exceeded",
    }
)
"""Error codes and types for it."""


def is_too_long(message: str) -> bool:
    """Whether an error message says that the conversation does not fit."""
    return _WORDS.search(message) is not None and _OF_A_RATE.search(message) is None


class Sizes(NamedTuple):
    """The tokens of a conversation, those asked for as output if they count, and the window."""

    input: int
    output: int | None
    window: int


_SUM = re.compile(r"(\d+) \+ (\d+) > (\d+)")
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"(?P<input>\d+) tokens > (?P<window>\d+) maximum",
        r"length is (?P<window>\d+) tokens.*?\((?P<input>\d+) in the messages, (?P<output>\d+) in",
        r"length is (?P<window>\d+) tokens.*?requested (?P<output>\d+) output tokens"
        r".*?(?P<input>\d+) input tokens",
        r"length is (?P<window>\d+) tokens.*?(?P<input>\d+) input tokens",
        r"prompt length is (?P<window>\d+) but the request contains (?P<input>\d+) tokens",
        r"request \((?P<input>\d+) tokens\) exceeds the available context size \((?P<window>\d+)",
        r"input \((?P<input>\d+) tokens\) is longer than .*?\((?P<window>\d+) tokens\)",
        r"token count \((?P<input>\d+)\) exceeds the maximum.*?\((?P<window>\d+)\)",
        r"token limit: (?P<window>\d+) \(requested: (?P<input>\d+)\)",
        r"token count of (?P<input>\d+) exceeds the limit of (?P<window>\d+)",
        r"contains (?P<input>\d+) tokens.*?with (?P<window>\d+) maximum",
    )
)


def sizes_in(message: str) -> Sizes | None:
    """The numbers in such a message; None if it has none that are known."""
    if found := _SUM.search(message):
        return Sizes(*map(int, found.groups()))
    for pattern in _PATTERNS:
        if found := pattern.search(message):
            named = found.groupdict()
            output = named.get("output")
            return Sizes(
                int(named["input"]), None if output is None else int(output), int(named["window"])
            )
    return None


def message_for_messages(message: str) -> str:
    """The message for Messages clients: agents look for its beginning and read its numbers. If the
    conversation fits and only the output does not, they ask for less output."""
    if "prompt is too long" in message.lower() or _SUM.search(message):
        return message
    sizes = sizes_in(message)
    if sizes is None:
        return f"prompt is too long: {message}"
    if sizes.output is not None and sizes.input < sizes.window:
        numbers = f"{sizes.input} + {sizes.output} > {sizes.window}"
        return f"input length and `max_tokens` exceed context limit: {numbers} ({message})"
    return f"prompt is too long: {sizes.input} tokens > {sizes.window} maximum ({message})"
