"""Headers of an answer."""

from collections.abc import Iterator, Mapping, Sequence


class Headers(Mapping[str, str]):
    """Headers of an answer by lower-case name; names are found in any case.

    The value of a repeated name is its values, separated by a comma and a space
    (RFC 9110, 5.3); `get_all` returns each. Bytes are read as Latin-1, so that none is lost.
    """

    __slots__ = ("_raw",)

    def __init__(self, raw: Sequence[tuple[bytes, bytes]]) -> None:
        """
        Args:
            raw: names, in lower case, and values.
        """
        self._raw = raw

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Names and values in the order in which they came."""
        return [(_name(name), value.decode("latin-1").strip()) for name, value in self._raw]

    def get_all(self, name: str) -> list[str]:
        """Every value of a name, in order; empty where there is none."""
        # Most names asked for are there once or not at all, so nothing else is decoded.
        wanted = name.lower().encode("latin-1", "replace")
        return [value.decode("latin-1").strip() for key, value in self._raw if key == wanted]

    def __getitem__(self, name: str) -> str:
        values = self.get_all(name)
        if not values:
            raise KeyError(name)
        return ", ".join(values)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.get_all(name))

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(_name(name) for name, _ in self._raw))

    def __len__(self) -> int:
        return len({_name(name) for name, _ in self._raw})

    def __repr__(self) -> str:
        return f"Headers({sorted(self)})"


def _name(raw: bytes) -> str:
    return raw.decode("latin-1")
