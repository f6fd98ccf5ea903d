"""Gateways that run already, as the option ``--gateway`` names them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from urllib.parse import urlsplit

from bench.measure import Cell, cell_of
from bench.targets import CLIENT_KEY, LONG_NAMES, Access, Target

GATEWAY_HELP = (
    """\
a gateway that runs already, its upstreams set to the load upstream (see --upstream-port); can be
given several times. SPEC is KEY=VALUE, separated by commas:
  name=NAME          what tables call it
  url=URL            http://127.0.0.1:PORT, with a path if its own come after one
  pid=PID            the process whose CPU time and memory count, with its children; without it
                     only `bench.compare` measures it, and only what clients see
  chat=MODEL         the model that leads to the upstream of Chat Completions,
  messages=MODEL     to that of Messages,
  responses=MODEL    to that of Responses,
  google=MODEL       to that of generateContent; at least one of the four
  key=KEY            the client's key (default: """
    + CLIENT_KEY
    + """)
  cells=C:U+C:U      client:upstream pairs that it can do (default: all of its models)
  chat-path=PATH     where a protocol's requests go if not to its usual path
                     (messages-path and responses-path, too; google-path with
                     {model} and {method})
  header=NAME:VALUE  a header that every request has, several times if need be
  note=TEXT          a caveat to be printed beside the figures, several times if need be
"""
)

_SEVERAL = ("header", "note")
_PATHS = {f"{short}-path": name for short, name in LONG_NAMES.items()}
_KEYS = {"name", "url", "pid", "key", "cells", *_SEVERAL, *LONG_NAMES, *_PATHS}


@dataclass(frozen=True, slots=True)
class Gateway:
    """A target and the cells that are to be measured of it."""

    target: Target
    cells: tuple[Cell, ...]


def parsed(spec: str) -> Gateway:
    """What an option's value names; that there is such a process is not looked at.

    :raises ValueError: the value is not understood, or leads off this machine.
    """
    values: dict[str, list[str]] = {}
    for part in spec.split(","):
        key, equals, value = part.partition("=")
        if not equals or key not in _KEYS or not value:
            raise ValueError(f"{part!r} is not KEY=VALUE of {', '.join(sorted(_KEYS))}")
        if key in values and key not in _SEVERAL:
            raise ValueError(f"{key!r} is there twice")
        values.setdefault(key, []).append(value)
    single = {key: found[0] for key, found in values.items()}
    missing = [key for key in ("name", "url") if key not in single]
    if missing:
        raise ValueError(f"{', '.join(missing)} missing in {spec!r}")
    if not single.get("pid", "0").isdecimal():
        raise ValueError(f"pid={single['pid']} is not a number")
    port, base = _place(single["url"])
    models = {name: single[short] for short, name in LONG_NAMES.items() if short in single}
    if not models:
        raise ValueError(f"no model in {spec!r}: one of {', '.join(LONG_NAMES)} is needed")
    headers = tuple(_header(text) for text in values.get("header", ()))
    access = Access(
        models=models,
        headers=dict.fromkeys(models, headers),
        paths={name: single[key] for key, name in _PATHS.items() if key in single},
        base=base,
        key=single.get("key", CLIENT_KEY),
    )
    target = Target(
        name=single["name"],
        port=port,
        pid=int(single.get("pid", "0")),
        started=nan,
        access=access,
        caveats=tuple(values.get("note", ())),
    )
    return Gateway(target, _cells(single.get("cells"), models))


def _place(url: str) -> tuple[int, str]:
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname != "127.0.0.1" or not parts.port:
        raise ValueError(f"{url!r} is not http://127.0.0.1:PORT: only this machine is measured")
    return parts.port, parts.path.rstrip("/")


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name:
        raise ValueError(f"header={text} is not NAME:VALUE")
    return name, value


def _cells(text: str | None, models: dict[str, str]) -> tuple[Cell, ...]:
    if text is None:
        return tuple(Cell(client, name) for client in LONG_NAMES.values() for name in models)
    cells = tuple(cell_of(part) for part in text.split("+"))
    for cell in cells:
        if cell.upstream not in models:
            raise ValueError(f"{text!r} needs a model for {cell.upstream}")
    return cells


def placement(pid: int, core: int | None) -> Sequence[str]:
    """A caveat if a process is not held to the core that the others are held to.

    :raises RuntimeError: there is no such process, or it may not be looked at.
    """
    try:
        Path(f"/proc/{pid}/schedstat").read_text()
        allowed = os.sched_getaffinity(pid)
    except OSError as error:
        raise RuntimeError(f"process {pid} cannot be measured: {error}") from None
    if core is None or allowed == {core}:
        return ()
    cores = ", ".join(str(number) for number in sorted(allowed))
    return (f"It may use cores {cores}; the others are held to core {core}.",)
