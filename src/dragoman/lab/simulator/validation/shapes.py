"""Requests checked against declared shapes: msgspec structs that mirror the vendors' types.

What types cannot express, a shape checks in its ``__post_init__``. An optional field that is null
counts as absent, as the vendors have it.
"""

import base64
import binascii
import operator
import re
from functools import reduce
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta, Struct

from dragoman.lab.simulator.validation.refusals import Path, Refusal

NonEmpty = Annotated[str, Meta(min_length=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Maybe = Any | None

_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_FIELD = re.compile(r"Object (?:missing required|contains unknown) field `(?P<name>.*)`")
"""msgspec's words for a field of an object, whose path is that of the object."""


class Shape(Struct, forbid_unknown_fields=True):
    """An object of a request, with no other fields than the declared ones."""


class NoOther(Shape, tag="", forbid_unknown_fields=False):
    """``Shape | NoOther`` is that shape with its tag, which msgspec lets a lone one go without."""

    def __post_init__(self) -> None:
        raise Refusal("the type is empty.", "type")


def shape(
    tag: str | None = None,
    names: str = "",
    /,
    *,
    base: type[Shape] = Shape,
    closed: bool = True,
    **fields: Any,
) -> Any:
    """A shape without rules of its own.

    A field that may be null may be left out. Of the fields in ``names`` only the names are
    checked; ``name?`` may be left out. One that is not ``closed`` may have more fields.
    """
    for name in names.split():
        fields[name.rstrip("?")] = Maybe if name.endswith("?") else Any
    declared: list[Any] = [
        (name, kind, None) if type(None) in get_args(kind) else (name, kind)
        for name, kind in fields.items()
    ]
    struct_name = tag or base.__name__
    return msgspec.defstruct(
        struct_name, declared, bases=(base,), tag=tag, kw_only=True, forbid_unknown_fields=closed
    )


def one_of(*shapes: Any) -> Any:
    """The union of the shapes."""
    return reduce(operator.or_, shapes)


def kind_of(value: Shape | type[Shape]) -> str:
    """The tag that distinguishes a shape in its union."""
    return str(value.__struct_config__.tag)


def check_base64(text: str, *at: str | int) -> None:
    """Raises ``Refusal`` for text that is not base64, or empty."""
    try:
        if base64.b64decode(text, validate=True):
            return
    except (binascii.Error, ValueError):
        pass
    raise Refusal("the value is not valid base64.", *at, code="invalid_base64")


def convert(value: Any, kind: Any, *at: str | int) -> Any:
    """The value at a path as an instance of its declared type.

    Raises:
        Refusal: it does not fit.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        refusal = _refusal(error, at)
    raise refusal


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of the declared type."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _refusal(error: Exception, at: Path) -> Refusal:
    """What msgspec found wrong, and where."""
    text, _, place = str(error).partition(" - at `")
    steps = [name or int(index) for name, index in _STEP.findall(place)]
    if isinstance(rule := error.__cause__, Refusal):
        rule.at = (*at, *steps, *rule.at)
        return rule
    if field := _FIELD.fullmatch(text):
        steps.append(field["name"])
    is_missing = text.startswith("Object missing")
    code = "missing_required_parameter" if is_missing else "invalid_value"
    return Refusal(text, *at, *steps, code=code)
