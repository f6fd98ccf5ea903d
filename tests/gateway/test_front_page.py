"""`GET /` says what this is, to everybody the same."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.metadata import metadata

import pytest

from dragoman.config import Client, Secret, Server
from tests.gateway.conftest import Start
from tests.gateway.http import AUTH, call

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
LOCKED = {
    "server": Server(require_key=True),
    "clients": (Client(name="somebody", key=Secret("sk-another-one")),),
}


@pytest.mark.parametrize("accept", [{}, {"accept": "*/*"}, {"accept": "application/json"}])
def test_programs_get_json_with_links_that_lead_somewhere(
    start: Start, accept: dict[str, str]
) -> None:
    gateway = start()
    answer = call(gateway.base_url, "GET", "/", headers=accept, key=None)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    told = answer.json
    assert told["name"] == "dragoman"
    assert "LLM gateway" in told["description"]
    assert {"/v1/chat/completions", "/v1/messages", "/v1/responses"} <= set(told["endpoints"])
    links = told["links"]
    published = dict(
        line.split(", ", 1) for line in metadata("dragoman").get_all("Project-URL") or []
    )
    assert links.pop("documentation") == published["Documentation"]
    assert set(links) == {"models", "health", "readiness"}
    for path in links.values():
        assert call(gateway.base_url, "GET", path).status == 200
    for path in told["endpoints"]:
        # There, but not for GET; the vendor answers a list of interactions with 404.
        answer = call(gateway.base_url, "GET", path)
        assert answer.status == 405 or b"are not listed" in answer.body


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.found += [value for name, value in attrs if name == "href" and value]


def test_browsers_get_a_page_that_loads_and_runs_nothing(start: Start) -> None:
    gateway = start()
    answer = call(gateway.base_url, "GET", "/", headers=BROWSER, key=None)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["vary"] == "accept"
    page = Links()
    page.feed(answer.body.decode())
    document = call(gateway.base_url, "GET", "/", key=None).json
    assert page.found == list(document["links"].values())
    assert page.tags.isdisjoint({"script", "img", "link", "iframe", "style", "form"})


def test_json_named_before_html_wins(start: Start) -> None:
    headers = {"accept": "application/json, text/html;q=0.5"}
    answer = call(start().base_url, "GET", "/", headers=headers, key=None)
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("headers", [{}, BROWSER], ids=["json", "html"])
def test_it_says_the_same_to_everybody_and_nothing_of_the_configuration(
    start: Start, headers: dict[str, str]
) -> None:
    gateway, locked = start(), start(**LOCKED)
    answers = [
        call(gateway.base_url, "GET", "/", headers=headers, key=None),
        call(gateway.base_url, "GET", "/", headers={**headers, **AUTH}, key=None),
        call(gateway.base_url, "GET", "/", headers={**headers, "x-api-key": "wrong"}, key=None),
        call(locked.base_url, "GET", "/", headers=headers, key=None),
    ]
    assert {(one.status, one.body) for one in answers} == {(200, answers[0].body)}
    assert not re.search(rb"sk-|somebody|127\.0\.0\.1|\d+\.\d+\.\d+", answers[0].body)


def test_other_methods_are_refused_and_head_has_no_body(start: Start) -> None:
    gateway = start()
    assert call(gateway.base_url, "POST", "/", {}).status == 405
    head = call(gateway.base_url, "HEAD", "/", key=None)
    assert (head.status, head.body) == (200, b"")
