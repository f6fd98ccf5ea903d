"""Lists of accounts in files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import Secret
from dragoman.config.secret import SecretError, resolve_secret
from dragoman.operations.account_fields import AccountChanges
from dragoman.operations.account_lists import (
    Row,
    csv_line,
    read_csv,
    read_json,
    read_json_lines,
)
from dragoman.operations.errors import BadFile, BadRow
from dragoman.operations.inputs import FieldError, InvalidInput, literal_secret, read_input


def resolve(reference: str) -> Secret:
    return resolve_secret(reference, environ={"ONE": "sk-one"}, directory=Path("/nowhere"))


def csv(text: str) -> list[Row | BadRow]:
    return list(read_csv(StringIO(text, newline=""), resolve))


def good(found: Row | BadRow) -> Any:
    assert isinstance(found, Row), found
    return found.changes


def bad(found: Row | BadRow) -> list[tuple[int, str, str, str]]:
    assert isinstance(found, BadRow)
    return [(found.at, found.name, fault.field, fault.message) for fault in found.faults]


def test_every_column() -> None:
    (row,) = csv(
        "name,upstream,key,models,headers,proxy,priority,weight,max_concurrent,balance\n"
        'a,openai,env:ONE,gpt-5*; o4,"{""OpenAI-Project"": ""p""}",http://u:p@h:1,-1,2.5,3,1e6\n'
    )
    account = good(row).account()
    assert account.key == Secret("sk-one")
    assert account.models == ("gpt-5*", "o4")
    assert account.headers == {"OpenAI-Project": Secret("p")}
    assert account.proxy == Secret("http://u:p@h:1")
    assert (account.priority, account.weight) == (-1, 2.5)
    assert (account.max_concurrent, account.balance) == (3, 1e6)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_as_spreadsheets_write_it(delimiter: str, end: str, start: str) -> None:
    lines = ["Name,Upstream,Key,Priority", "a,up,sk-1,", "", ",,,", "b,up,sk-2,3", ""]
    text = start + end.join(line.replace(",", delimiter) for line in lines)
    found = csv(text)
    assert [(row.at, good(row).name) for row in found] == [(2, "a"), (5, "b")]
    assert [good(row).account().priority for row in found] == [0, 3]


def test_an_empty_cell_leaves_a_secret_and_resets_the_rest() -> None:
    (row,) = csv("name,upstream,key,headers,proxy,models,weight\na,up,,,,,\n")
    assert good(row).fields == {"name": "a", "upstream": "up", "models": None, "weight": 1.0}


def test_every_fault_of_a_row_by_line_and_field() -> None:
    found = csv(
        "name,upstream,key,weight,max_concurrent,proxy\n"
        "a,up,sk-1,1,1,\n"
        "b b,,env:NONE,heavy,0,ftp://sk-secret@h\n"
        '"c\nd",up,sk-2,1,1,\n'
        "e,up,sk-3,1,1,,,sk-extra\n"
        "f,up,sk-4,nan,99999999999,\n"
        "g,up,sk-5,1,1,\n"
    )
    good(found[0])
    assert bad(found[1]) == [
        (3, "b b", "weight", "expected a number"),
        (3, "b b", "name", "expected a name of at most 64 letters, digits, _ . and -"),
        (3, "b b", "upstream", "required"),
        (3, "b b", "key", "environment variable NONE is not set"),
        (3, "b b", "max_concurrent", "expected a whole number >= 1"),
        (3, "b b", "proxy", "not the URL of a proxy (http, https, socks5 or socks5h)"),
    ]
    assert [place[:3] for place in bad(found[2])] == [(4, "c?d", "name")]
    assert bad(found[3]) == [(6, "e", "", "8 cells for 6 columns")]
    assert bad(found[4]) == [
        (7, "f", "weight", "expected a number that is finite"),
        (7, "f", "max_concurrent", "at most 2147483647"),
    ]
    assert good(found[5]).name == "g"
    assert "sk-" not in repr([row for row in found if isinstance(row, BadRow)])


def test_a_missing_heading_does_not_tell_the_key() -> None:
    with pytest.raises(BadFile, match="the first line must name the columns: name, ") as caught:
        csv("openai-1,openai,sk-secret\n")
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the first line must name the columns"),
        ("name,upstram\n", "no such column: upstram; did you mean upstream?"),
        ("name,,key\n", "no such column: (empty)"),
        ("name,key,Name\n", "the column name is there twice"),
        ("c" * 200_000, "line 1: "),
        ('name,key\na,"sk\n', "line 2: "),
        ("name,key\na,b\n" + "c" * 200_000, "line 3: "),
    ],
)
def test_a_file_that_is_no_list(text: str, told: str) -> None:
    with pytest.raises(BadFile) as caught:
        csv(text)
    assert told in str(caught.value)
    assert len(str(caught.value)) < 200


def test_json_in_three_forms() -> None:
    entries = [{"name": "a", "upstream": "up", "key": "sk-1"}, {"name": "b", "weight": "x"}]
    lines = [json.dumps(entry).encode() for entry in entries]
    as_list, as_object = json.dumps(entries).encode(), json.dumps({"accounts": entries}).encode()
    for rows in (
        list(read_json(as_list, resolve)),
        list(read_json(as_object, resolve)),
        list(read_json_lines([lines[0], b"\n", lines[1]], resolve)),
    ):
        assert good(rows[0]).account().key == Secret("sk-1")
        assert bad(rows[1])[0][1:] == ("b", "weight", "expected a number, got a text")


def test_json_null_resets_and_absence_leaves() -> None:
    (row,) = read_json(b'[{"name": "a", "key": null, "models": null}]', resolve)
    assert good(row).fields == {"name": "a", "key": None, "models": None}


@pytest.mark.parametrize("document", [b"", b"{", b"3", b'{"account": []}', b"\xff", b"[" * 100_000])
def test_a_document_that_is_no_list(document: bytes) -> None:
    with pytest.raises(BadFile):
        list(read_json(document, resolve))


HOSTILE = [
    '{"name": 3, "upstream": "up"}',
    '{"name": "a\\n", "upstream": "up"}',
    '{"name": "\\ud83d\\ude00", "upstream": "up"}',
    '{"name": "a", "upstream": "up", "key": "sk\\r\\nx: y"}',
    '{"name": "a", "upstream": "up", "key": ["sk-secret"]}',
    '{"name": "a", "upstream": "up", "headers": {"x\\n": "sk-secret"}}',
    '{"name": "a", "upstream": "up", "headers": {"x": "sk-secret\\u0000"}}',
    '{"name": "a", "upstream": "up", "priority": 1e400}',
    '{"name": "a", "upstream": "up", "priority": 10000000000000000000000000}',
    '{"name": "a", "upstream": "up", "balance": "lots"}',
    '{"name": "a", "upstream": "up", "models": "gpt"}',
    '{"name": "a", "upstream": "up", "models": [""]}',
    '{"name": "a", "upstream": "up", "%s": 1}' % ("x" * 10_000),
    '{"name": "%s", "upstream": "up"}' % ("n" * 10_000),
    '"a"',
    "nonsense",
]


@pytest.mark.parametrize("line", HOSTILE)
def test_hostile_rows_are_told_shortly(line: str) -> None:
    (row,) = read_json_lines([line.encode()], literal_secret)
    assert isinstance(row, BadRow)
    told = f"{row.name} {row.faults}"
    assert len(told) < 600
    assert "sk-secret" not in told
    assert told.isprintable()


def test_what_comes_from_afar_reads_no_file_here() -> None:
    for reference in ("env:PATH", "file:/etc/passwd"):
        with pytest.raises(SecretError):
            literal_secret(reference)
    with pytest.raises(InvalidInput) as caught:
        read_input(AccountChanges, {"name": "a", "upstream": "up", "key": "env:PATH"})
    assert caught.value.faults == (
        FieldError("key", "a reference is not followed here: send the value itself"),
    )


def test_rows_are_read_one_by_one() -> None:
    def lines() -> Iterator[str]:
        yield "name,upstream\n"
        yield "a,up\n"
        raise AssertionError("read too far")

    assert good(next(read_csv(lines(), resolve))).name == "a"


@pytest.mark.parametrize(
    "cells", [["a", 'b"c', "d,e", "f;g h", "", "i\nj", "ü"], ["=1+1", "'", "\t"]]
)
def test_written_rows_are_read_back(cells: list[str]) -> None:
    import csv as reference

    line = csv_line(cells)
    assert next(reference.reader(StringIO(line, newline=""))) == cells
