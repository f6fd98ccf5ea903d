"""The mutants themselves: which bugs a text is given, and that each has a name of its own."""

from __future__ import annotations

import ast

import pytest

from tools.mutation.counterparts import Place, counterpart
from tools.mutation.mutants import Sites, mutants_of, sample
from tools.mutation.sources import core_modules, parse

ENUMS = {"Kind": ["ONE", "TWO"]}


@pytest.mark.parametrize(
    ("text", "operator", "changed"),
    [
        ("if a:\n    pass", "negate", "if not a:\n    pass"),
        ("if not a:\n    pass", "drop-not", "if a:\n    pass"),
        ("x = a < b", "swap-comparison", "x = a <= b"),
        ("x = a is None", "swap-comparison", "x = a is not None"),
        ("x = a and b", "swap-and-or", "x = a or b"),
        ("x = a or b or c", "drop-operand", "x = b or c"),
        ("x = a + b", "swap-arithmetic", "x = a - b"),
        ("x = 7", "change-constant", "x = 8"),
        ("x = 'word'", "change-constant", "x = 'word_'"),
        ("x = f'{a}.b'", "change-text", "x = f'{a}.b_'"),
        ("x = Kind.TWO", "change-member", "x = Kind.ONE"),
        ("x = {1: 2, **y}", "drop-entry", "x = {**y}"),
        ("x = [a, b]", "drop-element", "x = [b]"),
        ("f(a, b=c)", "drop-keyword", "f(a)"),
        ("a.b = c", "drop-statement", "pass"),
        ("for a in b:\n    continue", "drop-statement", "for a in b:\n    pass"),
        (
            "match a:\n    case [b]:\n        pass\n    case _:\n        pass",
            "drop-case",
            "match a:\n    case _:\n        pass",
        ),
    ],
)
def test_first_mutant(text: str, operator: str, changed: str) -> None:
    tree = ast.parse(text)
    next(site for site in Sites(tree, ENUMS) if site.operator == operator).apply()
    assert ast.unparse(tree) == ast.unparse(ast.parse(changed))


@pytest.mark.parametrize(
    "text",
    ["'words'", "x: Literal['a']", "raise E('two words')", "a = f'no {b} words'", "return b"],
)
def test_what_only_people_read_is_left_alone(text: str) -> None:
    """So is the last word of a function, without which it could not work at all."""
    sites = Sites(ast.parse(f"def f():\n    '''Words.'''\n    {text}"), ENUMS)
    assert [site.operator for site in sites] == []


def test_a_sample_is_the_same_each_time_and_can_be_given_to_the_code() -> None:
    drawn = sample(3, 40)
    assert drawn == sample(3, 40)
    assert len(set(map(str, drawn))) == 40
    for mutant in drawn:
        assert mutant in mutants_of(mutant.module)
        path = core_modules()[mutant.module]
        tree = parse(path)
        mutant.change(tree)
        assert ast.unparse(tree) != ast.unparse(parse(path))
        compile(ast.fix_missing_locations(tree), str(path), "exec")


def test_a_counterpart_stands_in_the_most_alike_statement_of_the_same_package() -> None:
    def place(module: str, statement: str, which: int = 0) -> Place:
        function = f"{module}.read\ndef read():\n    {statement}"
        return Place(f"{module}:1:negate:0", "negate", "a", which, statement, function)

    ours = place("protocols.one.reader", "if a and not seen(b):")
    alike = place("protocols.one.requests", "if a and not was_seen(b):")
    others = [
        place("protocols.two.reader", "if a and not seen(b):"),
        place("protocols.one.reader", "if a and not seen(b):", which=1),
        place("protocols.one.requests", "return [a for a in entries(value)]"),
    ]
    found = counterpart(ours, [*others, alike])
    assert found is not None
    assert found[0] is alike
    assert counterpart(ours, others) is None
