"""The scenarios that the simulator knows by name.

Each is a function of the request and the options; its docstring's first line is what the list
at ``/_sim/scenarios`` shows.
"""

from collections.abc import Callable
from dataclasses import asdict, replace

import msgspec

from dragoman.lab.simulator.directives import without_directives
from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.schema import example
from dragoman.lab.simulator.script import (
    Citation,
    HostedSearch,
    Pace,
    ParallelTools,
    Reasoning,
    Refusal,
    Scenario,
    Step,
    Text,
    ToolCall,
    Usage,
)
from dragoman.lab.simulator.steering import Options
from dragoman.lab.simulator.view import OfferedTool, View

Source = Scenario | Callable[[View, Options], Scenario]
"""A fixed scenario, or one that is made for the request."""

_FILLER_TEXT = "The dragoman stood between two courts and carried every word across safely. "
_FILLER = tuple(_FILLER_TEXT.split())
_DEFAULT_WORDS = 12
_THOUGHT = "Let me see what is asked. Then I answer it."
MULTIBYTE = (
    "Grüße, 世界! \U0001f469\u200d\U0001f469\u200d\U0001f466 \U0001f1ea\U0001f1fa cafe\u0301 "
    "ﷺ עברית "
    "line\u2028paragraph\u2029next\u0085zero\u200bwidth \U0001d4b3 \U0001f9ea end"
)
"""Two- to four-byte characters, composed emoji, combining marks, and Unicode's line separators."""

PATCH = (
    '*** Begin Patch\n*** Add File: hello.txt\n+Hello "world" \\o/ ✓\n+\ttabbed\n*** End Patch\n'
)


def _refuse(scenario: str, reason: str) -> ApiError:
    return ApiError(400, f"The scenario '{scenario}' {reason}.", code="simulator")


def answer_text(options: Options) -> str:
    """The text that the options ask for: given, or so many words of filler."""
    if (text := options.text("text")) is not None:
        return text
    wanted = max(options.integer("words", _DEFAULT_WORDS), options.integer("chunks"))
    words = [_FILLER[number % len(_FILLER)] for number in range(wanted)]
    return " ".join(words)


def text(view: View, options: Options) -> Scenario:
    """Plain text: `text=` or `words=`, cut by `chunks=` or `size=`."""
    return Scenario((Text(answer_text(options)),))


def multibyte(view: View, options: Options) -> Scenario:
    """Emoji, CJK, combining marks and U+2028/2029/0085, in short deltas."""
    return Scenario((Text(options.text("text") or MULTIBYTE),))


def _pick(view: View, options: Options, scenario: str, wanted: str | None = None) -> OfferedTool:
    """The tool to call: the one named, the one forced, or the first."""
    tools = [tool for tool in view.tools if wanted is None or tool.kind == wanted]
    name = options.text("tool") or view.forced
    if name is not None:
        tools = [tool for tool in tools if tool.name == name]
    if not tools:
        raise _refuse(scenario, "needs a tool that the request does not offer")
    if view.tool_choice == "none":
        raise _refuse(scenario, "calls a tool, but tool_choice forbids it")
    return tools[0]


def _call(tool: OfferedTool, options: Options) -> ToolCall:
    given = options.text("args")
    if tool.schema is None:
        return ToolCall(tool.name, PATCH if given is None else given, "custom", tool.namespace)
    if given is None:
        given = msgspec.json.encode(example(tool.schema)).decode()
    return ToolCall(tool.name, given, "function", tool.namespace)


def _answered(view: View, options: Options) -> bool:
    return view.rounds >= options.integer("rounds", 1)


def _after_results(view: View) -> Text:
    results = "; ".join(result.text or "nothing" for result in view.results)
    return Text(f"The tool answered: {results}")


def tool(view: View, options: Options) -> Scenario:
    """One tool call, and after its result an answer that uses it (`rounds=` for more)."""
    if _answered(view, options):
        return Scenario((_after_results(view),))
    return Scenario((_call(_pick(view, options, "tool"), options),))


def text_tool(view: View, options: Options) -> Scenario:
    """Text before the tool call, in one turn."""
    if _answered(view, options):
        return Scenario((_after_results(view),))
    call = _call(_pick(view, options, "text_tool"), options)
    return Scenario((Text("I look that up."), call))


def parallel_tools(view: View, options: Options) -> Scenario:
    """Two calls (`calls=`) in one turn; deltas alternate where the protocol interleaves."""
    if _answered(view, options):
        return Scenario((_after_results(view),))
    first = _pick(view, options, "parallel_tools")
    if not view.parallel:
        return Scenario((_call(first, options),))
    wanted = options.integer("calls", 2)
    others = [tool for tool in view.tools if tool is not first and tool.kind == first.kind]
    tools = (first, *others)
    calls = tuple(_call(tools[number % len(tools)], options) for number in range(wanted))
    return Scenario((ParallelTools(calls),))


def custom_tool(view: View, options: Options) -> Scenario:
    """A free-text tool; where only functions are offered, one that takes a single string."""
    if _answered(view, options):
        return Scenario((_after_results(view),))
    if any(tool.kind == "custom" for tool in view.tools):
        return Scenario((_call(_pick(view, options, "custom_tool", "custom"), options),))
    for candidate in view.tools:
        properties = (candidate.schema or {}).get("properties") or {}
        if list(properties) == ["input"]:
            arguments = {"input": options.text("args") or PATCH}
            encoded = msgspec.json.encode(arguments).decode()
            return Scenario((ToolCall(candidate.name, encoded),))
    raise _refuse("custom_tool", "needs a free-text tool or a function with one string `input`")


def namespace_tool(view: View, options: Options) -> Scenario:
    """A call of a tool inside a namespace (Responses)."""
    if view.protocol != "responses":
        raise _refuse("namespace_tool", "needs tool namespaces, which only Responses has")
    if _answered(view, options):
        return Scenario((_after_results(view),))
    for candidate in view.tools:
        if candidate.namespace is not None:
            return Scenario((_call(candidate, options),))
    raise _refuse("namespace_tool", "needs a namespace tool")


def bad_arguments(view: View, options: Options) -> Scenario:
    """A tool call whose arguments are no JSON."""
    call = _call(_pick(view, options, "bad_arguments"), options)
    broken = options.text("args") or '{"city": Paris,}'
    if view.protocol == "messages" and not view.stream:
        raise _refuse("bad_arguments", "cannot be expressed in Messages without a stream")
    return Scenario((replace(call, arguments=broken),))


def empty_arguments(view: View, options: Options) -> Scenario:
    """A tool call whose arguments are the empty text."""
    call = _call(_pick(view, options, "empty_arguments"), options)
    return Scenario((replace(call, arguments=""),))


def length_tool(view: View, options: Options) -> Scenario:
    """A tool call that the token limit cuts in the middle of its arguments."""
    call = _call(_pick(view, options, "length_tool"), options)
    half = call.arguments[: max(1, len(call.arguments) // 2)]
    return Scenario((replace(call, arguments=half, cut=True),), finish="length")


def tool_finish_stop(view: View, options: Options) -> Scenario:
    """A tool call that ends with the finish reason of plain text."""
    return Scenario((_call(_pick(view, options, "tool_finish_stop"), options),), finish="stop")


def _thoughts(options: Options, parts: int) -> tuple[str, ...]:
    thought = options.text("thought") or _THOUGHT
    wanted = options.integer("parts", parts)
    return (thought, *(f"{thought} ({number})" for number in range(2, wanted + 1)))


def reasoning(view: View, options: Options) -> Scenario:
    """Reasoning, then text (`thought=`)."""
    return Scenario((Reasoning(_thoughts(options, 1)), Text(answer_text(options))))


def reasoning_parts(view: View, options: Options) -> Scenario:
    """Several summary parts (Responses) or thinking blocks (Messages) before the text."""
    parts = _thoughts(options, 2)
    if view.protocol in ("responses", "google", "interactions"):
        return Scenario((Reasoning(parts), Text(answer_text(options))))
    return Scenario((*(Reasoning((part,)) for part in parts), Text(answer_text(options))))


def reasoning_tool(view: View, options: Options) -> Scenario:
    """Reasoning, then a tool call; after its result reasoning and text."""
    thought = Reasoning(_thoughts(options, 1))
    if _answered(view, options):
        return Scenario((thought, _after_results(view)))
    return Scenario((thought, _call(_pick(view, options, "reasoning_tool"), options)))


def redacted_thinking(view: View, options: Options) -> Scenario:
    """Reasoning without readable text, then text (Messages, Responses)."""
    return Scenario((Reasoning(_thoughts(options, 1), redacted=True), Text(answer_text(options))))


def interleaved_thinking(view: View, options: Options) -> Scenario:
    """Think, speak, think, and call a tool or speak again, in one turn."""
    first, second = _thoughts(options, 2)[:2]
    last: Step = Text("That is all.")
    if view.tools and view.tool_choice != "none" and not _answered(view, options):
        last = _call(_pick(view, options, "interleaved_thinking"), options)
    steps = (Reasoning((first,)), Text("First of all."), Reasoning((second,)), last)
    return Scenario(steps)


def reasoning_roundtrip(view: View, options: Options) -> Scenario:
    """Reasoning in the first turn; in the next the answer reports whether it came back unaltered.

    Altered or foreign reasoning never gets here: validation refuses it. Chat has no seal, so
    there the text itself is compared.
    """
    thoughts = _thoughts(options, 1)
    if not view.turns:
        step: Step = Text(answer_text(options))
        if view.tools and view.tool_choice != "none":
            step = _call(_pick(view, options, "reasoning_roundtrip"), options)
        return Scenario((Reasoning(thoughts), step))
    if view.protocol == "chat":
        verdict = "reasoning verified" if thoughts[0] in view.returned else "no reasoning came back"
        return Scenario((Text(verdict),))
    if not view.returned:
        raise _refuse("reasoning_roundtrip", "found no reasoning in the history")
    return Scenario((Text("reasoning verified"),))


def refusal(view: View, options: Options) -> Scenario:
    """The model declines."""
    return Scenario((Refusal(options.text("text") or "I can't help with that.", "cyber"),))


def length(view: View, options: Options) -> Scenario:
    """Text that the token limit cuts off."""
    return Scenario((Text(answer_text(options)),), finish="length")


def context_window(view: View, options: Options) -> Scenario:
    """Text that the end of the context window cuts off."""
    return Scenario((Text(answer_text(options)),), finish="context_window")


def content_filter(view: View, options: Options) -> Scenario:
    """Text that a filter cuts off."""
    return Scenario((Text(answer_text(options)),), finish="content_filter")


def stop_sequence(view: View, options: Options) -> Scenario:
    """Text that ends at the first stop sequence of the request."""
    if view.protocol == "responses":
        raise _refuse("stop_sequence", "needs stop sequences, which Responses has not")
    if not view.stop_sequences:
        raise _refuse("stop_sequence", "needs a stop sequence in the request")
    return Scenario((Text(f"{answer_text(options)}{view.stop_sequences[0]} and never this"),))


def structured(view: View, options: Options) -> Scenario:
    """JSON that conforms to the schema asked for."""
    if view.schema is None:
        raise _refuse("structured", "needs a response format in the request")
    return Scenario((Text(_json_answer(view)),))


def _json_answer(view: View) -> str:
    value = example(view.schema) if view.schema else {"answer": " ".join(_FILLER[:4])}
    return msgspec.json.encode(value).decode()


def _sources() -> tuple[Citation, ...]:
    return tuple(
        Citation(f"https://example.com/{name}", f"Source {name}", f"As {name} says.")
        for name in ("a", "b")
    )


def citations(view: View, options: Options) -> Scenario:
    """Text that cites two sources."""
    return Scenario((Text(answer_text(options), _sources()),))


def hosted_search(view: View, options: Options) -> Scenario:
    """A web search by the vendor, then text that cites what it found (Messages, Responses)."""
    if not any(tool.startswith("web_search") for tool in view.hosted):
        raise _refuse("hosted_search", "needs the vendor's web search tool in the request")
    search = HostedSearch("the dragoman", _sources())
    return Scenario((search, Text(answer_text(options), _sources())))


def pause_turn(view: View, options: Options) -> Scenario:
    """A turn that pauses, and goes on when the answer is sent back (Messages)."""
    if view.turns:
        return Scenario((Text("And that is the rest."),))
    return Scenario((Text(answer_text(options)),), finish="pause")


def logprobs(view: View, options: Options) -> Scenario:
    """Text with the log probabilities that the request asks for (Chat, Responses)."""
    if view.protocol == "messages":
        raise _refuse("logprobs", "needs log probabilities, which Messages has not")
    if view.logprobs is None:
        raise _refuse("logprobs", "needs a request for log probabilities")
    return Scenario((Text(answer_text(options)),))


def cached_usage(view: View, options: Options) -> Scenario:
    """Text with cached, written and reasoning tokens in its usage."""
    usage = Usage(input=200, output=50, cached=64, written=32, reasoning=20)
    return Scenario((Text(answer_text(options)),), usage=usage)


def media(view: View, options: Options) -> Scenario:
    """A JSON text of which images, documents and clips arrived, and where."""
    described = msgspec.json.encode([asdict(medium) for medium in view.media]).decode()
    return Scenario((Text(described),), limited=False)


def echo(view: View, options: Options) -> Scenario:
    """A JSON text of the request's body as it arrived."""
    return Scenario((Text(msgspec.json.encode(view.request).decode()),), limited=False)


def flood(view: View, options: Options) -> Scenario:
    """As many events as fast as the reader takes them (`events=`, `bytes=`)."""
    events, size = options.integer("events", 10_000), options.integer("bytes", 8)
    return Scenario((Text("x" * (events * size)),), pace=Pace(chunks=events), limited=False)


def two_choices(view: View, options: Options) -> Scenario:
    """Two choices although one was asked for (Chat)."""
    return Scenario((Text(answer_text(options)),), choices=2)


def demo(view: View, options: Options) -> Scenario:
    """A friendly model: calls a tool when asked to, uses its result, else answers sensibly."""
    thoughts: tuple[Step, ...] = (Reasoning(_thoughts(options, 1)),) if view.reasoning_asked else ()
    return Scenario((*thoughts, _demo_step(view, options)))


def _demo_step(view: View, options: Options) -> Step:
    if view.results:
        answer = _after_results(view).text
        return Text(f"{answer}. {_received(view)}" if view.media else answer)
    question = without_directives(view.user_text)
    if view.tools and view.tool_choice != "none":
        named = any(tool.name.lower() in question.lower() for tool in view.tools)
        if view.tool_choice == "required" or named or "tool" in question.lower():
            return _call(_demo_tool(view, options, question), options)
    if view.schema is not None:
        return Text(_json_answer(view))
    if options.text("text") is not None or options.text("words") is not None:
        return Text(answer_text(options))
    if view.media:
        return Text(_received(view))
    if not question:
        return Text(answer_text(options))
    return Text(f'This is the simulator. You said: "{question[:200]}"')


def _demo_tool(view: View, options: Options, question: str) -> OfferedTool:
    if options.text("tool") is None and view.forced is None:
        for candidate in view.tools:
            if candidate.name.lower() in question.lower():
                return candidate
    return _pick(view, options, "demo")


def _received(view: View) -> str:
    """Each medium in words."""
    words = []
    for medium in view.media:
        article = "a" if medium.kind == "document" else "an"
        size = "by reference" if medium.size is None else f"{medium.size} bytes"
        what = medium.media_type or medium.source
        words.append(f"{article} {medium.kind} ({what}, {size})")
    return "I received " + ", ".join(words) + "."
