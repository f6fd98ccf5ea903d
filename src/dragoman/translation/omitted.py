"""Members of a body that an upstream does not take, left out by their paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Raw

from dragoman import jsontext
from dragoman.canonical.losses import Ledger, LossKind

_DETAIL = "the upstream does not know this member"


def without_fields(
    members: Mapping[str, Any], paths: Iterable[str], ledger: Ledger
) -> Mapping[str, Any]:
    """The members of a body without those at `paths`, such as `tools.*.defer_loading`. A step that
    an object has no member for is the name of a form, as some services have it in their paths, and
    is passed over. Other values stay as they are, byte for byte where they are encoded."""
    left = dict(members)
    for path in paths:
        first, *steps = path.split(".")
        if first not in left:
            continue
        if not steps:
            del left[first]
            ledger.add(first, LossKind.KNOB, _DETAIL)
            continue
        value = left[first]
        value = jsontext.decode(bytes(value)) if isinstance(value, Raw) else value
        changed = _without(value, steps, first, ledger)
        if changed is not value:
            left[first] = changed
    return left


def _without(value: Any, steps: Sequence[str], path: str, ledger: Ledger) -> Any:
    """A value without the member that the steps lead to; the same object if it has none."""
    step, following = steps[0], steps[1:]
    if isinstance(value, list):
        if step != "*":
            return value
        changed = [
            _without(one, following, f"{path}[{index}]", ledger) if following else one
            for index, one in enumerate(value)
        ]
        same = all(one is other for one, other in zip(changed, value, strict=True))
        return value if same else changed
    if not isinstance(value, dict):
        return value
    if step not in value:
        return _without(value, following, path, ledger) if following else value
    if not following:
        ledger.add(f"{path}.{step}", LossKind.KNOB, _DETAIL)
        return {name: member for name, member in value.items() if name != step}
    inner = _without(value[step], following, f"{path}.{step}", ledger)
    return value if inner is value[step] else {**value, step: inner}
