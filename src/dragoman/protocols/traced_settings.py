"""Settings of a request, as they are traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Raw

from dragoman.protocols.raw import split_object


def settings_at(paths: Mapping[str, str]) -> Callable[[Mapping[str, Raw]], dict[str, Raw]]:
    """The function behind `Endpoint.settings` where settings are at these paths (`seed`,
    `reasoning.effort`), each with its name in traces. Of paths with one name a later one counts."""
    places: dict[str, list[tuple[list[str], str]]] = {}
    for path, name in paths.items():
        member, *below = path.split(".")
        places.setdefault(member, []).append((below, name))

    def settings(members: Mapping[str, Raw]) -> dict[str, Raw]:
        found: dict[str, Raw] = {}
        for member, raw in members.items():
            for below, name in places.get(member, ()):
                value: Raw | None = raw
                for step in below:
                    value = (split_object(value) or {}).get(step)
                if value is not None:
                    found[name] = value
        return found

    return settings
