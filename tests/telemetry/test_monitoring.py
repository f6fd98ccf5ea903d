"""The dashboard, the alert rules and the page of metrics know the metrics that exist, and all of
them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dragoman.config import Account, Admin, Config, Secret, Storage, Upstream
from dragoman.config.sign_in import SignIn
from dragoman.edge.record import Record
from dragoman.observability.metrics.exposition import render
from dragoman.observability.metrics.families import FAMILIES, HistogramFamily, Snapshot
from dragoman.observability.metrics.metrics import Metrics
from dragoman.server.app import Gateway
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


def share_of_errors(counted: Metrics) -> dict[str, float]:
    """The share of requests that failed by whose fault, as the alert for it has them. Rates are
    counts: all came within the same time."""
    (rule,) = (one.expression for one in monitoring.RULES if one.name == "DragomanErrors")
    others = re.search(r'route!~"([^"]*)"', rule)
    spared = re.search(r'fault!="([^"]*)"', rule)
    assert others
    assert spared
    # In a text of PromQL a backslash stands for itself as two.
    not_api = re.compile(others[1].replace("\\\\", "\\"))
    requests, errors = 0.0, dict.fromkeys(("gateway", "upstream"), 0.0)
    text = render(Snapshot(counted.counts, {}, "1")).decode()
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if one.name == "dragoman_requests_total" and not not_api.fullmatch(one.labels["route"]):
                requests += one.value
            if one.name == "dragoman_errors_total" and one.labels["fault"] != spared[1]:
                errors[one.labels["fault"]] += one.value
    return {fault: count / requests for fault, count in errors.items()}


def counted(*, of_page: int = 0, **errors: int) -> Metrics:
    """So many API requests by their errors, `good` ones, and so many of the page."""
    metrics = Metrics()
    for _ in range(of_page):
        for route in ("/ui/accounts", "/admin/requests", "/metrics", "/healthz", "/", "(other)"):
            metrics.finished(route, 200, Record(), None, 0.1, 0.1)
    for error, count in errors.items():
        for _ in range(count):
            record = Record()
            record.upstream, record.attempts = "up", 1
            record.error = "" if error == "good" else error
            status = 200 if error == "good" else 500
            metrics.finished("/v1/messages", status, record, None, 0.1, 0.1)
    return metrics


@pytest.mark.parametrize(
    ("errors", "shares"),
    [
        ({"good": 13, "forbidden": 47}, {"gateway": 47 / 60, "upstream": 0}),
        ({"good": 40, "no_account": 10}, {"gateway": 0.2, "upstream": 0}),
        ({"good": 40, "upstream_failed": 8, "no_account": 2}, {"gateway": 0.04, "upstream": 0.16}),
        ({"good": 40, "invalid_request": 60}, {"gateway": 0, "upstream": 0}),
    ],
)
def test_the_alert_of_errors_knows_whose_they_are(
    errors: dict[str, int], shares: dict[str, float]
) -> None:
    """Of API requests alone: those of the page change nothing."""
    for of_page in (0, 1000):
        assert share_of_errors(counted(of_page=of_page, **errors)) == pytest.approx(shares)


def test_the_alert_of_errors_counts_the_requests_that_need_a_key(tmp_path: Path) -> None:
    """Not those of the page, of signing in, and of health."""
    gateway = Gateway(
        Config(
            upstreams=(Upstream(name="up", protocol="openai_chat", base_url="http://127.0.0.1:9"),),
            accounts=(Account(name="a", upstream="up", key=Secret("k")),),
            admin=Admin(key=Secret("an administration key")),
            storage=Storage(path=str(tmp_path / "store.db"), key=Secret("a key of the store")),
            sign_in=SignIn(
                public_url="http://127.0.0.1:8", issuer="http://127.0.0.1:9", client_id="d"
            ),
        ),
        None,
    )
    for path, route in gateway._current.routes.items():
        metrics = counted(no_account=1)
        metrics.finished(path, 200, Record(), None, 0.1, 0.1)
        share = share_of_errors(metrics)["gateway"]
        assert share == (1.0 if route.open else 0.5), path
