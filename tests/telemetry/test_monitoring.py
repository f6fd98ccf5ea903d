"""The dashboard, the alert rules and the page of metrics know the metrics that exist, and all of
them."""

from __future__ import annotations

import json
import re

from dragoman.observability.metrics.families import FAMILIES, HistogramFamily
from tools.pages import monitoring

SERIES = re.compile(r"\b((?:dragoman|process)_[a-z_]+)(\{[^}]*\})?")
LABEL = re.compile(r'(\w+)(?:=~|!=|!~|=)"')
BY = re.compile(r"\b(?:by|on|group_left) \(([^)]*)\)")
TARGET = {"job", "instance"}
"""Labels that Prometheus itself adds."""

LABELS = {family.name: set(family.labels) for family in FAMILIES}
for _family in FAMILIES:
    if isinstance(_family, HistogramFamily):
        LABELS.pop(_family.name)
        LABELS[f"{_family.name}_bucket"] = {*_family.labels, "le"}


def test_what_is_generated_is_up_to_date() -> None:
    """If this fails: make docs."""
    assert monitoring.DASHBOARD.read_text() == monitoring.dashboard()
    assert monitoring.ALERTS.read_text() == monitoring.alerts()
    before = monitoring.PAGE.read_text()
    assert monitoring.page(before) == before


def test_every_expression_asks_for_what_there_is() -> None:
    asked = set()
    for expression in monitoring.expressions():
        found = SERIES.findall(expression)
        assert found
        known: set[str] = set(TARGET)
        for name, selector in found:
            assert name in LABELS, expression
            asked.add(name)
            known |= LABELS[name]
            assert set(LABEL.findall(selector)) <= LABELS[name] | TARGET, expression
        for labels in BY.findall(expression):
            assert {label.strip() for label in labels.split(",")} <= known, expression
    assert asked == LABELS.keys()


def test_legends_show_labels_that_are_left() -> None:
    for panels in monitoring.ROWS.values():
        for panel in panels:
            for expression, legend in panel.queries:
                shown = set(re.findall(r"{{(\w+)}}", legend))
                kept = {label.strip() for one in BY.findall(expression) for label in one.split(",")}
                assert shown <= kept | (TARGET if "sum" not in expression else set()), panel


def test_grafana_can_lay_it_out() -> None:
    made = json.loads(monitoring.dashboard())
    panels = made["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken
        taken |= cells
        assert place["x"] + place["w"] <= 24
    names = {variable["name"] for variable in made["templating"]["list"]}
    used = set(re.findall(r"\$(?!__)\{?(\w+)", json.dumps(panels)))
    assert used == names
