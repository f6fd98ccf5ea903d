"""The reader of declared shapes: JSON objects decoded into types, with every member accounted for.

A protocol declares its objects in `shapes.py` as msgspec Structs that forbid unknown members:

    class TextPart(Shape, tag_field="type", tag="text"):
        text: str

    class UnknownPart(Unknown, tag=""):
        pass

    class Question(Shape):
        model: Annotated[str, Meta(min_length=1)]
        content: str | list[TextPart | UnknownPart]
        limit: Annotated[int, Meta(ge=1)] | None = None
        seed: Annotated[int | None, Lost(LossKind.KNOB)] = None

A `Reader` of a shape decodes a body of it in one step:

    _question = Reader(Question)

    def read(body: bytes) -> ...:
        extras: list[Extra] = []
        given = _question.read(body, extras)
        report_lost(given, "", extras)

Only if the decoder refuses the body, it is decoded without a shape and walked along the shape:

- members that the shape does not know are taken out, into the extras, with their paths;
- null is taken for absent, and a whole float for an integer;
- an element with a tag that its union does not know becomes the `Unknown` of the union, for the
  protocol to carry or to refuse; without an `Unknown` in the union it is refused;
- an object whose shape has a class method `adapted` is replaced by what that returns, for an object
  that is carried whole in a place where a decoder knows one shape only;
- anything else that the shape does not allow is an `InvalidRequest` that names the member.

What remains is converted to the shape. So a reader sees only the types, and these have one
declaration: what is known, what is allowed, and (`Lost`) the meaning of a loss for members without
a canonical counterpart, which `report_lost` adds to the extras.

Answers and their events have shapes as well: `Reader.exact` takes out unknown members only, for
bytes that pass untouched, and `Reader.tolerate` reads what servers send otherwise.

Values that are only carried are `Raw`, which keeps their bytes, or `dict[str, Any]`. Their nesting
is bounded by `carried_object` and `check_depth`. A `Raw` that is absent is empty, since a decoder
allows it no other type beside.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Final, Generic, Literal, NoReturn, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct, inspect, structs

from dragoman import jsontext
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import UNSUPPORTED, LossKind
from dragoman.canonical.requests import Extra
from dragoman.jsontext import JsonError
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import (
    MAX_DEPTH,
    JsonObject,
    check_depth,
    decode_object,
    mismatch,
)
from dragoman.protocols.raw import split_object

T = TypeVar("T")


class Lost(Struct, frozen=True):
    """The meaning of a member without a canonical counterpart, in the annotation of its type.

    `kind` is the kind of loss if it is omitted; `neutral` values have no effect and are no loss;
    `code` is the error code when the policy refuses the request for it.
    """

    kind: LossKind
    detail: str = "has no counterpart upstream"
    neutral: tuple[Any, ...] = ()
    code: str = UNSUPPORTED


UNKNOWN = Lost(LossKind.KNOB, "unknown field")
"""Members in no shape: passed through in the same protocol, reported otherwise."""


class Shape(Struct, forbid_unknown_fields=True, gc=False):
    """An object with the members that a subclass declares, and no others."""


class Unknown(Struct, forbid_unknown_fields=True, tag_field="type", tag=""):
    """An element of a union with a tag that the union does not know: the tag and all of it.

    Each union has a subclass of its own, with the union's `tag_field` if that is not `type`.
    """

    kind: str
    value: dict[str, Any]

    @classmethod
    def implied(cls, value: JsonObject) -> str | None:
        """The tag of an element without one; None if it must have one."""
        return None


REFUSED: Final = (msgspec.DecodeError, UnicodeError, RecursionError)
"""The errors of a decoder."""


class Reader(Generic[T]):
    """The reader of the shape `kind`."""

    __slots__ = ("_kind", "decode")

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self.decode: Callable[[bytes | Raw], T] = msgspec.json.Decoder(kind).decode
        """Decodes JSON text without unknown members. Raises one of `REFUSED`."""

    def read(self, body: bytes | Raw, extras: list[Extra], path: str = "") -> T:
        """The shape that JSON text has; its unknown members go into the extras. `path` is its path
        in the request, empty for a whole body.

        Raises:
            InvalidRequest: not a JSON object, or naming the member at fault.
        """
        try:
            return self.decode(body)
        except REFUSED:
            value = carried_value(Raw(body), path) if path else decode_object(bytes(body))
            return self.convert(value, path, extras)

    def exact(self, body: bytes, extras: list[Extra] | None = None) -> T | None:
        """The shape of JSON text that differs from it in unknown members only, which go into the
        extras; None of any other."""
        try:
            return self.decode(body)
        except REFUSED:
            pass
        try:
            value = jsontext.strict(body)
            return self._walked(value, "", [] if extras is None else extras, "exact")
        except (JsonError, InvalidRequest):
            return None

    def convert(self, value: Any, path: str, extras: list[Extra]) -> T:
        """The shape of a decoded value, whose path in the request is `path`.

        Raises:
            InvalidRequest: naming the member at fault.
        """
        return self._walked(value, path, extras, "request")

    def tolerate(self, value: Any, extras: list[Extra], path: str = "") -> T:
        """The shape of a decoded value from an upstream: optional members of a wrong type are taken
        for absent, and names that differ from known ones by case for unknown.

        Raises:
            InvalidRequest: naming the member at fault.
        """
        return self._walked(value, path, extras, "answer")

    def _walked(self, value: Any, path: str, extras: list[Extra], mode: _Mode) -> T:
        kind: Any = self._kind
        known = _walk_of(kind, mode)(value, path, extras)
        try:
            return msgspec.convert(known, self._kind)
        except msgspec.ValidationError as error:
            raise mismatch(error) from None


def report_lost(given: Struct, path: str, extras: list[Extra]) -> None:
    """Add the members of `given` that are declared as `Lost` to the extras; `path` is its own."""
    values_of, absent, members = _lost(type(given))
    values = values_of(structs.astuple(given))
    if values == absent:
        return
    for value, (name, lost) in zip(values, members, strict=True):
        if value is not None and not is_neutral(value, lost.neutral):
            at = f"{path}.{name}" if path else name
            extras.append(Extra(at, value, lost.kind, lost.detail, lost.code))


def members_of(shape: type[Struct]) -> frozenset[str]:
    """The names of the members that a shape knows."""
    tag_field = shape.__struct_config__.tag_field
    names = [member.encode_name for member in structs.fields(shape)]
    return frozenset(names if tag_field is None else [tag_field, *names])


def is_neutral(value: Any, neutral: Iterable[Any]) -> bool:
    """Whether a value is one of those without an effect, of the same type."""
    return any(type(value) is type(same) and value == same for same in neutral)


def lost_in(member: structs.FieldInfo) -> Lost | None:
    """The meaning of losing a member; None if it has a canonical counterpart."""
    notes = getattr(member.type, "__metadata__", ())
    return next((note for note in notes if isinstance(note, Lost)), None)


@cache
def _lost(
    kind: type[Struct],
) -> tuple[
    Callable[[tuple[Any, ...]], tuple[Any, ...]], tuple[None, ...], tuple[tuple[str, Lost], ...]
]:
    """The members declared as `Lost`: a function that takes their values from those of all members,
    the values if all are absent, and name and meaning of each."""
    found = [
        (at, member.encode_name, lost)
        for at, member in enumerate(structs.fields(kind))
        if (lost := lost_in(member)) is not None
    ]
    values_of = taker([at for at, _, _ in found])
    return values_of, (None,) * len(found), tuple((name, lost) for _, name, lost in found)


def taker(places: Sequence[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """A function that takes the values at these places from a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    # With a single place an itemgetter returns no tuple.
    return lambda values: tuple([values[at] for at in places])


def text(value: Any, path: str, name: str) -> str:
    """A text that must be there: the member `name` of the object at `path`.

    Raises:
        InvalidRequest: it is anything else.
    """
    if type(value) is not str:
        problem = "is required" if value is None else "must be a string"
        raise InvalidRequest.at(f"{path}.{name}", problem)
    return value


def needed(value: str | None, path: str, name: str) -> str:
    """A text that must not be empty.

    Raises:
        InvalidRequest: it is, or there is none.
    """
    if not value:
        problem = "is required" if value is None else "must not be empty"
        raise InvalidRequest.at(f"{path}.{name}", problem)
    return value


def carried_value(raw: Raw, path: str) -> Any:
    """The value at `path` that was carried; None if it is absent.

    Raises:
        InvalidRequest: it is not JSON, or nested too deeply.
    """
    if not memoryview(raw).nbytes:
        return None
    try:
        return jsontext.decode(raw)
    except jsontext.JsonError:
        raise InvalidRequest.at(path, "is not valid JSON text") from None


def carried_object(raw: Raw, path: str, name: str) -> Raw | None:
    """The member `name` of what is at `path`: an object that is carried as it is, as long as it is
    not nested too deeply; None if it is absent or null.

    Raises:
        InvalidRequest: naming the member.
    """
    text = bytes(raw)
    if not text.startswith(b"{"):
        if text in (b"", b"null"):
            return None
        raise InvalidRequest.at(_path((path, name)), "must be an object")
    if text.count(b"{") + text.count(b"[") > MAX_DEPTH:
        at = _path((path, name))
        check_depth(carried_value(raw, at), at)
    return raw


# --- the walk along a shape ---------------------------------------------------------------------

_Mode: TypeAlias = Literal["request", "exact", "answer"]
"""How much a value may differ from its shape, beside unknown members. In an answer: see
`Reader.tolerate`; exactly: not at all; in a request: as the docstring of this module says."""

_Place: TypeAlias = "str | tuple[_Place, str | int]"
"""Where a value is: a path, or the place of the value around it and its name or index there."""

_Walk: TypeAlias = Callable[[Any, _Place, list[Extra]], Any]
"""Returns a value without what its shape does not know; the same value if it knows all of it."""


def _path(place: _Place) -> str:
    if isinstance(place, str):
        return place
    outer, name = _path(place[0]), place[1]
    if isinstance(name, int):
        return f"{outer}[{name}]"
    return f"{outer}.{name}" if outer else name


def _fail(place: _Place, problem: str) -> NoReturn:
    raise InvalidRequest.at(_path(place), problem)


@cache
def _walk_of(kind: Any, mode: _Mode) -> _Walk:
    return _Walks(mode).of(inspect.type_info(kind))


_WRONG: Final[Any] = object()
"""The result of a walk of a value of a wrong type in an answer."""


def _keep(value: Any, place: _Place, extras: list[Extra]) -> Any:
    return value


def _carry(value: Any, place: _Place, extras: list[Extra]) -> Raw:
    try:
        return Raw(to_json(value))
    except UnicodeEncodeError:  # Half of a character: the other half is in the next piece.
        return Raw(json.dumps(value).encode())


class _Walks:
    """The walks of one shape and of the shapes in it, which may have itself among them."""

    def __init__(self, mode: _Mode) -> None:
        self._mode = mode
        self._objects: dict[type, _Object] = {}

    def of(self, kind: inspect.Type) -> _Walk:
        """The walk of a type."""
        among = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
        if any(isinstance(one, inspect.AnyType) for one in among):
            return _keep
        if any(isinstance(one, inspect.RawType) for one in among):
            return _carry
        steps: dict[type, _Walk] = {}
        words: list[str] = []
        for one in among:
            self._add(one, steps, words)
        objects = [one for one in among if isinstance(one, inspect.StructType)]
        if objects:
            words.append("an object")
            steps[dict] = self._object(objects)
        problem = "must be " + " or ".join(words)
        is_answer = self._mode == "answer"

        def walk(value: Any, place: _Place, extras: list[Extra]) -> Any:
            step = steps.get(type(value))
            if step is None:
                if is_answer:
                    return _WRONG
                _fail(place, "is required" if value is None else problem)
            return step(value, place, extras)

        return walk

    def _add(self, kind: inspect.Type, steps: dict[type, _Walk], words: list[str]) -> None:
        """Add the steps for one of the types of a union, and the words for it."""
        match kind:
            case inspect.NoneType():
                steps[type(None)] = _keep
            case inspect.BoolType():
                steps[bool] = _keep
                words.append("a boolean")
            case inspect.StrType():
                steps[str] = _sized(kind.min_length, _keep)
                words.append("a string")
            case inspect.LiteralType():
                steps[str] = _one_of(kind.values, self._mode)
                words.append(f"one of {_listed(kind.values)}")
            case inspect.IntType():
                steps[int] = _in_range(kind)
                if self._mode != "exact":
                    steps[float] = _whole(steps[int])
                words.append("a whole number")
            case inspect.FloatType():
                steps[int] = steps[float] = _in_range(kind)
                words.append("a number")
            case inspect.ListType() | inspect.VarTupleType():
                steps[list] = _sized(kind.min_length, _each(self.of(kind.item_type)))
                words.append("an array")
            case inspect.DictType():
                steps[dict] = _members(self.of(kind.value_type))
                words.append("an object")

    def _object(self, kinds: list[inspect.StructType]) -> _Walk:
        tag_field = kinds[0].tag_field
        if tag_field is None:
            return self._struct(kinds[0])
        unknown = next((one.cls for one in kinds if issubclass(one.cls, Unknown)), None)
        known = {str(one.tag): self._struct(one) for one in kinds if one.cls is not unknown}
        problem = f"must be one of {_listed(known)}"
        # As to the decoder, one that is not in a union may leave its tag out.
        alone = self._struct(kinds[0]) if len(kinds) == 1 else None
        is_answer = self._mode == "answer"

        def walk(value: JsonObject, place: _Place, extras: list[Extra]) -> Any:
            tag = value.get(tag_field)
            if is_answer and type(tag) is not str:
                tag = None
            if tag is None and alone is not None:
                return alone(value, place, extras)
            if tag is None:
                tag = None if unknown is None else unknown.implied(value)
                if tag is None:
                    _fail((place, tag_field), "is required")
                value = {**value, tag_field: tag}
            if type(tag) is not str:
                _fail((place, tag_field), "must be a string")
            struct = known.get(tag)
            if struct is not None:
                return struct(value, place, extras)
            if unknown is None:
                _fail((place, tag_field), problem)
            return unknown(tag, value)

        return walk

    def _struct(self, kind: inspect.StructType) -> _Object:
        made = self._objects.get(kind.cls)
        if made is None:
            made = self._objects[kind.cls] = _Object()
            made.fill(kind, self.of, self._mode)
        return made


class _Object:
    """The walk of an object, filled after it was made: shapes may contain themselves."""

    __slots__ = ("_adapted", "_folded", "_given", "_members", "_required")

    def __init__(self) -> None:
        self._adapted: Callable[[JsonObject], JsonObject] | None = None
        self._members: dict[str, _Walk] = {}
        self._folded: dict[str, str] = {}
        self._required: list[str] = []
        self._given: frozenset[str] = frozenset()
        """Members that may be absent, but not null."""

    def fill(
        self, kind: inspect.StructType, of: Callable[[inspect.Type], _Walk], mode: _Mode
    ) -> None:
        """Set the members."""
        self._adapted = getattr(kind.cls, "adapted", None)
        if kind.tag_field is not None:
            self._members[kind.tag_field] = _keep
        for member in kind.fields:
            self._members[member.encode_name] = of(member.type)
        self._folded = {} if mode == "answer" else folded(self._members)
        self._required = [member.encode_name for member in kind.fields if member.required]
        self._given = frozenset(
            member.encode_name
            for member in kind.fields
            if mode != "exact" and not member.required and not _may_be_null(member.type)
        )

    def __call__(self, value: JsonObject, place: _Place, extras: list[Extra]) -> JsonObject:
        if self._adapted is not None:
            value = self._adapted(value)
        for name in self._required:
            if name not in value:
                _fail((place, name), "is required")
        changed: JsonObject = {}
        left_out: list[str] = []
        for name, inner in value.items():
            walk = self._members.get(name)
            if walk is None:
                left_out.append(name)
                self._leave_out(name, inner, place, extras)
            elif inner is None and name in self._given:
                left_out.append(name)
            else:
                walked = walk(inner, (place, name), extras)
                if walked is _WRONG:
                    if name in self._required:
                        _fail((place, name), "is of a wrong type")
                    left_out.append(name)
                elif walked is not inner:
                    changed[name] = walked
        if changed or left_out:
            value = {**value, **changed}
            for name in left_out:
                del value[name]
        return value

    def _leave_out(self, name: str, value: Any, place: _Place, extras: list[Extra]) -> None:
        """Account for a member that the shape does not know.

        Raises:
            InvalidRequest: it is one of those that it knows but for its case.
        """
        refuse_misspelled(name, self._folded, (place, name))
        if value is not None:
            extras.append(Extra(_path((place, name)), value, UNKNOWN.kind, UNKNOWN.detail))


def folded(names: Iterable[str]) -> dict[str, str]:
    """The names of members, each by its form in which case makes no difference."""
    return {name.casefold(): name for name in names}


def refuse_misspelled(name: str, known: Mapping[str, str], place: _Place) -> None:
    """Refuse a member that is one of `known` (see `folded`) but for its case: some servers read it
    as that, after everything here has taken it for something else.

    Raises:
        InvalidRequest: it is.
    """
    meant = known.get(name.casefold())
    if meant is not None:
        raise InvalidRequest.at(_path(place), f"is not known: write {meant}")


class Names:
    """The names of the members of a request by which its model, its price and what it may use are
    determined, each with those in it that matter. They are checked also where a body is passed on
    without being read."""

    __slots__ = ("_folded", "_inner", "_known")

    def __init__(self, names: Mapping[str, Collection[str]]) -> None:
        self._known = frozenset(names)
        self._folded = folded(names)
        self._inner = {name: folded(inner) for name, inner in names.items() if inner}

    def check(self, members: Mapping[str, Raw]) -> None:
        """Refuse members that are one of these but for their case.

        Raises:
            InvalidRequest: naming the member.
        """
        if not self._known.issuperset(members):
            for name in members:
                if name not in self._known:
                    refuse_misspelled(name, self._folded, name)
        if not self._inner.keys().isdisjoint(members):
            for name in self._inner:
                if name in members:
                    self._check_inner(name, members[name])

    def _check_inner(self, outer: str, raw: Raw) -> None:
        known = self._inner[outer]
        for name in split_object(raw) or ():
            if known.get(name.casefold()) != name:
                refuse_misspelled(name, known, f"{outer}.{name}")


def _may_be_null(kind: inspect.Type) -> bool:
    among = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return any(
        isinstance(one, inspect.AnyType | inspect.RawType | inspect.NoneType) for one in among
    )


def _each(walk: _Walk) -> _Walk:
    def walk_all(value: list[Any], place: _Place, extras: list[Extra]) -> list[Any]:
        walked = [walk(inner, (place, number), extras) for number, inner in enumerate(value)]
        is_same = all(new is old for new, old in zip(walked, value, strict=True))
        return value if is_same else walked

    return walk_all


def _members(walk: _Walk) -> _Walk:
    def walk_all(value: JsonObject, place: _Place, extras: list[Extra]) -> JsonObject:
        return {name: walk(inner, (place, name), extras) for name, inner in value.items()}

    return _keep if walk is _keep else walk_all


def _sized(least: int | None, walk: _Walk) -> _Walk:
    def walk_sized(value: Any, place: _Place, extras: list[Extra]) -> Any:
        if not value:
            _fail(place, "must not be empty")
        return walk(value, place, extras)

    return walk_sized if least else walk


def _one_of(values: Iterable[Any], mode: _Mode) -> _Walk:
    problem = f"must be one of {_listed(values)}"

    def check(value: str, place: _Place, extras: list[Extra]) -> Any:
        if value in values:
            return value
        return _WRONG if mode == "answer" else _fail(place, problem)

    return check


def _whole(walk: _Walk) -> _Walk:
    def walk_whole(value: float, place: _Place, extras: list[Extra]) -> Any:
        if not value.is_integer():
            _fail(place, "must be a whole number")
        return walk(int(value), place, extras)

    return walk_whole


def _in_range(kind: inspect.IntType | inspect.FloatType) -> _Walk:
    least, most = kind.ge, kind.le
    if least is None and most is None:
        return _keep
    problem = (
        f"must be between {least} and {most}" if most is not None else f"must be at least {least}"
    )

    def check(value: float, place: _Place, extras: list[Extra]) -> float:
        if (least is not None and value < least) or (most is not None and value > most):
            _fail(place, problem)
        return value

    return check


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(str, values))
