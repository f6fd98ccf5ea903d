"""Inputs of operations, read from JSON, the parameters of a query, the options of a command or the
cells of a list. Every fault is reported, with the field it is in."""

from __future__ import annotations

import types
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import FieldInfo

from dragoman.config import Secret, SecretError
from dragoman.config.convert import Converter, Lookup, Resolve, dotted, suggestion
from dragoman.config.removed import REMOVED_INPUTS
from dragoman.printable import printable
from dragoman.times import InvalidTime, parse_time

S = TypeVar("S", bound=Struct)

Time = Annotated[float, Meta(extra={"text": "time"})]
"""A point in time in Unix seconds, which may be written as `dragoman.times.parse_time` reads it."""

_LONGEST_SHOWN = 60
_LATEST = 1e11


class FieldError(Struct, frozen=True):
    """What is wrong with one field. The message repeats no secret."""

    field: str
    message: str


class InvalidInput(ValueError):
    """An input cannot be used; `faults` names every field that is wrong."""

    def __init__(self, faults: tuple[FieldError, ...]) -> None:
        self.faults = faults
        super().__init__("; ".join(f"{fault.field}: {fault.message}" for fault in faults))

    @classmethod
    def of(cls, field: str, message: str) -> InvalidInput:
        """One field is wrong."""
        return cls((FieldError(field, message),))


class Changes(Struct, frozen=True, kw_only=True):
    """The input of an operation that sets fields of one thing: those that are not UNSET. None
    stands for the default."""

    name: str

    @classmethod
    def check_field(cls, name: str, value: Any) -> str:
        """What is wrong with the value of a field that its type does not say; empty if nothing."""
        return ""


def changes_of(
    kind: type[Struct],
    name: str,
    help: Mapping[str, str],
    base: type[Changes] = Changes,
    required: tuple[str, ...] = (),
    left_out: Container[str] = (),
) -> Any:
    """A type of `Changes` with the fields of `kind`, described as in `help`."""
    described: list[Any] = []
    for info in msgspec.structs.fields(kind):
        if info.encode_name in left_out:
            continue
        field, meta = info.encode_name, Meta(description=help.get(info.encode_name, ""))
        if field in required or field == "name":
            described.append((field, Annotated[info.type, meta]))
        else:
            value = info.type if info.required else info.type | None
            described.append((field, Annotated[value | UnsetType, meta], UNSET))
    doc = {"__doc__": base.__doc__}
    made: Any = msgspec.defstruct(
        name, described, bases=(base,), namespace=doc, frozen=True, kw_only=True
    )
    return made


def given(changes: Struct, but: Iterable[str] = ("name",)) -> dict[str, Any]:
    """The fields of an input that are set."""
    return {
        name: value
        for name in changes.__struct_fields__
        if name not in but and (value := getattr(changes, name)) is not UNSET
    }


def path_field(kind: type[Struct], name: str) -> str:
    """The field of an input that a path has the value of under a name."""
    return name if name in fields_of(kind) else f"{name}s"


@cache
def fields_of(kind: type[Struct]) -> Mapping[str, FieldInfo]:
    """The fields of an input, by name."""
    return {info.encode_name: info for info in msgspec.structs.fields(kind)}


def literal_secret(value: str) -> Secret:
    """The secret that is written out in full. A reference is refused: a remote caller must not be
    able to have this machine's variables and files read to an upstream.

    Raises:
        SecretError: it is a reference, empty, or has characters no header can carry.
    """
    if value.startswith(("env:", "file:")):
        raise SecretError("a reference is not followed here: send the value itself")
    value = value.strip()
    if not value:
        raise SecretError("the value is empty")
    if not (value.isascii() and value.isprintable()):
        raise SecretError("the value has characters that an HTTP header cannot carry")
    return Secret(value)


def read_input(kind: type[S], values: Mapping[str, Any], resolve: Resolve = literal_secret) -> S:
    """The input that values by field make. `resolve` turns a reference or literal into a secret;
    what is a secret or a file already stays as it is.

    Raises:
        InvalidInput: with every fault that was found.
    """
    known = fields_of(kind)
    faults: list[FieldError] = []
    read: dict[str, Any] = {}
    for name, value in values.items():
        info = known.get(name)
        if info is None:
            near = suggestion(name[:64], known)
            instead = REMOVED_INPUTS.get(f"{kind.__name__}.{name[:64]}")
            text = f"was removed: {instead}" if instead else f"no such field{near}"
            faults.append(FieldError(shortened(name), text))
            continue
        plain, takes_none = _arms(info.type)
        if value is None:
            if takes_none:
                read[info.name] = None
            else:
                faults.append(FieldError(name, "required"))
        elif isinstance(value, Secret | Struct):
            read[info.name] = value
        else:
            try:
                read[info.name] = converted(value, plain, name, resolve=resolve)
                fault = _length_fault(info.type, read[info.name])
                if not fault and issubclass(kind, Changes):
                    fault = kind.check_field(name, read[info.name])
                if fault:
                    faults.append(FieldError(name, fault))
            except InvalidInput as error:
                faults += error.faults
    faults += [
        FieldError(name, "required")
        for name, info in known.items()
        if info.required and name not in values
    ]
    if faults:
        raise InvalidInput(tuple(faults))
    return kind(**read)


def converted(value: object, kind: Any, *at: str, resolve: Resolve = Secret) -> Any:
    """The value of the field `at`, converted to the type `kind`.

    Raises:
        InvalidInput: with every fault that was found.
    """
    converter = Converter(Lookup(resolve))
    found = converter.convert(value, kind, at)
    if converter.faults:
        faults = converter.faults
        raise InvalidInput(tuple(FieldError(shortened(dotted(one)), text) for one, text in faults))
    return found


def from_texts(kind: type[Struct], texts: Mapping[str, str], now: float) -> dict[str, Any]:
    """Values by field out of texts, such as the parameters of a query: numbers, true and false,
    points in time, lists with commas. What cannot be read stays a text, for `read_input` to refuse.

    Raises:
        InvalidInput: a text is no point in time.
    """
    known = fields_of(kind)
    return {
        name: _from_text(name, text, known[name].type, now) if name in known else text
        for name, text in texts.items()
    }


def _from_text(name: str, text: str, kind: Any, now: float) -> Any:
    if text_form(kind) == "time":
        return read_time(name, text, now)
    kind = bare(kind)
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    if kind is int and text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text)
    if get_origin(kind) is tuple:
        return [one for one in text.split(",") if one]
    return text


def read_time(name: str, text: str, now: float) -> float:
    """The point in time that a text in a field names.

    Raises:
        InvalidInput: it is none.
    """
    if text == "now":
        return now
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if 0 <= seconds < _LATEST:
        return seconds
    try:
        return parse_time(text, now)
    except InvalidTime as error:
        raise InvalidInput.of(name, str(error)) from None


def shortened(text: str) -> str:
    """Text from outside, on one line and short enough for a message."""
    return printable(text, _LONGEST_SHOWN)


def text_form(kind: Any) -> str:
    """How a value of this type is written as a text, where that is not its JSON: `time`, `span`."""
    for meta in _metas(kind):
        if meta.extra and "text" in meta.extra:
            return str(meta.extra["text"])
    return ""


def is_table(kind: Any) -> bool:
    """Whether values of a type have fields of their own."""
    return isinstance(kind, type) and issubclass(kind, Struct)


def description_of(kind: Any) -> str:
    """The description of a field of this type."""
    return next((meta.description for meta in _metas(kind) if meta.description), "")


def _length_fault(kind: Any, value: object) -> str:
    """What is wrong with the length of a list; empty if nothing."""
    if isinstance(value, tuple):
        for meta in _metas(kind):
            if meta.min_length is not None and len(value) < meta.min_length:
                return f"expected at least {meta.min_length} entry"
            if meta.max_length is not None and len(value) > meta.max_length:
                return f"expected at most {meta.max_length} entries"
    return ""


def _metas(kind: Any) -> list[Meta]:
    """All that is annotated of a type, the outermost first."""
    if get_origin(kind) is Annotated:
        inner, *parts = get_args(kind)
        return [*(one for one in reversed(parts) if isinstance(one, Meta)), *_metas(inner)]
    if get_origin(kind) in _UNIONS:
        return [meta for arm in get_args(kind) for meta in _metas(arm)]
    return []


def bare(kind: Any) -> Any:
    """A type without None, UNSET, and what is annotated of it."""
    while True:
        plain, _ = _arms(kind)
        if get_origin(plain) is Annotated:
            plain = get_args(plain)[0]
        if plain == kind:
            return kind
        kind = plain


def _arms(kind: Any) -> tuple[Any, bool]:
    """A type without None and UNSET, and whether None is one of its values."""
    if get_origin(kind) is Annotated and get_origin(get_args(kind)[0]) in _UNIONS:
        kind = get_args(kind)[0]
    if get_origin(kind) not in _UNIONS:
        return kind, False
    arms = get_args(kind)
    others = [arm for arm in arms if arm not in (type(None), UnsetType)]
    return reduce(or_, others), type(None) in arms


_UNIONS = (Union, types.UnionType)

Check = Callable[[Any], object]
"""Raises unless the thing to be changed is as the caller expects."""
