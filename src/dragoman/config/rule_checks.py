"""What types cannot say about the rules of an upstream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dragoman.config.toml_lines import Path
from dragoman.failing import Rule, Verdict

Fault = tuple[Path, str]

_IN_LOWER_CASE = ("words", "texts", "headers")


def errors(rules: Sequence[Rule], path: Path) -> Iterator[Fault]:
    """What makes rows at `path` unusable, each with the key at fault."""
    for index, rule in enumerate(rules):
        row_path = (*path, index)
        for status in rule.statuses:
            if not 0 <= status <= 999:
                yield (*row_path, "statuses"), f"{status} is no HTTP status, nor 0 for no answer"
        for name in _IN_LOWER_CASE:
            for entry in getattr(rule, name):
                if entry != entry.lower():
                    yield (*row_path, name), f"would never fit: write it as {entry.lower()}"
                elif not entry.strip():
                    yield (*row_path, name), "would fit anything: leave it out"
        if not rule.why and rule.verdict is not Verdict.RETURN_TO_CLIENT:
            yield (
                (*row_path, "why"),
                "say why: operators are told, and clients when nothing is left",
            )


def warnings(rules: Sequence[Rule], path: Path) -> Iterator[Fault]:
    """What is allowed but can hardly be meant."""
    catch_all: int | None = None
    for index, rule in enumerate(rules):
        row_path = (*path, index)
        if catch_all is not None:
            yield (
                (*row_path, "verdict"),
                f"never reached: {path[-1]}[{catch_all}] fits every failure",
            )
        elif not (rule.statuses or rule.words or rule.texts or rule.headers):
            catch_all = index
        if rule.statuses and all(200 <= status <= 299 for status in rule.statuses):
            yield (*row_path, "statuses"), "never fits: only failures are looked at"
        for name in ("soft", "every_model"):
            if getattr(rule, name) and rule.verdict is not Verdict.COOL:
                yield (*row_path, name), "means something with the verdict cool only"
