"""The lines of keys in a TOML document."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.toml_lines import Path, TomlLines

DOCUMENT = '''\
# a comment with "quotes" and [brackets]
title = "a # b = c"          # line 2
a.b.c = 1
"quoted key" = 'literal \\'
'lit.eral' = 1979-05-27 07:32:00
[table]
text = """
not = a key
\\""" [neither]
"quoted at the end"""""
raw = \'\'\'
x = 1
two quotes: \'\'\'\'\'
after = true
[ "spaced" . 'out' ]
list = [ 1, # one
  [2,
   3], { x = 1, y = { z = [
     "}" ] } },
]
[[items]]
name = "first"
[items.sub]
deep = 1
[[items.parts]]
n = 1
[[items.parts]]
n = 2
[[items]]
name = "second"
[items.sub]
deep = 2
[[items.parts]]
n = 3
'''

EXPECTED = {
    ("title",): 2,
    ("a",): 3,
    ("a", "b", "c"): 3,
    ("quoted key",): 4,
    ("lit.eral",): 5,
    ("table",): 6,
    ("table", "text"): 7,
    ("table", "raw"): 11,
    ("table", "after"): 14,
    ("spaced", "out"): 15,
    ("spaced", "out", "list"): 16,
    ("spaced", "out", "list", 0): 16,
    ("spaced", "out", "list", 1): 17,
    ("spaced", "out", "list", 1, 1): 18,
    ("spaced", "out", "list", 2, "y", "z", 0): 19,
    ("items",): 21,
    ("items", 0, "name"): 22,
    ("items", 0, "sub", "deep"): 24,
    ("items", 0, "parts", 0, "n"): 26,
    ("items", 0, "parts", 1): 27,
    ("items", 1): 29,
    ("items", 1, "sub"): 31,
    ("items", 1, "sub", "deep"): 32,
    ("items", 1, "parts", 0, "n"): 34,
}


def test_lines_of_a_document_with_everything() -> None:
    tomllib.loads(DOCUMENT)
    lines = TomlLines(DOCUMENT)
    assert {path: lines.line(path) for path in EXPECTED} == EXPECTED
    assert lines.line(()) == 1


def test_windows_line_ends() -> None:
    lines = TomlLines(DOCUMENT.replace("\n", "\r\n"))
    assert {path: lines.line(path) for path in EXPECTED} == EXPECTED


def test_what_is_missing_stands_where_its_table_begins() -> None:
    lines = TomlLines("\n[[items]]\nname = 1\n")
    assert lines.line(("items", 0, "absent", "deeper")) == 2
    assert lines.line(("absent",)) == 1


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    entries: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        entries = enumerate(value)
    for key, entry in entries:
        yield (*path, key)
        yield from paths(entry, (*path, key))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.one_of(
    st.integers(-9, 9).map(str),
    st.booleans().map(lambda value: str(value).lower()),
    TEXT.map(lambda text: json.dumps(text).replace("\x7f", "\\u007f")),
    st.sampled_from(["'x # ]}'", '"""a\n" ""b"""', "'''\n'' ]'''", "1979-05-27 07:32:00", "inf"]),
)
KEYS = st.one_of(
    st.text("abc-_1", min_size=1, max_size=3),
    TEXT.map(lambda text: json.dumps(text).replace("\x7f", "\\u007f")),
)


def _array(items: list[str]) -> str:
    return "[" + ",".join(f"\n {item} # ]" + "\n" for item in items) + "]"


def _inline(pairs: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{key} = {value}" for key, value in pairs.items()) + " }"


VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(_array),
        st.dictionaries(KEYS, inner, max_size=3).map(_inline),
    ),
    max_leaves=6,
)


@given(st.lists(st.tuples(st.sampled_from(["", "[t]", "[[l]]", "[l.t]"]), KEYS, VALUES)))
def test_every_key_of_any_document_is_found_on_a_line_of_its_own_statement(
    statements: list[tuple[str, str, str]],
) -> None:
    text, spans = "", []
    for index, (header, key, value) in enumerate(statements):
        start = text.count("\n") + 1
        # The index keeps keys apart, since no document may set one twice.
        text += f"{header}\n{key}.k{index} = {value}\n"
        spans.append((start, text.count("\n")))
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    lines = TomlLines(text)
    for path in paths(document):
        marks = [part for part in path if isinstance(part, str) and part[:1] == "k"]
        number = next((int(mark[1:]) for mark in marks if mark[1:].isdecimal()), None)
        if number is not None:
            first, last = spans[number]
            assert first <= lines.line(path) <= last
