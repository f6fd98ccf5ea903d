"""The text of what has a type that nobody knows."""

from __future__ import annotations

from dragoman.protocols.unknown_text import text_in

NAMES = ("content", "text", "summary", "output", "message", "refusal", "thinking")


def test_the_text_is_found_under_every_name_that_text_has() -> None:
    """In parts too; what is white or has another name is none."""
    part = {"id": "no", "text": "part"}
    assert text_in({"id": "no", **{name: name for name in NAMES}}) == "\n\n".join(NAMES)
    assert text_in({"output": [part, "one", " ", 5, {"content": part}]}) == "part\n\none\n\npart"
