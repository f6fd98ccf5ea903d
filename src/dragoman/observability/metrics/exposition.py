"""The text forms of metrics: Prometheus's 0.0.4, and OpenMetrics 1.0.0, which has exemplars."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.observability.metrics.counts import Exemplar, Histogram
from dragoman.observability.metrics.families import FAMILIES, HistogramFamily, Labels, Snapshot

_PLAIN = b"text/plain; version=0.0.4; charset=utf-8"
_OPEN_TYPE = b"application/openmetrics-text"
_OPEN = _OPEN_TYPE + b"; version=1.0.0; charset=utf-8"


def takes_openmetrics(accept: bytes) -> bool:
    """Whether a scraper that sends this `Accept` header reads OpenMetrics."""
    return _OPEN_TYPE in accept.lower()


def content_type(*, openmetrics: bool) -> bytes:
    """The media type of what `render` makes."""
    return _OPEN if openmetrics else _PLAIN


def render(snapshot: Snapshot, *, openmetrics: bool = False) -> bytes:
    """All families, in one of the forms. Exemplars stand in OpenMetrics only."""
    lines: list[str] = []
    for family in FAMILIES:
        name = family.name
        if openmetrics and family.kind == "counter":
            name = name.removesuffix("_total")
        lines.append(f"# HELP {name} {family.text}")
        lines.append(f"# TYPE {name} {family.kind}")
        if isinstance(family, HistogramFamily):
            for values, histogram in family.samples(snapshot):
                lines += _buckets(family, values, histogram, openmetrics=openmetrics)
        else:
            for values, value in family.samples(snapshot):
                labels = _labels(family.labels, values)
                lines.append(f"{family.name}{labels} {value:.15g}")
    if openmetrics:
        lines.append("# EOF")
    return "\n".join(lines).encode() + b"\n"


def _buckets(
    family: HistogramFamily, values: Labels, histogram: Histogram, *, openmetrics: bool
) -> Iterator[str]:
    labels, below = (*family.labels, "le"), 0
    for place, number in enumerate(histogram.buckets):
        below += number
        bound = "+Inf"
        if place < len(family.bounds):
            # OpenMetrics asks for 1.0 where the other form has always had 1.
            bound = f"{family.bounds[place]}" if openmetrics else f"{family.bounds[place]:g}"
        line = f"{family.name}_bucket{_labels(labels, (*values, bound))} {below}"
        exemplar = histogram.exemplars.get(place) if openmetrics else None
        yield line if exemplar is None else line + _exemplar(exemplar)
    own = _labels(family.labels, values)
    yield f"{family.name}_sum{own} {histogram.total:.15g}"
    yield f"{family.name}_count{own} {below}"


def _exemplar(exemplar: Exemplar) -> str:
    value, at = exemplar.value, exemplar.at
    return f' # {{trace_id="{exemplar.trace_id:032x}"}} {value:.15g} {at:.3f}'


def _labels(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    pairs = zip(names, values, strict=True)
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
