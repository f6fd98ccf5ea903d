"""The limits that the project sets itself, and the worst figure measured against each.

Ratios are what counts, to other gateways and to nginx in the same run: they are the same on another
machine, as absolute figures are not.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isnan, nan

from bench.figures import difference, floor_of, quantile, ratio, same_cell
from bench.plan import STORED, Extremes, Figures, Results, Row

PEER = "agentgateway"
"""The compiled gateway that ours is measured against; it joins by ``--gateway name=...``."""

REQUEST_RATIOS = {"passed through": (1.1, 4.0), "translated": (1.2, 6.0)}
"""How many times a peer's and nginx's cost a small request may have, by the kind of row."""

EVENT_RATIOS = (1.0, 1.8)
"""The same for a translated event."""

CAUSES = {
    f"{kind}, request against nginx": "Python code, not sockets: `relay` costs about as much as "
    "nginx. A request calls some 180 Python functions, 260 if it is translated ([decision "
    "9](decisions/0009-cost-of-a-request.md))."
    for kind in REQUEST_RATIOS
} | {
    "120 KB request, translated": "About two thirds are the reader and the writer of the request, "
    "object by object; the body is decoded once for its top level, once completely, and encoded "
    "once.",
    "translated, event against nginx": "nginx makes the same system calls, so the ratio depends "
    "on their cost, which is about half of the cost of an event.",
    "what storing a response adds": "Writing the pages of a transaction, and two thread switches "
    "([decision 8](decisions/0008-stored-responses.md)).",
    "what storing one of 120 KB adds": "Mostly time in the kernel: each byte is written to the "
    "write-ahead log and then to the file ([decision 8](decisions/0008-stored-responses.md)).",
    "start": "Nearly all of it is the import of some 680 modules, 420 of them of dragoman: those "
    "that the configuration uses ([decision 49](decisions/0049-heads-and-clocks.md)). A quarter of "
    "the time are the protocols.",
    "added to the first token, p99": "Mostly waiting for a CPU used by other processes. From the "
    "request to the last event of a short stream the CPU time of the event loop was 0.27 ms at "
    "the median and 0.46 at the 99th percentile, that of all other threads 0.002.",
    "byte of a ten times larger body": "Page faults. A body of more than 4 MB, and its "
    "translation, are mapped separately from the heap, so that they grow in place and their "
    "memory is returned: 490 faults for each megabyte, 2 ms in the kernel. With "
    "`MALLOC_MMAP_THRESHOLD_` above its size a byte costs the same as in a body of a tenth of the "
    "size ([decision 15](decisions/0015-large-bodies.md)).",
    "idle": "The interpreter and the standard library take 21 MB, the modules of dragoman 14, the "
    "price table and the caches of the store the rest.",
}
"""The cause of each miss that is known, by the budget."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit, and the worst figure that was measured against it; NaN if none was.

    ``absolute`` is what a ratio is of, for orientation.
    """

    what: str
    limit: float
    unit: str
    worst: float = nan
    where: str = ""
    absolute: str = ""

    @property
    def missed(self) -> bool:
        """Whether a figure is beyond the limit."""
        return self.worst > self.limit

    @property
    def verdict(self) -> str:
        """For a table."""
        if isnan(self.worst):
            return "not measured"
        return "MISSED" if self.missed else "met"


@dataclass(frozen=True, slots=True)
class _Value:
    value: float
    where: str
    absolute: str = ""


def budgets(results: Results) -> list[Budget]:
    """All budgets; none if the gateway was not measured."""
    own = [
        (row, figures)
        for row, figures in results.rows
        if row.target.name == "dragoman" and not row.cell.tls and not row.cell.stored
    ]
    extremes = results.extremes.get("dragoman")
    if extremes is None:
        return []
    return [
        *_against_others(results, own),
        *_stored(results),
        *_absolute(results, [pair for pair in own if pair[0].kind == "translated"]),
        *_of_the_process(extremes),
    ]


def _against_others(results: Results, own: list[tuple[Row, Figures]]) -> Iterator[Budget]:
    limits = [(kind, "request", *pair) for kind, pair in REQUEST_RATIOS.items()]
    for kind, name, to_peer, to_nginx in [*limits, ("translated", "event", *EVENT_RATIOS)]:
        rows = [(row, figures) for row, figures in own if row.kind == kind]
        peer, nginx = [], []
        for row, figures in rows:
            absolute = f"{figures.median(name) * 1e6:.3g} µs"
            theirs = same_cell(results, PEER, row.cell) or Figures()
            peer.append(_Value(ratio(figures, theirs, name), row.name, absolute))
            floor = floor_of(results, row)
            nginx.append(_Value(ratio(figures, floor, name), row.name, absolute))
        yield _worst(f"{kind}, {name} against {PEER}", to_peer, "x", peer)
        yield _worst(f"{kind}, {name} against nginx", to_nginx, "x", nginx)


def _stored(results: Results) -> Iterator[Budget]:
    plain = next(
        (
            figures
            for row, figures in results.rows
            if row.target.name == "dragoman"
            and (row.cell.client, row.cell.upstream) == (STORED.client, STORED.upstream)
            and not row.cell.stored
        ),
        Figures(),
    )
    stored = same_cell(results, "dragoman", STORED) or Figures()
    small = difference(stored, plain, "request") * 1e6
    large = (stored.agent - plain.agent) * 1e6
    where = "dragoman: responses → chat"
    yield _worst("what storing a response adds", 40.0, "µs", [_Value(small, where)])
    yield _worst("what storing one of 120 KB adds", 300.0, "µs", [_Value(large, where)])


def _absolute(results: Results, translated: list[tuple[Row, Figures]]) -> Iterator[Budget]:
    agent = [_Value(figures.agent * 1e3, row.name) for row, figures in translated]
    yield _worst("120 KB request, translated", 0.4, "ms", agent)
    direct = quantile(results.direct_first_token, 0.5)
    added = [
        _Value((quantile(sorted(figures.first_token), 0.99) - direct) * 1e3, row.name)
        for row, figures in translated
    ]
    yield _worst("added to the first token, p99", 0.5, "ms", added)


def _of_the_process(found: Extremes) -> Iterator[Budget]:
    def one(what: str, limit: float, unit: str, value: float) -> Budget:
        return _worst(what, limit, unit, [_Value(value, "dragoman")])

    yield one("start", 0.3, "s", found.started)
    yield one("idle", 45.0, "MB", found.idle / 1e6)
    yield one("open stream", 30.0, "KB", found.per_stream / 1e3)
    yield one("idle connection", 8.0, "KB", found.per_connection / 1e3)
    grown = nan
    if len(found.long_stream) == 2:
        grown = found.long_stream[100_000] / found.long_stream[10_000]
    yield one("event of a ten times longer stream", 1.2, "x", grown)
    grown = nan
    if len(found.image) == 2:
        grown = found.image[10_000_000] / found.image[1_000_000] / 10
    yield one("byte of a ten times larger body", 1.5, "x", grown)


def _worst(what: str, limit: float, unit: str, values: Iterable[_Value]) -> Budget:
    known = [value for value in values if not isnan(value.value)]
    if not known:
        return Budget(what, limit, unit)
    worst = max(known, key=lambda value: value.value)
    return Budget(what, limit, unit, worst.value, worst.where, worst.absolute)
