"""A value that is refused, and how each vendor words it."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from dragoman.lab.simulator.errors import ApiError

Path = tuple[str | int, ...]
"""Keys and indices from an object to a value inside it."""

MEMBER = ""
"""As the last key of a refusal: the member of the union itself, which Anthropic names."""


class Refusal(ValueError):
    """A value breaks a rule. The vendor opens ``detail`` with the value's name.

    ``at`` are the keys to the value: in a shape's ``__post_init__`` those from its own object,
    elsewhere those from the root. ``code`` is OpenAI's.
    """

    def __init__(self, detail: str, *at: str | int, code: str | None = "invalid_value") -> None:
        super().__init__()
        self.detail = detail
        self.at = at
        self.code = code


class Complaint(Refusal):
    """A refusal in words of its own, without the usual opening."""

    def __init__(self, text: str, *at: str | int, code: str | None = None) -> None:
        super().__init__(text, *at, code=code)


@dataclass(frozen=True, slots=True)
class Vendor:
    """How a vendor words a refusal.

    ``texts`` are by kind and formatted with what the kind has, those of the ``unopened`` kinds
    also with the path. ``dotted`` paths also name the members of the unions that they lead
    through. ``types`` are the names of JSON's types.
    """

    dotted: bool
    conjunction: str
    types: Mapping[str, str]
    opening: str
    texts: Mapping[str, str]
    unopened: Collection[str] = ()

    def name(self, path: Path) -> str:
        """The path in the vendor's notation."""
        keys = [key for key in path if key != MEMBER]
        if self.dotted:
            return ".".join(map(str, keys))
        text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
        return text.removeprefix(".")

    def refusal(self, kind: str, path: Path, **values: object) -> Refusal:
        """A refusal in the vendor's words for that kind."""
        refusal = Complaint if kind in self.unopened else Refusal
        text = self.texts[kind].format(path=self.name(path), **values)
        return refusal(text, *path, code=_CODES.get(kind, "invalid_value"))

    def listed(self, values: Collection[str]) -> str:
        """The values of a closed set."""
        *others, last = (f"'{value}'" for value in values)
        if not others:
            return last
        comma = "," if len(others) > 1 and not self.dotted else ""
        return f"{', '.join(others)}{comma} {self.conjunction} {last}"

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Turns a refusal into the error to answer.

        Raises:
            ApiError: 400, naming the value that is refused.
        """
        try:
            yield
        except Refusal as refusal:
            name = self.name(refusal.at)
            opening = "" if isinstance(refusal, Complaint) else self.opening.format(path=name)
            message = opening + refusal.detail
            raise ApiError(400, message, code=refusal.code, param=name or None) from None


_CODES = {
    "missing": "missing_required_parameter",
    "unknown": "unknown_parameter",
    "type": "invalid_type",
    "str >=": "empty_string",
    "str <=": "string_above_max_length",
    "array >=": "empty_array",
    "array <=": "array_above_max_length",
    "object <=": "object_above_max_properties",
    "int >=": "integer_below_min_value",
    "int <=": "integer_above_max_value",
    "float >=": "decimal_below_min_value",
    "float <=": "decimal_above_max_value",
}
_BELOW = " below minimum value. Expected a value >= {limit}, but got {got} instead."
_ABOVE = " above maximum value. Expected a value <= {limit}, but got {got} instead."

OPENAI = Vendor(
    dotted=False,
    conjunction="and",
    types={
        "object": "an object",
        "array": "an array",
        "str": "a string",
        "bool": "a boolean",
        "int": "an integer",
        "float": "a decimal number",
        "null": "null",
    },
    opening="Invalid '{path}': ",
    texts={
        "missing": "Missing required parameter: '{path}'.",
        "unknown": "Unknown parameter: '{path}'.",
        "type": "Invalid type for '{path}': expected {expected}, but got {got} instead.",
        "choice": "Invalid value: '{got}'. Supported values are: {options}.",
        "pattern": "string does not match pattern. Expected a string that matches the pattern "
        "'{pattern}'.",
        "str >=": "empty string. Expected a string with minimum length {limit}, but got an empty "
        "string instead.",
        "str <=": "string too long. Expected a string with maximum length {limit}, but got a "
        "string with length {got} instead.",
        "array >=": "empty array. Expected an array with minimum length {limit}, but got an empty "
        "array instead.",
        "array <=": "array too long. Expected an array with maximum length {limit}, but got an "
        "array with length {got} instead.",
        "object <=": "too many properties. Expected at most {limit}.",
        "int >=": f"integer{_BELOW}",
        "int <=": f"integer{_ABOVE}",
        "float >=": f"decimal{_BELOW}",
        "float <=": f"decimal{_ABOVE}",
    },
    unopened=("missing", "unknown", "type", "choice"),
)
ANTHROPIC = Vendor(
    dotted=True,
    conjunction="or",
    types={
        "object": "a valid dictionary",
        "array": "a valid list",
        "str": "a valid string",
        "bool": "a valid boolean",
        "int": "a valid integer",
        "float": "a valid number",
    },
    opening="{path}: ",
    texts={
        "missing": "Field required",
        "unknown": "Extra inputs are not permitted",
        "type": "Input should be {expected}",
        "choice": "Input should be {options}",
        "tag": "Input tag '{got}' found using 'type' does not match any of the expected tags: "
        "{tags}",
        "pattern": "String should match pattern '{pattern}'",
        "str >=": "String should have at least {limit} character",
        "str <=": "String should have at most {limit} characters",
        "array <=": "List should have at most {limit} items after validation, not {got}",
        "int >=": "Input should be greater than or equal to {limit}",
        "float >=": "Input should be greater than or equal to {limit}",
        "float <=": "Input should be less than or equal to {limit}",
    },
)
