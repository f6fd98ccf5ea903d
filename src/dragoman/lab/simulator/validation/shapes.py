"""Requests checked against declared shapes: msgspec structs that mirror the vendors' types.

What types cannot express, a shape checks in its ``__post_init__``. An optional field that is null
counts as absent, as the vendors have it.
"""

import ast
import base64
import binascii
import operator
import re
from collections.abc import Iterable, Iterator
from functools import reduce
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from dragoman.lab.simulator.validation.wording import Path, Refusal, Vendor

NonEmpty = Annotated[str, Meta(min_length=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Maybe = Any | None

_ERROR = re.compile(r"(?P<text>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[([\d.]+)\]")
_TEXT = re.compile(
    r"Object missing required field `(?P<missing>.*)`"
    r"|Object contains unknown field `(?P<unknown>.*)`"
    r"|Invalid value (?P<tag>.*)"
    r"|Invalid enum value (?P<choice>.*)"
    r"|Expected `str` matching regex (?P<pattern>.*)"
    r"|Expected `(?P<bounded>\w+)`(?: of length)? (?P<bound>[<>]=) (?P<limit>.*)"
    r"|Expected `(?P<expected>[^`]*)`, got (?P<type>.*)",
    re.DOTALL,
)
"""msgspec's words; the last group that matches is the kind of complaint."""

_JSON_TYPES: dict[type, str] = {dict: "object", list: "array", type(None): "null"}
_ANY_KEY = "..."
_MOST_QUOTED = 100


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


def convert(vendor: Vendor, value: Any, kind: Any, *at: str | int) -> Any:
    """The value at a path as an instance of its declared type.

    Raises:
        Refusal: it does not fit; in the vendor's words.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        refusal = _refusal(vendor, error, value, kind, at)
    raise refusal


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of the declared type."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _refusal(vendor: Vendor, error: Exception, value: Any, kind: Any, at: Path) -> Refusal:
    """What msgspec found wrong, in the vendor's words."""
    found = _ERROR.fullmatch(str(error))
    assert found is not None  # the pattern takes any text
    steps = [
        name or (index if index == _ANY_KEY else int(index))
        for name, index in _STEP.findall(found["path"] or "")
    ]
    if isinstance(rule := error.__cause__, Refusal):
        rule.at = (*at, *_locate(vendor, kind, value, (*steps, *rule.at))[0])
        return rule
    inner, declared, got = _locate(vendor, kind, value, steps)
    path = (*at, *inner)
    text = _TEXT.fullmatch(found["text"])
    if text is None:
        return Refusal(found["text"], *path)
    match text.lastgroup:
        case "missing" | "unknown" as problem:
            shape = _member(declared, got)
            fields = [] if shape is None else msgspec.structs.fields(shape)
            missing = [f.encode_name for f in fields if f.required and f.encode_name not in got]
            problem, name = ("missing", missing[0]) if missing else (problem, text[problem])
            inner, _, _ = _locate(vendor, declared, got, [name])
            return vendor.refusal(problem, (*path, *inner))
        case "tag":
            _, union, _ = _locate(vendor, kind, value, steps[:-1])
            tags, got = [kind_of(member) for member in _shapes(union)], got[:_MOST_QUOTED]
            if steps[-1] == "type" and vendor.dotted:
                return vendor.refusal("tag", path[:-1], got=got, tags=str(tags)[1:-1])
            return vendor.refusal("choice", path, got=got, options=vendor.listed(tags))
        case "choice":
            options, got = [o for m in _members(declared) for o in get_args(m)], got[:_MOST_QUOTED]
            return vendor.refusal("choice", path, got=got, options=vendor.listed(options))
        case "pattern":
            pattern = ast.literal_eval(text["pattern"]).replace(r"\Z", "$")
            return vendor.refusal("pattern", path, pattern=pattern)
        case "limit":
            got = max(got, key=len) if found["key"] else got
            got = len(got) if isinstance(got, str | list | dict) else got
            bound, limit = f"{text['bounded']} {text['bound']}", text["limit"].removesuffix(".0")
            return vendor.refusal(bound, path, limit=limit, got=got)
        case _:
            *_, expected = (name for name in text["expected"].split(" | ") if name != "null")
            named = _JSON_TYPES.get(type(got), type(got).__name__)
            types = {"null": "null", **vendor.types}
            return vendor.refusal("type", path, expected=types[expected], got=types[named])


def _locate(vendor: Vendor, kind: Any, value: Any, steps: Iterable[Any]) -> tuple[Path, Any, Any]:
    """The path to a value as the vendor names it; its declared type; and the value."""
    path: list[str | int] = []
    for step in steps:
        if (shape := _member(kind, value)) is not None:
            if vendor.dotted and shape.__struct_config__.tag_field == "type":
                path.append(kind_of(shape))
            fields = msgspec.structs.fields(shape)
            kind = next((field.type for field in fields if field.encode_name == step), Any)
        else:
            container = [m for m in _members(kind) if get_origin(m) is type(value)]
            kind = get_args(container[0])[-1] if container else Any
            if step == _ANY_KEY:
                step = next(key for key, entry in value.items() if not fits(entry, kind))
        path.append(step)
        if isinstance(value, list):
            value = value[step]
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return tuple(path), kind, value


def _members(kind: Any) -> Iterator[Any]:
    """The types of a union, or the one type, without what constrains them."""
    if get_origin(kind) is Annotated:
        yield from _members(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for member in get_args(kind):
            yield from _members(member)
    else:
        yield kind


def _shapes(kind: Any) -> list[type[Shape]]:
    shapes = [m for m in _members(kind) if isinstance(m, type) and issubclass(m, Shape)]
    return [shape for shape in shapes if shape is not NoOther]


def _member(kind: Any, value: Any) -> type[Shape] | None:
    """The shape that was meant: the one without a tag, or the one with the value's."""
    for shape in _shapes(kind) if isinstance(value, dict) else ():
        field, tag = shape.__struct_config__.tag_field, shape.__struct_config__.tag
        if field is None or value.get(field) == tag:
            return shape
    return None
