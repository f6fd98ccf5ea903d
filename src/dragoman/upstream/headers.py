"""Headers of an answer."""

from collections.abc import Iterator, Mapping


class Headers(Mapping[str, str]):
    """Headers of an answer by lower-case name; names are found in any case.

    The value of a repeated name is its values, separated by a comma and a space (RFC 9110, 5.3).
    Bytes are read as Latin-1, so that none is lost.
    """

    __slots__ = ("_raw",)

    def __init__(self, raw: Mapping[bytes, bytes]) -> None:
        """
        Args:
            raw: values by name in lower case.
        """
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        return self._raw[_raw(name)].decode("latin-1").strip()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _raw(name) in self._raw

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def __repr__(self) -> str:
        return f"Headers({sorted(self)})"


def _raw(name: str) -> bytes:
    return name.lower().encode("latin-1", "replace")
