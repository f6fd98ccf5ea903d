"""Checks of the rules of an upstream that types cannot express."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dragoman.config.toml_lines import Path
from dragoman.failing import Rule, Verdict

Fault = tuple[Path, str]

_IN_LOWER_CASE = ("words", "texts", "headers")


def errors(rules: Sequence[Rule], path: Path) -> Iterator[Fault]:
    """Faults that make the rules at `path` unusable, each with its path."""
    for index, rule in enumerate(rules):
        row_path = (*path, index)
        for status in rule.statuses:
            if not 0 <= status <= 999:
                yield (*row_path, "statuses"), f"{status} is no HTTP status, nor 0 for no answer"
        for name in _IN_LOWER_CASE:
            for entry in getattr(rule, name):
                if entry != entry.lower():
                    yield (*row_path, name), f"would never match: write it as {entry.lower()}"
                elif not entry.strip():
                    yield (*row_path, name), "would match anything: remove it"
        if not rule.why and rule.verdict is not Verdict.RETURN_TO_CLIENT:
            yield (
                (*row_path, "why"),
                "required: shown to operators, and to clients when no account is left",
            )


def warnings(rules: Sequence[Rule], path: Path) -> Iterator[Fault]:
    """Rules that are allowed but probably not intended."""
    catch_all: int | None = None
    for index, rule in enumerate(rules):
        row_path = (*path, index)
        if catch_all is not None:
            yield (
                (*row_path, "verdict"),
                f"never reached: {path[-1]}[{catch_all}] matches every failure",
            )
        elif not (rule.statuses or rule.words or rule.texts or rule.headers):
            catch_all = index
        if rule.statuses and all(200 <= status <= 299 for status in rule.statuses):
            yield (*row_path, "statuses"), "never matches: rules apply to failures only"
        for name in ("soft", "every_model"):
            if getattr(rule, name) and rule.verdict is not Verdict.COOL:
                yield (*row_path, name), "has an effect with the verdict cool only"
