"""The page of the library call, written from its docstrings.

`python -m dragoman.api_page FILE` writes it; `make docs` does.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.canonical import errors, losses, options
from dragoman.translation import call, library, streams

_INTRODUCTION = """# The library call

This page is generated from the docstrings by `make docs`; a test keeps it up to date.

Translation without the server and without I/O: a request is translated, sent by whatever means the
program has, and its answer translated back. All names below are imported from `dragoman`.

```python
from dragoman import translate_request

call = translate_request("anthropic_messages", "openai_chat", body, model="qwen3-32b")
send(base_url + "/v1" + call.path, call.headers(key), call.body)
```

What `options` and `capabilities` may contain is in [configuration](configuration.md).
"""


def page() -> str:
    """The whole page, in Markdown."""
    parts = [_INTRODUCTION, *_function(library.translate_request)]
    parts += _class(call.Call)
    parts += _class(streams.AnswerStream)
    parts += ["## Errors and losses\n"]
    for kind in (
        errors.DragomanError,
        errors.InvalidRequest,
        errors.Refused,
        errors.UpstreamError,
        losses.Loss,
        losses.LossKind,
        losses.Policy,
        options.Options,
        options.Capabilities,
    ):
        parts.append(f"### `{kind.__name__}`\n\n{_prose(kind)}\n")
    return "\n".join(parts)


def _function(function: Any) -> Iterator[str]:
    signature = _signature(function)
    yield f"## `{function.__name__}`\n\n```python\n{signature}\n```\n\n{_prose(function)}\n"


def _class(kind: type) -> Iterator[str]:
    yield f"## `{kind.__name__}`\n\n{_prose(kind)}\n"
    for name, member in vars(kind).items():
        if name.startswith("_") or not inspect.getdoc(member):
            continue
        if isinstance(member, property):
            yield f"### `{name}`\n\n{_prose(member)}\n"
        elif inspect.isfunction(member):
            yield f"### `{name}`\n\n```python\n{_signature(member)}\n```\n\n{_prose(member)}\n"


def _signature(function: Any) -> str:
    """The parameters as they are written, one a line where they are many."""
    signature = inspect.signature(function)
    shown = [str(parameter).replace("'", "") for parameter in signature.parameters.values()]
    shown = [text for text in shown if text != "self"]
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        first = kinds.index(inspect.Parameter.KEYWORD_ONLY) - (len(kinds) - len(shown))
        shown.insert(first, "*")
    returned = f" -> {signature.return_annotation}"
    line = f"{function.__name__}({', '.join(shown)}){returned}"
    if len(line) <= 96:
        return line
    lines = "".join(f"    {text},\n" for text in shown)
    return f"{function.__name__}(\n{lines}){returned}"


def _prose(documented: Any) -> str:
    """A docstring in Markdown: its sections as lists."""
    lines: list[str] = []
    section = False
    for line in (inspect.getdoc(documented) or "").splitlines():
        if line in ("Args:", "Returns:", "Raises:"):
            section = True
            lines += [f"**{line.removesuffix(':')}**", ""]
        elif section and line.startswith("    ") and not line.startswith("     "):
            name, colon, rest = line.strip().partition(": ")
            named = colon and " " not in name
            lines.append(f"- `{name}`: {rest}" if named else line.strip())
        elif section and line.startswith("     "):
            lines.append(f"  {line.strip()}")
        else:
            section = section and bool(line.startswith("    "))
            lines.append(line)
    return "\n".join(lines).rstrip()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
