"""The model behind a coding agent: it thinks, writes files with the client's own tools, and
reports what the tools answered.

Every agent names its file-writing tool and that tool's parameters differently, and some offer
only a patch tool, a shell, or a program to run. The scenario takes the best of what is offered,
by the names that agents use.
"""

import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec

from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.schema import example
from dragoman.lab.simulator.script import ParallelTools, Reasoning, Scenario, Text, ToolCall
from dragoman.lab.simulator.steering import Options
from dragoman.lab.simulator.view import OfferedTool, View

_WRITERS = ("write", "write_file", "write_to_file", "create_file")
_PATCHERS = ("apply_patch",)
_SHELLS = ("exec_command", "shell_command", "shell", "bash", "run_commands")
_SCRIPTS = ("exec",)
_PATHS = ("file_path", "filepath", "path", "filename", "file")
_CONTENTS = ("content", "contents", "text", "file_text")
_COMMANDS = ("cmd", "command", "commands")
_FREE_TEXT = "input"
"""The one parameter of a function that stands for a free-text tool."""
_PATH, _CONTENT = "hello.txt", "Hello from the simulator."
_THOUGHT = "The user wants a file. I write it with the tool at hand."


def agent(view: View, options: Options) -> Scenario:
    """Thinks, writes files with the client's tools (`path=`, `content=`, `calls=` in each of
    `rounds=`), reports."""
    thought = Reasoning((options.text("thought") or _THOUGHT,))
    calls_each = options.integer("calls", 1)
    wanted = calls_each * options.integer("rounds", 1)
    if not view.tools:
        # Agents ask a model without tools for a title of the conversation.
        return Scenario((thought, Text("Writing a file")))
    at_once = calls_each if view.parallel else 1
    if view.rounds * at_once >= wanted:
        results = "; ".join(result.text or "nothing" for result in view.results)
        report = options.text("text") or "It is written."
        return Scenario((thought, Text(f"{report} The tool answered: {results}")))
    tool = writing_tool(view, options.text("tool"))
    path, content = options.text("path") or _PATH, options.text("content") or _CONTENT
    first = 1 + view.rounds * at_once
    calls = tuple(
        ToolCall(
            tool.name,
            arguments(tool, numbered(path, number), content),
            "custom" if tool.schema is None else "function",
            tool.namespace,
        )
        for number in range(first, first + at_once)
    )
    step = calls[0] if at_once == 1 else ParallelTools(calls)
    return Scenario((thought, Text("I write that down."), step))


def writing_tool(view: View, wanted: str | None = None) -> OfferedTool:
    """The tool to write a file with: the one named, or the best of those offered.

    A name may have a prefix that a translation added (`functions__exec`).

    Raises:
        ApiError: 400: none that could.
    """
    names = (wanted,) if wanted is not None else (*_WRITERS, *_PATCHERS, *_SHELLS, *_SCRIPTS)
    if view.tool_choice != "none":
        for name in names:
            for tool in view.tools:
                if own_name(tool) == name.lower():
                    return tool
    offered = ", ".join(tool.name for tool in view.tools) or "nothing"
    raise ApiError(
        400,
        f"The scenario 'agent' needs a tool that writes files, but was offered: {offered[:2000]}",
        code="simulator",
    )


def own_name(tool: OfferedTool) -> str:
    """A tool's name without a namespace before it, in lower case."""
    return tool.name.lower().rpartition("__")[2].rpartition(".")[2]


def numbered(path: str, number: int) -> str:
    """The path of the n-th file: `notes.txt`, `notes-2.txt`, ..."""
    if number == 1:
        return path
    pure = PurePosixPath(path)
    return str(pure.with_stem(f"{pure.stem}-{number}"))


def arguments(tool: OfferedTool, path: str, content: str) -> str:
    """The raw arguments with which the tool writes this content to this path."""
    if tool.schema is None:
        return _free_text(own_name(tool), path, content)
    properties: Mapping[str, Any] = tool.schema.get("properties") or {}
    if list(properties) == [_FREE_TEXT]:
        return _json({_FREE_TEXT: _free_text(own_name(tool), path, content)})
    required = tool.schema.get("required") or ()
    given: dict[str, Any] = {}
    for name, schema in properties.items():
        folded = name.lower().replace("-", "_")
        if folded in _PATHS:
            given[name] = path
        elif folded in _CONTENTS:
            given[name] = content
        elif folded in _COMMANDS:
            given[name] = _as_declared(schema, _command(path, content))
        elif name in required:
            given[name] = example(schema)
    return _json(given)


def _free_text(name: str, path: str, content: str) -> str:
    if name in _SCRIPTS:
        call = _json({"cmd": _command(path, content)})
        return f"const result = await tools.exec_command({call});\ntext(JSON.stringify(result));\n"
    lines = "".join(f"+{line}\n" for line in content.split("\n"))
    return f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"


def _command(path: str, content: str) -> str:
    return f"printf %s {shlex.quote(content)} > {shlex.quote(path)} && echo written"


def _as_declared(schema: Any, command: str) -> Any:
    """A command as a text, or as the list of words that the schema asks for."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return ["bash", "-c", command] if kind == "array" else command


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
