"""Finding ``[[sim: ...]]`` in a text."""

import re

_DIRECTIVE = re.compile(r"\[\[sim:(.*?)\]\]", re.DOTALL)


def last_directive(text: str) -> str | None:
    """The content of the text's last directive, or None."""
    found: list[str] = _DIRECTIVE.findall(text)
    return found[-1] if found else None


def has_directive(text: str) -> bool:
    return _DIRECTIVE.search(text) is not None


def without_directives(text: str) -> str:
    """The text without the simulator's directives."""
    return _DIRECTIVE.sub("", text).strip()
